"""Why a replica that is wanted is not there: quota, image, artifacts, nodes, GPUs."""

from headway.diagnosis.asking import Above, Fell, Reached, Rose, Says
from headway.diagnosis.facts import StateKind
from headway.diagnosis.hypothesis import NODES, STATUS, CauseLayer, Hypothesis, Symptom
from headway.diagnosis.node_asking import GroupsOfPool


def _missing(
    name: str,
    layer: CauseLayer,
    says: str,
    kinds: StateKind | tuple[StateKind, ...],
    runbook: str,
    *commands: str,
    explains: tuple[str, ...] = (),
) -> Hypothesis:
    return Hypothesis(
        name=name,
        layer=layer,
        says=says,
        explains=(Symptom.MISSING, "fewer-replicas", "nobody-answers", *explains),
        predicts=(Says(kinds if isinstance(kinds, tuple) else (kinds,)),),
        runbook=runbook,
        commands=(STATUS, *commands),
    )


_NEED_A_NODE = ("gpus-taken", "gpus-scattered", "node-unfit", "pool-without-nodes")
_WAIT_FOR_A_NODE = (StateKind.GPUS_TAKEN, StateKind.GPUS_SCATTERED, StateKind.NODE_UNFIT, StateKind.POOL_EMPTY)

ALL = (
    _missing(
        "quota-full", CauseLayer.DEPLOYMENT, "the tenant's quota has no room for the replica", StateKind.QUOTA_FULL, "replicas-missing"
    ),
    _missing(
        "image-missing",
        CauseLayer.DEPLOYMENT,
        "the replica's image cannot be pulled",
        StateKind.IMAGE_MISSING,
        "replicas-missing",
        "kubectl -n {tenant} get events",
    ),
    _missing(
        "artifacts-missing",
        CauseLayer.DEPLOYMENT,
        "the replica cannot fetch its model's files",
        StateKind.ARTIFACTS_MISSING,
        "replicas-missing",
        "headway logs {chain} -e {environment} --container fetch",
    ),
    _missing("gpus-taken", CauseLayer.SCHEDULER, "every GPU of the pool is in use", StateKind.GPUS_TAKEN, "pods-unschedulable", NODES),
    _missing("nodes-cordoned", CauseLayer.SCHEDULER, "the pool's nodes are cordoned", StateKind.CORDONED, "pods-unschedulable", NODES),
    _missing(
        "node-in-quarantine",
        CauseLayer.NODE,
        "node health set a node apart",
        (StateKind.NODE_SET_APART, StateKind.QUARANTINED),
        "node-in-quarantine",
        NODES,
        explains=(Symptom.SET_APART,),
    ),
    _missing(
        "node-not-ready",
        CauseLayer.NODE,
        "a node is not ready",
        (StateKind.NODE_NOT_READY, StateKind.NODE_UNREADY),
        "node-not-ready",
        NODES,
        explains=(Symptom.SET_APART,),
    ),
    _missing("node-uncut", CauseLayer.NODE, "the pool's nodes are still to be cut by MIG", StateKind.UNCUT, "mig-layout-late", NODES),
    _missing("pool-without-nodes", CauseLayer.SCHEDULER, "the pool has no node", StateKind.POOL_EMPTY, "nodes-not-added", NODES),
    _missing(
        "gpus-scattered",
        CauseLayer.SCHEDULER,
        "enough GPUs of the pool are free, but not together on one node or in the shape that the replica asks for",
        StateKind.GPUS_SCATTERED,
        "pods-unschedulable",
        NODES,
    ),
    _missing(
        "nodes-tainted",
        CauseLayer.SCHEDULER,
        "a taint keeps the replica off the pool's nodes",
        StateKind.TAINTED,
        "pods-unschedulable",
        NODES,
    ),
    _missing(
        "node-unfit",
        CauseLayer.SCHEDULER,
        "nodes with a free GPU lack the processors, memory or disk that the replica asks for",
        StateKind.NODE_UNFIT,
        "pods-unschedulable",
        NODES,
    ),
    _missing(
        "node-pressure",
        CauseLayer.NODE,
        "the pool's nodes are short of memory, disk or processes, and take no pods",
        StateKind.NODE_PRESSURE,
        "node-under-pressure",
        NODES,
    ),
    _missing("unplaced", CauseLayer.SCHEDULER, "no node takes the replica", StateKind.UNPLACED, "pods-unschedulable", NODES),
    Hypothesis(
        name="pool-at-maximum",
        layer=CauseLayer.SCHEDULER,
        says="the pool has as many nodes as it may have",
        explains=_NEED_A_NODE,
        predicts=(GroupsOfPool("group_full", 0.999, _WAIT_FOR_A_NODE),),
        runbook="nodes-not-added",
        commands=(NODES, STATUS),
    ),
    Hypothesis(
        name="nodes-not-added",
        layer=CauseLayer.SCHEDULER,
        says="the autoscaler asked for a node of the pool and AWS gave it none",
        explains=_NEED_A_NODE,
        predicts=(GroupsOfPool("group_failing", 0.5, _WAIT_FOR_A_NODE, some=True),),
        runbook="nodes-not-added",
        commands=("kubectl -n cluster-autoscaler get configmap cluster-autoscaler-status -o yaml", NODES),
    ),
    Hypothesis(
        name="node-on-its-way",
        layer=CauseLayer.SCHEDULER,
        says="a node was ordered for the replica and is not there yet",
        explains=_NEED_A_NODE,
        predicts=(Says((StateKind.NODE_ORDERED,)),),
        runbook="nodes-not-added",
        commands=(NODES, STATUS),
    ),
    Hypothesis(
        name="fewer-replicas",
        layer=CauseLayer.DEPLOYMENT,
        says="fewer replicas answer than before",
        # Each computes larger batches, or more sequences.
        explains=("queue-longer", "model-longer", "prefill-longer", "decode-longer", "late-requests", "replicas-full", "pool-full"),
        predicts=(Fell("replicas", by=1.1, least=0.5),),
        root=False,
    ),
    Hypothesis(
        name="scaler-failing",
        layer=CauseLayer.DEPLOYMENT,
        says="the autoscaler cannot read what it scales by, so replicas do not follow the load",
        explains=("more-requests",),
        predicts=(Above("scaler_errors", 0.001),),
        runbook="scaler-failing",
        commands=("kubectl -n {tenant} describe scaledobjects",),
    ),
    Hypothesis(
        name="at-maximum-replicas",
        layer=CauseLayer.DEPLOYMENT,
        says="the load needs more replicas than the contract allows",
        explains=("more-requests",),
        predicts=(Reached("of_maximum", 0.999), Rose("requests", by=1.2)),
        runbook="at-maximum-replicas",
        commands=(STATUS, "headway diff {contract}"),
    ),
)
