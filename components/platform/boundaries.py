"""What a tenant's deployers may write beside pods stays within the tenant: Services, routes, proxies' settings,
autoscalers. Pure.

Roles say which kinds they may write (`components/tenant/access.py`); these rules say what may stand in them. One
gateway serves all tenants, and it takes a route for any host from any namespace: who may claim a host, and whose
servers it leads to, is said here and nowhere else. A route to another's server would pass that tenant's tokens and
rates by, because the request comes from the gateway.
"""

import json
from collections.abc import Sequence

from components.addons import prometheus
from components.addons.prometheus import DASHBOARD_LABEL
from components.labels import MODELS, QUEUES
from components.platform.membership import PODS_STAY, TEMPLATES_STAY
from components.platform.mesh import GATEWAY
from components.platform.rule import AdmissionRule
from headway.wire import (
    ARM,
    DEGRADE_HEADER,
    DEGRADED_HEADER,
    EXPERIMENT_HEADER,
    GATEWAY_NAMESPACE,
    MESH_NAMESPACE,
    MODEL,
    PRIORITY_HEADER,
    RELEASE,
    RELEASE_HEADER,
    SERVER_CONTAINER,
)

MESH = "networking.istio.io"
_OWN = "namespaceObject.metadata.name"
_NOTES = ("notes", "has(namespaceObject.metadata.annotations) ? namespaceObject.metadata.annotations : {}")
_SERVICES = ("own", f"'.' + {_OWN} + '.svc.cluster.local'")
"""How the host of a Service of the tenant ends. A short name is refused: what it means depends on who reads it."""


def rules(hosts: Sequence[str]) -> tuple[AdmissionRule, ...]:
    """By name. `hosts` are the gateway's."""
    return (
        _autoscalers(),
        _COMMANDS,
        _DASHBOARDS,
        _DESTINATIONS,
        _ENCRYPTED,
        _SMALL,
        _DISRUPTIONS,
        _NO_OWNERS,
        _NOTHING_TO_ISTIO,
        PODS_STAY,
        _routes(hosts),
        _ROUTES_PLAIN,
        _ROUTES_SAY,
        _SERVICES_STAY,
        _SIDECARS,
        TEMPLATES_STAY,
    )


_PLATFORM = f"authorizer.group('').resource('namespaces').name({_OWN}).check('patch').allowed()"
"""Whether whoever asks may change the namespace itself, as no role of a tenant may."""

_COMMANDS = AdmissionRule(
    name="commands-in-servers-alone",
    resources=("pods/exec",),
    operations=("CONNECT",),
    # Without a name it is the only container (`LocationGetter` of Kubernetes, pkg/registry/core/pod/strategy.go).
    expression=f"!has(object.container) || object.container in ['', '{SERVER_CONTAINER}'] || {_PLATFORM}",
    message=(
        "The command would run beside the model server, as the proxy perhaps. What the proxy's user sends is not intercepted, so it would "
        f"pass the mesh by. Ask the container {SERVER_CONTAINER}."
    ),
)

_WRITTEN = (
    "configmaps",
    "deployments",
    "destinationrules",
    "poddisruptionbudgets",
    "scaledobjects",
    "services",
    "sidecars",
    "virtualservices",
)
"""The kinds that a deployer may write."""

_NO_OWNERS = AdmissionRule(
    name="no-owners",
    group="*",
    resources=_WRITTEN,
    also_reads="?metadata.?ownerReferences",
    expression=f"!has(object.metadata.ownerReferences) || object.metadata.ownerReferences.size() == 0 || {_PLATFORM}",
    message=(
        "The object names an owner. One of the cluster, such as a node or a rule, could not be deleted in the foreground before it, and a "
        "finalizer would keep it for ever. Leave ownerReferences out."
    ),
)

_ROOT_CERTIFICATE = (
    f"(request.resource.resource == 'configmaps' && request.userInfo.username == 'system:serviceaccount:{MESH_NAMESPACE}:istiod')"
)
"""istiod marks as its own the ConfigMaps that it puts into every namespace, of which proxies mount one (`NamespaceController` in its
pilot/pkg/serviceregistry/kube/controller): refused, no pod of a tenant would start.
"""

_NOTHING_TO_ISTIO = AdmissionRule(
    name="nothing-to-istio",
    group="*",
    resources=_WRITTEN,
    also_reads="?metadata.?annotations",
    # `internal.istio.io/route-semantics` has istiod read a route as one of its own making (pkg/config/constants of Istio 1.31).
    expression=(
        f"{_ROOT_CERTIFICATE} || (variables.labels.all(k, !k.contains('istio.io/')) && "
        "(!has(object.metadata.annotations) || object.metadata.annotations.all(k, !k.contains('istio.io/'))) && "
        # Whose root a proxy trusts, its istiod it obeys; one that is immutable istiod never sets right.
        "(request.resource.resource != 'configmaps' || !object.metadata.name.startsWith('istio-')))"
    ),
    message=(
        "The object's labels or annotations tell Istio how to read it, or it has the name of what proxies trust. It could be read by rules that "
        "no other one is, or by some proxies and not by others. Leave all of Istio's out."
    ),
)

_SERVICES_STAY = AdmissionRule(
    name="services-stay-inside",
    resources=("services",),
    # The gateway has a cluster for every port.
    expression=(
        "(!has(object.spec.externalIPs) || object.spec.externalIPs.size() == 0) && (!has(object.spec.type) || object.spec.type == 'ClusterIP') && "
        "(!has(object.spec.ports) || object.spec.ports.size() <= 8)"
    ),
    message=(
        "The Service takes addresses of others, leads out of the cluster, or fills the gateway with ports. Requests of all tenants to those "
        "addresses would arrive here, or the mesh would open to the outside. Make it a ClusterIP Service without externalIPs and with at most "
        "8 ports; models are reached through the gateway."
    ),
)

_DASHBOARDS = AdmissionRule(
    name="dashboards-are-the-platforms",
    resources=("configmaps",),
    expression=(f"variables.labels.all(k, k != {json.dumps(*DASHBOARD_LABEL)}) || {_PLATFORM}"),
    message=(
        "The ConfigMap would be a dashboard. Grafana takes dashboards from every namespace and shows them to everybody, on-call included: "
        "one may take another's name or id. Leave the label out; a model's dashboard follows from its contract."
    ),
)

_DESTINATIONS = AdmissionRule(
    name="destinations-of-own-services",
    group=MESH,
    resources=("destinationrules",),
    variables=(_SERVICES,),
    expression="object.spec.host.endsWith(variables.own)",
    message=(
        "The DestinationRule is for a host that is not a Service of this namespace. It could take encryption or limits off the way to "
        "another's servers. Name a Service of your own by <service>.<namespace>.svc.cluster.local."
    ),
)

_ENCRYPTED = AdmissionRule(
    name="destinations-stay-encrypted",
    group=MESH,
    resources=("destinationrules",),
    # Not `credentialName` or paths of files of the proxy, nor `tunnel`, ports of their own, or `exportTo` (DestinationRule of Istio 1.31).
    expression=(
        "dyn(object.spec).all(k, k in ['host', 'trafficPolicy']) && (!has(object.spec.trafficPolicy) || "
        "(dyn(object.spec.trafficPolicy).all(k, k in ['connectionPool', 'loadBalancer', 'outlierDetection', 'retryBudget', 'tls']) && "
        "(!has(object.spec.trafficPolicy.tls) || (dyn(object.spec.trafficPolicy.tls).all(k, k == 'mode') && "
        "has(object.spec.trafficPolicy.tls.mode) && object.spec.trafficPolicy.tls.mode == 'ISTIO_MUTUAL'))))"
    ),
    message=(
        "The DestinationRule says how callers' proxies encrypt, or leads them through another server. Requests could leave in plain text, or "
        "with a file or key of the proxy. Say host and trafficPolicy, and of TLS only the mode ISTIO_MUTUAL."
    ),
)

_SMALL = AdmissionRule(
    name="destinations-stay-small",
    group=MESH,
    resources=("destinationrules",),
    # A ring of hashes has up to 8 million entries in every proxy, and one table that Envoy refuses is refused for ever.
    expression=(
        "!has(object.spec.trafficPolicy) || ((!has(object.spec.trafficPolicy.loadBalancer) || "
        "(dyn(object.spec.trafficPolicy.loadBalancer).all(k, k in ['simple', 'warmup']) && has(object.spec.trafficPolicy.loadBalancer.simple) && "
        "object.spec.trafficPolicy.loadBalancer.simple in ['LEAST_REQUEST', 'RANDOM', 'ROUND_ROBIN'])) && "
        "(!has(object.spec.trafficPolicy.outlierDetection) || !has(object.spec.trafficPolicy.outlierDetection.interval) || "
        "duration(object.spec.trafficPolicy.outlierDetection.interval) >= duration('1s')))"
    ),
    message=(
        "The DestinationRule has callers' proxies keep a ring or table of hashes, or look many times a second. The gateway, which serves all "
        "tenants, would do so too. Of loadBalancer say simple and warmup, and an outlierDetection.interval of a second or more."
    ),
)

_SIDECARS = AdmissionRule(
    name="sidecars-stay-closed",
    group=MESH,
    resources=("sidecars",),
    # Not `ingress`, and of `egress` no listener: each may say that nobody intercepts what it is for (captureMode: NONE).
    expression=(
        "!has(object.spec) || dyn(object.spec).all(k, k in ['egress', 'inboundConnectionPool', 'outboundTrafficPolicy', 'workloadSelector']) && "
        "(!has(object.spec.egress) || object.spec.egress.all(e, dyn(e).all(k, k == 'hosts'))) && "
        "(!has(object.spec.outboundTrafficPolicy) || (has(object.spec.outboundTrafficPolicy.mode) && "
        "object.spec.outboundTrafficPolicy.mode == 'REGISTRY_ONLY' && !has(object.spec.outboundTrafficPolicy.egressProxy)))"
    ),
    message=(
        "The Sidecar opens its proxies to hosts that are not registered, or makes listeners of its own. What a model is asked could leave for "
        "anywhere. Leave out outboundTrafficPolicy, and say hosts alone in egress; ask the platform for a ServiceEntry."
    ),
)

_PICKED = "object.spec.selector.matchLabels"
_DISRUPTIONS = AdmissionRule(
    name="disruptions-stay-possible",
    group="policy",
    resources=("poddisruptionbudgets",),
    # Two budgets of one pod let nobody evict it either, so a budget has the name that its pods' labels give.
    expression=(
        "has(object.spec.maxUnavailable) && string(object.spec.maxUnavailable).matches('^0*[1-9][0-9]*%?$') && "
        "has(object.spec.unhealthyPodEvictionPolicy) && object.spec.unhealthyPodEvictionPolicy == 'AlwaysAllow' && "
        f"has(object.spec.selector) && has({_PICKED}) && {json.dumps([MODEL, RELEASE, ARM])}.all(k, k in {_PICKED}) && "
        f"object.metadata.name == {_PICKED}['{MODEL}'] + '-' + {_PICKED}['{RELEASE}'] + ({_PICKED}['{ARM}'] == 'release' ? '' : '-' + {_PICKED}['{ARM}'])"
    ),
    message=(
        "The PodDisruptionBudget may allow no disruption, or pick pods that another one picks. A broken node could never be emptied, nor any "
        "node be upgraded. Say maxUnavailable: 1 (not minAvailable) and unhealthyPodEvictionPolicy: AlwaysAllow, pick one arm of one release "
        "of one model, and name it <model>-<release>, or <model>-<release>-<arm>."
    ),
)


def _routes(hosts: Sequence[str]) -> AdmissionRule:
    public = " || ".join(f"h.endsWith('.' + {_OWN} + '.{host}')" for host in sorted(hosts))
    parts = ("http", "tcp", "tls")
    routes = " && ".join(
        f"(!has(object.spec.{part}) || object.spec.{part}.all(r, !has(r.route) || "
        "r.route.all(d, has(d.destination) && d.destination.host.endsWith(variables.own))))"
        for part in parts
    )
    copies = (
        "(!has(object.spec.http) || object.spec.http.all(r, !has(r.delegate) && "
        "(!has(r.mirror) || r.mirror.host.endsWith(variables.own)) && "
        "(!has(r.mirrors) || r.mirrors.all(m, m.destination.host.endsWith(variables.own)))))"
    )
    return AdmissionRule(
        name="routes-of-own-hosts",
        group=MESH,
        resources=("virtualservices",),
        variables=(_SERVICES,),
        expression=(
            f"has(object.spec.hosts) && object.spec.hosts.all(h, h.endsWith(variables.own){f' || {public}' if public else ''}) && "
            f"{routes} && {copies}"
        ),
        message=(
            "The VirtualService claims a host that is not this namespace's, or leads to another's servers. It would take another tenant's "
            "requests, or pass its tokens and rates by. Use hosts that end with the namespace's name before the gateway's, and own Services."
        ),
    )


_SAID = ("headers", "match", "mirror", "mirrorPercentage", "name", "retries", "route", "timeout")
"""What an entry of a route may say. Not `redirect`, `rewrite`, `directResponse` or `fault`."""
MATCHED = (DEGRADE_HEADER, EXPERIMENT_HEADER, PRIORITY_HEADER, RELEASE_HEADER, "content-type")
"""Headers by which Headway's routes choose."""
RETRIABLE_HEADERS = "x-envoy-retriable-header-names"
"""Tells Envoy's router which header of an answer means `retriable-headers`; the router takes it off, and the gateway
takes off a client's.
"""
MOST_RETRIES = 2
_VALUE = "'^[A-Za-z0-9./-]{1,128}$'"


def _only_says(part: str, said: str) -> str:
    """Whether the headers of `part` are those that Headway writes, each with a plain value."""
    return (
        f"(!has({part}.headers) || (dyn({part}.headers).all(k, k in ['request', 'response']) && "
        f"(!has({part}.headers.request) || (dyn({part}.headers.request).all(k, k in ['remove', 'set']) && "
        f"(!has({part}.headers.request.set) || {part}.headers.request.set.all(h, h == '{RETRIABLE_HEADERS}' && "
        f"{part}.headers.request.set[h].matches({_VALUE}))) && "
        f"(!has({part}.headers.request.remove) || {part}.headers.request.remove.all(h, h == '{EXPERIMENT_HEADER}')))) && "
        f"(!has({part}.headers.response) || (dyn({part}.headers.response).all(k, k == 'set') && "
        f"{part}.headers.response.set.all(h, h in {said} && {part}.headers.response.set[h].matches({_VALUE}))))))"
    )


_ROUTES_PLAIN = AdmissionRule(
    name="routes-say-it-plainly",
    group=MESH,
    resources=("virtualservices",),
    # Envoy takes or refuses the routes of all tenants at once, and refuses them all for one percent sign in a header's value
    # (`%COMMAND%`, source/common/formatter), weights beyond 2^32 together, or an expression beyond `re2.max_program_size`.
    expression=" && ".join(
        (
            "object.spec.hosts.all(h, h.matches('^[a-z0-9][a-z0-9.-]{0,252}$'))",
            "(!has(object.spec.http) || object.spec.http.all(r, (!has(r.name) || r.name.matches('^[a-z0-9-]{1,128}$'))",
            f"(!has(r.retries) || (dyn(r.retries).all(k, k in ['attempts', 'retryOn']) && (!has(r.retries.attempts) || r.retries.attempts <= {MOST_RETRIES})))",
            (
                "(!has(r.match) || r.match.all(m, dyn(m).all(k, k in ['gateways', 'headers']) && (!has(m.headers) || m.headers.all(h, "
                f"h in {json.dumps(MATCHED)} && dyn(m.headers[h]).all(k, k in ['exact', 'prefix'] && "
                f"dyn(m.headers[h])[k].matches({_VALUE}))))))"
            ),
            _only_says("r", json.dumps([DEGRADED_HEADER, RELEASE_HEADER])),
            f"(!has(r.route) || r.route.all(d, (!has(d.weight) || d.weight <= 100) && {_only_says('d', json.dumps([DEGRADED_HEADER, RELEASE_HEADER]))}))))",
        )
    ),
    message=(
        "The VirtualService chooses by an expression, writes headers that Headway does not, or asks again without end. Envoy refuses the routes "
        "of all tenants for one that it cannot read, and then no weight of anybody changes. Match by exact or prefix of Headway's headers, set "
        f"its headers to plain values, and retry {MOST_RETRIES} times at most."
    ),
)
_ROUTES_SAY = AdmissionRule(
    name="routes-of-own-models",
    group=MESH,
    resources=("virtualservices",),
    reason="Forbidden",
    variables=(_NOTES, ("models", f"'{MODELS}' in variables.notes ? variables.notes['{MODELS}'].split(' ') : []")),
    # What exists keeps its name, and is taken back by the guard whatever the namespace says.
    expression=(
        "(request.operation != 'CREATE' || object.metadata.name in variables.models) && "
        "dyn(object.spec).all(k, k in ['gateways', 'hosts', 'http']) && "
        f"(!has(object.spec.gateways) || object.spec.gateways.all(g, g in {json.dumps(['mesh', f'{GATEWAY_NAMESPACE}/{GATEWAY}'])})) && "
        "object.spec.hosts.size() <= 16 && (!has(object.spec.http) || (object.spec.http.size() <= 32 && object.spec.http.all(r, "
        f"dyn(r).all(k, k in {json.dumps(_SAID)}) && (!has(r.route) || r.route.size() <= 8) && (!has(r.match) || r.match.size() <= 16))))"
    ),
    message=(
        "The VirtualService is of no model of this tenant, or says what Headway writes in no route. The guard of releases and the mesh read "
        "every route of every tenant. Name it as the model; say hosts, the platform's gateway and http alone, and no more than its arms need."
    ),
)

_OF_QUEUES = ("activationQueueLength", "awsRegion", "identityOwner", "queueLength", "queueURL", "scaleOnDelayed", "scaleOnInFlight")
"""What a trigger may say of a queue. Not `awsEndpoint` or `queueURLFromEnv`: an address that is said otherwise."""
_OF_AUTOSCALERS = (
    "advanced",
    "cooldownPeriod",
    "fallback",
    "maxReplicaCount",
    "minReplicaCount",
    "pollingInterval",
    "scaleTargetRef",
    "triggers",
)
_OF_SERIES = ("activationThreshold", "ignoreNullValues", "query", "serverAddress", "threshold")


def _autoscalers() -> AdmissionRule:
    said, asked = (f"t.metadata.all(k, k in {json.dumps(words)})" for words in (_OF_QUEUES, _OF_SERIES))
    return AdmissionRule(
        name="autoscalers-ask-the-platform",
        group="keda.sh",
        resources=("scaledobjects",),
        reason="Forbidden",
        variables=(
            _NOTES,
            ("queues", f"'{QUEUES}' in variables.notes ? variables.notes['{QUEUES}'].split(' ') : []"),
        ),
        # A formula (`scalingModifiers`) is computed by KEDA itself, for as long as it takes. KEDA writes it back as an empty object when it adds
        # its finalizer (apis/keda/v1alpha1/scaledobject_types.go: a struct that `omitempty` does not leave out).
        expression=(
            f"dyn(object.spec).all(k, k in {json.dumps(_OF_AUTOSCALERS)}) && "
            "(!has(object.spec.advanced) || "
            "dyn(object.spec.advanced).all(k, k in ['horizontalPodAutoscalerConfig', 'scalingModifiers'])) && "
            "(!has(object.spec.advanced) || !has(object.spec.advanced.scalingModifiers) || "
            "dyn(object.spec.advanced.scalingModifiers).all(k, false)) && "
            "(!has(object.spec.pollingInterval) || object.spec.pollingInterval >= 5) && "
            "dyn(object.spec.scaleTargetRef).all(k, k in ['apiVersion', 'kind', 'name']) && "
            "(!has(object.spec.triggers) || object.spec.triggers.size() <= 8) && "
            "(!has(object.spec.triggers) || object.spec.triggers.all(t, !has(t.authenticationRef) && "
            f"((t.type == 'prometheus' && has(t.metadata.serverAddress) && t.metadata.serverAddress == '{prometheus.SERVICE}' && {asked}) || "
            f"(t.type == 'aws-sqs-queue' && has(t.metadata.queueURL) && t.metadata.queueURL in variables.queues && {said}))))"
        ),
        message=(
            "The ScaledObject has KEDA ask something else than the platform's Prometheus and the queues of this tenant's models, ask without end "
            "or compute. KEDA would carry requests to wherever a tenant says, with its own rights, and has no time for the others. Use signals "
            "of the contract, at most 8 and every 5 s."
        ),
    )
