"""The supervisor, proved with small servers of the test's own: quick, and without the control plane."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from headway.problem import Exit, UserError
from sandbox.cluster import linux, ports
from sandbox.cluster.locks import exclusive
from sandbox.cluster.processes import Process, Supervisor, rotate
from sandbox.layout import Layout
from sandbox.progress import Silent

SERVER = """
import signal, socket, subprocess, sys
port, mode = int(sys.argv[1]), sys.argv[2]
if mode == "stubborn": signal.signal(signal.SIGTERM, signal.SIG_IGN)
if mode == "failing": sys.exit("cannot read its configuration")
if mode == "parent": subprocess.Popen(["sleep", "600"])
server = socket.create_server(("127.0.0.1", port))
print("listening", flush=True)
while True: server.accept()[0].close()
"""


HOLDER = """
import sys, time
from pathlib import Path
from sandbox.cluster.locks import exclusive
with exclusive(Path(sys.argv[1]), what="x", waiting=print, timeout=1):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(project=tmp_path, state=tmp_path / "state", cache=tmp_path / "cache")


@pytest.fixture
def supervisor(layout: Layout) -> Iterator[Supervisor]:
    it = Supervisor(layout, random=Random())
    yield it
    it.stop_all(Silent())


@pytest.fixture
def spec(supervisor: Supervisor) -> Callable[..., Process]:
    def make(mode: str = "willing", **changes: object) -> Process:
        port = supervisor.port("server")

        def ready() -> str | None:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
            except OSError:
                return "waiting for it to listen"
            return None

        argv = (sys.executable, "-S", "-c", SERVER, str(port), mode)
        base = Process(name="server", argv=argv, ports=(port,), ready=ready, start_seconds=10, stop_seconds=5)
        return replace(base, **changes)  # pyright: ignore[reportArgumentType]

    return make


def pid(supervisor: Supervisor) -> int:
    (status,) = supervisor.list()
    assert status.pid is not None
    return status.pid


def alive(pid: int) -> bool:
    return linux.stat(pid) is not None


def test_a_process_is_started_once_and_known_again_by_another_command(
    supervisor: Supervisor, layout: Layout, spec: Callable[..., Process]
) -> None:
    assert supervisor.ensure(spec(), Silent())
    later = Supervisor(layout)
    assert not later.ensure(spec(), Silent())
    (status,) = later.list()
    assert status.running
    assert status.ports == spec().ports
    assert status.memory_bytes > 1 << 20
    assert status.since is not None
    assert status.log.read_text() == "listening\n"


def test_it_outlives_its_starter_with_no_terminal_and_no_parent_of_ours(supervisor: Supervisor, spec: Callable[..., Process]) -> None:
    supervisor.ensure(spec(), Silent())
    stat = Path(f"/proc/{pid(supervisor)}/stat").read_text().rpartition(")")[2].split()
    parent, terminal = int(stat[1]), int(stat[4])
    assert parent != os.getpid()
    assert terminal == 0
    assert os.getsid(pid(supervisor)) != os.getsid(0)


def test_a_killed_process_is_not_running_and_is_started_again(supervisor: Supervisor, spec: Callable[..., Process]) -> None:
    supervisor.ensure(spec(), Silent())
    before = pid(supervisor)
    os.kill(before, signal.SIGKILL)
    while alive(before):
        time.sleep(0.01)
    assert [status.running for status in supervisor.list()] == [False]
    assert supervisor.ensure(spec(), Silent())
    assert pid(supervisor) != before


def test_a_recycled_pid_is_neither_ours_nor_stopped(supervisor: Supervisor, layout: Layout, spec: Callable[..., Process]) -> None:
    """The record names a pid that lives, but as another process: started at another moment."""
    supervisor.ensure(spec(), Silent())
    supervisor_pid = pid(supervisor)
    stranger = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        record = layout.cluster / "processes" / "server.stat"
        ours = record.read_text()
        record.write_text(ours.replace(f"{supervisor_pid} ", f"{stranger.pid} ", 1))
        assert [status.running for status in supervisor.list()] == [False]
        assert not supervisor.stop("server", Silent())
        assert stranger.poll() is None, "a stranger was killed"
    finally:
        stranger.kill()
        stranger.wait()
        os.kill(supervisor_pid, signal.SIGKILL)


def test_a_record_from_before_a_reboot_names_nobody(supervisor: Supervisor, layout: Layout, spec: Callable[..., Process]) -> None:
    supervisor.ensure(spec(), Silent())
    ours = pid(supervisor)
    record = layout.cluster / "processes" / "server.json"
    data = json.loads(record.read_text())
    record.write_text(json.dumps({**data, "boot": "another"}))
    assert [status.running for status in supervisor.list()] == [False]
    record.write_text(json.dumps(data))
    assert pid(supervisor) == ours


def test_a_changed_command_restarts_it(supervisor: Supervisor, spec: Callable[..., Process]) -> None:
    supervisor.ensure(spec(), Silent())
    before = pid(supervisor)
    assert supervisor.ensure(spec("parent"), Silent())
    assert not alive(before)


def test_a_changed_environment_restarts_it(supervisor: Supervisor, spec: Callable[..., Process]) -> None:
    supervisor.ensure(spec(environment={"LEVEL": "1"}), Silent())
    assert not supervisor.ensure(spec(environment={"LEVEL": "1"}), Silent())
    assert supervisor.ensure(spec(environment={"LEVEL": "2"}), Silent())
    assert b"LEVEL=2" in Path(f"/proc/{pid(supervisor)}/environ").read_bytes()


def test_a_changed_file_that_it_reads_restarts_it(supervisor: Supervisor, tmp_path: Path, spec: Callable[..., Process]) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("a: 1")
    supervisor.ensure(spec(inputs=(file,)), Silent())
    assert not supervisor.ensure(spec(inputs=(file,)), Silent())
    file.write_text("a: 2")
    assert supervisor.ensure(spec(inputs=(file,)), Silent())


def test_a_process_that_ends_while_it_is_looked_at_is_started_anew(supervisor: Supervisor, spec: Callable[..., Process]) -> None:
    asked = spec()
    supervisor.ensure(asked, Silent())
    first = pid(supervisor)

    def ready() -> str | None:
        if alive(first):
            os.kill(first, signal.SIGKILL)
        while alive(first):
            time.sleep(0.01)
        return asked.ready()

    supervisor.ensure(replace(asked, ready=ready), Silent())
    assert pid(supervisor) != first


def test_a_process_that_hangs_is_started_anew(supervisor: Supervisor, spec: Callable[..., Process]) -> None:
    supervisor.ensure(spec(stop_seconds=0.2), Silent())
    before = pid(supervisor)
    os.kill(before, signal.SIGSTOP)
    verdicts = iter(["it does not answer"] * 1000)

    def ready() -> str | None:
        return next(verdicts) if alive(before) else spec().ready()

    supervisor.ensure(spec(ready=ready, start_seconds=3), Silent())
    assert not alive(before)
    assert pid(supervisor) != before


def test_stopping_asks_first_and_takes_the_children_along(supervisor: Supervisor, spec: Callable[..., Process]) -> None:
    supervisor.ensure(spec("parent"), Silent())
    parent = pid(supervisor)
    (child,) = [int(word) for word in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]
    assert supervisor.stop("server", Silent())
    deadline = time.monotonic() + 5
    while alive(child) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not alive(parent)
    assert not alive(child)
    assert supervisor.list() == ()


def test_a_process_that_ignores_the_request_is_killed(supervisor: Supervisor, spec: Callable[..., Process]) -> None:
    supervisor.ensure(spec("stubborn", stop_seconds=0.3), Silent())
    stubborn = pid(supervisor)
    assert supervisor.stop("server", Silent())
    assert not alive(stubborn)


def test_stopping_what_does_not_run_is_no_error(supervisor: Supervisor) -> None:
    assert not supervisor.stop("never-started", Silent())


def test_a_process_that_ends_at_start_is_reported_with_its_last_lines_and_log(
    supervisor: Supervisor, layout: Layout, spec: Callable[..., Process]
) -> None:
    with pytest.raises(UserError) as failure:
        supervisor.ensure(spec("failing"), Silent())
    assert "server ended while it was starting" in failure.value.fact
    assert "cannot read its configuration" in failure.value.consequence
    assert str(layout.logs / "server.log") in failure.value.remedy


def test_a_process_that_is_killed_at_its_start_is_worth_another_try(supervisor: Supervisor, spec: Callable[..., Process]) -> None:
    with pytest.raises(UserError) as caught:
        supervisor.ensure(spec(argv=("/bin/sh", "-c", "kill -9 $$")), Silent())
    assert "the last lines of its log: none" in caught.value.consequence
    assert caught.value.remedy.endswith("run the command again")


def test_envoys_words_for_no_inotify_instance_left_are_understood(supervisor: Supervisor, spec: Callable[..., Process]) -> None:
    """Its last words are a backtrace; the cause stands before it."""
    words = "echo '[critical][assert] assert failure: inotify_fd_ >= 0.'; for n in 1 2 3 4 5 6 7 8; do echo \"#$n: 0x55\"; done; exit 134"
    with pytest.raises(UserError) as caught:
        supervisor.ensure(spec(argv=("/bin/sh", "-c", words)), Silent())
    assert "sysctl fs.inotify.max_user_instances" in caught.value.remedy


def test_what_would_find_too_few_inotify_instances_is_not_started(
    supervisor: Supervisor, spec: Callable[..., Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linux, "file_watches", lambda most: min(most, 3))
    with pytest.raises(UserError) as caught:
        supervisor.ensure(spec(file_watches=4), Silent())
    assert caught.value.fact.startswith("3 of this user's ")
    assert "4 are needed to start server" in caught.value.fact
    assert supervisor.list() == ()
    assert supervisor.ensure(spec(file_watches=3), Silent())


def test_inotify_instances_are_counted_by_opening_them_and_given_back() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert linux.file_watches(1) == 1
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert int(linux.file_watches_limit()) > 0


def test_a_program_that_does_not_exist_is_told_as_such(supervisor: Supervisor, spec: Callable[..., Process]) -> None:
    with pytest.raises(UserError, match="not found") as failure:
        supervisor.ensure(spec(argv=("/nowhere/etcd",)), Silent())
    assert failure.value.exit == Exit.ENVIRONMENT


def test_a_process_that_is_never_ready_is_told_with_what_it_waits_for(supervisor: Supervisor, spec: Callable[..., Process]) -> None:
    with pytest.raises(UserError, match="not ready after 0 s: waiting for its datastore"):
        supervisor.ensure(spec(ready=lambda: "waiting for its datastore", start_seconds=0.3), Silent())


def test_a_port_in_use_is_named_before_anything_is_started(supervisor: Supervisor, spec: Callable[..., Process]) -> None:
    (port,) = spec().ports
    with socket.create_server(("127.0.0.1", port)), pytest.raises(UserError) as refusal:
        supervisor.ensure(spec(), Silent())
    assert f"127.0.0.1:{port} of server is taken by pid {os.getpid()}" in refusal.value.fact
    assert supervisor.list() == ()


def test_a_command_killed_between_record_and_launch_is_repaired(
    supervisor: Supervisor, layout: Layout, spec: Callable[..., Process]
) -> None:
    supervisor.ensure(spec(), Silent())
    first = pid(supervisor)
    os.kill(first, signal.SIGKILL)
    (layout.cluster / "processes" / "server.stat").unlink()
    assert [status.running for status in supervisor.list()] == [False]
    assert supervisor.ensure(spec(), Silent())


@pytest.mark.parametrize("act", ["stop", "ensure"])
def test_a_launch_cut_off_before_its_process_recorded_itself_is_awaited(
    supervisor: Supervisor, layout: Layout, spec: Callable[..., Process], act: str
) -> None:
    supervisor.ensure(spec(), Silent())
    launched, stat = pid(supervisor), layout.cluster / "processes" / "server.stat"
    said = stat.read_text()
    stat.unlink()
    threading.Timer(0.3, stat.write_text, (said,)).start()
    if act == "stop":
        assert supervisor.stop("server", Silent())
        assert not alive(launched)
    else:
        assert not supervisor.ensure(spec(), Silent())
        assert pid(supervisor) == launched


def test_only_the_path_and_the_home_are_inherited(
    supervisor: Supervisor, spec: Callable[..., Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.invalid")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-for-servers")
    supervisor.ensure(spec(), Silent())
    environment = Path(f"/proc/{pid(supervisor)}/environ").read_text()
    assert "PROXY" not in environment
    assert "not-for-servers" not in environment
    assert "PATH=" in environment


def test_logs_of_earlier_starts_are_kept_and_then_forgotten(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    for number in range(6):
        rotate(log)
        log.write_text(str(number))
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "server.log": "5",
        "server.log.1": "4",
        "server.log.2": "3",
        "server.log.3": "2",
    }


def test_a_port_is_chosen_once_and_kept(layout: Layout) -> None:
    first = Supervisor(layout, random=Random(1)).port("moto")
    assert Supervisor(layout, random=Random(2)).port("moto") == first
    assert Supervisor(layout, random=Random(1)).port("other") != first, "the same random numbers, but that one is ours already"


def test_ports_lie_below_those_for_outgoing_connections() -> None:
    lowest_outgoing = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert 1024 < ports.FIRST < ports.LAST <= lowest_outgoing


def test_when_no_port_is_free_it_is_said() -> None:
    with pytest.raises(RuntimeError, match="no free port"):
        ports.choose((), lambda _: False, Random(7))


def test_a_zombie_counts_as_ended() -> None:
    child = subprocess.Popen(["true"])
    deadline = time.monotonic() + 5
    while linux.stat(child.pid) is not None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert linux.stat(child.pid) is None
    child.wait()


def test_the_kernel_names_who_listens_and_what_is_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert not linux.is_free(port)
        assert linux.listener(port) == f"pid {os.getpid()} ({Path('/proc/self/comm').read_text().strip()})"
    assert linux.is_free(port)
    assert linux.listener(port) is None


def test_a_second_command_says_whom_it_waits_for_and_gives_up_in_the_end(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "lock")],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    said: list[str] = []
    with (
        pytest.raises(UserError, match=f"Process {holder.pid} still builds") as refusal,
        exclusive(tmp_path / "lock", what="builds", waiting=said.append, timeout=0.3),
    ):
        pytest.fail("both hold the lock")
    assert said[0] == f"waiting for process {holder.pid}, which builds"
    assert refusal.value.exit == Exit.BUSY
    holder.kill()
    holder.communicate()
    with exclusive(tmp_path / "lock", what="builds", waiting=said.append, timeout=5):
        pass  # a dead holder holds nothing
