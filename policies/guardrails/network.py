"""Network: nothing public by accident, one way in, and traffic rules that the mesh would refuse are refused here first."""

import re
from collections.abc import Mapping
from functools import partial
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any

from headway.wire import GATEWAY_NAMESPACE, MESH_NAMESPACE, PICKED_HEADER, TENANT
from policies.guardrails import workloads as w
from policies.guardrails.identity import everyone, statements
from policies.guardrails.rule import Breaches, Domain, PolicyRule, PolicySeverity, breach
from policies.guardrails.view import InputNode, ResourceView

INGRESS = "kubernetes:networking.k8s.io/v1:Ingress"
GATEWAYS = ("kubernetes:gateway.networking.k8s.io/v1:Gateway", "kubernetes:networking.istio.io/v1:Gateway")
LOAD_BALANCERS = ("aws:alb/loadBalancer:LoadBalancer", "aws:lb/loadBalancer:LoadBalancer")
_BALANCER = "service.beta.kubernetes.io/aws-load-balancer-"
_PUBLIC = {f"{_BALANCER}scheme": "internet-facing", f"{_BALANCER}internal": "false"}
_PRIVATE_6 = IPv6Network("fc00::/7")
_NO_TIME = re.compile(r"0+(\.0+)?(ms|s|m|h)?")


def _anywhere(cidr: object) -> bool:
    """Whether a network is the internet or a large part of it: larger than any that one organisation holds."""
    network = ip_network(str(cidr), strict=False)
    if isinstance(network, IPv4Network):
        return network.prefixlen < 8
    return network.prefixlen < 16 and not network.subnet_of(_PRIVATE_6)


def _no_public_service(r: ResourceView, c: Mapping[str, Any]) -> Breaches:
    if r.type in LOAD_BALANCERS:
        if r["internal"].value is not True:
            yield breach(r["internal"].path, "the load balancer has public addresses")
        return
    spec, annotations = r["spec"], r.at("metadata", "annotations")
    if w.namespace(r) in c["gatewayNamespaces"]:
        return
    if r.type != w.SERVICE:
        yield breach("", f"the {r.kind} is a way in beside the gateway")
        return
    if spec["externalIPs"].filled:
        yield breach(spec["externalIPs"], "a Service that takes the traffic of addresses outside the cluster")
    if spec["type"].value in ("LoadBalancer", "NodePort"):
        yield breach(spec["type"], f"a Service of type {spec['type'].value} outside the gateway")
    for key, public in _PUBLIC.items():
        if annotations[key].value == public:
            yield breach(annotations[key], "an internet-facing load balancer")


def _endpoint_private(r: ResourceView, c: Mapping[str, Any]) -> Breaches:
    component = r.type == "eks:index:Cluster"
    public = r["endpointPublicAccess"] if component else r.at("vpcConfig", "endpointPublicAccess")
    cidrs = r["publicAccessCidrs"] if component else r.at("vpcConfig", "publicAccessCidrs")
    if public.value is False:
        return
    if not c["publicEndpoint"]:
        yield breach(public.path, "the Kubernetes API answers from the internet" + ("" if public.present else " (AWS's default)"))
        return
    sources = [str(x.value) for x in cidrs.each()]
    if not sources or any(_anywhere(s) for s in sources):
        yield breach(cidrs.path, "the public Kubernetes API may be called from anywhere")


def _ingress(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    rules: list[InputNode] = [r.properties] if "IngressRule" in r.type or "securityGroupRule" in r.type else list(r["ingress"].each())
    for rule in rules:
        if rule["type"].value == "egress":
            continue
        for key in ("cidrIpv4", "cidrIpv6"):
            if rule[key].present and _anywhere(rule[key].value):
                yield breach(rule[key], f"{rule[key].value} may connect")
        for key in ("cidrBlocks", "ipv6CidrBlocks"):
            for cidr in rule[key].each():
                if _anywhere(cidr.value):
                    yield breach(cidr, f"{cidr.value} may connect")


def _public_ip(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    for interface in r["networkInterfaces"].each():
        if str(interface["associatePublicIpAddress"].value).lower() == "true":
            yield breach(interface["associatePublicIpAddress"], "instances get a public address")


def _subnet(r: ResourceView, c: Mapping[str, Any]) -> Breaches:
    if r["mapPublicIpOnLaunch"].value is True:
        yield breach(r["mapPublicIpOnLaunch"], "every interface in this subnet gets a public address")


def _bucket_blocked(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    for key in ("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets"):
        if r[key].value is not True:
            yield breach(key, f"{key} is off")


def _not_for_everyone(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    if not r["policy"].present:
        return
    for i, s in enumerate(statements(r["policy"].value)):
        if s.get("Effect") == "Allow" and (everyone(s.get("Principal")) or "NotPrincipal" in s) and not s.get("Condition"):
            yield breach(f"policy.Statement[{s.get('Sid') or i}].Principal", "anyone in the world may use it")


def _remote_access(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    if r["remoteAccess"].present:
        yield breach("remoteAccess", "nodes accept SSH, from anywhere unless security groups are named")


def _weights(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    for route in r.at("spec", "http").each():
        destinations = list(route["route"].each())
        if len(destinations) < 2:
            continue
        weights = [d["weight"].value or 0 for d in destinations]
        if any(x < 0 for x in weights) or sum(weights) != 100:
            yield breach(f"{route.path}.route", f"weights {weights} do not add up to 100")


def _timeout(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    for route in r.at("spec", "http").each():
        if route["route"].present and _NO_TIME.fullmatch(str(route["timeout"].value or "0")):
            yield breach(f"{route.path}.timeout", "the route has no timeout")


def _mtls(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    mode = r.at("spec", "mtls", "mode")
    if mode.value not in ("STRICT", "UNSET", None):
        yield breach(mode, f"mutual TLS is {mode.value}")
    for port, setting in r.at("spec", "portLevelMtls").entries():
        if setting["mode"].value in ("DISABLE", "PERMISSIVE"):
            yield breach(f"{setting.path}.mode", f"mutual TLS on port {port} is {setting['mode'].value}")


def _host_exact(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    hosts = r.at("spec", "hosts")
    if not hosts.filled:
        yield breach(hosts.path, "the route names no host")
    for host in hosts.each():
        if str(host.value).startswith("*"):
            yield breach(host, f"host {host.value} takes requests meant for other services")


_TURNS_ON: Mapping[str, Any] = {
    "overrides": {},
    "stateful_session": {
        "session_state": {
            "name": "envoy.http.stateful_session.header",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.http.stateful_session.header.v3.HeaderBasedSessionState",
                "name": PICKED_HEADER,
            },
        }
    },
}
"""What a filter that runs for no host by itself demands where it shall run, and what else it then does is the platform's."""
_CONTEXTS, _PLACES = ("GATEWAY", "SIDECAR_INBOUND"), ("HTTP_FILTER", "NETWORK_FILTER", "VIRTUAL_HOST")


def _filter_bounded(r: ResourceView, c: Mapping[str, Any]) -> Breaches:
    namespace, picked = w.namespace(r), r.at("spec", "workloadSelector", "labels")
    if namespace in c["meshNamespaces"]:
        yield breach(r.at("metadata", "namespace"), "the filter stands in every proxy of the mesh")
    if not dict(picked.entries()):
        yield breach(picked.path, "the filter stands in every proxy of its namespace")
    for patch in r.at("spec", "configPatches").each():
        context, place, name = patch.at("match", "context"), patch["applyTo"], patch.at("patch", "value", "name")
        if context.value not in _CONTEXTS:
            yield breach(context.path, f"context {context.value or 'ANY'} reaches proxies of callers too")
        if place.value not in _PLACES:
            yield breach(place.path, f"{place.value} is changed, which no rule here can judge")
        if place.value == "HTTP_FILTER" and namespace in c["gatewayNamespaces"]:
            operation = patch.at("patch", "operation")
            if operation.value not in ("INSERT_BEFORE", "MERGE"):
                yield breach(operation.path, f"{operation.value} takes another filter's place, or one away")
            merged = operation.value == "MERGE"
            beside = patch.at("match", "listener", "filterChain", "filter", "subFilter", "name")
            for each in (name, *([beside] if merged else [])):
                if not str(each.value).startswith(c["gatewayFilters"]):
                    yield breach(each.path, f"{each.value or 'a filter without a name'} in the gateway is none of the platform's filters")
        if place.value == "VIRTUAL_HOST":
            yield from _only_tells(patch, r.at("metadata", "labels", TENANT).value, c["gatewayFilters"], c["heldBytes"])


def _only_tells(patch: InputNode, tenant: Any, filters: str, most: float) -> Breaches:
    """Of one host, of the tenant whose object it is, and nothing but what the platform's filters must know, and how much of a body is held."""
    domain, operation = patch.at("match", "routeConfiguration", "vhost", "domainName"), patch.at("patch", "operation")
    if not domain.value:
        yield breach(domain.path, "every host of the gateway is changed")
    elif tenant and f".{tenant}." not in str(domain.value):
        yield breach(domain.path, f"{domain.value} is not a host of tenant {tenant}")
    if operation.value != "MERGE":
        yield breach(operation.path, f"a virtual host is changed by {operation.value}")
    for key, told in patch.at("patch", "value").entries():
        if key == "request_body_buffer_limit" and isinstance(told.value, int | float):
            if told.value > most:
                yield breach(
                    told.path, f"the gateway holds {told.value} bytes of each request to a host, and its proxies' memory is everybody's"
                )
            continue
        if key != "typed_per_filter_config":
            yield breach(told.path, f"{key} of a virtual host is changed, not what filters know of it")
            continue
        for name, config in told.entries():
            if not name.startswith(filters):
                yield breach(config.path, f"{name} in the gateway is none of the platform's filters")
            for said, value in config.entries():
                if said not in ("@type", "filter_context") and (said not in _TURNS_ON or value.value != _TURNS_ON[said]):
                    yield breach(value.path, f"{said} for a host changes what the filter does, not what it knows")


_rule = partial(PolicyRule, domain=Domain.NETWORK)

RULES = (
    _rule(
        id="no-public-service",
        title="Only the gateway has an address outside the cluster.",
        rationale="A second entrance would have no authentication, no rate limit and no audit.",
        remedy="Use a Service of type ClusterIP and route through the gateway; a load balancer is internal.",
        applies=(*GATEWAYS, INGRESS, *LOAD_BALANCERS, w.SERVICE),
        check=_no_public_service,
        severity=PolicySeverity.CRITICAL,
        settings={"gatewayNamespaces": {"type": "array", "items": {"type": "string"}, "default": [GATEWAY_NAMESPACE]}},
    ),
    _rule(
        id="cluster-endpoint-private",
        title="The Kubernetes API is private, or public to named networks only.",
        rationale="Anyone could try credentials against the cluster's control plane.",
        remedy="Set endpointPublicAccess: false; where it must be public, allow it by publicEndpoint and list publicAccessCidrs.",
        applies=("aws:eks/cluster:Cluster", "eks:index:Cluster"),
        check=_endpoint_private,
        severity=PolicySeverity.CRITICAL,
        settings={"publicEndpoint": {"type": "boolean", "default": False}},
    ),
    _rule(
        id="no-ingress-from-anywhere",
        title="No security group admits the whole internet.",
        rationale="The port would be open to every scanner on the internet, whatever the instance behind it does.",
        remedy="Reference the calling security group, or name the networks.",
        applies=(
            "aws:ec2/securityGroup:SecurityGroup",
            "aws:ec2/securityGroupRule:SecurityGroupRule",
            "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule",
        ),
        check=_ingress,
        severity=PolicySeverity.CRITICAL,
    ),
    _rule(
        id="no-public-instance",
        title="Nodes have no public address.",
        rationale="Scanners find a GPU node on the internet within minutes.",
        remedy="Remove associatePublicIpAddress; nodes live in private subnets.",
        applies=("aws:ec2/launchTemplate:LaunchTemplate",),
        check=_public_ip,
    ),
    _rule(
        id="subnet-gives-no-public-address",
        title="Subnets give no public address by themselves.",
        rationale="Everything that starts there would be reachable from the internet, although nobody decided that.",
        remedy="Leave mapPublicIpOnLaunch off; load balancers ask for their own addresses.",
        applies=("aws:ec2/subnet:Subnet",),
        check=_subnet,
        severity=PolicySeverity.MEDIUM,
    ),
    _rule(
        id="bucket-blocks-public-access",
        title="Buckets block public access by all four settings.",
        rationale="Model weights and release evidence would be one policy mistake away from the internet.",
        remedy="Set blockPublicAcls, blockPublicPolicy, ignorePublicAcls and restrictPublicBuckets to true.",
        applies=("aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock",),
        check=_bucket_blocked,
        severity=PolicySeverity.CRITICAL,
    ),
    _rule(
        id="resource-policy-not-public",
        title="The policy of a bucket, queue, key, repository or secret names who may use it.",
        rationale="Anyone with an AWS account, or without one, could read weights, requests or evidence.",
        remedy="Name the principals, or bind the statement by a condition such as aws:PrincipalOrgID.",
        applies=(
            "aws:ecr/repositoryPolicy:RepositoryPolicy",
            "aws:kms/key:Key",
            "aws:s3/bucketPolicy:BucketPolicy",
            "aws:secretsmanager/secretPolicy:SecretPolicy",
            "aws:sns/topicPolicy:TopicPolicy",
            "aws:sqs/queuePolicy:QueuePolicy",
        ),
        check=_not_for_everyone,
        severity=PolicySeverity.CRITICAL,
    ),
    _rule(
        id="node-without-remote-access",
        title="Nodes accept no SSH.",
        rationale="EKS opens port 22 to the internet for a key without named security groups, and a key is a credential that nobody rotates.",
        remedy="Leave remoteAccess out; use `kubectl debug node/...` or Session Manager.",
        applies=("aws:eks/nodeGroup:NodeGroup",),
        check=_remote_access,
    ),
    _rule(
        id="route-weights-add-up",
        title="Weights of a route are not negative and add up to 100.",
        rationale="The mesh accepts other sums and divides in proportion, so the share that the gate measures would not be the share that was requested.",
        remedy="Give each destination of the route a weight so that the sum is 100.",
        applies=(w.VIRTUAL_SERVICE,),
        check=_weights,
    ),
    _rule(
        id="route-has-timeout",
        title="Every route has a timeout.",
        rationale="Requests to a model that hangs would pile up until the gateway has no connection left for other models.",
        remedy="Set http[].timeout to a little more than the SLO's threshold.",
        applies=(w.VIRTUAL_SERVICE,),
        check=_timeout,
        severity=PolicySeverity.MEDIUM,
    ),
    _rule(
        id="route-host-exact",
        title="A route names its hosts exactly.",
        rationale="A wildcard would take the traffic of other tenants.",
        remedy="List the host names of the service.",
        applies=(w.VIRTUAL_SERVICE,),
        check=_host_exact,
    ),
    _rule(
        id="proxy-filter-bounded",
        title="An EnvoyFilter selects its proxies, and only adds filters for incoming requests or gives the gateway's filters their data about a host.",
        rationale="An EnvoyFilter is raw proxy configuration: one in the gateway, or in all proxies, can undo tokens, limits and routes of every tenant.",
        remedy="Give it a workloadSelector and a context of GATEWAY or SIDECAR_INBOUND; in the gateway, build it by `gateway_data`.",
        applies=("kubernetes:networking.istio.io/v1:EnvoyFilter",),
        check=_filter_bounded,
        settings={
            "gatewayNamespaces": {"type": "array", "items": {"type": "string"}, "default": [GATEWAY_NAMESPACE]},
            "meshNamespaces": {"type": "array", "items": {"type": "string"}, "default": [MESH_NAMESPACE]},
            "gatewayFilters": {"type": "string", "default": "headway."},
            "heldBytes": {"type": "number", "default": 8 * 2**20},
        },
    ),
    _rule(
        id="mutual-tls-strict",
        title="Mutual TLS is strict.",
        rationale="Unencrypted traffic between pods would let one tenant read another's prompts.",
        remedy="Set spec.mtls.mode: STRICT and no weaker port.",
        applies=("kubernetes:security.istio.io/v1:PeerAuthentication",),
        check=_mtls,
    ),
)
