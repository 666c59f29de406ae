"""What a change of the contract, or of what the platform makes of it, may do: each by the fields that it wrote, and only where these explain
the harm. What runs is changed by a release, whose fields the ledger holds; the rest in place, as a commit of the checkout or the objects tell.
"""

from headway.diagnosis.asking import Fell, OldToo
from headway.diagnosis.asking_changes import Way, Wrote
from headway.diagnosis.facts import ENDS, ChangeKind
from headway.diagnosis.hypothesis import RELEASE, CauseLayer, Hypothesis

_OLD_TOO = OldToo(("queue_by_pod", "compute_by_pod", "prefill_by_pod", "decode_by_pod", "throttled_by_pod"), ENDS)
_DIFF = "headway diff {contract}"
_BACK = 'headway release rollback {chain} -e {environment} --reason "{symptom}"'


def _released(name: str, says: str, explains: tuple[str, ...], *fields: tuple[str, Way]) -> Hypothesis:
    """By a release, whose contract differs so from the one before."""
    return Hypothesis(
        name=name,
        layer=CauseLayer.RELEASE,
        says=says,
        explains=explains,
        predicts=(Wrote(fields),),
        excludes=(_OLD_TOO,),
        runbook="release-rolled-back",
        commands=(RELEASE, _BACK),
    )


def _in_place(
    name: str, says: str, explains: tuple[str, ...], *fields: tuple[str, Way], kind: ChangeKind = ChangeKind.CONTRACT
) -> Hypothesis:
    """By an update of a stack, within the hour after its commit."""
    where = "tenants/{tenant}" if kind is ChangeKind.CONTRACT else "stacks"
    return Hypothesis(
        name=name,
        layer=CauseLayer.DEPLOYMENT,
        says=says,
        explains=explains,
        predicts=(Wrote(fields, kinds=(kind,), before=3600.0),),
        commands=(f"git log -p -2 -- {where}",),
    )


ALL = (
    _released(
        "concurrency-lowered",
        "a release lets each replica compute less at once than before",
        ("too-few-instances", "too-few-sequences"),
        ("runtime.models.*.instances", Way.DOWN),
        ("batching.max_sequences", Way.DOWN),
    ),
    _released(
        "batching-raised",
        "a release lets requests wait longer to be computed together, or more of them",
        ("batch-larger",),
        ("batching.max_delay", Way.UP),
        ("batching.preferred", Way.ANY),
        ("runtime.models.*.max_batch", Way.UP),
    ),
    _released("cpu-lowered", "a release gives each replica fewer cores than before", ("cpu-quota-used-up",), ("envelope.cpu", Way.DOWN)),
    _released("memory-lowered", "a release gives each replica less memory than before", ("out-of-memory",), ("envelope.memory", Way.DOWN)),
    _released(
        "cache-lowered",
        "a release leaves each sequence less of the KV cache than before",
        ("cache-full",),
        ("envelope.gpu.memory", Way.DOWN),
        ("envelope.gpu.count", Way.DOWN),
        ("batching.max_sequences", Way.UP),
        ("optimisation.kv_cache", Way.ANY),
    ),
    _released(
        "prefix-caching-off",
        "a release changed how prompts are cached",
        ("prefix-cache-cold",),
        ("optimisation.prefix_caching", Way.ANY),
        ("routing*", Way.ANY),
    ),
    _released(
        "probes-stricter",
        "a release changed how replicas are probed",
        ("server-hangs", "probe-fails"),
        ("health.liveness.*", Way.ANY),
        ("health.startup_budget", Way.DOWN),
        ("health.golden*", Way.ANY),
        ("health.warmup*", Way.ANY),
    ),
    Hypothesis(
        name="maximum-lowered",
        layer=CauseLayer.DEPLOYMENT,
        says="the autoscaler may make fewer replicas than before",
        explains=("fewer-replicas", "at-maximum-replicas"),
        predicts=(Fell("maximum", by=1.01, least=0.5),),
        runbook="at-maximum-replicas",
        commands=(_DIFF,),
    ),
    _in_place(
        "limit-lowered",
        "the tenant's contract lets fewer requests through than before",
        ("over-the-rate",),
        ("quota.requests", Way.DOWN),
        ("quota.tokens", Way.DOWN),
    ),
    _in_place(
        "issuers-changed",
        "the tenant's contract trusts other issuers than before",
        ("invalid-tokens", "callers-not-allowed"),
        ("issuers*", Way.ANY),
    ),
    _in_place(
        "agreed-quota-lowered",
        "the tenant's contract allows it less than before",
        ("quota-full",),
        *((f"quota.{each}", Way.DOWN) for each in ("gpus.*", "mig.*", "shared", "gpu_memory", "cpu", "memory")),
    ),
    _in_place(
        "pool-lowered",
        "the environment allows a pool fewer nodes than before",
        ("pool-without-nodes", "gpus-taken", "unplaced"),
        ("config.headway:pools.*.size.*", Way.DOWN),
        kind=ChangeKind.PLATFORM,
    ),
    _in_place(
        "gateway-lowered",
        "the environment allows the gateway fewer replicas than before",
        ("way-longer",),
        ("config.headway:gateway.replicas_*", Way.DOWN),
        kind=ChangeKind.PLATFORM,
    ),
)
