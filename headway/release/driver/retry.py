"""What a runner does while ledger or API server do not answer: it goes on asking, and does not leave users on what it
cannot watch.

Out of reach is not lost. A runner that gave up would leave a release to the dead man's switch whenever a network
blinks.
"""

from collections.abc import Callable
from datetime import datetime

from headway.environment.port import OutOfReachError
from headway.ledger.chain import LostError
from headway.ledger.store import UnreachableError
from headway.release.driver import targets
from headway.release.driver.leased_run import SLICE_SECONDS, LeasedRun


def with_retries(leased_run: LeasedRun, act: Callable[[], None]) -> None:
    """Do it; again when a race was lost, and again and again while ledger or API server do not answer.

    While the ledger is out of reach for longer than the dead man's limit, traffic of an unproven release goes back at
    once: it would be watched by someone who cannot act. That is written down when the ledger is back. But where another
    runner, who reaches the ledger, has promised to watch, it is his.
    """
    world = leased_run.world
    silent_since, reverted = world.now(), False
    while True:
        try:
            act()
        except LostError:
            pass
        except OutOfReachError:
            world.sleep(SLICE_SECONDS / 2)
        except UnreachableError:
            reverted = reverted or _give_up_watching(leased_run, silent_since)
            world.sleep(SLICE_SECONDS)
        else:
            return
        if reverted:
            _confess(leased_run)


def _give_up_watching(leased_run: LeasedRun, since: datetime) -> bool:
    rollout, world = leased_run.service.running, leased_run.world
    if rollout is None or not rollout.unproven:
        return False
    if (world.now() - since).total_seconds() <= float(rollout.body["unwatched_at_most"]):
        return False
    try:
        promised = world.route().watched_until
        if promised and promised > world.now():
            return False
        world.patch(targets.back(rollout))
    except OutOfReachError:
        return False
    return True


def _confess(leased_run: LeasedRun) -> None:
    """Write down, as soon as the ledger takes it, that traffic went back meanwhile."""
    try:
        leased_run.renew()
        rollout = leased_run.service.running
        if rollout and rollout.failing is None:
            reason = "the ledger was out of reach for longer than its contract lets it be unwatched; traffic went back meanwhile"
            leased_run.request_rollback(reason)
    except (LostError, UnreachableError, OutOfReachError):
        return
