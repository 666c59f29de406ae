"""What a tenant's deployer might write, beside pods, to reach beyond the tenant: by rule and case, and what the same kind says when it stays."""

from typing import Any

from components.addons import prometheus
from components.labels import labels
from components.tenant.queues import queue_url
from tests.components.contracts import SURROUNDINGS

TENANT = "vision"
OTHER = "assist"
MESH, KEDA, POLICY, CORE = "networking.istio.io/v1", "keda.sh/v1alpha1", "policy/v1", "v1"
GATEWAY = "istio-ingress/headway"


def _body(api_version: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "tried", "namespace": TENANT, "labels": labels("test", tenant=TENANT)},
        "spec": spec,
    }


def _host(tenant: str) -> str:
    return f"defects.{tenant}.svc.cluster.local"


def _route(host: str, to: str = TENANT, **more: Any) -> dict[str, Any]:
    """Of `host` at the gateway, to a Service of `to`."""
    http = [{"route": [{"destination": {"host": _host(to)}}], **more}]
    return _body(MESH, "VirtualService", {"hosts": [host], "gateways": ["mesh", GATEWAY], "http": http})


def _service(**spec: Any) -> dict[str, Any]:
    return _body(CORE, "Service", {"ports": [{"port": 80}], **spec})


def _autoscaler(*triggers: dict[str, Any]) -> dict[str, Any]:
    return _body(KEDA, "ScaledObject", {"scaleTargetRef": {"name": "defects"}, "triggers": list(triggers)})


def _asks(address: str, **more: Any) -> dict[str, Any]:
    return {"type": "prometheus", "metadata": {"serverAddress": address, "query": "up", "threshold": "1"}, **more}


def _counts(queue: str, **more: str) -> dict[str, Any]:
    metadata = {"awsRegion": SURROUNDINGS.region, "queueURL": queue, "queueLength": "1", "identityOwner": "operator", **more}
    return {"type": "aws-sqs-queue", "metadata": metadata}


def _budget(**spec: Any) -> dict[str, Any]:
    return _body(POLICY, "PodDisruptionBudget", {"selector": {"matchLabels": {"a": "b"}}, **spec})


OWN_QUEUE = queue_url(TENANT, "defects-night", SURROUNDINGS)
PUBLIC = "defects.vision.inference.example.com"

STAYS: dict[str, dict[str, Any]] = {
    "autoscaler": _autoscaler(_asks(prometheus.SERVICE)),
    "autoscaler by queue": _autoscaler(_counts(OWN_QUEUE, scaleOnInFlight="true")),
    "budget": _budget(maxUnavailable=1),
    "destination": _body(MESH, "DestinationRule", {"host": _host(TENANT)}),
    "route": _route(PUBLIC, mirror={"host": _host(TENANT)}),
    "route in the mesh": _route(_host(TENANT)),
    "service": _service(selector={"a": "b"}),
    "sidecar": _body(MESH, "Sidecar", {"egress": [{"hosts": ["./*"]}], "outboundTrafficPolicy": {"mode": "REGISTRY_ONLY"}}),
}

REACHES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("autoscalers-ask-the-platform", "any address", _autoscaler(_asks("http://169.254.169.254/"))),
    ("autoscalers-ask-the-platform", "any scaler", _autoscaler({"type": "metrics-api", "metadata": {"url": "http://10.0.0.1", "a": "b"}})),
    ("autoscalers-ask-the-platform", "second of two", _autoscaler(_asks(prometheus.SERVICE), _asks("http://10.0.0.1"))),
    ("autoscalers-ask-the-platform", "another's rights", _autoscaler(_asks(prometheus.SERVICE, authenticationRef={"name": "x"}))),
    ("autoscalers-ask-the-platform", "another's queue", _autoscaler(_counts(queue_url(OTHER, "chat", SURROUNDINGS)))),
    ("autoscalers-ask-the-platform", "a name like its own", _autoscaler(_counts(f"{OWN_QUEUE}-dead"))),
    ("autoscalers-ask-the-platform", "a queue anywhere", _autoscaler(_counts(OWN_QUEUE, awsEndpoint="http://10.0.0.1"))),
    ("autoscalers-ask-the-platform", "a queue of its pod's choice", _autoscaler(_counts(OWN_QUEUE, queueURLFromEnv="ANY"))),
    ("destinations-of-own-services", "another's", _body(MESH, "DestinationRule", {"host": _host(OTHER)})),
    ("destinations-of-own-services", "all", _body(MESH, "DestinationRule", {"host": "*.svc.cluster.local"})),
    ("disruptions-stay-possible", "none away", _budget(maxUnavailable=0)),
    ("disruptions-stay-possible", "none of a hundred", _budget(maxUnavailable="0%")),
    ("disruptions-stay-possible", "all there", _budget(minAvailable="100%")),
    ("routes-of-own-hosts", "another's host", _route("defects.assist.inference.example.com")),
    ("routes-of-own-hosts", "every host", _route("*.inference.example.com")),
    ("routes-of-own-hosts", "another's name in the mesh", _route(_host(OTHER))),
    ("routes-of-own-hosts", "another's server", _route(PUBLIC, to=OTHER)),
    ("routes-of-own-hosts", "copies to another", _route(PUBLIC, mirror={"host": _host(OTHER)})),
    ("routes-of-own-hosts", "more copies", _route(PUBLIC, mirrors=[{"destination": {"host": _host(OTHER)}}])),
    (
        "routes-of-own-hosts",
        "bytes to another",
        _body(MESH, "VirtualService", {"hosts": [_host(TENANT)], "tcp": [{"route": [{"destination": {"host": _host(OTHER)}}]}]}),
    ),
    (
        "routes-of-own-hosts",
        "decided elsewhere",
        _body(MESH, "VirtualService", {"hosts": [PUBLIC], "http": [{"delegate": {"name": "x", "namespace": OTHER}}]}),
    ),
    ("services-stay-inside", "another's address", _service(selector={"a": "b"}, externalIPs=["10.0.0.1"])),
    ("services-stay-inside", "a name outside", _service(type="ExternalName", externalName="example.org")),
    ("sidecars-stay-closed", "anywhere", _body(MESH, "Sidecar", {"outboundTrafficPolicy": {"mode": "ALLOW_ANY"}})),
    ("sidecars-stay-closed", "by default", _body(MESH, "Sidecar", {"outboundTrafficPolicy": {}})),
)

OUT_OF_THE_MESH: dict[str, tuple[str, str, str]] = {
    "no proxy": ("labels", "sidecar.istio.io/inject", "false"),
    "no proxy, in the older way": ("annotations", "sidecar.istio.io/inject", "false"),
    "another template": ("annotations", "inject.istio.io/templates", "gateway"),
    "nothing intercepted": ("annotations", "sidecar.istio.io/interceptionMode", "NONE"),
    "nothing intercepted by the proxy's settings": ("annotations", "proxy.istio.io/config", '{"interceptionMode":"NONE"}'),
    "few addresses intercepted": ("annotations", "traffic.sidecar.istio.io/includeOutboundIPRanges", "10.0.0.0/8"),
    "addresses left out": ("annotations", "traffic.sidecar.istio.io/excludeOutboundIPRanges", "0.0.0.0/0"),
    "a port left out": ("annotations", "traffic.sidecar.istio.io/excludeOutboundPorts", "443"),
}
"""Metadata of a pod whose traffic no proxy would see: where, key and value."""

Right = tuple[str, str, str, str]
"""Verb, API group, resource (with its subresource), namespace; an empty namespace is the whole cluster."""

GRANTED: tuple[Right, ...] = (
    ("create", "apps", "deployments", TENANT),
    ("create", "", "services", TENANT),
    ("delete", "", "pods", TENANT),
    ("get", "", "pods/log", TENANT),
    ("patch", "networking.istio.io", "virtualservices", TENANT),
)

DENIED: tuple[Right, ...] = (
    *(("create", "", f"pods{sub}", TENANT) for sub in ("", "/attach", "/binding", "/eviction", "/exec", "/portforward", "/proxy")),
    *(("patch", "", f"pods{sub}", TENANT) for sub in ("", "/ephemeralcontainers", "/resize", "/status")),
    ("create", "", "bindings", TENANT),
    ("create", "", "serviceaccounts/token", TENANT),
    *(("create", "", kind, TENANT) for kind in ("endpoints", "persistentvolumeclaims", "secrets", "serviceaccounts")),
    *(("patch", "", kind, TENANT) for kind in ("limitranges", "resourcequotas", "services/status")),
    ("get", "", "secrets", TENANT),
    *(("patch", "apps", f"{kind}/scale", TENANT) for kind in ("deployments", "replicasets")),
    *(("create", "apps", kind, TENANT) for kind in ("daemonsets", "replicasets", "statefulsets")),
    *(("create", "batch", kind, TENANT) for kind in ("cronjobs", "jobs")),
    ("create", "autoscaling", "horizontalpodautoscalers", TENANT),
    ("create", "discovery.k8s.io", "endpointslices", TENANT),
    ("create", "keda.sh", "triggerauthentications", TENANT),
    *(("create", "networking.istio.io", kind, TENANT) for kind in ("envoyfilters", "gateways", "proxyconfigs", "serviceentries")),
    *(("delete", "networking.k8s.io", kind, TENANT) for kind in ("networkpolicies",)),
    *(("create", "rbac.authorization.k8s.io", kind, TENANT) for kind in ("rolebindings", "roles")),
    *(("patch", "security.istio.io", kind, TENANT) for kind in ("authorizationpolicies", "peerauthentications", "requestauthentications")),
    ("patch", "telemetry.istio.io", "telemetries", TENANT),
    *(
        (verb, "admissionregistration.k8s.io", kind, "")
        for verb in ("create", "delete", "patch")
        for kind in ("mutatingwebhookconfigurations", "validatingadmissionpolicies", "validatingadmissionpolicybindings")
    ),
    ("patch", "", "namespaces", ""),
    ("patch", "", "namespaces/finalize", ""),
    *(("get", "", kind, "") for kind in ("nodes/proxy", "persistentvolumes")),
    ("create", "certificates.k8s.io", "certificatesigningrequests", ""),
    ("create", "keda.sh", "clustertriggerauthentications", ""),
    ("create", "scheduling.k8s.io", "priorityclasses", ""),
    *(("impersonate", "", kind, "") for kind in ("groups", "users")),
    *(("get", "", kind, OTHER) for kind in ("configmaps", "pods", "secrets")),
    *(("create", "apps", "deployments", each) for each in (OTHER, "istio-ingress", "monitoring")),
    ("create", "networking.istio.io", "virtualservices", "istio-ingress"),
)
