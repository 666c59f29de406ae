"""A target that shows what a test tells it to."""

import http.server
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class Exporter:
    """Text on a port of this machine, in Prometheus' format, or what makes it anew for each reading; a test may change it at any time."""

    port: int
    text: str | Callable[[], str]

    @property
    def target(self) -> str:
        return f"127.0.0.1:{self.port}"


@contextmanager
def shown(text: str | Callable[[], str]) -> Generator[Exporter]:
    """Show `text` until the end of the block."""
    found = Exporter(port=0, text=text)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            text = found.text if isinstance(found.text, str) else found.text()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: object) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.port = server.server_port
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
