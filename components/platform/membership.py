"""A tenant's pods stay in the mesh: all that they send and take passes a proxy that the platform set. Pure.

Two rules. What deployers write (templates of Deployments) may say five things to Istio and name none of its
containers: the injector lays a container of that name over its own, and the CNI plugin takes the user to spare from
it (pkg/kube/inject/webhook.go `reapplyOverwrittenContainers`, cni/pkg/plugin of Istio 1.31). Nor any of its volumes: one
of that name becomes the proxy's (`injectPod` there merges by name), and in `istio-envoy` lies what Envoy starts with. What a pod says after
injection may be that, and what the injector itself writes (its `injection-template.yaml`). All else of Istio's is
refused, known or not.
"""

import json
from collections.abc import Mapping

from components.addons.istio import PROXY_CONFIG
from components.identity import POD_IDENTITY_AGENT
from components.platform import replica_measures
from components.platform.rule import AdmissionRule
from components.versions import ISTIO_IMAGES, ISTIOD

PROXY_IMAGE = f"{ISTIO_IMAGES}/proxyv2:"
PROXY_USER = 1337
"""User and group whose packets nobody intercepts (cni/pkg/plugin/sidecar_redirect.go of Istio 1.31)."""
_OF_PROXY = "v.startsWith('istio') || v in ['credential-socket', 'custom-bootstrap-volume', 'workload-certs', 'workload-socket']"
"""Whether a volume's name `v` is one that the injector uses."""
METRICS = "http-metrics"
"""The name of a port that is scraped in plain text, past the proxy."""

_MAJOR, _MINOR, _ = ISTIOD.version.split(".")
# An upgrade goes minor by minor, and while it goes both run.
_RELEASED = rf":{_MAJOR}\\.({int(_MINOR) - 1}|{_MINOR})\\.[0-9]+$"
OF_MESH = f"(c.name in ['istio-proxy', 'istio-validation'] && c.image.startsWith('{PROXY_IMAGE}') && c.image.matches('{_RELEASED}'))"
"""Whether the container `c` is one that the injector writes."""

_TRUE = "v == 'true'"
# 15020 is the proxy's own, and the injector adds it.
_INBOUND = (
    "v.split(',').all(p, p == '15020' || variables.containers.exists(c, has(c.ports) && c.ports.exists(o, "
    f"string(o.containerPort) == p && has(o.name) && o.name == '{METRICS}')))"
)
_OUTBOUND = f"v in {json.dumps(['', POD_IDENTITY_AGENT])}"
_SETTINGS = r"""v.matches('^\\{"holdApplicationUntilProxyStarts":true,"terminationDrainDuration":"[0-9]+s"\\}$')"""
_WRITTEN = {
    **{key: f"v == {json.dumps(value)}" for key, value in replica_measures.annotations().items()},
    PROXY_CONFIG: _SETTINGS,
    "sidecar.istio.io/inject": _TRUE,
    "sidecar.istio.io/nativeSidecar": _TRUE,
    "traffic.sidecar.istio.io/excludeInboundPorts": _INBOUND,
    "traffic.sidecar.istio.io/excludeOutboundIPRanges": _OUTBOUND,
}
_INJECTED = {
    "istio.io/rev": "v == 'default'",
    "sidecar.istio.io/interceptionMode": "v == 'REDIRECT'",
    "sidecar.istio.io/status": "true",
    "traffic.sidecar.istio.io/includeInboundPorts": "v == '*'",
    "traffic.sidecar.istio.io/includeOutboundIPRanges": "v == '*'",
}
_LABELLED = {
    "security.istio.io/tlsMode": "v == 'istio'",
    "service.istio.io/canonical-name": "true",
    "service.istio.io/canonical-revision": "true",
}


def _only(variable: str, allowed: Mapping[str, str]) -> str:
    """Whether the map says nothing to Istio but what is allowed; a test is of the value `v`."""
    tests = " || ".join(f"(k == '{key}' && [{variable}[k]].all(v, {test}))" for key, test in sorted(allowed.items()))
    return f"{variable}.all(k, !k.contains('istio.io/') || {tests})"


def _user(field: str) -> str:
    """Whether each container's own or its pod's is said, and is not the proxy's: an image may name any."""
    own = f"has(c.securityContext) && has(c.securityContext.{field})"
    pods = f"has(object.spec.securityContext) && has(object.spec.securityContext.{field})"
    return f"({own} ? c.securityContext.{field} != {PROXY_USER} : {pods} && object.spec.securityContext.{field} != {PROXY_USER})"


_PROXYS = (
    f"has(c.securityContext) && has(c.securityContext.runAsUser) && c.securityContext.runAsUser == {PROXY_USER} && "
    f"has(c.securityContext.runAsGroup) && c.securityContext.runAsGroup == {PROXY_USER}"
)
_FILES = (
    "variables.containers.all(c, c.name.startsWith('istio-') || !has(c.volumeMounts) || "
    f"c.volumeMounts.all(m, [m.name].all(v, !({_OF_PROXY}))))"
)
_GROUPS = (
    "(!has(object.spec.securityContext) || ("
    f"(!has(object.spec.securityContext.fsGroup) || object.spec.securityContext.fsGroup != {PROXY_USER}) && "
    f"(!has(object.spec.securityContext.supplementalGroups) || !({PROXY_USER} in object.spec.securityContext.supplementalGroups))))"
)

PODS_STAY = AdmissionRule(
    name="pods-stay-in-the-mesh",
    variables=(("notes", "has(object.metadata.annotations) ? object.metadata.annotations : {}"),),
    expression=" && ".join(
        (
            _only("variables.notes", {**_WRITTEN, **_INJECTED}),
            _only("variables.labels", {"sidecar.istio.io/inject": _TRUE, **_LABELLED}),
            f"variables.containers.all(c, c.name.startsWith('istio-') ? {OF_MESH} && {_PROXYS} : {_user('runAsUser')} && {_user('runAsGroup')})",
            _FILES,
            _GROUPS,
        )
    ),
    message=(
        "The pod leads traffic past its proxy, or has none. Nothing would encrypt, count or close what it sends. Leave Istio's labels, "
        f"annotations, containers and volumes as they are, and say runAsUser and runAsGroup, each another than {PROXY_USER}."
    ),
)

TEMPLATES_STAY = AdmissionRule(
    name="templates-stay-in-the-mesh",
    group="apps",
    resources=("deployments",),
    variables=(
        ("template", "object.spec.template"),
        ("meta", "has(variables.template.metadata) ? dyn(variables.template.metadata) : dyn({})"),
        ("notes", "has(variables.meta.annotations) ? variables.meta.annotations : {}"),
        ("marks", "has(variables.meta.labels) ? variables.meta.labels : {}"),
        (
            "containers",
            "variables.template.spec.containers + (has(variables.template.spec.initContainers) ? variables.template.spec.initContainers : [])",
        ),
    ),
    expression=" && ".join(
        (
            _only("variables.notes", _WRITTEN),
            _only("variables.marks", {"sidecar.istio.io/inject": _TRUE}),
            "variables.containers.all(c, !c.name.startsWith('istio-'))",
            f"(!has(variables.template.spec.volumes) || variables.template.spec.volumes.all(e, [e.name].all(v, !({_OF_PROXY}))))",
        )
    ),
    message=(
        "The Deployment's pods would tell Istio how to treat them, or bring a container or volume of its name. They could lead traffic past "
        "their proxy. Leave out Istio's labels, annotations, containers and volumes but those that Headway writes."
    ),
)
