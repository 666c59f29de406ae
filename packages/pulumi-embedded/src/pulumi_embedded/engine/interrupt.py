"""Ctrl-C, and SIGTERM: once asks the operation to stop where it is safe, twice ends it at once.

Handlers can be set only by the main thread; an operation elsewhere is stopped by `pulumi cancel`, or by who runs that thread.

The trap: a handler runs in the middle of whatever the main thread was doing, locks included. So it takes none: it starts a thread.
"""

import contextlib
import signal
import threading
from collections.abc import Callable, Generator
from types import FrameType
from typing import Any, Final

CLEANUP_SECONDS: Final = 1.0


@contextlib.contextmanager
def graceful(first: Callable[[], None], last: Callable[[], None], abort: Callable[[], None] | None) -> Generator[None]:
    """While inside, the first interrupt calls `first`; the next gives `last` a second and then calls `abort`, or raises KeyboardInterrupt
    if there is none. The handlers of before come back afterwards."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    met = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal met
        del number, frame
        if not met:
            met = True
            threading.Thread(target=first, daemon=True, name="interrupt").start()
            return
        cleanup = threading.Thread(target=last, daemon=True, name="abort")
        cleanup.start()
        cleanup.join(CLEANUP_SECONDS)
        if abort is not None:
            abort()
        raise KeyboardInterrupt

    before: dict[int, Any] = {}
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, handle)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
