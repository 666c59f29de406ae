"""The loop: look, decide, act, wait; and the read-back after an update. Thin on purpose: rounds share nothing but
whether to go on."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Event

from headway.node_health.cluster import Done, NodeCluster
from headway.node_health.decision import NodeHealthPolicy, decide
from headway.node_health.facts import GpuNode, SlowReplica
from headway.node_health.leader_election import Turn
from headway.node_health.readiness import GpuOperatorState, lacks
from headway.node_health.serving import Pulse
from headway.problem import Problem, UserError

INTERVAL_SECONDS = 15
Slowness = Callable[[Sequence[GpuNode], float], Mapping[str, SlowReplica]]
"""Says at a moment (Unix seconds) which nodes have a replica that is slower than its siblings."""
BETWEEN_LOOKS_SECONDS = 2


@dataclass(frozen=True, kw_only=True)
class ReadBack:
    """What was seen when everything was there, or when time was up."""

    lacks: tuple[Problem, ...]
    operator: GpuOperatorState
    nodes: int
    pools: int
    quarantined: tuple[tuple[str, str], ...] = ()
    """Nodes in quarantine, which owe nothing, each with the reason."""


def read_back(cluster: NodeCluster, wait_seconds: float, monotonic: Callable[[], float], sleep: Callable[[float], None]) -> ReadBack:
    """Look until nothing is missing, at most for `wait_seconds`. Raises UserError when the cluster does not answer."""
    deadline = monotonic() + wait_seconds
    while True:
        expected, operator, nodes = cluster.settings().expected, cluster.operator(), cluster.nodes()
        apart = tuple((node.name, node.quarantine.reason) for node in nodes if node.quarantine)
        seen = ReadBack(lacks=lacks(expected, nodes, operator), operator=operator, nodes=len(nodes), pools=len(expected), quarantined=apart)
        if not seen.lacks or monotonic() >= deadline:
            return seen
        sleep(min(BETWEEN_LOOKS_SECONDS, max(0.0, deadline - monotonic())))


def nobody_slow(nodes: Sequence[GpuNode], now: float) -> Mapping[str, SlowReplica]:
    """Where nobody compares replicas."""
    return {}


def once(
    cluster: NodeCluster,
    policy: NodeHealthPolicy,
    now: float,
    allowed: Callable[[], bool] = lambda: True,
    slowness: Slowness = nobody_slow,
) -> tuple[Done, ...]:
    """One round, as long as it is `allowed`. `now` in Unix seconds. Raises UserError when the cluster does not answer."""
    settings, nodes = cluster.settings(), cluster.nodes()
    return cluster.perform(decide(nodes, now, policy, settings.expected, slowness(nodes, now)), settings, allowed)


def watch(
    cluster: NodeCluster,
    policy: NodeHealthPolicy,
    clock: Callable[[], float],
    stop: Event,
    say: Callable[[Done | UserError], None],
    turn: Turn,
    pulse: Pulse,
    interval_seconds: float = INTERVAL_SECONDS,
    slowness: Slowness = nobody_slow,
) -> None:
    """Rounds until `stop` is set, while it is this loop's turn. A cluster that does not answer is said and asked
    again: it is when nodes fail that it may not."""

    def noted(nodes: Sequence[GpuNode], now: float) -> Mapping[str, SlowReplica]:
        pulse.slow = slowness(nodes, now)
        return pulse.slow

    while not stop.is_set():
        try:
            leads = turn.taken()
            for done in once(cluster, policy, clock(), turn.lasts, noted) if leads else ():
                pulse.acted(done)
                say(done)
            pulse.looked(leads=leads)
        except UserError as failure:
            pulse.failed()
            say(failure)
        stop.wait(interval_seconds)
    with suppress(UserError):  # who cannot say so is found silent
        turn.give_up()
