"""The way of requests: the proxies' lines, the traces and what the servers printed, of one release, one pod or one
request; and why alerts of its service fired.

Every panel that knows a tenant leads here. A request is asked for by the id that its answer carries
(`x-request-id`), which is in its line and in its spans. The trap: a Viewer of Grafana has no Explore, so a way that
leads through it ends there for everybody; this page is a dashboard.
"""

from components.addons.otel import ACCESS_LOG
from components.observability.links import NAMES
from components.observability.panels import Dashboard, PanelSource, PanelUnit, panel, row
from headway.wire import DIAGNOSIS_NAMESPACE, TRAIL

REQUEST, TRACE = "request", "trace"
_OF_RELEASE = ' | tenant=~"$tenant" | model=~"$model" | release=~"$release"'

PAGE = Dashboard(
    uid=TRAIL,
    title="Headway / Requests and logs",
    tags=("layer",),
    asked=(*((name, ".*") for name in NAMES), (REQUEST, ".*"), (TRACE, "")),
    rows=(
        row(
            "Request log of the proxies",
            panel(
                "One line per request",
                f'{{service_name="{ACCESS_LOG}"}}{_OF_RELEASE} | request_id=~"$request"',
                store=PanelSource.LOGS,
                meaning="The fields request_id and trace_id of a line are links.",
            ),
        ),
        row(
            "Traces",
            panel(
                "Stored traces",
                '{ span.tenant=~"$tenant" && span.model=~"$model" && span.release=~"$release" && span."guid:x-request-id"=~"$request" }',
                store=PanelSource.TRACES,
                meaning="All requests that failed or took longer than a second, and a sample of the others.",
            ),
            panel(
                "Selected trace", "$trace", store=PanelSource.TRACE, meaning="Select a trace on the left, or follow the link in a log line."
            ),
        ),
        row(
            "Container logs",
            panel(
                "Logs of model servers",
                # Loki refuses to look where every label may be missing, as they all may by default.
                '{service_name=~".+", k8s_namespace_name=~"$tenant", model=~"$model", release=~"$release"} | k8s_pod_name=~"$pod"',
                store=PanelSource.LOGS,
            ),
            panel(
                "Log volume by tenant",
                (
                    'sum by (k8s_namespace_name) (bytes_rate({service_name=~".+", k8s_namespace_name=~"$tenant"} [5m]))',
                    "{{k8s_namespace_name}}",
                ),
                store=PanelSource.LOG_RATES,
                unit=PanelUnit.BYTES,
                meaning="Bytes per second. Log lines of proxies have no namespace.",
            ),
        ),
        row(
            "Diagnosis",
            panel(
                "Causes of alerts",
                # The loop says of each diagnosis what it tells people: `tenant/model: what hurts, because ...`.
                f'{{k8s_namespace_name="{DIAGNOSIS_NAMESPACE}"}} |~ "$tenant/$model: "',
                store=PanelSource.LOGS,
                meaning="Why alerts fired, as people were told. `headway diagnose TENANT/MODEL --at TIME` answers for any moment.",
            ),
        ),
    ),
)
