"""One operation at a time on a stack, whoever dies, and a way to stop the one that runs."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from pulumi_embedded.engine.lock import LockedError, cancel_of, held, holder_of, lock_of, request_cancel

STACK = "organization/proj/dev"

HOLDER = """
import sys, threading
from pathlib import Path
from pulumi_embedded.engine.lock import held
cancelled = threading.Event()
with held(Path(sys.argv[1]), "organization/proj/dev", "update", cancelled.set):
    print("held", flush=True)
    cancelled.wait(60)
print("cancelled" if cancelled.is_set() else "timeout", flush=True)
"""


def nothing() -> None: ...


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "proj" / "dev.json"


def holder_process(path: Path) -> "subprocess.Popen[str]":
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_operation_is_refused_with_the_holder_and_what_to_do(path: Path) -> None:
    process = holder_process(path)
    try:
        with pytest.raises(LockedError) as caught, held(path, STACK, "destroy", nothing):
            pass
        text = str(caught.value)
        assert "the stack is currently locked by" in text
        assert f"pid {process.pid}" in text
        assert socket.gethostname() in text
        assert "update" in text
        assert "pulumi cancel" in text
    finally:
        process.kill()
        process.communicate()


def test_the_lock_of_a_killed_holder_is_free_at_once(path: Path) -> None:
    process = holder_process(path)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert lock_of(path).read_text() != ""
    assert holder_of(path) is None
    with held(path, STACK, "update", nothing) as me:
        assert me.pid == os.getpid()


def test_the_lock_is_free_after_its_holder_ended_well_or_badly(path: Path) -> None:
    with pytest.raises(KeyError), held(path, STACK, "update", nothing):
        raise KeyError
    with held(path, STACK, "update", nothing):
        pass
    assert holder_of(path) is None


def test_two_threads_of_one_process_exclude_each_other(path: Path) -> None:
    with held(path, STACK, "update", nothing), pytest.raises(LockedError), held(path, STACK, "update", nothing):
        pass


def test_two_stacks_do_not_exclude_each_other(path: Path) -> None:
    with held(path, STACK, "update", nothing), held(path.with_name("other.json"), STACK, "update", nothing):
        pass


def test_asking_who_holds_the_lock_never_makes_an_operation_fail(path: Path) -> None:
    ended = threading.Event()

    def ask() -> None:
        while not ended.is_set():
            holder_of(path)

    with held(path, STACK, "update", nothing):
        pass
    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(100):
            with held(path, STACK, "update", nothing):
                pass
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def test_a_cancel_request_reaches_another_process_and_waits_until_it_has_let_go(path: Path) -> None:
    process = holder_process(path)
    holder = holder_of(path)
    assert holder is not None
    assert request_cancel(path, holder, seconds=20, waiting=lambda seconds: None)
    assert holder_of(path) is None
    assert process.communicate(timeout=60)[0] == "cancelled\n"


def test_a_cancel_request_reaches_an_operation_in_this_process(path: Path) -> None:
    cancelled = threading.Event()
    held_now = threading.Event()

    def operate() -> None:
        with held(path, STACK, "update", cancelled.set):
            held_now.set()
            cancelled.wait(60)

    thread = threading.Thread(target=operate)
    thread.start()
    held_now.wait(60)
    holder = holder_of(path)
    assert holder is not None
    assert request_cancel(path, holder, seconds=20, waiting=lambda seconds: None)
    thread.join(60)
    assert cancelled.is_set()


def test_a_request_for_an_earlier_holder_does_not_stop_the_next_one(path: Path) -> None:
    with held(path, STACK, "update", nothing) as first:
        token = first.token
    cancel_of(path).write_text(token)
    cancelled = threading.Event()
    with held(path, STACK, "update", cancelled.set):
        time.sleep(1.2)
    assert not cancelled.is_set()


def test_a_holder_that_does_not_stop_is_reported_after_the_time_given(path: Path) -> None:
    with held(path, STACK, "update", nothing) as holder:
        assert not request_cancel(path, holder, seconds=0.7, waiting=lambda seconds: None)


def test_the_lock_file_says_who_holds_it_in_json(path: Path) -> None:
    with held(path, STACK, "refresh", nothing):
        said = json.loads(lock_of(path).read_text())
    assert said["pid"] == os.getpid()
    assert said["host"] == socket.gethostname()
    assert said["operation"] == "refresh"
    assert said["time"].endswith("Z")
