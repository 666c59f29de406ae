"""What a tenant's deployer might write, beside pods, to reach beyond the tenant: by rule and case, and what the same kind says when it stays."""

from typing import Any

from components.addons import prometheus
from components.labels import labels
from components.tenant.queues import queue_url
from tests.components.contracts import SURROUNDINGS

TENANT = "vision"
OTHER = "assist"
ALIKE = "another-vision"
"""A tenant whose name ends as this one's."""
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
    return _virtual_service({"hosts": [host], "gateways": ["mesh", GATEWAY], "http": http})


def _virtual_service(spec: dict[str, Any], name: str = "defects") -> dict[str, Any]:
    """Named as one of the tenant's models."""
    body = _body(MESH, "VirtualService", spec)
    return {**body, "metadata": {**body["metadata"], "name": name}}


def _entry(**said: Any) -> dict[str, Any]:
    """A route in the mesh whose one entry says so."""
    return _virtual_service({"hosts": [_host(TENANT)], "http": [{"route": [{"destination": {"host": _host(TENANT)}}], **said}]})


def _named(*hosts: str) -> dict[str, Any]:
    return _virtual_service({**_route(_host(TENANT))["spec"], "hosts": list(hosts)})


def _destination(**policy: Any) -> dict[str, Any]:
    return _body(MESH, "DestinationRule", {"host": _host(TENANT), "trafficPolicy": policy})


def _service(**spec: Any) -> dict[str, Any]:
    return _body(CORE, "Service", {"ports": [{"port": 80}], **spec})


def _autoscaler(*triggers: dict[str, Any]) -> dict[str, Any]:
    return _body(KEDA, "ScaledObject", {"scaleTargetRef": {"name": "defects"}, "triggers": list(triggers)})


def _asks(address: str, said: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    return {"type": "prometheus", "metadata": {"serverAddress": address, "query": "up", "threshold": "1", **(said or {})}, **more}


def _scales(**said: Any) -> dict[str, Any]:
    body = _autoscaler(_asks(prometheus.SERVICE))
    return {**body, "spec": {**body["spec"], **said}}


def _noted(body: dict[str, Any], where: str, key: str) -> dict[str, Any]:
    """The same, with one more label or annotation."""
    return {**body, "metadata": {**body["metadata"], where: {**body["metadata"].get(where, {}), key: "x"}}}


def _counts(queue: str, **more: str) -> dict[str, Any]:
    metadata = {"awsRegion": SURROUNDINGS.region, "queueURL": queue, "queueLength": "1", "identityOwner": "operator", **more}
    return {"type": "aws-sqs-queue", "metadata": metadata}


ARM = {"platform.io/arm": "release", "platform.io/model": "defects", "platform.io/release": "r0", "platform.io/tenant": TENANT}


def _budget(name: str = "defects-r0", picks: dict[str, str] = ARM, **spec: Any) -> dict[str, Any]:
    always = {"unhealthyPodEvictionPolicy": "AlwaysAllow", "selector": {"matchLabels": picks}}
    body = _body(POLICY, "PodDisruptionBudget", {**always, **spec})
    return {**body, "metadata": {**body["metadata"], "name": name}}


def _sidecar(**spec: Any) -> dict[str, Any]:
    return _body(MESH, "Sidecar", {"workloadSelector": {"labels": {"a": "b"}}, **spec})


def pod_spec(**more: Any) -> dict[str, Any]:
    """Of a template of one container."""
    return {"containers": [{"name": "server", "image": "registry.example.com/a"}], **more}


def deployment(metadata: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
    """A Deployment whose pods' template says `metadata` and `spec`."""
    picks = {"a": "b"}
    template = {"metadata": {**metadata, "labels": {**picks, **metadata.get("labels", {})}}, "spec": spec}
    return _body("apps/v1", "Deployment", {"selector": {"matchLabels": picks}, "template": template})


PORT = {"number": 8000, "protocol": "HTTP", "name": "http"}
OWN_QUEUE = queue_url(TENANT, "defects-night", SURROUNDINGS)
PUBLIC = "defects.vision.inference.example.com"

STAYS: dict[str, dict[str, Any]] = {
    "an autoscaler as KEDA writes it back": _scales(advanced={"horizontalPodAutoscalerConfig": {}, "scalingModifiers": {}}),
    "autoscaler": _autoscaler(_asks(prometheus.SERVICE)),
    "autoscaler by queue": _autoscaler(_counts(OWN_QUEUE, scaleOnInFlight="true")),
    "budget": _budget(maxUnavailable=1),
    "budget by share": _budget("defects-r0-baseline", {**ARM, "platform.io/arm": "baseline"}, maxUnavailable="010%"),
    "destination": _body(MESH, "DestinationRule", {"host": _host(TENANT)}),
    "destination with its policy": _destination(tls={"mode": "ISTIO_MUTUAL"}, loadBalancer={"simple": "LEAST_REQUEST"}),
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
    ("destinations-of-own-services", "of who is called alike", _body(MESH, "DestinationRule", {"host": _host(ALIKE)})),
    ("destinations-of-own-services", "all", _body(MESH, "DestinationRule", {"host": "*.svc.cluster.local"})),
    ("destinations-stay-encrypted", "in plain text", _destination(tls={"mode": "DISABLE"})),
    ("destinations-stay-encrypted", "without its own name", _destination(tls={"mode": "SIMPLE"})),
    ("destinations-stay-encrypted", "by default", _destination(tls={})),
    (
        "destinations-stay-encrypted",
        "with any key of the namespace",
        _destination(tls={"mode": "ISTIO_MUTUAL", "credentialName": "gateway"}),
    ),
    (
        "destinations-stay-encrypted",
        "with a file of the proxy",
        _destination(
            tls={"mode": "MUTUAL", "clientCertificate": "/etc/certs/a", "privateKey": "/var/run/secrets/a", "caCertificates": "/a"}
        ),
    ),
    (
        "destinations-stay-encrypted",
        "by a port of its own",
        _destination(portLevelSettings=[{"port": {"number": 1}, "tls": {"mode": "DISABLE"}}]),
    ),
    ("destinations-stay-encrypted", "through another server", _destination(tunnel={"targetHost": "example.org", "targetPort": 443})),
    (
        "destinations-stay-encrypted",
        "by a subset",
        _body(MESH, "DestinationRule", {"host": _host(TENANT), "subsets": [{"name": "a", "trafficPolicy": {"tls": {"mode": "DISABLE"}}}]}),
    ),
    ("destinations-stay-encrypted", "for chosen namespaces", _body(MESH, "DestinationRule", {"host": _host(TENANT), "exportTo": [OTHER]})),
    ("disruptions-stay-possible", "none away", _budget(maxUnavailable=0)),
    ("disruptions-stay-possible", "none of a hundred", _budget(maxUnavailable="0%")),
    ("disruptions-stay-possible", "none of a hundred, written longer", _budget(maxUnavailable="00%")),
    ("disruptions-stay-possible", "all there", _budget(minAvailable="100%")),
    ("disruptions-stay-possible", "more there than are", _budget(minAvailable=1000)),
    ("disruptions-stay-possible", "one there, which may be all", _budget(minAvailable=1)),
    ("disruptions-stay-possible", "never a broken one", _budget(maxUnavailable=1, unhealthyPodEvictionPolicy="IfHealthyBudget")),
    ("disruptions-stay-possible", "a second one of the same pods", _budget("second", maxUnavailable=1)),
    ("disruptions-stay-possible", "a second one of all pods", _budget("second", {"platform.io/tenant": TENANT}, maxUnavailable=1)),
    ("disruptions-stay-possible", "pods of everybody", _budget(maxUnavailable=1, selector={})),
    ("routes-of-own-hosts", "another's host", _route("defects.assist.inference.example.com")),
    ("routes-of-own-hosts", "another's host beside its own", _named(PUBLIC, "defects.assist.inference.example.com")),
    ("routes-of-own-hosts", "the host of who is called alike", _route(f"defects.{ALIKE}.inference.example.com")),
    ("routes-of-own-hosts", "the name of who is called alike", _route(_host(ALIKE))),
    (
        "routes-of-own-hosts",
        "another's server beside its own",
        _entry(route=[{"destination": {"host": _host(each)}, "weight": 50} for each in (TENANT, OTHER)]),
    ),
    ("routes-of-own-hosts", "every host", _route("*.inference.example.com")),
    ("routes-of-own-hosts", "another's name in the mesh", _route(_host(OTHER))),
    ("routes-of-own-hosts", "another's server", _route(PUBLIC, to=OTHER)),
    ("routes-of-own-hosts", "copies to another", _route(PUBLIC, mirror={"host": _host(OTHER)})),
    ("routes-of-own-hosts", "more copies", _route(PUBLIC, mirrors=[{"destination": {"host": _host(OTHER)}}])),
    (
        "routes-of-own-hosts",
        "bytes to another",
        _virtual_service({"hosts": [_host(TENANT)], "tcp": [{"route": [{"destination": {"host": _host(OTHER)}}]}]}),
    ),
    (
        "routes-of-own-hosts",
        "decided elsewhere",
        _virtual_service({"hosts": [PUBLIC], "http": [{"delegate": {"name": "x", "namespace": OTHER}}]}),
    ),
    ("routes-of-own-models", "of no model", _virtual_service(_route(PUBLIC)["spec"], "tried")),
    ("routes-of-own-models", "another gateway", _virtual_service({**_route(PUBLIC)["spec"], "gateways": ["assist/own"]})),
    (
        "routes-of-own-models",
        "another gateway beside the platform's",
        _virtual_service({**_route(PUBLIC)["spec"], "gateways": [GATEWAY, "assist/own"]}),
    ),
    ("routes-of-own-models", "of hosts without end", _named(*(f"h{number}.{_host(TENANT)}" for number in range(17)))),
    ("routes-of-own-models", "for chosen namespaces", _virtual_service({**_route(PUBLIC)["spec"], "exportTo": [OTHER]})),
    (
        "routes-of-own-models",
        "sends callers elsewhere",
        _virtual_service({"hosts": [PUBLIC], "http": [{"redirect": {"authority": "example.org"}}]}),
    ),
    ("routes-of-own-models", "as another host", _entry(rewrite={"authority": f"defects.{OTHER}.inference.example.com"})),
    ("routes-of-own-models", "an answer of its own", _virtual_service({"hosts": [PUBLIC], "http": [{"directResponse": {"status": 200}}]})),
    ("routes-of-own-models", "slowly", _entry(fault={"delay": {"fixedDelay": "1h", "percentage": {"value": 100}}})),
    ("routes-of-own-models", "without end", _virtual_service({"hosts": [PUBLIC], "http": _entry()["spec"]["http"] * 33})),
    (
        "routes-of-own-models",
        "with matches without end",
        _entry(match=[{"headers": {"x-model-release": {"exact": str(n)}}} for n in range(17)]),
    ),
    ("routes-of-own-models", "with arms without end", _entry(route=[{"destination": {"host": _host(TENANT)}, "weight": 1}] * 9)),
    ("routes-say-it-plainly", "an expression that is too large", _entry(match=[{"uri": {"regex": r"(\pL{100}){10}"}}])),
    (
        "routes-say-it-plainly",
        "an expression for a header",
        _entry(match=[{"headers": {"x-model-release": {"regex": r"(\pL{100}){10}"}}}]),
    ),
    ("routes-say-it-plainly", "a value that Envoy cannot read", _entry(headers={"response": {"set": {"x-degraded": "100%"}}})),
    ("routes-say-it-plainly", "what the gateway knows", _entry(headers={"response": {"set": {"x-degraded": "%ENVIRONMENT(A)%"}}})),
    ("routes-say-it-plainly", "another host by a header", _entry(headers={"request": {"set": {"host": f"defects.{OTHER}.example.com"}}})),
    ("routes-say-it-plainly", "retries by a header", _entry(headers={"request": {"set": {"x-envoy-max-retries": "1000000"}}})),
    ("routes-say-it-plainly", "without what the gateway wrote", _entry(headers={"request": {"remove": ["x-user-id"]}})),
    ("routes-say-it-plainly", "more headers", _entry(headers={"request": {"add": {"x-user-id": "root"}}})),
    (
        "routes-say-it-plainly",
        "a value for one arm",
        _entry(route=[{"destination": {"host": _host(TENANT)}, "headers": {"response": {"set": {"x-degraded": "100%"}}}}]),
    ),
    (
        "routes-say-it-plainly",
        "weights that Envoy cannot add up",
        _entry(route=[{"destination": {"host": _host(TENANT)}, "weight": 2**31 - 1}] * 3),
    ),
    ("routes-say-it-plainly", "asking without end", _entry(retries={"attempts": 1_000_000, "retryOn": "5xx"})),
    ("routes-say-it-plainly", "a name that forges a line of the log", _entry(name="weights 200 -\nGET weights")),
    (
        "routes-say-it-plainly",
        "a host that no name is",
        _virtual_service({**_route(_host(TENANT))["spec"], "hosts": [f"a b.{_host(TENANT)}"]}),
    ),
    ("routes-say-it-plainly", "hosts that no filter knows", _virtual_service({**_route(PUBLIC)["spec"], "hosts": [f"*.{PUBLIC}"]})),
    (
        "destinations-stay-small",
        "a ring of millions",
        _destination(loadBalancer={"consistentHash": {"httpHeaderName": "x", "ringHash": {"minimumRingSize": 8_388_608}}}),
    ),
    (
        "destinations-stay-small",
        "a table that Envoy refuses",
        _destination(loadBalancer={"consistentHash": {"httpHeaderName": "x", "maglev": {"tableSize": 5_000_010}}}),
    ),
    ("destinations-stay-small", "looking at every moment", _destination(outlierDetection={"interval": "1ms"})),
    ("nothing-to-istio", "a route as istiod's own", _noted(_route(PUBLIC), "annotations", "internal.istio.io/route-semantics")),
    ("nothing-to-istio", "a route for another revision", _noted(_route(PUBLIC), "labels", "istio.io/rev")),
    ("nothing-to-istio", "a Service for chosen namespaces", _noted(_service(), "annotations", "networking.istio.io/exportTo")),
    ("nothing-to-istio", "a Service behind another proxy", _noted(_service(), "labels", "istio.io/use-waypoint")),
    ("services-stay-inside", "ports without end", _service(ports=[{"port": port, "name": f"p{port}"} for port in range(1, 10)])),
    ("autoscalers-ask-the-platform", "a computation", _scales(advanced={"scalingModifiers": {"formula": "all(1..9, all(1..9, true))"}})),
    ("autoscalers-ask-the-platform", "at every moment", _scales(pollingInterval=1)),
    ("autoscalers-ask-the-platform", "without end", _autoscaler(*[_asks(prometheus.SERVICE)] * 9)),
    (
        "autoscalers-ask-the-platform",
        "with variables of a container",
        _scales(scaleTargetRef={"name": "defects", "envSourceContainerName": "istio-proxy"}),
    ),
    ("services-stay-inside", "another's address", _service(selector={"a": "b"}, externalIPs=["10.0.0.1"])),
    ("services-stay-inside", "a name outside", _service(type="ExternalName", externalName="example.org")),
    ("sidecars-stay-closed", "anywhere", _body(MESH, "Sidecar", {"outboundTrafficPolicy": {"mode": "ALLOW_ANY"}})),
    ("autoscalers-ask-the-platform", "with headers", _autoscaler(_asks(prometheus.SERVICE, {"customHeaders": "a=b"}))),
    ("sidecars-stay-closed", "a port that is not intercepted", _sidecar(ingress=[{"port": PORT, "captureMode": "NONE"}])),
    ("sidecars-stay-closed", "a way out that is not intercepted", _sidecar(egress=[{"hosts": ["./*"], "captureMode": "NONE"}])),
    ("sidecars-stay-closed", "a listener", _sidecar(egress=[{"hosts": ["./*"], "port": PORT, "bind": "0.0.0.0"}])),
    ("sidecars-stay-closed", "by default", _body(MESH, "Sidecar", {"outboundTrafficPolicy": {}})),
)

OUT_OF_THE_MESH: dict[str, tuple[str, str, str]] = {
    "no proxy": ("labels", "sidecar.istio.io/inject", "false"),
    "no proxy, in the older way": ("annotations", "sidecar.istio.io/inject", "false"),
    "no proxy but the node's": ("labels", "istio.io/dataplane-mode", "ambient"),
    "plain text from its callers": ("labels", "security.istio.io/tlsMode", "disabled"),
    "another network": ("labels", "topology.istio.io/network", "elsewhere"),
    "another template": ("annotations", "inject.istio.io/templates", "gateway"),
    "another image of the proxy": ("annotations", "sidecar.istio.io/proxyImage", "registry.example.com/proxy:1"),
    "another kind of the proxy's image": ("annotations", "sidecar.istio.io/proxyImageType", "debug"),
    "another start of the proxy": ("annotations", "sidecar.istio.io/bootstrapOverride", "own"),
    "the proxy's container overlaid": ("annotations", "proxy.istio.io/overrides", '{"containers":[{"name":"istio-proxy"}]}'),
    "a volume for the proxy": ("annotations", "sidecar.istio.io/userVolume", "{}"),
    "rights for the proxy": ("annotations", "sidecar.istio.io/capNetBindService", "true"),
    "nothing intercepted": ("annotations", "sidecar.istio.io/interceptionMode", "NONE"),
    "nothing intercepted by the proxy's settings": ("annotations", "proxy.istio.io/config", '{"interceptionMode":"NONE"}'),
    "no proxy's agent by its variables": ("annotations", "proxy.istio.io/config", '{"proxyMetadata":{"DISABLE_ENVOY":"true"}}'),
    "another control plane": ("annotations", "proxy.istio.io/config", '{"discoveryAddress":"example.org:15012"}'),
    "few addresses intercepted": ("annotations", "traffic.sidecar.istio.io/includeOutboundIPRanges", "10.0.0.0/8"),
    "addresses left out": ("annotations", "traffic.sidecar.istio.io/excludeOutboundIPRanges", "0.0.0.0/0"),
    "a port left out": ("annotations", "traffic.sidecar.istio.io/excludeOutboundPorts", "443"),
    "few ports intercepted": ("annotations", "traffic.sidecar.istio.io/includeOutboundPorts", "1"),
    "no calls intercepted": ("annotations", "traffic.sidecar.istio.io/includeInboundPorts", ""),
    "calls of a port left out": ("annotations", "traffic.sidecar.istio.io/excludeInboundPorts", "15020,8000"),
    "all calls left out": ("annotations", "traffic.sidecar.istio.io/excludeInboundPorts", "*"),
    "an interface left out": ("annotations", "traffic.sidecar.istio.io/excludeInterfaces", "eth0"),
    "machines behind it": ("annotations", "traffic.sidecar.istio.io/kubevirtInterfaces", "eth0"),
    "metrics past the mesh": ("annotations", "prometheus.istio.io/merge-metrics", "true"),
    "what Istio may add one day": ("annotations", "sidecar.istio.io/someday", "x"),
}
"""Metadata of a pod whose traffic no proxy would see: where, key and value."""

_PROXY = {"name": "istio-proxy", "securityContext": {"runAsUser": 1337, "runAsGroup": 1337}}
_PROXYS = "docker.io/istio/proxyv2"

AS_THE_PROXY: dict[str, dict[str, Any]] = {
    "the proxy's user": {"securityContext": {"runAsUser": 1337, "runAsGroup": 10001}},
    "the proxy's group": {"securityContext": {"runAsUser": 10001, "runAsGroup": 1337}},
    "the image's user": {"securityContext": {"runAsGroup": 10001}},
    "the image's group": {"securityContext": {"runAsUser": 10001}},
    "the proxy's group for files": {"securityContext": {"runAsUser": 10001, "runAsGroup": 10001, "fsGroup": 1337}},
    "the proxy's group beside its own": {"securityContext": {"runAsUser": 10001, "runAsGroup": 10001, "supplementalGroups": [1, 1337]}},
    "the proxy's user at the start": {"initContainers": [{"name": "first", "securityContext": {"runAsUser": 1337}}]},
    "a proxy by digest": {"initContainers": [{**_PROXY, "image": f"registry.example.com/own@sha256:{'a' * 64}"}]},
    "the mesh's proxy by digest": {"initContainers": [{**_PROXY, "image": f"{_PROXYS}@sha256:{'a' * 64}"}]},
    "another image of the mesh": {"initContainers": [{**_PROXY, "image": "docker.io/istio/pilot:1.31.4"}]},
    "an old proxy": {"initContainers": [{**_PROXY, "image": f"{_PROXYS}:1.5.0"}]},
    "a proxy to debug with": {"initContainers": [{**_PROXY, "image": f"{_PROXYS}:1.31.4-debug"}]},
    "a proxy as another user": {"initContainers": [{"name": "istio-proxy", "image": f"{_PROXYS}:1.31.4"}]},
    **{
        f"the proxy's {name}": {
            "initContainers": [{"name": "first", "volumeMounts": [{"name": name, "mountPath": "/own"}]}],
            "volumes": [{"name": name, "emptyDir": {}}],
        }
        for name in ("istio-envoy", "workload-socket")
    },
    "already redirected": {
        "initContainers": [{"name": "istio-init", "image": f"{_PROXYS}:1.31.4", "securityContext": {"runAsUser": 1337}}]
    },
}
"""Specs of a pod whose traffic the node would not redirect, or that brings a proxy of its own."""

TEMPLATES_OUT: dict[str, dict[str, Any]] = {
    **{case: deployment({where: {key: value}}, pod_spec()) for case, (where, key, value) in OUT_OF_THE_MESH.items()},
    "as if injected": deployment({"annotations": {"sidecar.istio.io/status": "{}"}}, pod_spec()),
    "a proxy of its own": deployment({}, pod_spec(initContainers=[{"name": "istio-proxy", "image": "auto"}])),
    "a check of its own": deployment({}, pod_spec(initContainers=[{"name": "istio-validation", "image": "auto"}])),
    "the proxy's root": deployment({}, pod_spec(volumes=[{"name": "istiod-ca-cert", "configMap": {"name": "own"}}])),
    "the proxy's keys": deployment({}, pod_spec(volumes=[{"name": "own", "emptyDir": {}}, {"name": "workload-certs", "emptyDir": {}}])),
    "a proxy beside it": deployment({}, {"containers": [*pod_spec()["containers"], {"name": "istio-proxy", "image": "auto"}]}),
}
"""Deployments whose pods would step out of the mesh as they are injected."""

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
    ("patch", "apps", "deployments/status", TENANT),
    ("patch", "keda.sh", "scaledobjects/status", TENANT),
    *(("patch", "networking.istio.io", f"{kind}/status", TENANT) for kind in ("destinationrules", "virtualservices")),
    ("patch", "policy", "poddisruptionbudgets/status", TENANT),
    *(("deletecollection", "", kind, TENANT) for kind in ("configmaps", "pods", "services")),
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
