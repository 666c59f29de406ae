"""What is known of one service, before what hurts it began and since: measures, states of objects, changes, and what nobody could see.
Pure data; `gathering` fills it, `hypotheses` ask it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from headway.diagnosis.comparison import BeforeAfter
from headway.service_status.pending import PendingKind


class StateKind(StrEnum):
    """What an object of the cluster says now that explains why something is missing, ends or stands still. The kinds of what keeps a replica
    from being ready are those of `headway.service_status.pending`."""

    QUOTA_FULL = PendingKind.QUOTA_FULL
    IMAGE_MISSING = PendingKind.IMAGE_MISSING
    ARTIFACTS_MISSING = PendingKind.ARTIFACTS_MISSING
    GPUS_TAKEN = PendingKind.GPUS_TAKEN
    CORDONED = PendingKind.CORDONED
    QUARANTINED = PendingKind.QUARANTINED
    NODE_UNREADY = PendingKind.NODE_UNREADY
    UNCUT = PendingKind.UNCUT
    POOL_EMPTY = PendingKind.POOL_EMPTY
    GPUS_SCATTERED = PendingKind.GPUS_SCATTERED
    TAINTED = PendingKind.TAINTED
    NODE_UNFIT = PendingKind.NODE_UNFIT
    NODE_PRESSURE = PendingKind.NODE_PRESSURE
    UNPLACED = PendingKind.UNPLACED
    UNREADY = PendingKind.UNREADY
    ENDED = PendingKind.ENDED
    MEMORY_KILLED = PendingKind.MEMORY_KILLED
    LOAD_FAILED = "load-failed"
    """A server ended, or was ended by its startup probe, before it had loaded its model."""
    PROCESS_DIED = "process-died"
    """A process of a server died, in which its model computes."""
    FETCH_SLOW = "fetch-slow"
    """A replica's files come much slower than those of its siblings did."""
    YOUNG = "young"
    """A replica has just become ready; that alone harms nobody."""
    PROBE_FAILING = "probe-failing"
    """A server runs, and its probe does not pass."""
    HANGING = "hanging"
    """Its probe says that nothing was finished meanwhile."""
    PROBE_KILLED = "probe-killed"
    """The kubelet ended a container whose liveness or startup probe failed."""
    NODE_ORDERED = "node-ordered"
    """The autoscaler asks for a node for a replica that waits."""
    EVICTED = "evicted"
    """The kubelet ended a pod because its node was short of something."""
    STORAGE_EXCEEDED = "storage-exceeded"
    """The kubelet ended a pod because it wrote more than its own limit."""
    DISK_FULL = "disk-full"
    """An image or artifact did not fit on the node's disk."""
    DRIVER_UNFIT = "driver-unfit"
    """A container does not get along with the GPU's driver of its node."""
    ROUTE_ASTRAY = "route-astray"
    """The live route sends users elsewhere than the ledger says, or there is none."""
    CERTIFICATE_INVALID = "certificate-invalid"
    """The gateway's certificate is no longer valid, or there is none."""
    NODE_SET_APART = "node-set-apart"
    """Node health keeps a node under the service, or of its pools, out of use. A pod that waits for it is QUARANTINED."""
    NODE_NOT_READY = "node-not-ready"
    """Such a node is not ready. A pod that waits for it is NODE_UNREADY."""
    HELD = "held"
    """A person holds a release."""


ENDS = (StateKind.MEMORY_KILLED, StateKind.PROBE_KILLED, StateKind.LOAD_FAILED, StateKind.PROCESS_DIED, StateKind.ENDED)
"""How a container of a replica may have ended."""
PASSING = (*ENDS, StateKind.EVICTED, StateKind.STORAGE_EXCEEDED)
"""What happens in a moment; all others last."""
SHORTLY_SECONDS = 600.0
"""Between what began harm and its being seen, by pods or in series, lies at most so long: a node's pods are made anew elsewhere five minutes
after it was lost (Kubernetes, "Taints and Tolerations", `tolerationSeconds`)."""
CLOCKS_SECONDS = 60.0
"""By which clocks may differ. What began later than the moment that is looked at was not so then."""


@dataclass(frozen=True, kw_only=True)
class State:
    """`subject`: the pod, node or release; `words`: what it says, for people; `since`: Unix seconds from which on it is so, or at which it
    happened, the last time where it `repeats`."""

    kind: StateKind
    subject: str
    words: str
    since: float | None = None
    pool: str = ""
    """The pool of nodes that a pod waits for."""
    repeats: bool = False
    over: bool = False
    """It is past: every replica is ready again."""


class ChangeKind(StrEnum):
    RELEASE = "release"
    """Users' requests began to go to another version, or more of them."""
    CANDIDATE = "candidate"
    """Replicas of another version were started, whose release is not over yet."""
    CONTRACT = "contract"
    """A commit of the checkout changed the service's contract, or its tenant's."""
    PLATFORM = "platform"
    """The platform's program wrote what runs, though no release asked for it."""
    DEPLOYMENT = "deployment"
    """A Deployment was written by somebody who is not the platform's program."""
    QUOTA = "quota"
    ROUTE = "route"
    NODE = "node"
    TAINT = "taint"


@dataclass(frozen=True, kw_only=True)
class TouchedField:
    """A field that a change wrote: of a contract by its path, such as `batching.max_delay`, of a pod's template as `server.cpu`. Values as
    people write them; None where it was not there."""

    path: str
    old: str | None
    new: str | None


@dataclass(frozen=True, kw_only=True)
class Change:
    """Something that somebody did. `time` in Unix seconds; `who` as the ledger, git or the API server names them."""

    kind: ChangeKind
    time: float
    who: str
    words: str
    release: str = ""
    """The version that a release brought."""
    touched: tuple[TouchedField, ...] | None = None
    """What it changed; None where nobody says."""


@dataclass(frozen=True, kw_only=True)
class ServedSettings:
    """Of the contract that a version was registered with: how many batches (Triton) or sequences (vLLM) a replica computes at once. None
    where its engine has no such thing."""

    instances: int | None = None
    sequences: int | None = None


@dataclass(frozen=True, kw_only=True)
class Blindness:
    """What could not be seen, and what that leaves undecided."""

    what: str
    why: str


@dataclass(frozen=True, kw_only=True)
class Facts:
    """One service. Times in Unix seconds; `onset` is None where nothing changed in what was looked at."""

    at: float
    onset: float | None = None
    step: float = 0.0
    """Of the series, in seconds: what happened closer together they cannot tell apart."""
    began: Mapping[str, float] = field(default_factory=dict[str, float])
    """When a measure of the whole service began to rise, of those whose order matters (`repeating`)."""
    compared: Mapping[str, BeforeAfter] = field(default_factory=dict[str, BeforeAfter])
    """Of the whole service, by measure."""
    apart: Mapping[str, Mapping[str, BeforeAfter]] = field(default_factory=dict[str, Mapping[str, BeforeAfter]])
    """The same of each pod or GPU, by measure."""
    present: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])
    """Of each pod or GPU now, those too that were not there before."""
    states: tuple[State, ...] = ()
    """Those that began with it."""
    changes: tuple[Change, ...] = ()
    hosts: Mapping[str, str] = field(default_factory=dict[str, str])
    """The node of each pod and GPU."""
    settings: Mapping[str, ServedSettings] = field(default_factory=dict[str, ServedSettings])
    """Of each release that may serve."""

    def of(self, measure: str) -> BeforeAfter | None:
        return self.compared.get(measure)

    def those(self, *kinds: StateKind) -> list[State]:
        return [each for each in self.states if each.kind in kinds]

    def changed(self, *kinds: ChangeKind, after: float = 0.0) -> Sequence[Change]:
        """Changes of these kinds, newest first, that were there before `after` had passed since the onset."""
        end = (self.onset if self.onset is not None else self.at) + after
        return sorted((each for each in self.changes if each.kind in kinds and each.time <= end), key=lambda each: -each.time)
