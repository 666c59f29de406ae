"""The loop of commands that look at services by turns, for as long as they run, and what the platform layer wrote for one in the cluster."""

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.cli.listening_place import listening_place
from headway.cli.look_voice import LookVoice, failures
from headway.problem import Exit, UserError

if TYPE_CHECKING:
    from headway.release.evaluator.in_cluster import ServiceInside
    from headway.release.evaluator.serving import LookPulse
    from headway.release.service_place import ServicePlace

PAUSE_SECONDS = 60.0
"""Longest between two looks: a contract or a release may be new."""
PATIENCE_SECONDS = 900.0
"""Without a sign of life, after which the loop calls itself stuck."""


def for_ever(
    here: "Sequence[ServicePlace]",
    look: "Callable[[ServicePlace], Any]",
    *,
    pulse: "LookPulse[Any]",
    voice: LookVoice,
    serve: str,
    speed: float,
    well: Callable[[Any], bool] = lambda _: True,
) -> None:
    """Until the process is stopped. What `look` finds says after how many seconds another is worth while; what does not answer is said, and
    asked again. `serve`: where `pulse` is shown, if anywhere; `well`: whether a look found out what it is for."""
    from headway.listening import showing

    pause = PAUSE_SECONDS / speed
    due = dict.fromkeys((each.chain for each in here), 0.0)
    pulse.watches(tuple(due))
    with showing(pulse, *listening_place(serve)) if serve else nullcontext():
        while True:
            for each in here:
                if time.monotonic() < due[each.chain]:
                    continue
                try:
                    result = look(each)
                    pulse.looked(each.chain, result, well=well(result))
                    wait = result.wait
                except failures() as failure:
                    pulse.failed()
                    voice.fail(each.chain, failure)
                    wait = pause
                due[each.chain] = time.monotonic() + min(pause, wait)
            pulse.turned()
            time.sleep(max(0.2, min(due.values(), default=time.monotonic() + pause) - time.monotonic()))


def inside(service: str | None, file: Path, read: "Callable[[Path], tuple[ServiceInside, ...]]") -> "tuple[ServiceInside, ...]":
    """Services of the platform's file. Raises UserError."""
    if service:
        raise UserError(
            f"--in-cluster looks at every service of its file, and {service} is named beside it.",
            "Nothing was asked.",
            "Leave one of the two out.",
            Exit.USAGE,
        )
    return read(file)
