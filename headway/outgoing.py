"""Requests to one server and to no other: whatever it answers, no redirect is followed.

The trap: `urllib.request.urlopen` follows a redirect to any host, and takes every header along, credentials too.
"""

import http.client
import urllib.request
from typing import IO, Any


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: http.client.HTTPMessage, newurl: str
    ) -> None:
        """A redirect is an HTTPError like any other status that is no success."""
        return


_OPENER = urllib.request.build_opener(_NoRedirects)


def asked(request: urllib.request.Request, seconds: float) -> Any:
    """The answer, to be closed. Raises urllib.error.HTTPError for every other status than 2xx, OSError where there is
    no answer."""
    return _OPENER.open(request, timeout=seconds)
