"""An HTTP server on a thread of its own, for as long as a block runs; and the pages by which a loop shows itself."""

import http.server
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4

from headway.problem import UserError

IDLE_SECONDS = 30.0
"""Whoever says or takes nothing for so long is cut off."""
MOST_AT_ONCE = 200
"""Connections, each with a thread; one more is closed at once."""


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._places = threading.BoundedSemaphore(MOST_AT_ONCE)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()


@contextmanager
def listening(
    address: str, port: int, handler: type[http.server.BaseHTTPRequestHandler], *, consequence: str, remedy: str
) -> Generator[int]:
    """Answer by `handler` until the end of the block; the port, which is a free one for 0. Raises UserError when it
    cannot be had."""
    try:
        server = _Server((address, port), handler)
    except OSError as failure:
        raise UserError(f"{address}:{port} cannot be listened on: {failure.strerror or failure}.", consequence, remedy) from None
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


def asked_body(request: http.server.BaseHTTPRequestHandler, largest: int) -> bytes:
    """The body of a request. Raises ValueError for one that does not say its length, or one of more than `largest` bytes: nothing of it is
    read then, so the connection must end."""
    if "Transfer-Encoding" in request.headers:
        raise ValueError("it has no length")
    said = request.headers.get("Content-Length") or "0"
    if not (said.isascii() and said.isdigit()) or len(said) > 12 or int(said) > largest:
        raise ValueError(f"its length is no number up to {largest}")
    return request.rfile.read(int(said))


def pages(found: Mapping[str, Callable[[], tuple[int, str]]]) -> type[http.server.BaseHTTPRequestHandler]:
    """Answers by status and text of the page at the asked path."""

    class Pages(http.server.BaseHTTPRequestHandler):
        timeout = IDLE_SECONDS

        def do_GET(self) -> None:
            page = found.get(self.path)
            status, text = page() if page else (404, f"there are {' and '.join(sorted(found))}\n")
            self.send_response(status)
            self.send_header("Content-Type", CONTENT_TYPE_PLAIN_0_0_4)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: object) -> None: ...

    return Pages


class ShownLoop(Protocol):
    """What a loop shows of itself: whether it still looks, and its metrics in Prometheus' text format."""

    @property
    def well(self) -> bool: ...

    def text(self) -> str: ...


@contextmanager
def showing(pulse: ShownLoop, address: str, port: int, option: str = "--serve") -> Generator[int]:
    """Show `pulse` until the end of the block; the port, which is a free one for 0. Raises UserError, which names the `option`, when it cannot
    be had."""
    found = pages({"/healthz": lambda: (200, "well\n") if pulse.well else (503, "stuck\n"), "/metrics": lambda: (200, pulse.text())})
    consequence, remedy = "The loop was not started.", f"Choose another address or port for {option}."
    with listening(address, port, found, consequence=consequence, remedy=remedy) as listened:
        yield listened
