"""The ledger's promises: one writer a number, nothing altered unseen, a dead runner's lease runs out."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.stub import Stubber
from hypothesis import given
from hypothesis import strategies as st

from headway.ledger import lease as leases
from headway.ledger import proof
from headway.ledger.chain import Ledger, LostError, register
from headway.ledger.events import Event, canonical, digest, genesis, key, parse
from headway.ledger.location import opened
from headway.ledger.reading import verify
from headway.ledger.s3_store import S3Store, client
from headway.ledger.store import FolderStore, LedgerStore, MissingStoreError, TakenError, UnreachableError
from headway.ledger.store_proof import prove
from headway.problem import UserError
from tests.unit.ledger.conftest import s3

START = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
CHAIN = "vision/defects"


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now


def ledger(store: LedgerStore, actor: str = "ci", clock: Clock | None = None) -> Ledger:
    return Ledger(store, CHAIN, "sandbox", actor, clock or Clock())


class Forgetful(FolderStore):
    """A store that does not honour conditions; with `kept`, one that honours that there is nothing yet."""

    def __init__(self, root: Path, *, kept: bool) -> None:
        super().__init__(root)
        self.kept = kept

    def replace(self, key: str, body: bytes, tag: str | None) -> str:
        there = self.held(key)
        return super().replace(key, body, tag if tag is None and self.kept else there.tag if there else None)


class Lossy(FolderStore):
    """A store whose answer to the next write is lost, after or before the write arrived."""

    def __init__(self, root: Path, *, arrives: bool) -> None:
        super().__init__(root)
        self.arrives, self.armed = arrives, True

    def create(self, key: str, body: bytes) -> None:
        if self.arrives or not self.armed:
            super().create(key, body)
        if self.armed:
            self.armed = False
            raise UnreachableError("timeout")


def test_a_key_is_written_once(store: LedgerStore) -> None:
    store.create("a/b", b"1")
    with pytest.raises(TakenError, match="a/b"):
        store.create("a/b", b"2")
    assert store.get("a/b") == b"1"


def test_of_many_writers_exactly_one_wins(tmp_path: Path) -> None:
    folder = FolderStore(tmp_path)

    def attempt(i: int) -> bool:
        try:
            folder.create("k", str(i).encode())
        except TakenError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(attempt, range(32))) == 1


def test_a_store_that_enforces_conditions_is_accepted(store: LedgerStore) -> None:
    prove(store)


@pytest.mark.parametrize(
    ("kept", "what"), [(False, "overwrite an object"), (True, "replace an object whose newest writing it had not seen")]
)
def test_a_store_that_ignores_a_condition_is_refused_at_the_start(tmp_path: Path, kept: bool, what: str) -> None:
    with pytest.raises(UserError, match=f"let a second writer {what}: it does not enforce conditional writes"):
        prove(Forgetful(tmp_path, kept=kept))


def test_what_is_replaced_is_replaced_by_who_saw_its_newest_writing(store: LedgerStore) -> None:
    first = store.replace("leases/a", b"1", None)
    second = store.replace("leases/a", b"2", first)
    for tag in (None, first, '"0"'):
        with pytest.raises(TakenError, match="leases/a"):
            store.replace("leases/a", b"3", tag)
    with pytest.raises(TakenError, match="leases/gone"):
        store.replace("leases/gone", b"3", second)
    found = store.held("leases/a")
    assert found is not None and (found.body, found.tag, found.age < 60) == (b"2", second, True)
    assert store.held("leases/none") is None


def test_of_many_who_saw_the_same_writing_one_replaces_it(tmp_path: Path) -> None:
    folder = FolderStore(tmp_path)
    tag = folder.replace("leases/k", b"0", None)

    def attempt(i: int) -> bool:
        try:
            folder.replace("leases/k", str(i + 1).encode(), tag)
        except TakenError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(attempt, range(32))) == 1


REFUSED: list[tuple[str, int, type[Exception], str]] = [
    ("AccessDenied", 403, UserError, r"refuses this identity or this request \(AccessDenied: told by the store\)"),
    ("ExpiredToken", 400, UserError, "ExpiredToken"),
    ("RequestTimeTooSkewed", 403, UserError, "RequestTimeTooSkewed"),
    ("NotImplemented", 501, UserError, "NotImplemented"),
    *((code, status, UnreachableError, f"^HTTP {status}$") for code, status in (("RequestTimeout", 400), ("OperationAborted", 400))),
    *(("SlowDown", status, UnreachableError, f"^HTTP {status}$") for status in (429, 500, 502, 503, 504)),
]


@pytest.mark.parametrize(("code", "status", "error", "says"), REFUSED, ids=[f"{code}-{status}" for code, status, _, _ in REFUSED])
def test_what_a_store_refuses_is_said_and_what_it_cannot_do_now_is_asked_again(
    code: str, status: int, error: type[Exception], says: str
) -> None:
    made = s3()
    with Stubber(made) as stub:
        for method in ("get_object", "put_object", "list_objects_v2"):
            stub.add_client_error(method, code, "told by the store", status)
        store = S3Store(made, "ledger")
        for act in (lambda: store.get("k"), lambda: store.create("k", b"1"), lambda: store.list("k")):
            with pytest.raises(error, match=says):
                act()


@pytest.mark.parametrize(
    ("code", "status", "error", "says"),
    [
        ("PreconditionFailed", 412, TakenError, "^k$"),
        ("NoSuchKey", 404, TakenError, "^k$"),
        ("ConditionalRequestConflict", 409, UnreachableError, "^a concurrent write to k$"),
    ],
)
def test_a_write_that_others_were_before_is_told_from_one_that_may_have_arrived(
    code: str, status: int, error: type[Exception], says: str
) -> None:
    made = s3()
    with Stubber(made) as stub:
        stub.add_client_error("put_object", code, "told by the store", status)
        with pytest.raises(error, match=says):
            S3Store(made, "ledger").create("k", b"1")


def test_a_write_names_the_hash_that_s3_checks_and_that_nothing_may_be_there() -> None:
    made = s3()
    hashed = {"ChecksumAlgorithm": "SHA256", "ChecksumSHA256": "a4ayc/80/OGda4BO/1o/V0etpOqiLx1JwB5S3beHW0s="}
    with Stubber(made) as stub:
        stub.add_response("put_object", {"ETag": '"e"'}, {"Bucket": "ledger", "Key": "p/k", "Body": b"1", "IfNoneMatch": "*", **hashed})
        S3Store(made, "ledger", "p/").create("k", b"1")


def test_a_bucket_that_is_not_there_is_told_from_one_that_is_silent() -> None:
    made = s3()
    with Stubber(made) as stub:
        stub.add_client_error("get_object", "NoSuchBucket", "told by the store", 404)
        with pytest.raises(MissingStoreError):
            S3Store(made, "ledger").get("k")


def test_a_list_begins_after_the_key_that_is_known() -> None:
    made = s3()
    with Stubber(made) as stub:
        asked = {"Bucket": "ledger", "Prefix": "p/vision/", "StartAfter": "p/vision/3"}
        stub.add_response("list_objects_v2", {"Contents": [{"Key": "p/vision/4"}], "IsTruncated": False}, asked)
        assert S3Store(made, "ledger", "p/").list("vision/", after="vision/3") == ("vision/4",)


def test_a_list_is_of_whole_objects_below_a_prefix_in_order(store: LedgerStore, tmp_path: Path) -> None:
    for name in ("a/b/events/2", "a/b/events/1", "a/b/events/10", "a/bc", "b", "leases/a/b.json"):
        store.create(name, b"")
    if isinstance(store, FolderStore):
        (tmp_path / "a" / "b" / "events" / ".draft").write_bytes(b"half")
        (tmp_path / "a" / "b" / "events" / "folder").mkdir()
    assert store.list("") == ("a/b/events/1", "a/b/events/10", "a/b/events/2", "a/bc", "b", "leases/a/b.json")
    assert store.list("a/b") == ("a/b/events/1", "a/b/events/10", "a/b/events/2", "a/bc")
    assert store.list("a/b/events/", after="a/b/events/10") == ("a/b/events/2",)
    assert store.list("a/b/none/") == store.list("b/") == ()


def test_a_folder_that_cannot_be_read_is_no_empty_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(_: Path) -> None:
        raise OSError(5, "Input/output error")

    ledger(FolderStore(tmp_path)).append("step", {})
    monkeypatch.setattr(os, "scandir", failing)
    with pytest.raises(UnreachableError, match="Input/output error"):
        ledger(FolderStore(tmp_path)).read()


def test_without_credentials_nobody_waits_for_the_ledger(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
    with pytest.raises(UserError, match="Unable to locate credentials"):
        opened("s3://ledger").get("k")
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(UserError, match="nobody"):
        opened("s3://ledger")


def test_a_store_is_asked_where_it_is_once_and_waited_for_ten_seconds() -> None:
    """A write that is sent again by itself would find its own object, and take it for somebody else's."""
    made: Any = client(endpoint="http://127.0.0.1:9", region="eu-west-1")
    assert (made.meta.endpoint_url, made.meta.region_name) == ("http://127.0.0.1:9", "eu-west-1")
    config = made.meta.config
    assert (config.connect_timeout, config.read_timeout, config.retries["total_max_attempts"]) == (10, 10, 1)


def test_what_one_writer_appends_another_reads_in_order(store: LedgerStore) -> None:
    writer = ledger(store)
    for i in range(3):
        writer.append("step", {"weight": i})
    assert [e.body["weight"] for e in ledger(store).read()] == [0, 1, 2]
    assert verify(store, CHAIN, "sandbox", writer.head) == ()


def test_two_writers_cannot_both_own_a_number(store: LedgerStore) -> None:
    one, two = ledger(store, "one"), ledger(store, "two")
    one.append("step", {})
    with pytest.raises(LostError, match="event 1 of vision/defects was written by somebody else"):
        two.append("step", {})
    assert [e.actor for e in two.read()] == ["one"]


def test_who_wrote_at_the_very_same_moment_and_lost_is_told_which_event(tmp_path: Path) -> None:
    class Racing(FolderStore):
        def create(self, key: str, body: bytes) -> None:
            if not self.list(f"{CHAIN}/events/"):
                ledger(FolderStore(tmp_path), "another").append("step", {})
            super().create(key, body)

    late = ledger(Racing(tmp_path))
    with pytest.raises(LostError, match="event 1 of vision/defects was written by somebody else"):
        late.append("step", {})
    assert [e.actor for e in late.read()] == ["another"]


def test_a_write_whose_answer_was_lost_but_arrived_counts_once(tmp_path: Path) -> None:
    writer = ledger(Lossy(tmp_path, arrives=True))
    writer.append("step", {})
    assert len(ledger(FolderStore(tmp_path)).read()) == 1


def test_a_write_that_never_arrived_is_reported_and_can_be_repeated(tmp_path: Path) -> None:
    writer = ledger(Lossy(tmp_path, arrives=False))
    with pytest.raises(UnreachableError, match="timeout"):
        writer.append("step", {})
    writer.append("step", {})
    assert len(ledger(FolderStore(tmp_path)).read()) == 1


def flaws(objects: list[tuple[str, bytes]], head: str | None = None) -> list[str]:
    return [flaw.fact for flaw in proof.prove(CHAIN, "sandbox", objects, head=head).flaws]


def chain_of(length: int) -> list[tuple[str, bytes]]:
    objects, previous = [], genesis(CHAIN, "sandbox")
    for number in range(1, length + 1):
        event = Event(number=number, previous=previous, time="2026-11-21T12:00:00.000Z", actor="ci", kind="step", body={"weight": number})
        objects.append((key(CHAIN, number), event.stored()))
        previous = event.hash
    return objects


@given(length=st.integers(1, 8), data=st.data())
def test_every_altered_event_is_found_and_the_last_one_by_the_head(length: int, data: st.DataObject) -> None:
    objects = chain_of(length)
    head = digest(objects[-1][1])
    at = data.draw(st.integers(0, length - 1))
    name, content = objects[at]
    event = parse(content)
    forged = Event(number=event.number, previous=event.previous, time=event.time, actor="mallory", kind=event.kind, body=event.body)
    objects[at] = (name, forged.stored())
    assert flaws(objects, head)
    assert bool(flaws(objects)) == (at < length - 1)


@given(length=st.integers(2, 8), data=st.data())
def test_a_missing_event_is_named(length: int, data: st.DataObject) -> None:
    objects = chain_of(length)
    at = data.draw(st.integers(0, length - 2))
    del objects[at]
    assert f"event {at + 1} is missing" in flaws(objects)


def test_a_removed_tail_is_found_by_the_head() -> None:
    objects = chain_of(4)
    assert flaws(objects[:-1]) == []
    assert "newest events were removed" in flaws(objects[:-1], digest(objects[-1][1]))[0]


def test_two_events_that_changed_places_are_found() -> None:
    objects = chain_of(3)
    (a, first), (b, second) = objects[0], objects[1]
    assert len(flaws([(a, second), (b, first), objects[2]])) >= 2


def test_an_event_with_a_flipped_byte_is_found() -> None:
    objects = chain_of(3)
    name, content = objects[1]
    objects[1] = (name, content.replace(b'"weight":2', b'"weight":3'))
    assert flaws(objects)


def test_a_sound_chain_has_no_flaw() -> None:
    objects = chain_of(5)
    assert flaws(objects, digest(objects[-1][1])) == []


def test_a_reader_refuses_an_altered_chain(tmp_path: Path) -> None:
    folder = FolderStore(tmp_path)
    writer = ledger(folder)
    writer.append("step", {"weight": 1})
    writer.append("step", {"weight": 5})
    path = tmp_path / key(CHAIN, 1)
    path.write_bytes(path.read_bytes().replace(b'"weight":1', b'"weight":9'))
    with pytest.raises(UserError, match="does not fit the chain"):
        ledger(folder).read()


def test_a_release_is_named_by_its_content_and_registered_once(store: LedgerStore) -> None:
    release = {"contract": {"name": "defects"}, "artifact": "a" * 64, "image": "sha256:" + "b" * 64}
    assert register(store, CHAIN, release) == register(store, CHAIN, dict(reversed(release.items()))) == digest(canonical(release))


def test_numbers_that_json_cannot_hold_are_refused() -> None:
    with pytest.raises(ValueError, match="Out of range"):
        canonical({"x": float("nan")})


def test_a_time_that_orders_a_terminal_is_none() -> None:
    """Python takes any one character between date and time."""
    event = Event(number=1, previous="0" * 64, time="2026-11-23\x1b12:00:00Z", actor="ci", kind="noted", body={})
    with pytest.raises(ValueError, match="its time"):
        parse(event.stored())


def test_the_beginning_of_a_chain_is_written_as_ever() -> None:
    """Else no chain that there is would follow from its own beginning."""
    assert genesis(CHAIN, "prod") == digest(b'{"environment":"prod","service":"vision/defects"}')


def test_a_lease_says_whose_it_is_when_it_was_renewed_and_how_often(tmp_path: Path) -> None:
    store, clock = FolderStore(tmp_path), Clock()
    made = ledger(store, clock=clock)
    for count, renewed in ((1, "2026-11-21T12:00:00.000Z"), (2, "2026-11-21T12:00:20.000Z")):
        made.acquire("ci", timedelta(minutes=1))
        held = store.held(leases.key(CHAIN))
        assert held is not None
        assert json.loads(held.body) == {"count": count, "holder": "ci", "number": 1, "renewed": renewed, "seconds": 60}
        clock.now += timedelta(seconds=20)
    assert json.loads(store.get(key(CHAIN, 1)) or b"")["body"] == {"holder": "ci", "until": "2026-11-21T12:01:00.000Z"}
