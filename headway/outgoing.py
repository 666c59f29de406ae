"""Requests to one server and to no other: whatever it answers, no redirect is followed, no proxy reads them, and the answer is whole in time.

The traps: `urllib.request.urlopen` follows a redirect to any host, and takes every header along, credentials too; and its timeout is for each
piece that comes, so that a server which sends a byte now and then is heard for ever.
"""

import http.client
import io
import ipaddress
import socket
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import IO, Any


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: http.client.HTTPMessage, newurl: str
    ) -> None:
        """A redirect is an HTTPError like any other status that is no success."""
        return


class TunnelsOnly(urllib.request.ProxyHandler):
    """The machine's proxy for https, which sees no more than the host's name; none for http, which would read all."""

    def __init__(self) -> None:
        super().__init__({scheme: proxy for scheme, proxy in urllib.request.getproxies().items() if scheme == "https"})


class _Incoming(io.RawIOBase):
    """What a socket brings until a moment."""

    def __init__(self, of: socket.socket, seconds: float) -> None:
        self._of, self.until = of, time.monotonic() + seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self.until - time.monotonic()
        if left <= 0:
            raise TimeoutError("the answer was not complete in time")
        self._of.settimeout(left)
        return self._of.recv_into(buffer)

    def close(self) -> None:
        super().close()
        self._of.close()


class _Connected:
    """A socket whose answer must be whole within `seconds` of the request's end."""

    def __init__(self, of: socket.socket, seconds: float) -> None:
        self._of, self._seconds, self._answers = of, seconds, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of, name)

    def makefile(self, *_: Any, **__: Any) -> io.BufferedReader:
        self._answers = True
        return io.BufferedReader(_Incoming(self._of, self._seconds))

    def close(self) -> None:
        """urllib closes it before the answer is read; the answer then closes it itself."""
        if not self._answers:
            self._of.close()


class _Connection(http.client.HTTPConnection):
    def connect(self) -> None:
        super().connect()
        self.sock: Any = _Connected(self.sock, float(self.timeout or 0))


class _SecureConnection(http.client.HTTPSConnection):
    def connect(self) -> None:
        super().connect()
        self.sock: Any = _Connected(self.sock, float(self.timeout or 0))


class InTime(urllib.request.HTTPHandler):
    """A request's timeout is for its whole answer."""

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_Connection, req)  # pyright: ignore[reportArgumentType]


class SecureInTime(urllib.request.HTTPSHandler):
    """A request's timeout is for its whole answer."""

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_SecureConnection, req, context=self._context)  # pyright: ignore  # its context is the standard library's own


_OPENER = urllib.request.build_opener(_NoRedirects, TunnelsOnly, InTime, SecureInTime)


def is_private(url: str) -> bool:
    """Whether nobody between here and there reads what is sent: https, or this very machine."""
    try:
        parts = urllib.parse.urlsplit(url)
        host = parts.hostname or ""
        return parts.scheme == "https" or host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def asked(request: urllib.request.Request, seconds: float) -> Any:
    """The answer, to be closed, which comes whole within `seconds`. Raises urllib.error.HTTPError for every other status than 2xx, OSError
    where there is no answer, or where nobody could be asked at that address."""
    try:
        return _OPENER.open(request, timeout=seconds)
    except (http.client.HTTPException, ValueError) as odd:
        raise OSError(str(odd) or type(odd).__name__) from None


def body_of(answer: Any, largest: int) -> bytes:
    """All of an answer. Raises OSError for one of more than `largest` bytes, or that does not come whole."""
    try:
        found = answer.read(largest + 1)
    except (http.client.HTTPException, ValueError) as odd:
        raise OSError(str(odd) or type(odd).__name__) from None
    if len(found) > largest:
        raise OSError(f"it answers with more than {largest} bytes")
    return found


def refusal_of(error: urllib.error.HTTPError, most: int = 300) -> str:
    """The first bytes of what a server says with an error, which is closed; nothing where it says nothing in time."""
    with error:
        try:
            return error.read(most).decode(errors="replace").strip()
        except (OSError, http.client.HTTPException, ValueError):
            return ""


def given_more_time(answer: Any, seconds: float) -> None:
    """Let an answer of `asked` whose size is known take so much longer."""
    answer.fp.raw.until += seconds
