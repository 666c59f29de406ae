"""Faults of nodes, of who shares them, of the scheduler and the autoscaler, and of the watchers; and what looks like one and is none."""

from collections.abc import Iterator

from benchmarks.diagnosis.played import ONSET, says
from benchmarks.diagnosis.played_service import Incident, Play
from benchmarks.diagnosis.server_incidents import One
from headway.diagnosis.facts import Change, ChangeKind, State, StateKind

OWN = ("tainted-by-hand",)
"""Faults that are changes themselves."""
_BUSY = {"node_busy": {"node-1": 0.98}, "others_cores": {"node-1": 13.0}}
_NO_MEMORY = {"node_memory_left": {"node-1": 0.03}}
_LOAD_TEST = {"neighbours_cores": {"default/load-test": 11.0}, "neighbours_memory": {"default/load-test": 6e10}}


def _of_pool(kind: StateKind) -> State:
    return says(kind, pool="l4")


def faults(calm: Play, one: One) -> Iterator[Incident]:
    yield one("node-busy", stalled={"cpu": {1: 0.65}}, around=_BUSY)
    yield one("neighbour-takes-processors", stalled={"cpu": {1: 0.65}}, around={**_BUSY, **_LOAD_TEST})
    yield one("node-memory-short", stalled={"memory": {1: 0.65}}, around=_NO_MEMORY)
    yield one("neighbour-takes-memory", stalled={"memory": {1: 0.65}}, around={**_NO_MEMORY, **_LOAD_TEST})
    yield one("memory-near-limit", stalled={"memory": {1: 0.65}}, around={"memory_by_pod": {"1": 0.99}})
    yield one("node-disk-slow", stalled={"disk": {1: 0.65}}, around={"disk_wait": {"node-1": 0.15}, "disk_busy": {"node-1": 0.97}})
    yield one("node-network-loses", way=calm.way + 0.040, around={"resent": {"node-1": 0.05}})
    yield one("node-disk-full", states=(_of_pool(StateKind.DISK_FULL), _of_pool(StateKind.ARTIFACTS_MISSING)))
    yield one("evicted", unreached=0.1, states=(_of_pool(StateKind.EVICTED),))
    yield one("own-storage-full", unreached=0.1, states=(_of_pool(StateKind.STORAGE_EXCEEDED),))
    yield one("driver-unfit", states=(_of_pool(StateKind.DRIVER_UNFIT), _of_pool(StateKind.LOAD_FAILED)))
    yield one("gpus-scattered", states=(_of_pool(StateKind.GPUS_SCATTERED),))
    yield one("nodes-tainted", states=(_of_pool(StateKind.TAINTED),))
    tainted = Change(kind=ChangeKind.TAINT, time=ONSET - 60, who="kubectl-taint", words="the node n was written")
    yield one("tainted-by-hand", states=(_of_pool(StateKind.TAINTED),), changes=(tainted,))
    yield one("node-unfit", states=(_of_pool(StateKind.NODE_UNFIT),))
    yield one("node-pressure", states=(_of_pool(StateKind.NODE_PRESSURE),))
    yield one("pool-at-maximum", states=(_of_pool(StateKind.GPUS_TAKEN),), around={"group_full": {"eks-l4-a-1a2b3c-x": 1.0}})
    yield one("nodes-not-added", states=(_of_pool(StateKind.POOL_EMPTY),), around={"group_failing": {"eks-l4-a-1a2b3c-x": 1.0}})
    yield one("node-on-its-way", states=(_of_pool(StateKind.GPUS_TAKEN), _of_pool(StateKind.NODE_ORDERED)))
    yield one("replicas-unread", around={"unread": {"": 0.4}})
    yield one("gpu-telemetry-silent", around={"gpus_silent": {"": 1.0}})
    yield one("rules-failing", around={"rules_failing": {"": 0.02}})
    # A node that is busy, or loses a packet, and has nothing to do with what hurts.
    slow = {"fixed": calm.fixed * 2.5, "each": calm.each * 2.5}
    yield one("model-slower on a busy node", truth="model-slower", **slow, around={**_BUSY, **_LOAD_TEST})
    yield one("way-longer on a busy node", truth="way-longer", way=calm.way + 0.040, around={**_BUSY, **_LOAD_TEST})
    yield one("gpu-hot on a busy node", truth="gpu-hot", slower={1: 3.0}, counters={"hot": {1: 0.6}}, around={**_BUSY, **_LOAD_TEST})
