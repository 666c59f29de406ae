"""The mesh: callers and issuers are named, traffic stays encrypted, and no proxy is opened to what is not registered.

Sources: Istio's reference of each kind (AuthorizationPolicy, RequestAuthentication, DestinationRule, Sidecar, ServiceEntry), where it says
what a field that is left out means.
"""

import re
from collections.abc import Iterator, Mapping
from functools import partial
from ipaddress import ip_network
from typing import Any
from urllib.parse import urlsplit

from headway.wire import GATEWAY_NAMESPACE, MESH_NAMESPACE, PRIORITY_HEADER, USER_HEADER
from policies.guardrails import workloads as w
from policies.guardrails.rule import Breaches, Domain, PolicyRule, PolicySeverity, breach
from policies.guardrails.view import InputNode, ResourceView

_SECURITY, _NETWORKING = "kubernetes:security.istio.io/v1:", "kubernetes:networking.istio.io/v1:"
AUTHORIZATION_POLICY, REQUEST_AUTHENTICATION = f"{_SECURITY}AuthorizationPolicy", f"{_SECURITY}RequestAuthentication"
DESTINATION_RULE, SERVICE_ENTRY, SIDECAR = (f"{_NETWORKING}{kind}" for kind in ("DestinationRule", "ServiceEntry", "Sidecar"))
_FOREIGN = (
    "kubernetes:core/v1:Endpoints",
    "kubernetes:discovery.k8s.io/v1:EndpointSlice",
    f"{_NETWORKING}WorkloadEntry",
    f"{_NETWORKING}WorkloadGroup",
)
_MODES = ("ISTIO_MUTUAL",)
_SIDECAR_SAYS = ("egress", "inboundConnectionPool", "outboundTrafficPolicy", "workloadSelector")
"""What a Sidecar may say; a listener of its own may say that nobody intercepts what it is for (captureMode: NONE)."""
_INSIDE = (".cluster.local", ".internal", ".local", ".svc")
_ADDRESS = re.compile(r"[0-9.]+|.*:.*")
_GATEWAYS = {"gatewayNamespaces": {"type": "array", "items": {"type": "string"}, "default": [GATEWAY_NAMESPACE]}}
_MESH = {"meshNamespaces": {"type": "array", "items": {"type": "string"}, "default": [MESH_NAMESPACE]}}


def _callers(r: ResourceView, c: Mapping[str, Any]) -> Breaches:
    spec = r["spec"]
    if spec["action"].value in ("AUDIT", "CUSTOM", "DENY"):
        return
    if w.namespace(r) in c["gatewayNamespaces"]:
        if not spec["selector"]["matchLabels"].filled:
            yield breach(spec["selector"].path, "every pod of the gateway's namespace is opened")
        return
    for rule in spec["rules"].each():
        sources = list(rule["from"].each())
        if not sources:
            yield breach(rule, "lets everybody call")
        for each in sources:
            if not _names(each["source"]):
                yield breach(each, "lets callers in whom it does not name")


def _names(source: InputNode) -> bool:
    """Whether a source says who it is. What is not somebody is everybody else, and an address is nobody's."""
    return any(
        source[key].filled and all(fits(str(each.value)) for each in source[key].each())
        for key, fits in (("namespaces", _exact), ("principals", _principal), ("requestPrincipals", _issuer), ("serviceAccounts", _exact))
    )


def _exact(name: str) -> bool:
    return bool(name) and "*" not in name


def _principal(name: str) -> bool:
    """`<trust domain>/ns/<namespace>/sa/<account>`; only what follows the namespace may be left open."""
    domain, found, rest = name.partition("/ns/")
    return bool(found) and _exact(domain) and "/" in rest and _exact(rest.partition("/")[0])


def _issuer(name: str) -> bool:
    return _exact(name.removesuffix("/*")) and "://" in name


def _tokens(r: ResourceView, c: Mapping[str, Any]) -> Breaches:
    for rule in r.at("spec", "jwtRules").each():
        keys, issuer = rule["jwksUri"], str(rule["issuer"].value or "")
        if rule["jwks"].filled:
            yield breach(rule["jwks"], f"the keys of {issuer} are written here, whoever's they are")
        if urlsplit(str(keys.value or "")).scheme != "https":
            yield breach(keys, f"the keys of {issuer} are not fetched by HTTPS")
        elif not _outside(urlsplit(str(keys.value)).hostname or ""):
            yield breach(keys, "the mesh's control plane would ask an address inside the network for keys")
        elif r.state.setdefault(issuer, str(keys.value)) != str(keys.value):
            yield breach(keys, f"{issuer} has other keys elsewhere, and a gateway takes tokens that any of them signed")
        if not rule["audiences"].filled:
            yield breach(rule["audiences"].path, f"any token of {issuer} is taken, for whatever it was issued")
        if rule["forwardOriginalToken"].value:
            yield breach(rule["forwardOriginalToken"], "the caller's token is handed to the model server")
        if rule["fromParams"].filled:
            yield breach(rule["fromParams"], "the token stands in the address, which is logged")
        for told in rule["outputClaimToHeaders"].each():
            if str(told["header"].value).lower() not in c["claimHeaders"]:
                yield breach(told["header"], f"whoever issues a token writes {told['header'].value}")


def _outside(host: str) -> bool:
    """Whether a name or an address may be outside of cluster and VPC."""
    if _ADDRESS.fullmatch(host):
        return not _private(host)
    return "." in host and not host.rstrip(".").endswith(_INSIDE)


def _private(network: str) -> bool:
    """Whether a network has an address that is not the internet's. Digits that are no address by the book are one to some resolvers."""
    try:
        found = ip_network(network, strict=False)
    except ValueError:
        return True
    return not found.is_global or found.prefixlen < 8


def _encrypted(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    spec = r["spec"]
    if spec.at("trafficPolicy", "tls", "mode").value not in _MODES:
        where = spec.at("trafficPolicy", "tls", "mode")
        yield breach(where.path, f"the way to the host is encrypted by {where.value or 'nothing that it says'}")
    if not _exact(str(spec["host"].value or "")):
        yield breach(spec["host"].path, f"{spec['host'].value or 'no host'} takes in other services")
    for policy in (spec["trafficPolicy"], *(subset["trafficPolicy"] for subset in spec["subsets"].each())):
        yield from _weaker(policy, spec["trafficPolicy"].path)


def _weaker(policy: InputNode, whole: str) -> Breaches:
    own = [policy["tls"]] if policy.path != whole else []
    for tls in (*own, *(port["tls"] for port in policy["portLevelSettings"].each())):
        if tls.present and tls["mode"].value not in _MODES:
            yield breach(tls["mode"].path, f"the way is encrypted by {tls['mode'].value or 'nothing'}")


def _closed(r: ResourceView, c: Mapping[str, Any]) -> Breaches:
    for key, node in r["spec"].entries():
        if key not in _SIDECAR_SAYS:
            yield breach(node, f"{key} makes listeners of its own, which may pass the proxy by")
    policy = r.at("spec", "outboundTrafficPolicy")
    if policy.present and (policy["mode"].value != "REGISTRY_ONLY" or policy["egressProxy"].present):
        yield breach(policy, f"the proxies lead to hosts that are not registered ({policy['mode'].value or 'ALLOW_ANY'})")
    for listener in r.at("spec", "egress").each():
        for key, node in listener.entries():
            if key != "hosts":
                yield breach(node, f"{key} makes a listener of its own, which may pass the proxy by")
        for host in listener["hosts"].each():
            if str(host.value).partition("/")[0] == "*":
                yield breach(host, "the proxies lead to services of every namespace")


def _registered(r: ResourceView, c: Mapping[str, Any]) -> Breaches:
    spec = r["spec"]
    for host in spec["hosts"].each():
        name = str(host.value)
        if "*" in name.removeprefix("*.") or name.count(".") < (3 if name.startswith("*.") else 1):
            yield breach(host, f"{name} stands for hosts of anybody")
        elif not _outside(name.removeprefix("*.")):
            yield breach(host, f"{name} is inside the cluster or its network")
    for address in _addresses(spec):
        if _ADDRESS.fullmatch(str(address.value).partition("/")[0]) and _private(str(address.value)):
            yield breach(address, f"{address.value} is an address inside the cluster or its network, or of nodes' metadata")
        elif not _ADDRESS.fullmatch(str(address.value).partition("/")[0]) and not _outside(str(address.value)):
            yield breach(address, f"{address.value} is inside the cluster or its network")
    if spec["resolution"].value in (None, "NONE") and not spec["addresses"].filled:
        for port in spec["ports"].each():
            if port["protocol"].value not in ("HTTPS", "TLS"):
                yield breach(port, f"{port['protocol'].value or 'the port'} names no host, so every address would be registered")
    exports = [each.value for each in spec["exportTo"].each()]
    if w.namespace(r) not in c["meshNamespaces"] and exports != ["."]:
        yield breach(spec["exportTo"].path, "the host is registered for other namespaces too")


def _addresses(spec: InputNode) -> Iterator[InputNode]:
    yield from spec["addresses"].each()
    for endpoint in spec["endpoints"].each():
        yield endpoint["address"]


def _foreign(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    yield breach("", f"a {r.kind} makes any address an endpoint of a Service")


def _code(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    yield breach("", f"a {r.kind} changes what proxies run")


_rule = partial(PolicyRule, domain=Domain.NETWORK)

RULES = (
    _rule(
        id="authorization-names-callers",
        title="An AuthorizationPolicy that allows names its callers.",
        rationale="Policies that allow add up: one for everybody opens a model server to every pod of the mesh, whatever the others say.",
        remedy="Name namespaces, principals or serviceAccounts in each rule's `from`, without wildcards. The gateway's own names its pods.",
        applies=(AUTHORIZATION_POLICY,),
        check=_callers,
        severity=PolicySeverity.CRITICAL,
        settings=_GATEWAYS,
    ),
    _rule(
        id="token-issuer-vouched",
        title="Tokens are for named audiences, by keys that their issuer publishes.",
        rationale="Whoever chooses the keys of an issuer is everybody whom it vouches for, for every tenant that trusts it.",
        remedy="Give jwksUri at the issuer, by HTTPS, and audiences; forward no token. In a contract, issuers of tenant.yaml.",
        applies=(REQUEST_AUTHENTICATION,),
        check=_tokens,
        severity=PolicySeverity.CRITICAL,
        settings={"claimHeaders": {"type": "array", "items": {"type": "string"}, "default": [PRIORITY_HEADER, USER_HEADER]}},
    ),
    _rule(
        id="destination-by-mutual-tls",
        title="A DestinationRule keeps mutual TLS on the way to one host.",
        rationale="Requests and answers would cross the network in clear, or to whoever answers there.",
        remedy="Set trafficPolicy.tls.mode: ISTIO_MUTUAL, nothing else for ports and subsets, and the host without a wildcard.",
        applies=(DESTINATION_RULE,),
        check=_encrypted,
    ),
    _rule(
        id="sidecar-stays-closed",
        title="A Sidecar leads to registered hosts of named namespaces only.",
        rationale="Weights and prompts could leave for any address, past the registry of the mesh.",
        remedy="Leave out outboundTrafficPolicy and ingress; say hosts alone in egress, and have a host registered by a ServiceEntry.",
        applies=(SIDECAR,),
        check=_closed,
        severity=PolicySeverity.CRITICAL,
    ),
    _rule(
        id="service-entry-outside",
        title="A ServiceEntry registers named hosts outside the network, for its own namespace.",
        rationale="An entry for an inner address leads to nodes' metadata or to another tenant's pods; one for all takes others' hosts over.",
        remedy="Name the host, with TLS ports, and exportTo: [\".\"]; what is for all namespaces is the platform's, in the mesh's namespace.",
        applies=(SERVICE_ENTRY,),
        check=_registered,
        severity=PolicySeverity.CRITICAL,
        settings=_MESH,
    ),
    _rule(
        id="service-leads-to-pods",
        title="A Service leads to the pods that it selects.",
        rationale="Whoever writes the addresses of a Service sends its callers to nodes' metadata, to another tenant's pods or out of the cluster.",
        remedy="Give the Service a selector; Kubernetes writes the endpoints. A host outside is registered by a ServiceEntry.",
        applies=_FOREIGN,
        check=_foreign,
    ),
    _rule(
        id="proxies-run-no-foreign-code",
        title="Proxies run the platform's image and filters.",
        rationale="A WebAssembly plugin reads every request and answer, tokens among them, and can undo all that the proxy enforces.",
        remedy="Leave it out; ask the platform for a filter of its own.",
        applies=("kubernetes:extensions.istio.io/", f"{_NETWORKING}ProxyConfig"),
        check=_code,
        severity=PolicySeverity.CRITICAL,
    ),
)
