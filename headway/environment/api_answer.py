"""What an API server answers, read within bounds: an object, a page of a list, an event of a watch. Whatever else it is, is `OutOfReachError`."""

import time
from dataclasses import dataclass
from typing import Any, cast

from headway.bounded_json import bounded_json
from headway.environment.port import OutOfReachError

LARGEST_EVENT = 16 << 20
PIECE = 1 << 16
_DEEPEST = 200
"""A definition of a kind nests some 60 levels deep."""

Object = dict[str, Any]


class TooMuchError(OutOfReachError):
    """An answer larger than its reader allows."""


@dataclass(frozen=True, kw_only=True)
class ApiAnswer:
    """One answer of an API server."""

    status: int
    content: bytes
    date: str | None = None
    kind: str | None = None
    """The media type."""

    @property
    def ok(self) -> bool:
        """False also for a redirect, which nobody follows."""
        return self.status < 300

    @property
    def document(self) -> Object:
        """Raises OutOfReachError where it is no object of JSON: something else than an API server answered."""
        try:
            found = bounded_json(self.content, len(self.content), _DEEPEST)
        except ValueError as odd:
            raise OutOfReachError(f"an answer that cannot be read: {odd}") from None
        if not isinstance(found, dict):
            raise OutOfReachError("an answer that is no object")
        return cast(Object, found)

    @property
    def message(self) -> str:
        """What the server said of a request that it did not carry out."""
        try:
            return str(self.document["message"])
        except (OutOfReachError, KeyError):
            return f"HTTP {self.status}"


def page_of(found: Object) -> tuple[list[Object], str]:
    """The objects of a list's answer, and where it goes on; nowhere for the empty text. Raises OutOfReachError."""
    items, metadata = found.get("items") or [], found.get("metadata") or {}
    after = (metadata.get("continue") or "") if isinstance(metadata, dict) else None
    if not isinstance(items, list) or not isinstance(after, str) or not all(isinstance(each, dict) for each in items):
        raise OutOfReachError("an answer that is no list of objects")
    return items, after


def event_of(line: bytes) -> tuple[str, Object]:
    """Raises OutOfReachError for a line of a watch that is no event."""
    said = ApiAnswer(status=200, content=line).document
    kind, found = said.get("type"), said.get("object")
    if not isinstance(kind, str) or not isinstance(found, dict):
        raise OutOfReachError("an event that is none")
    return kind, found


def within(response: Any, largest: int, seconds: float) -> bytes:
    """The body, whose connection is then free: whole within `seconds`, unpacked too. Raises OutOfReachError."""
    import urllib3

    until, content = time.monotonic() + seconds, bytearray()
    try:
        while piece := response.read1(PIECE, decode_content=True):
            content += piece
            if len(content) > largest:
                raise TooMuchError(f"an answer of more than {largest} bytes")
            if time.monotonic() > until:
                raise OutOfReachError(f"an answer that was not complete within {seconds:g} s")
    except urllib3.exceptions.HTTPError as failure:
        response.close()
        raise OutOfReachError(type(failure).__name__) from None
    except OutOfReachError:
        response.close()
        raise
    response.drain_conn()
    response.release_conn()
    return bytes(content)
