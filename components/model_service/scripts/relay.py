"""Serves a model server's metrics page, and nothing else of it, on a port of its own: `python3 relay.py PORT URL`.

A server that answers requests and metrics on one port cannot open one to the scraper and keep the other to the mesh; the proxy knows ports
only. Runs as a native sidecar in the serving image, on the standard library. The trap: it must never answer for the server, so a server
that does not answer gives 502 here, and the scrape counts as failed.
"""

import http.client
import sys
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TIMEOUT_SECONDS = 8
LARGEST_PAGE = 16 * 2**20


class Straight(urllib.request.HTTPRedirectHandler):
    """A server that sends its callers elsewhere is not obeyed."""

    def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: Any) -> None:
        return


# Nor is a proxy that some variable names: what is asked is in this pod or AWS, and credentials are for nobody between.
STRAIGHT = urllib.request.build_opener(Straight, urllib.request.ProxyHandler({}))


def whole(answer: Any) -> bytes:
    """The page, whole in time. Raises OSError."""
    until, page = time.monotonic() + TIMEOUT_SECONDS, bytearray()
    while True:
        piece = answer.read1(1 << 16)
        if not piece:
            return bytes(page)
        page += piece
        if len(page) > LARGEST_PAGE or time.monotonic() > until:
            raise OSError(f"it is longer than {LARGEST_PAGE} bytes or {TIMEOUT_SECONDS} s")


def serve(port: int, url: str) -> None:
    class Handler(BaseHTTPRequestHandler):
        timeout = TIMEOUT_SECONDS

        def do_GET(self) -> None:
            try:
                with STRAIGHT.open(url, timeout=TIMEOUT_SECONDS) as answer:
                    status, kind, page = answer.status, answer.headers.get("content-type", "text/plain"), whole(answer)
            except (OSError, http.client.HTTPException) as error:
                status, kind, page = 502, "text/plain", f"the server's metrics page cannot be read: {error}\n".encode()
            self._reply(status, kind, page)

        def _reply(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None: ...

    ThreadingHTTPServer(("", port), Handler).serve_forever()


if __name__ == "__main__":
    serve(int(sys.argv[1]), sys.argv[2])
