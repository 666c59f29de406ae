"""Ctrl-C, and SIGTERM: once asks the operation to stop where it is safe, twice ends it at once.

Handlers can be set only by the main thread; an operation elsewhere is stopped by `pulumi cancel`, or by who runs that thread.
"""

import contextlib
import signal
import threading
from collections.abc import Callable, Generator
from types import FrameType
from typing import Any


@contextlib.contextmanager
def graceful(first: Callable[[], None], second: Callable[[], None]) -> Generator[None]:
    """While inside, the first interrupt calls `first` and the next ones `second`; the handlers of before come back afterwards."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    met = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        del number, frame
        if met.is_set():
            second()
        else:
            met.set()
            first()

    before: dict[int, Any] = {}
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, handle)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
