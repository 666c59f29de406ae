"""An HTTP server on a thread of its own, for as long as a block runs; and the pages by which a loop shows itself."""

import http.server
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4

from headway.problem import UserError


@contextmanager
def listening(
    address: str, port: int, handler: type[http.server.BaseHTTPRequestHandler], *, consequence: str, remedy: str
) -> Generator[int]:
    """Answer by `handler` until the end of the block; the port, which is a free one for 0. Raises UserError when it
    cannot be had."""
    try:
        server = http.server.ThreadingHTTPServer((address, port), handler)
    except OSError as failure:
        raise UserError(f"{address}:{port} cannot be listened on: {failure.strerror or failure}.", consequence, remedy) from None
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


def pages(found: Mapping[str, Callable[[], tuple[int, str]]]) -> type[http.server.BaseHTTPRequestHandler]:
    """Answers by status and text of the page at the asked path."""

    class Pages(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = found.get(self.path)
            status, text = page() if page else (404, f"there are {' and '.join(sorted(found))}\n")
            self.send_response(status)
            self.send_header("Content-Type", CONTENT_TYPE_PLAIN_0_0_4)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: object) -> None: ...

    return Pages
