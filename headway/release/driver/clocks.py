"""Whether this machine's clock agrees with those of the cluster and of Prometheus. Pure.

Ticks are windows of time that Prometheus is asked for, and how long nobody watched is told by the times of events: a
runner whose clock is wrong reads windows that are not over, and takes a release for abandoned. An answer takes time,
and a `Date` header tells whole seconds, so a reading is only as good as that.
"""

from headway.environment.clock import ClockOffset
from headway.problem import Exit, UserError

TOLERATED_SECONDS = 5.0
"""How long samples are waited for before a window is read in production: a clock that is further off than that loses
counts."""


def wrong(offset: ClockOffset, whose: str) -> str:
    """In words; empty where it can be tolerated."""
    off = offset.certain
    if abs(off) <= TOLERATED_SECONDS:
        return ""
    return f"{abs(off):.0f} s {'ahead of' if off > 0 else 'behind'} {whose}"


def refusal(chain: str, how: str) -> UserError:
    """What a person is told whose machine is wrong."""
    return UserError(
        f"The clock of this machine is {how}.",
        f"It would read evidence of {chain} from the wrong time, and could take a release of another runner for abandoned; nothing was done."
        " The next runner, or the release guard, takes care of a release under way.",
        f"Set the clock (`chronyc tracking`, `timedatectl`), then `headway release resume {chain}` or start again.",
        Exit.REFUSED,
    )
