"""An HTTP server on a thread of its own, for as long as a block runs."""

import http.server
import threading
from collections.abc import Generator
from contextlib import contextmanager

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
