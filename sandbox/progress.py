"""How long work tells what it is doing. The caller decides how it looks; the worker only names the fact."""

from typing import Protocol


class Progress(Protocol):
    """A sink of progress. Implementations must be safe to call from any thread."""

    def step(self, key: str, text: str) -> None:
        """`key` (stable, for instance `build/control-plane`; its last part is shown as the name) is now at `text`."""

    def done(self, key: str, text: str) -> None:
        """`key` has ended well; `text` says with what result, and is empty where whoever gets the result shows it."""

    def failed(self, key: str, text: str) -> None:
        """`key` has failed; `text` says why in a line, and is empty where whoever gets the result shows it."""


class Silent:
    """Progress that nobody watches."""

    def step(self, key: str, text: str) -> None: ...

    def done(self, key: str, text: str) -> None: ...

    def failed(self, key: str, text: str) -> None: ...
