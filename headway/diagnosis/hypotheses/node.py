"""What the node under a replica may do to it: too few processors, too little memory, a slow or full disk, a network that loses packets; by
itself or because another pod on it takes what the replica needs."""

from headway.diagnosis.asking import Above, AnyOf, OneMoved, Says
from headway.diagnosis.facts import StateKind
from headway.diagnosis.hypothesis import NODES, STATUS, CauseLayer, Hypothesis, Symptom
from headway.diagnosis.node_asking import OneAt, OneTakesMore, Stalls

_LONGER = (
    "model-longer",
    "queue-longer",
    "input-longer",
    "output-longer",
    "prefill-longer",
    "decode-longer",
    "proxy-longer",
    "one-replica-slow",
)
_ENDS = (Symptom.ENDING, Symptom.MISSING, "nobody-answers", "fewer-replicas")
_LOSES = AnyOf((OneMoved("resent", by=2.0, least=0.01), OneMoved("packets_lost", by=2.0, least=10.0)))
_WHO = "kubectl get pods -A -o wide --field-selector spec.nodeName={node}"

ALL = (
    Hypothesis(
        name="neighbour-takes-processors",
        layer=CauseLayer.NODE,
        says="another pod on the node takes its processors",
        explains=("node-busy",),
        predicts=(OneTakesMore("neighbours_cores", least=0.5),),
        runbook="node-under-pressure",
        commands=(_WHO, NODES),
    ),
    Hypothesis(
        name="neighbour-takes-memory",
        layer=CauseLayer.NODE,
        says="another pod on the node takes its memory",
        explains=("node-memory-short", "evicted"),
        predicts=(OneTakesMore("neighbours_memory", least=256 * 2**20), OneAt("node_memory_left", 0.1, falls=True)),
        runbook="node-under-pressure",
        commands=(_WHO, NODES),
    ),
    Hypothesis(
        name="node-busy",
        layer=CauseLayer.NODE,
        says="the processors of the node are busy with others, and the server waits for them",
        explains=_LONGER,
        predicts=(Stalls("cpu_stall_by_pod"), OneAt("node_busy", 0.9), OneMoved("others_cores", by=1.1, least=0.5)),
        excludes=(Above("throttled", 0.1),),
        runbook="node-under-pressure",
        commands=(_WHO, NODES),
    ),
    Hypothesis(
        name="node-memory-short",
        layer=CauseLayer.NODE,
        says="the node has hardly any memory left, and the server waits until some is freed",
        explains=_LONGER,
        predicts=(Stalls("memory_stall_by_pod"), OneAt("node_memory_left", 0.1, falls=True)),
        runbook="node-under-pressure",
        commands=(_WHO, NODES),
    ),
    Hypothesis(
        name="memory-near-limit",
        layer=CauseLayer.MODEL_SERVER,
        says="the server uses nearly as much memory as it may, and waits until some is freed",
        explains=_LONGER,
        predicts=(Stalls("memory_stall_by_pod"), OneAt("memory_by_pod", 0.9)),
        runbook="model-server-out-of-memory",
        commands=(STATUS, "headway check --explain"),
    ),
    Hypothesis(
        name="node-disk-slow",
        layer=CauseLayer.NODE,
        says="a disk of the node is slow, and the server waits for it",
        explains=_LONGER,
        predicts=(Stalls("disk_stall_by_pod"), AnyOf((OneMoved("disk_wait", by=2.0, least=0.005), OneAt("disk_busy", 0.9)))),
        runbook="node-under-pressure",
        commands=(_WHO, NODES),
    ),
    Hypothesis(
        name="node-network-loses",
        layer=CauseLayer.NODE,
        says="a node on the way loses packets, which are sent again",
        explains=("way-longer", "late-requests", "nobody-answers"),
        predicts=(_LOSES,),
        runbook="requests-unanswered",
        commands=(NODES,),
    ),
    Hypothesis(
        name="node-disk-full",
        layer=CauseLayer.NODE,
        says="the disk of a node has no room for the replica's image or files",
        explains=_ENDS,
        predicts=(Says((StateKind.DISK_FULL,)),),
        runbook="node-disk-filling",
        commands=(STATUS, NODES),
    ),
    Hypothesis(
        name="evicted",
        layer=CauseLayer.NODE,
        says="the kubelet ended a replica because its node was short of memory, disk or processes",
        explains=_ENDS,
        predicts=(Says((StateKind.EVICTED,)),),
        runbook="pods-evicted",
        commands=(STATUS, NODES),
    ),
    Hypothesis(
        name="own-storage-full",
        layer=CauseLayer.MODEL_SERVER,
        says="the kubelet ended a replica because it wrote more to its disk than its contract allows",
        explains=_ENDS,
        predicts=(Says((StateKind.STORAGE_EXCEEDED,)),),
        runbook="pods-evicted",
        commands=(STATUS, "headway check --explain"),
    ),
)
