"""Callers that send most of a body and then nothing, through a real Envoy that is gateway and replica's proxy in one."""

import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from subprocess import Popen
from time import monotonic, sleep

import pytest

from components.addons import gateway_memory
from sandbox.traffic.mesh.tokens import TokenIssuers
from sandbox.traffic.pod_addresses import loopback
from tests.loopback import served
from tests.traffic import proxied
from tests.traffic.static_configuration import static
from tests.traffic.test_intruders import OTHERS, OTHERS_HOST, SERVED, Gateway, Server, compiled

HEAP = 160 * 2**20
"""Instead of the 640 MiB of a gateway's proxy, so that few callers fill it."""
OVERSHOOT = 300 * 2**20
"""What a proxy takes in between two looks at its heap, and what it holds besides: 113 to 240 MiB were seen, without the limit 668."""
BODY, CALLERS = 2_000_000, 300


Stalled = tuple[Gateway, "Popen[bytes]"]
"""And Envoy's process."""


def resident(pid: int) -> int:
    """Bytes that the process holds in memory."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))) * 1024


@pytest.fixture
def stalled(tmp_path: Path) -> Iterator[Stalled]:
    port, issuers = proxied.free_port(), TokenIssuers(tmp_path / "issuers")
    server = type("Stalled", (Server,), {"asked": []})
    with ExitStack() as stack:
        stack.enter_context(served(server, 8000, loopback(SERVED[OTHERS][1])))
        configuration = static(compiled(tmp_path, port, issuers))
        process = stack.enter_context(proxied.envoy(tmp_path, configuration, port, gateway_memory.bootstrap(HEAP)))
        yield Gateway(port=port, issuers=issuers, intruders=issuers, servers={OTHERS: server}), process


def answer(caller: socket.socket) -> int | None:
    """The status that a caller got, 0 for a connection that was closed, None while it waits."""
    try:
        said = caller.recv(12)
    except TimeoutError:
        return None
    except OSError:
        return 0
    return int(said.split()[1]) if said else 0


def test_callers_that_stall_their_bodies_do_not_fill_a_proxys_memory(stalled: Stalled) -> None:
    gateway, process = stalled
    head = f"POST /v2/models/a/infer HTTP/1.1\r\nHost: {OTHERS_HOST}\r\nAuthorization: Bearer {gateway.token(OTHERS)}"
    asked, most = f"{head}\r\nContent-Length: {BODY}\r\n\r\n".encode() + b" " * (BODY - 1), 0
    with ExitStack() as stack:
        callers: list[socket.socket] = []
        for _ in range(CALLERS):
            with suppress(OSError):
                callers.append(stack.enter_context(socket.create_connection(("127.0.0.1", gateway.port), timeout=0.5)))
                callers[-1].sendall(asked)
            most = max(most, resident(process.pid))
        answered = Counter(answer(caller) for caller in callers)
    assert most < HEAP + OVERSHOOT, f"{most / 2**20:.0f} MiB of {CALLERS * BODY / 2**20:.0f}"
    assert answered[503], answered
    until = monotonic() + 30
    while gateway.say("", host=OTHERS_HOST, target="/v2", token=gateway.token(OTHERS)) != 200:
        assert monotonic() < until, "nobody is served again"
        sleep(0.2)
