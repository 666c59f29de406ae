"""HTTP servers that tests start for themselves, on loopback."""

import json
import socket
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def free_port() -> int:
    """One that nobody listens on now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Handler(BaseHTTPRequestHandler):
    """Reads a body whole and gives an answer in one call; prints nothing."""

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("content-length") or 0))

    def reply(self, status: int, body: Any = b"", **headers: str) -> None:
        """Answer with `body`: bytes or text as they are, anything else as JSON. Underscores in names of headers are hyphens."""
        content = body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None: ...


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed does not wait for its answer."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def served(handler: type[Handler], port: int = 0, host: str = "127.0.0.1") -> Generator[str]:
    """The address of a server, `http://HOST:PORT`, until the end of the block; a free port unless one is given."""
    with _Server((host, port), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield f"http://{host}:{server.server_port}"
        finally:
            server.shutdown()
