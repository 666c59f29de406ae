"""A wire between a client and a server of this machine that a test can cut, silence or slow down, as networks do.

What is cut is refused at once; what is silent takes everything and answers nothing, which only a timeout of the client's own ends.
"""

import contextlib
import http.client
import socket
import threading
import time
from collections.abc import Generator
from enum import Enum, auto

from tests.loopback import Handler, served


class State(Enum):
    """What a wire does with bytes."""

    WHOLE = auto()
    CUT = auto()
    SILENT = auto()
    SLOW = auto()


class Wire:
    """Forwards connections to `port`; `state` may be changed at any time, and holds for open connections too."""

    def __init__(self, port: int, delay: float = 1.0) -> None:
        """`delay`: seconds before each piece of an answer while it is slow."""
        self._to, self._delay = port, delay
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self._guard = threading.Lock()
        self._state = State.WHOLE
        self.met = 0
        """How often somebody met what the wire now is: connections refused, pieces swallowed or held up."""
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @contextlib.contextmanager
    def being(self, state: State) -> Generator[None]:
        """In this state until the end of the block."""
        self._state, self.met = state, 0
        if state is State.CUT:
            self._drop()
        try:
            yield
        finally:
            self._state = State.WHOLE
            if state is State.SILENT:
                self._drop()  # what was swallowed never comes

    def close(self) -> None:
        self._state = State.CUT
        self._listener.close()
        self._drop()

    def _drop(self) -> None:
        with self._guard:
            held, self._open = self._open, set()
        for one in held:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            if self._state is State.CUT:
                self.met += 1
                return
            with socket.create_connection(("127.0.0.1", self._to), timeout=10.0) as server:
                server.settimeout(None)
                with self._guard:
                    self._open |= {client, server}
                back = threading.Thread(target=self._pump, args=(server, client), daemon=True)
                back.start()
                self._pump(client, server)
                back.join()
                with self._guard:
                    self._open -= {client, server}

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(2**16):
                self.met += self._state is not State.WHOLE
                if self._state is State.SLOW:
                    time.sleep(self._delay)
                if self._state is not State.SILENT:
                    sink.sendall(piece)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def careless(store: Wire) -> Generator[str]:
    """An object store that takes no notice of the condition of a write; answers its address."""

    class Store(Handler):
        def _forward(self) -> None:
            body = self.body()
            headers = {name: value for name, value in self.headers.items() if name.lower() not in ("if-none-match", "connection")}
            connection = http.client.HTTPConnection("127.0.0.1", store.port, timeout=30.0)
            try:
                connection.request(self.command, self.path, body, headers)
                answer = connection.getresponse()
                content = answer.read()
            finally:
                connection.close()
            kept = {k: v for k, v in answer.getheaders() if k.lower() not in ("connection", "transfer-encoding", "content-length")}
            self.reply(answer.status, content, **kept)

        do_GET = do_PUT = do_HEAD = _forward  # noqa: N815  as http.server calls them

    with served(Store) as url:
        yield url
