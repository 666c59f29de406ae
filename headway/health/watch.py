"""The loop: look, decide, act, wait. Thin on purpose: all it knows from round to round is whether to go on."""

from collections.abc import Callable
from threading import Event

from headway.errors import UserError
from headway.health.cluster import Cluster, Done
from headway.health.decision import Policy, decide

INTERVAL_SECONDS = 15


def once(cluster: Cluster, policy: Policy, now: float) -> tuple[Done, ...]:
    """One round. `now` in Unix seconds. Raises UserError when the cluster does not answer."""
    settings = cluster.settings()
    return cluster.perform(decide(cluster.nodes(), now, policy), settings)


def watch(
    cluster: Cluster,
    policy: Policy,
    clock: Callable[[], float],
    stop: Event,
    say: Callable[[Done | UserError], None],
    interval_seconds: float = INTERVAL_SECONDS,
) -> None:
    """Rounds until `stop` is set. A cluster that does not answer is said and asked again: it is when nodes fail that it may not."""
    while not stop.is_set():
        try:
            for done in once(cluster, policy, clock()):
                say(done)
        except UserError as failure:
            say(failure)
        stop.wait(interval_seconds)
