"""Why a version was rolled back, asked for beside the driver once users have the stable one again: no step of the way back waits for it, and
whatever becomes of it, the release ends.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from headway.problem import printable
from headway.release.driver.event_kinds import ReleaseOutcome
from headway.release.driver.rollout_state import RolloutState

SECONDS = 20.0
"""Since it was asked for; then the release ends without it. Draining takes about as long, so hardly ever anybody waits."""
LARGEST = 64 << 10
"""Bytes that an event keeps of it."""
_OUTCOMES = (ReleaseOutcome.ROLLED_BACK, ReleaseOutcome.OUT_OF_TIME)

DiagnoseRollback = Callable[[RolloutState], Mapping[str, Any]]


class RollbackDiagnosis:
    """The diagnosis of one runner's rollbacks. `clock` in seconds that only grow."""

    def __init__(self, diagnose: DiagnoseRollback | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._diagnose, self._clock = diagnose, clock
        self._asked: dict[int, tuple[float, threading.Thread, dict[str, Any]]] = {}

    def ask(self, rollout: RolloutState) -> None:
        """Begin, once, if traffic is back, or never went to the version."""
        back = rollout.failing is not None and (rollout.shifted or not rollout.was_exposed)
        if self._diagnose is None or not back or not rollout.was_deployed or rollout.number in self._asked:
            return
        found: dict[str, Any] = {}
        thread = threading.Thread(target=_kept, args=(self._diagnose, rollout, found), daemon=True)
        self._asked[rollout.number] = self._clock(), thread, found
        thread.start()

    def found(self, rollout: RolloutState, outcome: ReleaseOutcome) -> Mapping[str, Any]:
        """What the end of the release keeps: `diagnosis`, or `undiagnosed` with why there is none; nothing where nobody was to ask."""
        self.ask(rollout)
        if outcome not in _OUTCOMES or rollout.number not in self._asked:
            return {}
        began, thread, found = self._asked[rollout.number]
        thread.join(max(0.0, began + SECONDS - self._clock()))
        return dict(found) if not thread.is_alive() else {"undiagnosed": f"it took longer than {SECONDS:.0f} s"}


def _kept(diagnose: DiagnoseRollback, rollout: RolloutState, found: dict[str, Any]) -> None:
    try:
        said = dict(diagnose(rollout))
        size = len(json.dumps(said, allow_nan=False))
        found.update({"diagnosis": said} if size <= LARGEST else {"undiagnosed": f"it has {size} bytes, more than an event keeps"})
    except Exception as failure:  # no fault of what only explains may keep a release from its end
        found["undiagnosed"] = printable(f"{type(failure).__name__}: {failure}")[:300]
