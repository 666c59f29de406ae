"""Whose request it is: the namespace of the service account that a token was issued to, by the API server's word.

Only tokens for this audience count, so a token that leaks from here opens nothing else. An answer is remembered for a
minute, by the token's digest. The trap: whoever can reach the server can make it ask the API server; so it asks a few
times a second at most, and turns the rest away, who then fetch for themselves.
"""

import base64
import hashlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from headway.bounded_json import bounded_json
from headway.wire import ARTIFACT_CACHE_AUDIENCE

REMEMBERED_SECONDS = 60.0
ASKED_PER_SECOND = 10.0
_BURST = 20.0
_MOST_REMEMBERED = 10_000
_ACCOUNT = "system:serviceaccount:"
_LONGEST = 16_384

Review = Callable[[str], str | None]
"""The user whose token it is, or None for a token that is not valid for this audience. Raises OSError when the API
server does not answer."""


class BusyError(Exception):
    """The API server has been asked too often, or does not answer."""


@dataclass
class Callers:
    """`clock` in seconds that only grow."""

    review: Review
    clock: Callable[[], float]
    _known: dict[str, tuple[float, str | None]] = field(default_factory=dict[str, tuple[float, str | None]], init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _may_ask: float = field(default=_BURST, init=False)
    _at: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self._at = self.clock()

    def namespace(self, token: str) -> str | None:
        """The namespace of the caller; None for who is nobody. Raises BusyError."""
        if not _is_for_us(token):
            return None
        digest, now = hashlib.sha256(token.encode()).hexdigest(), self.clock()
        with self._lock:
            until, namespace = self._known.get(digest, (0.0, None))
            if now < until:
                return namespace
            self._may_ask = min(_BURST, self._may_ask + (now - self._at) * ASKED_PER_SECOND)
            self._at = now
            if self._may_ask < 1:
                raise BusyError("too many unknown callers")
            self._may_ask -= 1
        try:
            user = self.review(token)
        except OSError as failure:
            raise BusyError(str(failure)) from failure
        found = user.removeprefix(_ACCOUNT).split(":")[0] if user and user.startswith(_ACCOUNT) else None
        with self._lock:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            self._known[digest] = (now + REMEMBERED_SECONDS, found)
        return found


def _is_for_us(token: str) -> bool:
    """Whether a token says that it is for this audience: what does not is not worth a question. Proves nothing."""
    parts = token.split(".")
    if len(parts) != 3 or len(token) > _LONGEST or not token.isascii():
        return False
    try:
        claims = bounded_json(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:
        return False
    said = claims.get("aud") if isinstance(claims, dict) else None
    return ARTIFACT_CACHE_AUDIENCE in (said if isinstance(said, list) else [said])
