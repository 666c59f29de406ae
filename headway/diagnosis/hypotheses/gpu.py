"""What a GPU or its node may do to the replica on it."""

from headway.diagnosis.asking import ONE_REPLICA, Measured, OneMoved, Says
from headway.diagnosis.facts import StateKind
from headway.diagnosis.hypothesis import NODES, STATUS, CauseLayer, Hypothesis, Symptom
from headway.diagnosis.node_asking import Stalls

_HOT = OneMoved("hot", by=2.0, least=0.05)
_CAPPED = OneMoved("power_capped", by=2.0, least=0.05)
_CLOCK = OneMoved("clock", by=1.1, falls=True)
_REPLAYS = OneMoved("replays", by=2.0, least=1.0)
_SLOWER = ("one-replica-slow", "model-slower", "model-longer", "prefill-longer", "decode-longer")
"""A lone replica is every replica of its service, so all are slower where its GPU is."""
_DIES = ("nobody-answers", "model-fails", "server-killed", "server-hangs", "load-failure", "model-process-dead", "probe-fails")

ALL = (
    Hypothesis(
        name="driver-unfit",
        layer=CauseLayer.GPU,
        says="the GPU's driver on the node does not fit what the replica's image needs",
        explains=(Symptom.ENDING, Symptom.MISSING, "nobody-answers", "fewer-replicas", "server-ends"),
        predicts=(Says((StateKind.DRIVER_UNFIT,)),),
        runbook="gpu-node-without-gpus",
        commands=(STATUS, NODES, "kubectl get node {node} -L nvidia.com/cuda.driver-version.full,nvidia.com/cuda.runtime-version.full"),
    ),
    Hypothesis(
        name="gpu-xid",
        layer=CauseLayer.GPU,
        says="a GPU reports an Xid after which it serves nothing until it is reset or replaced",
        explains=_DIES,
        predicts=(OneMoved("xid", by=2.0, least=0.5),),
        runbook="gpu-xid",
        commands=(NODES, "headway nodes quarantine {node} -e {environment} --reason GpuXid"),
    ),
    Hypothesis(
        name="gpu-memory-broken",
        layer=CauseLayer.GPU,
        says="a GPU has memory errors that cannot be corrected",
        explains=_DIES,
        predicts=(OneMoved("ecc", by=2.0, least=0.0001),),
        runbook="gpu-memory-broken",
        commands=(NODES, "headway nodes quarantine {node} -e {environment} --reason GpuMemoryBroken"),
    ),
    Hypothesis(
        name="gpu-hot",
        layer=CauseLayer.GPU,
        says="heat slows a GPU down",
        explains=_SLOWER,
        predicts=(_HOT,),
        runbook="gpu-throttled",
        commands=(NODES,),
    ),
    Hypothesis(
        name="gpu-power-capped",
        layer=CauseLayer.GPU,
        says="its power limit slows a GPU down",
        explains=_SLOWER,
        predicts=(_CAPPED,),
        runbook="gpu-throttled",
        commands=(NODES,),
    ),
    Hypothesis(
        name="gpu-clock-low",
        layer=CauseLayer.GPU,
        says="a GPU runs at a lower clock than before",
        explains=("one-replica-slow", "model-slower"),
        predicts=(_CLOCK,),
        runbook="gpu-throttled",
        commands=(NODES,),
    ),
    Hypothesis(
        name="gpu-link-errors",
        layer=CauseLayer.GPU,
        says="packets to a GPU are sent again on PCIe",
        explains=("one-replica-slow", "input-longer", "output-longer"),
        predicts=(_REPLAYS,),
        commands=(NODES,),
    ),
    Hypothesis(
        name="gpu-slow-and-silent",
        layer=CauseLayer.GPU,
        says="a GPU is slower than its siblings, and none of its counters says why",
        explains=("one-replica-slow",),
        predicts=(
            ONE_REPLICA,
            Measured(("clock", "hot", "power_capped", "replays")),
        ),
        excludes=(
            _HOT,
            _CAPPED,
            _CLOCK,
            _REPLAYS,
            OneMoved("throttled_by_pod", by=2.0, least=0.05),
            *(Stalls(f"{each}_stall_by_pod") for each in ("cpu", "memory", "disk")),
        ),
        runbook="gpu-slow-and-silent",
        commands=(NODES, 'headway nodes quarantine {node} -e {environment} --reason "slower than its siblings"'),
    ),
)
