"""What a GPU or its node may do to the replica on it."""

from headway.diagnosis.asking import AnyOf, Measured, OneMoved, OneOfThem
from headway.diagnosis.hypothesis import CauseLayer, Hypothesis

_NODES = "headway nodes -e {environment}"

ALL = (
    Hypothesis(
        name="gpu-hot",
        layer=CauseLayer.GPU,
        says="heat slows a GPU down",
        explains=("one-replica-slow", "model-longer", "prefill-longer", "decode-longer"),
        predicts=(OneMoved("hot", by=2.0, least=0.05),),
        runbook="gpu-throttled",
        commands=(_NODES,),
    ),
    Hypothesis(
        name="gpu-power-capped",
        layer=CauseLayer.GPU,
        says="its power limit slows a GPU down",
        explains=("one-replica-slow", "model-longer", "prefill-longer", "decode-longer"),
        predicts=(OneMoved("power_capped", by=2.0, least=0.05),),
        runbook="gpu-throttled",
        commands=(_NODES,),
    ),
    Hypothesis(
        name="gpu-clock-low",
        layer=CauseLayer.GPU,
        says="a GPU runs at a lower clock than before",
        explains=("one-replica-slow",),
        predicts=(OneMoved("clock", by=1.1, falls=True),),
        runbook="gpu-throttled",
        commands=(_NODES,),
    ),
    Hypothesis(
        name="gpu-link-errors",
        layer=CauseLayer.GPU,
        says="packets to a GPU are sent again on PCIe",
        explains=("one-replica-slow", "input-longer", "output-longer"),
        predicts=(OneMoved("replays", by=2.0, least=1.0),),
        commands=(_NODES,),
    ),
    Hypothesis(
        name="gpu-slow-and-silent",
        layer=CauseLayer.GPU,
        says="a GPU is slower than its siblings, and none of its counters says why",
        explains=("one-replica-slow",),
        predicts=(
            AnyOf((OneOfThem("compute_by_pod"), OneOfThem("prefill_by_pod"), OneOfThem("decode_by_pod"))),
            Measured(("clock", "hot", "power_capped", "replays")),
        ),
        excludes=(
            OneMoved("hot", by=2.0, least=0.05),
            OneMoved("power_capped", by=2.0, least=0.05),
            OneMoved("clock", by=1.1, falls=True),
            OneMoved("replays", by=2.0, least=1.0),
            OneMoved("throttled_by_pod", by=2.0, least=0.05),
        ),
        commands=(_NODES, 'headway nodes quarantine {node} -e {environment} --reason "slower than its siblings"'),
    ),
)
