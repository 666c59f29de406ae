"""Serves a model server's metrics page, and nothing else of it, on a port of its own: `python3 relay.py PORT URL`.

A server that answers requests and metrics on one port cannot open one to the scraper and keep the other to the mesh; the proxy knows ports
only. Runs as a native sidecar in the serving image, on the standard library. The trap: it must never answer for the server, so a server
that does not answer gives 502 here, and the scrape counts as failed.
"""

import sys
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TIMEOUT_SECONDS = 8


class Straight(urllib.request.HTTPRedirectHandler):
    """A server that sends its callers elsewhere is not obeyed."""

    def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: Any) -> None:
        return


# Nor is a proxy that some variable names: what is asked is in this pod or AWS, and credentials are for nobody between.
STRAIGHT = urllib.request.build_opener(Straight, urllib.request.ProxyHandler({}))


def serve(port: int, url: str) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            try:
                with STRAIGHT.open(url, timeout=TIMEOUT_SECONDS) as answer:
                    self._reply(answer.status, answer.headers.get("content-type", "text/plain"), answer.read())
            except (urllib.error.URLError, OSError) as error:
                self._reply(502, "text/plain", f"the server's metrics page cannot be read: {error}\n".encode())

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
