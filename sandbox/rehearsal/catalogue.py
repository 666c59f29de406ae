"""What can be rehearsed, in words: light to read, because help shows it."""

from dataclasses import dataclass

from headway.wire import BURN_ALERT


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One fault of the demonstration's bed. `breaks` is what help says; `truth` is told afterwards."""

    name: str
    breaks: str
    alert: str | None
    """The alert that should tell of it; None where nobody is told."""
    truth: str
    shown_by: tuple[str, ...]
    """Commands that show the cause."""
    cause: str
    """What `headway diagnose` is to call it; empty where it can only say that it sees nothing."""
    service: str = "quality/classifier"
    """Of which it is asked."""


_STATUS = "headway status quality/classifier -e sandbox"
_LOGS = "headway logs quality/classifier -e sandbox --since 10m"

# In the order of a test: a server that has ended is started again later each time, so faults that end it come late.
FAULTS = {
    each.name: each
    for each in (
        Fault(
            name="errors",
            breaks="one answer in five fails",
            alert=BURN_ALERT,
            truth="The version that serves failed one batch in five. No release was under way, so nothing could be rolled back to.",
            shown_by=(_STATUS, _LOGS),
            cause="model-fails",
        ),
        Fault(
            name="slow",
            breaks="every answer takes six times as long",
            alert=BURN_ALERT,
            truth="The version that serves took six times as long for each batch as it had; nothing failed. The objective of latency burnt,"
            " that of availability did not.",
            shown_by=(_STATUS,),
            cause="model-slower",
        ),
        Fault(
            name="store",
            breaks="the artifact store does not answer while a replica starts",
            alert="ReplicasMissing",
            truth="A second replica was asked for while the artifact store was away, so its init container could fetch nothing. The replica"
            " that ran went on serving.",
            shown_by=(_STATUS, "headway logs quality/classifier -e sandbox --container fetch"),
            cause="artifacts-missing",
        ),
        Fault(
            name="quota",
            breaks="the tenant's quota has no room for another replica",
            alert="ReplicasMissing",
            truth="Somebody had lowered the tenant's quota of pods to what ran, and the second replica that was asked for was refused.",
            shown_by=(_STATUS,),
            cause="quota-lowered",
        ),
        Fault(
            name="unschedulable",
            breaks="no node takes the replica that is wanted",
            alert="PodsUnschedulable",
            truth="Somebody had cordoned every node of the pool, and a second replica that was asked for found none.",
            shown_by=(_STATUS, "headway nodes"),
            cause="cordoned-by-hand",
        ),
        Fault(
            name="taint",
            breaks="a taint keeps the replica that is wanted off every node",
            alert="PodsUnschedulable",
            truth="Somebody had tainted every node of the pool for maintenance, and a second replica that was asked for, which does not"
            " tolerate that, found none.",
            shown_by=(_STATUS, "headway nodes"),
            cause="tainted-by-hand",
        ),
        Fault(
            name="gpus",
            breaks="every GPU of the pool is taken while a replica is wanted",
            alert="PodsUnschedulable",
            truth="Somebody's load test, in the namespace default and under no contract, held every GPU of the pool that was free, with the"
            " platform's priority. A second replica of search that was asked for found none.",
            shown_by=("headway status search/encoder -e sandbox", "kubectl -n default get pods -o wide"),
            cause="gpus-taken",
            service="search/encoder",
        ),
        Fault(
            name="image",
            breaks="the image of a replica cannot be pulled",
            alert="ReplicasMissing",
            truth="Somebody had written another image into the Deployment by hand, by a digest that no registry has, and asked for a second"
            " replica. It waited for the image; the one that ran went on serving.",
            shown_by=(_STATUS, "kubectl -n quality get events"),
            cause="written-by-hand",
        ),
        Fault(
            name="stuck",
            breaks="a release does not go on",
            alert="ReleaseStuck",
            truth="Somebody had released a new version, held it at its first share of users' requests, and left. Nobody was there to resume it.",
            shown_by=(_STATUS, "headway release status quality/classifier -e sandbox"),
            cause="release-held",
        ),
        Fault(
            name="gpu-hot",
            breaks="a GPU is too hot and slows down",
            alert=BURN_ALERT,
            truth="The GPU of the model was held down by heat for 60 % of the time, and each batch took six times as long. GpuThrottled told of"
            " it, too.",
            shown_by=("headway sandbox dashboards gpu", _STATUS),
            cause="gpu-hot",
        ),
        Fault(
            name="quarantine",
            breaks="a GPU reports a fault that cannot be passed over",
            alert="NodeInQuarantine",
            truth="The node of the model reported Xid 79. The loop of node health set it apart, and the model moved to another node.",
            shown_by=("headway nodes", _STATUS),
            cause="node-in-quarantine",
        ),
        Fault(
            name="rates",
            breaks="a tenant's users ask far more than it has agreed",
            alert="TenantRateLimited",
            truth="Users of search asked 80 times a second; its contract says 40. The gateway refused the rest, and quality did not notice.",
            shown_by=("headway status search/encoder -e sandbox",),
            cause="more-requests",
            service="search/encoder",
        ),
        Fault(
            name="token",
            breaks="users come with tokens that have expired",
            alert="CallersRefused",
            truth="Every token had expired. The gateway answered 401, which no objective counts, and callers read `Jwt is expired`.",
            shown_by=(),
            cause="invalid-tokens",
        ),
        Fault(
            name="leak",
            breaks="the model keeps memory of each request until it is killed",
            alert="ModelServerOutOfMemory",
            truth="Each request kept four megabytes, and the kernel killed the server at its memory limit.",
            shown_by=(_STATUS, "headway sandbox dashboards node"),
            cause="out-of-memory",
        ),
        Fault(
            name="crash",
            breaks="the model server is killed again and again",
            alert="ModelServerRestarts",
            truth="Somebody killed Triton, three times at most; Kubernetes restarted it each time, and waited longer before each.",
            shown_by=(_STATUS, "kubectl -n quality get events"),
            cause="server-killed",
        ),
        Fault(
            name="unloadable",
            breaks="the model server ends, and cannot load its model again",
            alert="RequestsUnanswered",
            truth="A file that the model reads when it is loaded was empty. Triton ended for want of its only model, again and again.",
            shown_by=(_STATUS, _LOGS),
            cause="load-failure",
        ),
        Fault(
            name="hang",
            breaks="the model answers nothing; its server says it is ready",
            alert="RequestsUnanswered",
            truth="The model's process lived and answered nothing, so the liveness probe had the server restarted again and again.",
            shown_by=(_STATUS, _LOGS),
            cause="server-hangs",
        ),
        Fault(
            name="prometheus",
            breaks="Prometheus is gone",
            alert=None,
            truth="Prometheus was killed. Nothing that it watches can tell anybody; the Watchdog's silence tells whoever waits for it outside,"
            " and a release would hold. Users noticed nothing.",
            shown_by=("headway status -e sandbox", "headway sandbox status"),
            cause="",
        ),
    )
}
