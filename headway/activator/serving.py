"""Where the gateway asks: `GET /hold/TENANT/MODEL/SECONDS/BYTES` is answered when the service has a replica, or when the time is over;
`BYTES` is what a proxy keeps of the request meanwhile."""

import http.server
import re
import select
import socket

from headway.activator.waiting import Ended, Service, WaitingRoom
from headway.listening import IDLE_SECONDS

LONGEST_SECONDS = 3600
_NAME = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_ASKED = re.compile(rf"/hold/({_NAME})/({_NAME})/([0-9]{{1,4}})/([0-9]{{1,12}})")
_STATUS = {Ended.FULL: 503, Ended.LATE: 504}


def asked(path: str) -> tuple[Service, int, int] | None:
    """Whose replica to wait for, how many seconds, and how many bytes are kept; None for any other path."""
    found = _ASKED.fullmatch(path)
    if not found or int(found[3]) > LONGEST_SECONDS:
        return None
    return Service(found[1], found[2]), int(found[3]), int(found[4])


def holding(room: WaitingRoom) -> type[http.server.BaseHTTPRequestHandler]:
    """Answers by the room."""

    class Holding(http.server.BaseHTTPRequestHandler):
        timeout = IDLE_SECONDS

        def do_GET(self) -> None:
            if wanted := asked(self.path):
                ended = room.hold(*wanted, left=lambda: gone(self.connection))
                if ended is not Ended.LEFT:
                    self._answer(_STATUS.get(ended, 200), ended)
            else:
                self._answer(404, "ask /hold/TENANT/MODEL/SECONDS/BYTES")

        def _answer(self, status: int, text: str) -> None:
            body = f"{text}\n".encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/plain")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None: ...

    return Holding


def gone(connection: socket.socket) -> bool:
    """Whether the other side has closed it."""
    try:
        readable, _, _ = select.select([connection], [], [], 0)
        return bool(readable) and connection.recv(1, socket.MSG_PEEK) == b""
    except OSError:
        return True
