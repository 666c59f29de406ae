"""The loop of `headway loops diagnose` in the cluster, where the environment names an image: Alertmanager asks it why a page fires, and it gives
Alertmanager the cause, which sends it to whoever got the page. Pure.

It may list what a diagnosis reads, and do nothing else: no secret, no log, no write. Its network is closed to all but Alertmanager, which
asks, and Prometheus, which scrapes it. Two pods, of which a notification reaches one; what both find is one alert for Alertmanager.
"""

import json
from collections.abc import Mapping
from typing import Any

from components import rbac
from components.addons import prometheus
from components.addons.service_account import Annotations
from components.labels import labels
from components.manifests import Manifest
from components.permissions import Statement
from components.platform import loops
from headway.wire import ALERTMANAGER_PROXIED, DIAGNOSIS_NAMESPACE, DIAGNOSIS_PORT, GATEWAY_NAMESPACE, LEDGER_BUCKET_OUTPUT

NAME = DIAGNOSIS_NAMESPACE
"""Its objects have the name of their namespace."""
FILE = "diagnosis.json"
PORT_NAME = "http"
_LISTS: tuple[rbac.Right, ...] = (
    ("", ("events", "nodes", "pods", "resourcequotas"), ("list",)),
    ("apps", ("deployments", "replicasets"), ("list",)),
    ("networking.istio.io", ("virtualservices",), ("list",)),
)
"""What `headway/diagnosis/gathering.py` asks."""
_AT_GATEWAY: tuple[rbac.Right, ...] = (
    ("cert-manager.io", ("certificates",), ("list",)),
    ("networking.istio.io", ("gateways",), ("list",)),
)
"""And of the gateway's namespace; a Certificate holds no key."""


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
    certificates = rbac.role(f"headway-{NAME}", rbac.rules(*_AT_GATEWAY), labels(NAME), GATEWAY_NAMESPACE)
    links = [*(["--runbooks", runbooks] if runbooks else []), *(["--grafana", grafana] if grafana else [])]
    return (
        *loops.identity(NAME, rbac.rules(*_LISTS), annotations),
        Manifest(role="certificates", body=certificates),
        Manifest(
            role="certificates-binding", after=("account", "certificates"), body=rbac.binding(certificates, [rbac.account(NAME, NAME)])
        ),
        loops.settings(NAME, FILE, known),
        loops.service(NAME, PORT_NAME, DIAGNOSIS_PORT),
        Manifest(
            role="loop",
            after=("account", "binding", "settings"),
            # Whoever waits is answered before it ends.
            body=loops.deployment(NAME, NAME, _container(image, region, known, links), grace_seconds=60, settings=NAME),
        ),
        Manifest(role="budget", body=loops.budget(NAME, NAME)),
        Manifest(role="monitor", body=loops.monitor(NAME, NAME, PORT_NAME, series=5000)),
    )


def _container(image: str, region: str, known: str, links: list[str]) -> dict[str, Any]:
    services = (each.partition(":") for each in ALERTMANAGER_PROXIED)
    alertmanagers = ",".join(f"http://{name}.{prometheus.NAMESPACE}.svc.cluster.local:{port}" for name, _, port in services)
    reads = ["--in-cluster", f"{loops.SETTINGS}/{FILE}", "--alertmanager", alertmanagers]
    return {
        "image": image,
        "args": ["loops", "diagnose", *reads, *links, "--serve", f"0.0.0.0:{DIAGNOSIS_PORT}"],
        "env": [
            *loops.acting(NAME, region, known),
            {"name": "HEADWAY_PROMETHEUS", "value": prometheus.SERVICE},
        ],
        "ports": [{"name": PORT_NAME, "containerPort": DIAGNOSIS_PORT, "protocol": "TCP"}],
        "resources": {"requests": {"cpu": "50m", "memory": "192Mi"}, "limits": {"cpu": "1", "memory": "512Mi"}},
        **loops.probes(PORT_NAME),
    }


def permissions(ledger: str, *, witnesses: str) -> tuple[Statement, ...]:
    """Read the chains of releases, and what witnesses them; `witnesses` is the ARN below which these are."""
    return loops.reads_chains(ledger, witnesses)
