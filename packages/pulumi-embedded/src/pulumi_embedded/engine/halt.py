"""Whether new steps may begin: the first failure, and the user's wish to stop, decide for every thread."""

import threading


class Stopped(Exception):  # noqa: N818 not an error: the reason was reported when it happened
    """No further step begins. Carries no news: what went wrong has been reported already."""


class StepError(Exception):
    """A resource cannot be registered, changed or removed, for a reason to show at that resource."""

    def __init__(self, message: str, urn: str = "") -> None:
        super().__init__(message)
        self.urn = urn


class UnsupportedError(StepError):
    """The program asked for something that this engine does not do."""

    def __init__(self, what: str, urn: str = "") -> None:
        super().__init__(f"{what} is not supported by the embedded engine; remove it, or run this stack with the pulumi CLI", urn)


class Halt:
    """Collects failures. After the first one (or a fatal one, if the user chose to continue on errors) `check` stops every newcomer."""

    def __init__(self, cancel: threading.Event, *, continue_on_error: bool = False) -> None:
        self.cancel = cancel
        self.continue_on_error = continue_on_error
        self._lock = threading.Lock()
        self._first: str | None = None
        self._fatal = False

    def fail(self, message: str, *, fatal: bool = False) -> None:
        with self._lock:
            self._first = self._first or message
            self._fatal = self._fatal or fatal

    @property
    def error(self) -> str | None:
        """Why the operation has failed, by the first cause; None so far."""
        if self._first is None and self.cancel.is_set():
            return "the operation was cancelled"
        return self._first

    @property
    def stopping(self) -> bool:
        return self.cancel.is_set() or self._fatal or (self._first is not None and not self.continue_on_error)

    def check(self) -> None:
        """Raises Stopped once nothing new may begin."""
        if self.stopping:
            raise Stopped
