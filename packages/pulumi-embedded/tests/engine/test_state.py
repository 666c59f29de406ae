"""The state of a stack: nothing acknowledged is lost, whenever a process is killed and however full the disk is."""

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from engine.states import PASSPHRASE, edit, names, read, resource
from pulumi_embedded.engine.errors import EngineError
from pulumi_embedded.engine.state import StackState, journal_of

# ---- durability ----------------------------------------------------------------------------------------------------------------------


def test_what_was_put_is_there_for_the_next_process_without_a_save(path: Path) -> None:
    edit(path).put(resource("a"))
    assert names(read(path)) == ["a"]


def test_a_provider_call_whose_end_was_never_seen_is_pending(path: Path) -> None:
    edit(path).begin("creating", resource("a", id=""))
    assert [(pending.kind, pending.resource.name) for pending in read(path).pending] == [("creating", "a")]


@pytest.mark.parametrize("end", ["put", "remove", "abandon"])
def test_the_end_of_a_provider_call_ends_its_pending_operation(path: Path, end: str) -> None:
    state = edit(path)
    state.begin("creating", resource("a", id=""))
    getattr(state, end)(resource("a"))
    assert not state.pending
    assert not read(path).pending


def test_clearing_pending_operations_spares_other_kinds(path: Path) -> None:
    state = edit(path)
    state.begin("creating", resource("a"))
    state.begin("deleting", resource("b"))
    state.clear_pending(["creating"])
    assert [pending.kind for pending in read(path).pending] == ["deleting"]


def test_a_torn_last_line_is_ignored_and_does_not_spoil_the_next_one(path: Path) -> None:
    edit(path).put(resource("a"))
    with journal_of(path).open("ab") as file:
        file.write(b'{"put":{"urn":"urn:pulu')
    state = edit(path)
    assert names(state) == ["a"]
    state.put(resource("b"))
    assert sorted(names(read(path))) == ["a", "b"]


def test_a_damaged_line_in_the_journal_is_an_error_that_names_file_and_line(path: Path) -> None:
    state = edit(path)
    state.put(resource("a"))
    state.put(resource("b"))
    lines = journal_of(path).read_bytes().split(b"\n")
    journal_of(path).write_bytes(b"\n".join([lines[0], lines[1][:20], b""]))
    with pytest.raises(EngineError, match=r"dev\.json\.journal, line 2"):
        read(path)


def test_a_checkpoint_that_is_not_json_is_an_error_with_line_and_backup(path: Path) -> None:
    path.write_text('{"version": 3,\n "checkpoint": oops')
    with pytest.raises(EngineError, match=r"dev\.json, line 2 .*dev\.json\.bak"):
        read(path)


def test_a_field_of_the_wrong_type_is_named_by_its_path(path: Path) -> None:
    document = json.loads(path.read_text())
    document["checkpoint"]["latest"]["resources"] = [{"urn": "u", "type": "t", "custom": True, "dependencies": "u2"}]
    path.write_text(json.dumps(document))
    with pytest.raises(EngineError, match=r"resources\[0\]\.dependencies: expected a list of strings"):
        read(path)


def test_saving_folds_the_journal_into_the_checkpoint(path: Path) -> None:
    state = edit(path)
    state.put(resource("a"))
    state.save()
    assert not journal_of(path).exists()
    assert names(read(path)) == ["a"]


def test_a_crash_after_the_checkpoint_and_before_the_journals_end_is_harmless(path: Path) -> None:
    state = edit(path)
    state.put(resource("a"))
    state.put(resource("b"))
    state.remove(resource("a"))
    state.begin("updating", resource("b"))
    stale = journal_of(path).read_bytes()
    state.save()
    journal_of(path).write_bytes(stale)
    again = edit(path)
    assert names(again) == ["b"]
    assert [pending.kind for pending in again.pending] == ["updating"]


def test_the_checkpoint_before_the_last_change_is_kept_beside_it(path: Path) -> None:
    before = path.read_bytes()
    state = edit(path)
    state.put(resource("a"))
    state.save()
    assert path.with_name("dev.json.bak").read_bytes() == before


def test_a_reader_writes_nothing(path: Path) -> None:
    edit(path).put(resource("a"))
    before = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    read(path)
    assert {file.name: file.read_bytes() for file in path.parent.iterdir()} == before


def test_a_state_that_was_opened_for_reading_takes_no_change(path: Path) -> None:
    with pytest.raises(RuntimeError, match="opened for reading"):
        read(path).put(resource("a"))
    assert names(read(path)) == []


def test_a_reader_that_started_before_a_save_sees_all_that_was_saved(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = edit(path)
    state.put(resource("a"))
    original = Path.read_bytes

    def saving_meanwhile(file: Path) -> bytes:
        data = original(file)
        if file == journal_of(path):
            state.save()
        return data

    monkeypatch.setattr(Path, "read_bytes", saving_meanwhile)
    assert names(read(path)) == ["a"]


WRITER = """
import sys
from pathlib import Path
from pulumi_embedded.engine.model import Resource
from pulumi_embedded.engine.secrets import Passphrase
from pulumi_embedded.engine.state import StackState
state = StackState.edit(Path(sys.argv[1]), lambda salt: Passphrase("test", salt))
for number in range(100_000):
    entry = Resource(urn=f"urn:pulumi:dev::proj::t:t:T::r{number}", type="t:t:T", custom=True, id=str(number))
    state.begin("creating", entry)
    state.put(entry)
    if number % 50 == 49:
        state.save()
    print(number, flush=True)
"""


def test_sigkill_at_any_moment_loses_nothing_that_was_acknowledged(path: Path) -> None:
    for run in range(3):
        path = path.with_name(f"run-{run}.json")
        StackState.create(path, f"organization/proj/run-{run}", PASSPHRASE)
        process = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True)
        assert process.stdout
        acknowledged = [int(next(process.stdout)) for _ in range(120)]
        process.send_signal(signal.SIGKILL)
        acknowledged += [int(line) for line in process.stdout if line.endswith("\n")]
        process.communicate()
        recorded = {entry.id for entry in read(path).resources}
        assert {str(number) for number in acknowledged} <= recorded
        assert len(recorded) <= len(acknowledged) + 1


def test_threads_that_wait_together_share_one_sync_and_none_returns_before_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = edit(path)
    syncs: list[bytes] = []
    real = os.fdatasync

    def slow(descriptor: int) -> None:
        content = journal_of(path).read_bytes()
        time.sleep(0.02)
        real(descriptor)
        syncs.append(content)

    monkeypatch.setattr(os, "fdatasync", slow)
    early: list[str] = []

    def put(number: int) -> None:
        state.put(resource(f"r{number:03d}"))
        if not any(f"::r{number:03d}".encode() in content for content in syncs):
            early.append(f"r{number:03d}")

    threads = [threading.Thread(target=put, args=(number,)) for number in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert early == []
    assert len(syncs) < 32
    assert len(names(read(path))) == 64


# ---- a full disk ---------------------------------------------------------------------------------------------------------------------


def test_a_full_disk_is_told_in_plain_words_and_what_was_recorded_stays(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = edit(path)
    state.put(resource("a"))
    real = os.write

    def half(descriptor: int, data: bytes) -> int:
        real(descriptor, bytes(data)[: len(data) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", half)
        with pytest.raises(EngineError, match=r"the disk is full\..*Make room"):
            state.put(resource("b"))
    assert names(state) == ["a"]
    assert names(read(path)) == ["a"]
    state.put(resource("c"))
    assert names(read(path)) == ["a", "c"]


def test_a_checkpoint_that_does_not_fit_leaves_the_old_one_and_the_journal(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = edit(path)
    state.put(resource("a"))
    before = path.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(EngineError, match=r"disk is full\. Nothing is lost"):
            state.save()
    assert path.read_bytes() == before
    assert not path.with_name("dev.json.tmp").exists()
    assert names(read(path)) == ["a"]
    state.save()
    assert names(read(path)) == ["a"]
