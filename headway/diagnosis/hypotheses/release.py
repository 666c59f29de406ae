"""What a release, or a change that somebody made, may do."""

from headway.diagnosis.asking import OldToo, Says, WasChanged
from headway.diagnosis.asking_changes import OfTheCandidate
from headway.diagnosis.facts import ENDS, ChangeKind, StateKind
from headway.diagnosis.hypothesis import RELEASE, RESTORE, CauseLayer, Hypothesis, Symptom

ALL = (
    Hypothesis(
        name="new-version",
        layer=CauseLayer.RELEASE,
        says="it began with a new version",
        explains=(
            "model-slower",
            "one-replica-slow",
            "model-fails",
            "batch-larger",
            "out-of-memory",
            "server-hangs",
            "server-killed",
            "load-failure",
            "model-process-dead",
            "malformed-requests",
            "cache-full",
        ),
        predicts=(WasChanged((ChangeKind.RELEASE,), wrote=("artifact", "envelope.gpu", "optimisation", "runtime")),),
        excludes=(
            OldToo(("compute_by_pod", "prefill_by_pod", "decode_by_pod", "queue_by_pod", "failures_by_pod", "malformed_by_pod"), ENDS),
        ),
        runbook="release-rolled-back",
        commands=(
            RELEASE,
            'headway release rollback {chain} -e {environment} --reason "{symptom}"',
        ),
    ),
    Hypothesis(
        name="candidate-unfit",
        layer=CauseLayer.RELEASE,
        says="the version that is being released does not run as it should",
        explains=("load-failure", "model-process-dead", "out-of-memory", "server-hangs", "server-killed", "probe-fails"),
        predicts=(OfTheCandidate((*ENDS, StateKind.PROBE_FAILING, StateKind.HANGING)),),
        runbook="release-rolled-back",
        commands=(RELEASE, 'headway release rollback {chain} -e {environment} --reason "{symptom}"'),
    ),
    Hypothesis(
        name="written-by-hand",
        layer=CauseLayer.DEPLOYMENT,
        says="somebody wrote the Deployment by hand",
        explains=("image-missing", "model-slower", "batch-larger", "out-of-memory", "cpu-quota-used-up", "fewer-replicas"),
        predicts=(WasChanged((ChangeKind.DEPLOYMENT,), wrote=("spec",)),),
        commands=("kubectl -n {tenant} get deployments --show-managed-fields -o yaml", RESTORE),
    ),
    Hypothesis(
        name="written-in-place",
        layer=CauseLayer.DEPLOYMENT,
        says="an update of the platform changed what replicas of a release run",
        explains=(
            "image-missing",
            "model-slower",
            "batch-larger",
            "out-of-memory",
            "cpu-quota-used-up",
            "load-failure",
            "probe-fails",
            "server-hangs",
        ),
        predicts=(WasChanged((ChangeKind.PLATFORM,), before=1800.0, wrote=("spec",)),),  # replicas are replaced one after the other
        commands=("kubectl -n {tenant} get replicasets -o yaml", "git log -5 -- components stacks"),
    ),
    Hypothesis(
        name="quota-lowered",
        layer=CauseLayer.DEPLOYMENT,
        says="somebody wrote the tenant's quota by hand",
        explains=("quota-full",),
        predicts=(WasChanged((ChangeKind.QUOTA,), before=3600.0),),
        commands=(RESTORE,),
    ),
    Hypothesis(
        name="cordoned-by-hand",
        layer=CauseLayer.SCHEDULER,
        says="somebody cordoned the nodes",
        explains=("nodes-cordoned",),
        predicts=(WasChanged((ChangeKind.NODE,), before=3600.0),),
        commands=("kubectl uncordon NODE",),
    ),
    Hypothesis(
        name="tainted-by-hand",
        layer=CauseLayer.SCHEDULER,
        says="somebody tainted the nodes by hand",
        explains=("nodes-tainted",),
        predicts=(WasChanged((ChangeKind.TAINT,), before=3600.0),),
        commands=("kubectl taint nodes NODE KEY-",),
    ),
    Hypothesis(
        name="release-held",
        layer=CauseLayer.RELEASE,
        says="a release waits for a person",
        explains=(Symptom.HELD,),
        predicts=(Says((StateKind.HELD,)),),
        runbook="release-stuck",
        commands=(RELEASE, "headway release resume {chain} -e {environment}"),
    ),
)
