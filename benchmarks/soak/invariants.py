"""What must hold after every event of a soak, as functions over what was seen: nothing lost, nothing twice, nothing
unwatched, memory and disk bounded. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

ALLOWANCE_SECONDS = 90.0
"""Real seconds in which Kubernetes must have replaced what was lost, unless it says why it cannot."""
QUARANTINE_SECONDS = 60.0
"""Real seconds in which the loop of node health, which looks each second, must have set a faulty node apart."""
MIB = 1 << 20
MEMORY: Mapping[str, int] = {"node-health-loop": 256 * MIB, "soak": 700 * MIB}
"""Most that each process of ours may hold: the loop what its container may (`components/platform/node_health.py`), the
soak itself, in which runners and guard are, three times what it begins with."""
DISK = 1536 * MIB
"""Most that the state of the sandbox may hold, logs, datastore and ledger together."""


@dataclass(frozen=True, kw_only=True)
class ChainSeen:
    """The ledger of the released service. `lost`: numbers of events that somebody was told are written and that are
    not there; `changed`: whether an event that was there is another one now."""

    flaws: tuple[str, ...] = ()
    changed: bool = False
    lost: tuple[int, ...] = ()
    started: int = 0
    ended: int = 0
    endings: tuple[int, ...] = ()
    """Of which release each ending is, by the number of its beginning."""


@dataclass(frozen=True, kw_only=True)
class RouteSeen:
    """`left`: releases that would still get something were every runner to die now, once the guard has looked;
    `planned`: the same, had somebody updated the stack in between. `proven`: releases that may be unwatched."""

    left: frozenset[str] = frozenset()
    planned: frozenset[str] = frozenset()
    proven: frozenset[str] = frozenset()
    overdue: float = 0.0
    """Simulated seconds for which nobody watched what is exposed, beyond what the guard may take."""
    quiet: bool = False
    """Whether no release is under way and nobody has touched the route since the last update."""
    carried: bool = True
    """Whether the live route is what the ledger says."""


@dataclass(frozen=True, kw_only=True)
class ArmSeen:
    """An arm with a share of requests. `without`: real seconds since it had a ready replica; `told`: what Kubernetes says
    about it."""

    without: float = 0.0
    told: str = ""


@dataclass(frozen=True, kw_only=True)
class SoakSeen:
    """Everything that was looked at after an event."""

    chain: ChainSeen = field(default_factory=ChainSeen)
    route: RouteSeen = field(default_factory=RouteSeen)
    arms: Mapping[str, ArmSeen] = field(default_factory=dict[str, ArmSeen])
    strangers: tuple[str, ...] = ()
    """Objects of services that nobody rendered."""
    missing: tuple[str, ...] = ()
    """Objects that were rendered and applied and are not there."""
    forgotten: tuple[str, ...] = ()
    """What a tenant wrote, was told is stored, and is not there."""
    faulty: Mapping[str, float] = field(default_factory=dict[str, float])
    """Nodes that report a fatal fault, are in no quarantine, and could be: real seconds since."""
    memory: Mapping[str, int] = field(default_factory=dict[str, int])
    disk: int = 0
    stuck: str = ""
    """A runner that asks and asks and comes no further."""
    unexpected: tuple[str, ...] = ()
    """Answers that no part may give: an error that nobody explains, a refusal that did not come."""


def broken(seen: SoakSeen) -> tuple[str, ...]:
    """What does not hold, in words; empty where all does."""
    return tuple(_broken(seen))


def _broken(seen: SoakSeen) -> Iterator[str]:
    yield from _chain(seen.chain)
    yield from _route(seen.route)
    for name, arm in seen.arms.items():
        if arm.without > ALLOWANCE_SECONDS and not arm.told:
            yield f"unserved: {name} has had requests and no ready replica for {arm.without:.0f} s, and nothing says why"
    yield from (f"ownership: {name} was rendered by nobody" for name in seen.strangers)
    yield from (f"lost: {name} was applied and is gone" for name in seen.missing)
    yield from (f"lost: {name} was stored and is gone" for name in seen.forgotten)
    for name, seconds in seen.faulty.items():
        if seconds > QUARANTINE_SECONDS:
            yield f"unwatched: node {name} has reported a fatal fault for {seconds:.0f} s and is in no quarantine"
    for name, size in seen.memory.items():
        if size > MEMORY[name]:
            yield f"memory: {name} holds {size // MIB} MiB, more than {MEMORY[name] // MIB}"
    if seen.disk > DISK:
        yield f"disk: the state holds {seen.disk // MIB} MiB, more than {DISK // MIB}"
    if seen.stuck:
        yield f"stuck: {seen.stuck}"
    yield from (f"unexpected: {what}" for what in seen.unexpected)


def _chain(chain: ChainSeen) -> Iterator[str]:
    yield from (f"chain: {flaw}" for flaw in chain.flaws)
    if chain.changed:
        yield "chain: an event that was there is another one now"
    yield from (f"lost: event {number} was acknowledged and is not in the chain" for number in chain.lost)
    if not 0 <= chain.started - chain.ended <= 1:
        yield f"twice: {chain.started} releases began and {chain.ended} ended"
    if len(set(chain.endings)) != len(chain.endings):
        yield "twice: a release ended more than once"


def _route(route: RouteSeen) -> Iterator[str]:
    for how, found in (("as it is", route.left), ("by the stack", route.planned)):
        if not found <= route.proven:
            yield f"unwatched: {how}, {', '.join(sorted(found - route.proven))} would keep requests though nobody has proven it"
    if route.overdue > 0:
        yield f"unwatched: an unproven release has had requests for {route.overdue:.0f} s after the last promise"
    if route.quiet and not route.carried:
        yield "route: no release is under way, and the live route is not what the ledger says"
