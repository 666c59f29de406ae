"""The loop of `headway loops diagnose` in the cluster, where the environment names an image: Alertmanager asks it why a page fires, and it gives
Alertmanager the cause, which sends it to whoever got the page. Pure.

It may list what a diagnosis reads, and do nothing else: no secret, no log, no write. Its network is closed to all but Alertmanager, which
asks, and Prometheus, which scrapes it. Two pods, of which a notification reaches one; what both find is one alert for Alertmanager.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from components import rbac
from components.addons import prometheus
from components.addons.service_account import Annotations
from components.labels import labels
from components.manifests import Manifest, object_
from components.naming import bucket_arn
from components.permissions import Statement, finds, finds_versions
from components.platform import loops
from headway.ledger.witness import named
from headway.wire import ALERTMANAGER_PROXIED, DIAGNOSIS_NAMESPACE, DIAGNOSIS_PORT, LEDGER_BUCKET_OUTPUT

NAME = DIAGNOSIS_NAMESPACE
"""Its objects have the name of their namespace."""
FILE = "diagnosis.json"
PORT_NAME = "http"
_LISTS: tuple[rbac.Right, ...] = (
    ("", ("events", "nodes", "pods", "resourcequotas"), ("list",)),
    ("apps", ("deployments",), ("list",)),
    ("networking.istio.io", ("virtualservices",), ("list",)),
)
"""What `headway/diagnosis/gathering.py` asks."""


def settings(environment: str, region: str, ledger: str, receivers: Mapping[str, str]) -> str:
    """What the loop must know, as the file that it reads. `receivers`: whom each service's contract names; `ledger`: the bucket."""
    document = {"environment": environment, "region": region, "cluster": {LEDGER_BUCKET_OUTPUT: ledger}, "diagnosed": dict(receivers)}
    return json.dumps(document, sort_keys=True)


def manifests(
    image: str,
    region: str,
    known: str,
    *,
    runbooks: str | None = None,
    grafana: str | None = None,
    annotations: Annotations = None,
) -> tuple[Manifest, ...]:
    """Service account with its `annotations`, rights, what the loop knows, the loop, where it is asked and what scrapes it; needs the Prometheus
    operator's definitions. `image`: one of headway by digest; `known`: the settings; `runbooks` and `grafana`: where links lead."""
    found, rights = labels(NAME), rbac.role(f"headway-{NAME}", rbac.rules(*_LISTS), labels(NAME))
    ports = [{"name": PORT_NAME, "port": DIAGNOSIS_PORT, "targetPort": DIAGNOSIS_PORT, "protocol": "TCP"}]
    links = [*(["--runbooks", runbooks] if runbooks else []), *(["--grafana", grafana] if grafana else [])]
    return (
        Manifest(role="account", body=object_("v1", "ServiceAccount", NAME, namespace=NAME, labels=found, annotations=annotations)),
        Manifest(role="rights", body=rights),
        Manifest(role="binding", after=("account", "rights"), body=rbac.binding(rights, [rbac.account(NAME, NAME)])),
        Manifest(role="settings", body=object_("v1", "ConfigMap", NAME, namespace=NAME, labels=found, data={FILE: known})),
        Manifest(
            role="service",
            body=object_("v1", "Service", NAME, namespace=NAME, labels=found, spec={"selector": loops.picked(NAME), "ports": ports}),
        ),
        Manifest(
            role="loop",
            after=("account", "binding", "settings"),
            # Whoever waits is answered before it ends.
            body=loops.deployment(NAME, NAME, _container(image, region, known, links), grace_seconds=60, settings=NAME),
        ),
        Manifest(role="budget", body=loops.budget(NAME, NAME)),
        Manifest(role="monitor", body=loops.monitor(NAME, NAME, PORT_NAME)),
    )


def _container(image: str, region: str, known: str, links: list[str]) -> dict[str, Any]:
    services = (each.partition(":") for each in ALERTMANAGER_PROXIED)
    alertmanagers = ",".join(f"http://{name}.{prometheus.NAMESPACE}.svc.cluster.local:{port}" for name, _, port in services)
    reads = ["--in-cluster", f"{loops.SETTINGS}/{FILE}", "--alertmanager", alertmanagers]
    return {
        "image": image,
        "args": ["loops", "diagnose", *reads, *links, "--serve", f"0.0.0.0:{DIAGNOSIS_PORT}"],
        "env": [
            {"name": "AWS_DEFAULT_REGION", "value": region},
            {"name": "HEADWAY_PROMETHEUS", "value": prometheus.SERVICE},
            # Who acts, in the ledger, which it only reads; the pod's user has no name.
            {"name": "USER", "value": NAME},
            # Other settings are other pods, for the loop reads them once.
            {"name": "SETTINGS", "value": hashlib.sha256(known.encode()).hexdigest()[:12]},
        ],
        "ports": [{"name": PORT_NAME, "containerPort": DIAGNOSIS_PORT, "protocol": "TCP"}],
        "resources": {"requests": {"cpu": "50m", "memory": "192Mi"}, "limits": {"cpu": "1", "memory": "512Mi"}},
        **loops.probes(PORT_NAME),
    }


def permissions(ledger: str, *, witnesses: str) -> tuple[Statement, ...]:
    """Read the chains of releases, and what witnesses them; `witnesses` is the ARN below which these are."""
    chains, bucket = "*/*", bucket_arn(ledger)
    return (
        Statement(sid="ReadLedger", actions=["s3:GetObject", "s3:GetObjectVersion"], resources=[f"{bucket}/{chains}/*"]),
        Statement(sid="AskWitness", actions=["ssm:GetParameter"], resources=[f"{witnesses}/{named(chains, f's3://{ledger}')}"]),
        finds("FindEvents", bucket, f"{chains}/*"),
        finds_versions(bucket, f"{chains}/*"),
    )
