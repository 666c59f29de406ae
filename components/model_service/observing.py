"""What is scraped and traced of a model service.

The trap: metrics carry the pod labels `platform.io/*` as `platform_io_*`, by which the signals catalogue finds them;
a monitor that does not copy the labels makes every signal of the model silent.
"""

from collections.abc import Mapping
from typing import Any

from components.labels import labels, selector
from components.manifests import object_
from components.model_service.sampling import access_logging
from components.model_service.serving import METRICS, Serving
from components.platform.mesh import LABEL_LIMITS
from components.tenant.queues import BATCH
from headway.contract.model import Model
from headway.wire import ARM, MODEL, PREFIX, RELEASE, TENANT

SCRAPE_SECONDS = 15
"""The signals' windows of one minute then hold four scrapes."""
SERIES_LIMIT = 4_000
"""Series of one replica: a Triton model has some 40, vLLM some 600. A replica with more would be a mistake of
labels.
"""
PAGE_LIMITS: Mapping[str, Any] = {"bodySizeLimit": "16MB", **LABEL_LIMITS}
"""Of a page that a tenant's code may write, which every Prometheus holds whole: what is longer is not read at all.
vLLM's series with the most labels, its configuration, has some 30.
"""
RESERVED = (
    "(ALERTS|DCGM|aggregator|alertmanager|apiserver|certmanager|cluster_autoscaler|container|controller_runtime|coredns|envoy|gpu_operator"
    "|grafana|headway|istio|keda|kube|kubelet|kubernetes|kubeproxy|loki|machine|node|otelcol|pilot|process_start|prometheus|scrape|tempo|up"
    "|volume_manager|workqueue)([_:].*)?"
)
"""Names that speak of more than the pod that says them. What reads them believes them, whoever was scraped."""


def monitor(tenant: str, model: Model, serving: Serving) -> dict[str, Any]:
    """Scrapes every replica of every arm."""
    return object_(
        "monitoring.coreos.com/v1",
        "PodMonitor",
        model.name,
        namespace=tenant,
        labels=labels("monitor", tenant=tenant, model=model.name),
        spec={
            "selector": {
                "matchLabels": selector(tenant=tenant, model=model.name),
                # Batch workers are always full; they would make online replicas look so.
                "matchExpressions": [{"key": ARM, "operator": "NotIn", "values": [BATCH]}],
            },
            "podTargetLabels": [MODEL, RELEASE, TENANT, f"{PREFIX}/version"],
            "sampleLimit": SERIES_LIMIT,
            # Prometheus 3 reads no page that does not say its type (its migration guide, "Scrape protocols"), and a container of one's own may not.
            "fallbackScrapeProtocol": "PrometheusText0.0.4",
            **PAGE_LIMITS,
            "podMetricsEndpoints": [
                {
                    "port": METRICS,
                    "path": serving.metrics_path,
                    "interval": f"{SCRAPE_SECONDS}s",
                    "scrapeTimeout": f"{SCRAPE_SECONDS - 5}s",
                    "metricRelabelings": [{"action": "drop", "sourceLabels": ["__name__"], "regex": RESERVED}],
                }
            ],
        },
    )


def telemetry(tenant: str, model: Model) -> dict[str, Any]:
    """Traces of a share of requests, named by model and tenant, never with a request's content; samples where the
    contract lets them be kept.
    """
    logged = access_logging(model)
    return object_(
        "telemetry.istio.io/v1",
        "Telemetry",
        model.name,
        namespace=tenant,
        labels=labels("telemetry", tenant=tenant, model=model.name),
        spec={
            "selector": {"matchLabels": selector(tenant=tenant, model=model.name)},
            **({"accessLogging": logged} if logged else {}),
            "tracing": [
                {
                    "randomSamplingPercentage": model.observability.tracing.fraction * 100,
                    "customTags": {
                        "model": {"literal": {"value": model.name}},
                        "tenant": {"literal": {"value": tenant}},
                    },
                }
            ],
        },
    )


def record(tenant: str, model: Model) -> dict[str, Any]:
    """What the inventory and the auditor read of a model: its purpose, its data, what samples keep of it."""
    data, artifact, provenance = model.data, model.artifact, model.optimisation.provenance
    return object_(
        "v1",
        "ConfigMap",
        f"{model.name}-record",
        namespace=tenant,
        labels={**labels("record", tenant=tenant, model=model.name), f"{PREFIX}/record": "model"},
        data={
            "classification": data.classification.value,
            "description": model.description,
            "distilled_from": provenance.distilled_from or "",
            "log_fields": "\n".join(data.log_fields),
            "log_sample": str(data.sample),
            "owner": model.owner,
            "pruned": provenance.pruned or "",
            "purpose": data.purpose,
            "registry": f"{artifact.registry.system.value}:{artifact.registry.model}:{artifact.registry.version}",
            "request_classes": "\n".join(f"{c.name} {c.body_up_to or 'any'}" for c in model.rollout.classes),
            "retention": str(data.retention),
            "risk": data.risk.value,
            "user_claim": model.rollout.split.user_claim if model.rollout.split else "",
            "experiment": model.rollout.split.experiment if model.rollout.split else "",
        },
    )
