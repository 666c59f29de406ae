"""What the way from callers to a replica may do: the gateway's proxies and their limiter, the route, certificates, a replica's own proxy."""

from headway.diagnosis.asking import Above, AddsMore, AnyOf, AtMost, Fell, PartOf, Rest, Rose, Says, WasChanged
from headway.diagnosis.facts import ChangeKind, StateKind
from headway.diagnosis.hypothesis import RESTORE, STATUS, CauseLayer, Hypothesis, Symptom
from headway.wire import GATEWAY_NAMESPACE, MESH_NAMESPACE, RATE_LIMIT_NAMESPACE

_ROUTES = "kubectl -n {tenant} get virtualservices --show-managed-fields -o yaml"
_PROXIES = f"kubectl -n {GATEWAY_NAMESPACE} get pods,hpa -o wide"

SHARED = frozenset(
    {
        "certificate-invalid",
        "gateway-full",
        "gateway-throttled",
        "limiter-away",
        "limiter-slow",
        "mesh-authority-over",
        "noisy-neighbour",
    }
)
"""Causes at what every service's requests pass: whatever they hurt, one thing is broken."""

ALL = (
    Hypothesis(
        name="way-longer",
        layer=CauseLayer.GATEWAY,
        says="the way between the gateway and the replicas takes longer",
        explains=(Symptom.SLOW,),
        predicts=(Rest("latency", "at_replica", "the way from the gateway to the replicas"),),
        commands=(STATUS,),
    ),
    Hypothesis(
        name="proxy-longer",
        layer=CauseLayer.GATEWAY,
        says="the replicas' own proxies take longer",
        explains=(Symptom.SLOW,),
        predicts=(Rest("at_replica", "served", "between a replica's proxy and its server"),),
    ),
    Hypothesis(
        name="replicas-full",
        layer=CauseLayer.GATEWAY,
        says="each replica has as many requests open as its proxy lets through, and the rest are turned away",
        explains=(Symptom.FAILING, Symptom.REFUSED),
        predicts=(Above("overflow", 0.005),),
        runbook="at-maximum-replicas",
        commands=(STATUS,),
    ),
    Hypothesis(
        name="pool-full",
        layer=CauseLayer.GATEWAY,
        says="as many requests wait for a connection as the gateway lets wait, and the rest are turned away",
        explains=(Symptom.FAILING,),
        predicts=(Above("pool_overflow", 0.005),),
        # Else it is what was not asked again, of replicas that take no connection.
        excludes=(Above("refused_there", 0.005), Above("unreached", 0.005)),
        runbook="requests-unanswered",
        commands=(STATUS,),
    ),
    Hypothesis(
        name="gateway-repeats",
        layer=CauseLayer.GATEWAY,
        says="the gateway asks again for what no replica has seen",
        explains=("queue-longer", "model-longer", "replicas-full"),
        predicts=(Rose("attempts", by=1.05),),
        root=False,
    ),
    Hypothesis(
        name="limiter-slow",
        layer=CauseLayer.GATEWAY,
        says="each request waits longer for the rate limiter",
        explains=("way-longer",),
        predicts=(PartOf("limiter", "latency"),),
        runbook="limiter-away",
        commands=(f"kubectl -n {RATE_LIMIT_NAMESPACE} get pods -o wide",),
    ),
    Hypothesis(
        name="limiter-away",
        layer=CauseLayer.GATEWAY,
        says="the rate limiter is away, and what it refused reaches the replicas",
        explains=("queue-longer", "model-longer", "late-requests", "replicas-full", "pool-full", Symptom.BROKEN),
        predicts=(Fell("limiter_ready", by=2.0, least=0.9), Fell("limited", least=0.01)),
        runbook="limiter-away",
        commands=(f"kubectl -n {RATE_LIMIT_NAMESPACE} get pods -o wide",),
    ),
    Hypothesis(
        name="gateway-throttled",
        layer=CauseLayer.GATEWAY,
        says="the gateway's proxies use up their CPU quota",
        explains=("way-longer",),
        predicts=(Above("gateway_throttled", 0.1),),
        runbook="slo-burn-rate",
        commands=(_PROXIES,),
    ),
    Hypothesis(
        name="gateway-full",
        layer=CauseLayer.GATEWAY,
        says="the gateway's proxies are full, and take no more connections or requests",
        explains=(Symptom.REFUSED,),
        predicts=(AnyOf((Above("gateway_overloaded", 0.05), Above("gateway_closed", 0.1))),),
        runbook="requests-unanswered",
        commands=(_PROXIES,),
    ),
    Hypothesis(
        name="noisy-neighbour",
        layer=CauseLayer.GATEWAY,
        says="other tenants ask far more of the gateway, which all share",
        explains=("gateway-throttled", "gateway-full", "limiter-slow"),
        predicts=(AddsMore("neighbours", "requests"),),
        runbook="tenant-rate-limited",
        commands=(_PROXIES,),
    ),
    Hypothesis(
        name="route-astray",
        layer=CauseLayer.GATEWAY,
        says="the route in the cluster is not the one that the ledger says",
        explains=(Symptom.ASTRAY,),
        predicts=(Says((StateKind.ROUTE_ASTRAY,)),),
        runbook="requests-unanswered",
        commands=(_ROUTES, RESTORE),
    ),
    Hypothesis(
        name="route-written-by-hand",
        layer=CauseLayer.GATEWAY,
        says="somebody wrote the route by hand",
        explains=("route-astray",),
        predicts=(WasChanged((ChangeKind.ROUTE,)),),
        runbook="requests-unanswered",
        commands=(_ROUTES, RESTORE),
    ),
    Hypothesis(
        name="certificate-invalid",
        layer=CauseLayer.GATEWAY,
        says="the gateway's certificate is not valid",
        explains=(Symptom.UNTRUSTED,),
        predicts=(Says((StateKind.CERTIFICATE_INVALID,)),),
        runbook="requests-unanswered",
        commands=(f"kubectl -n {GATEWAY_NAMESPACE} describe certificates,certificaterequests",),
    ),
    Hypothesis(
        name="mesh-authority-over",
        layer=CauseLayer.GATEWAY,
        says="the mesh's own authority is no longer valid, so that proxies do not trust each other",
        explains=("nobody-answers",),
        predicts=(AtMost("mesh_authority_left", 0.0),),
        runbook="requests-unanswered",
        commands=(f"kubectl -n {MESH_NAMESPACE} logs deployment/istiod --since 1h",),
    ),
)
