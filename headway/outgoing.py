"""Requests to one server and to no other: whatever it answers, no redirect is followed, and no proxy reads them.

The trap: `urllib.request.urlopen` follows a redirect to any host, and takes every header along, credentials too.
"""

import http.client
import ipaddress
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


_OPENER = urllib.request.build_opener(_NoRedirects, TunnelsOnly)


def is_private(url: str) -> bool:
    """Whether nobody between here and there reads what is sent: https, or this very machine."""
    try:
        parts = urllib.parse.urlsplit(url)
        host = parts.hostname or ""
        return parts.scheme == "https" or host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def asked(request: urllib.request.Request, seconds: float) -> Any:
    """The answer, to be closed. Raises urllib.error.HTTPError for every other status than 2xx, OSError where there is
    no answer."""
    return _OPENER.open(request, timeout=seconds)
