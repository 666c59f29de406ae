"""Time as a value, so that waits are tested without waiting."""

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AwaitClock:
    """`now` counts seconds from anywhere and never goes back; `sleep` takes seconds."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
