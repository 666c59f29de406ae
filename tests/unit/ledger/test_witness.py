"""A witness outside the store: whoever has every right on the store still cannot write another chain unseen."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event as Signal
from threading import current_thread
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from headway.ledger.chain import Ledger, LostError
from headway.ledger.events import ACCEPTED, UNBOUND, Event, genesis, key
from headway.ledger.proof import ChainHashes
from headway.ledger.reading import verify, witnessed
from headway.ledger.store import MissingStoreError, Written
from headway.ledger.witness import NOTHING, LedgerWitness, SilentWitnessError, WitnessWord, ask, nobody, of
from headway.ledger.witness_place import FolderWitness, ParameterWitness
from headway.problem import ProblemLevel, UserError
from tests.unit.ledger.bucket import Bucket

CHAIN, ENVIRONMENT = "vision/defects", "prod"


class Noted:
    """A witness in memory; `silent`: why it does not answer."""

    def __init__(self) -> None:
        self.words: dict[str, str] = {}
        self.silent = ""

    def said(self, chain: str) -> str | None:
        if self.silent:
            raise SilentWitnessError(self.silent)
        return self.words.get(chain)

    def write(self, chain: str, text: str) -> None:
        if self.silent:
            raise SilentWitnessError(self.silent)
        self.words[chain] = text


def now() -> datetime:
    return datetime(2026, 11, 25, 12, tzinfo=UTC)


def chain(store: Bucket, witness: LedgerWitness | None, actor: str = "ci") -> Ledger:
    return Ledger(store, CHAIN, ENVIRONMENT, actor, now, witness)


def written(store: Bucket, witness: LedgerWitness | None, count: int) -> Ledger:
    ledger = chain(store, witness)
    for number in range(count):
        ledger.append("note", {"count": number})
    ledger.attest()
    return ledger


def rewritten(store: Bucket, count: int) -> None:
    """Every object and every version gone, and another chain in their place that follows from its first event."""
    for name in [*store.objects, *store.versions]:
        store.objects.pop(name, None)
        store.versions.pop(name, None)
    previous = genesis(CHAIN, ENVIRONMENT)
    for number in range(1, count + 1):
        event = Event(number=number, previous=previous, time="2026-11-25T12:00:00.000Z", actor="mallory", kind="note", body={})
        store.put(key(CHAIN, number), event.stored())
        previous = event.hash


@pytest.fixture
def store() -> Bucket:
    return Bucket(versioned=True)


@pytest.fixture
def witness() -> Noted:
    return Noted()


@pytest.mark.parametrize("count", [0, 1, 4, 5, 6, 40])
def test_a_whole_chain_that_was_written_anew_is_refused(store: Bucket, witness: Noted, count: int) -> None:
    written(store, witness, 5)
    rewritten(store, count)
    assert not verify(store, CHAIN, ENVIRONMENT), "it is a chain like any other"
    with pytest.raises(UserError, match="is not the one that was witnessed"):
        chain(store, witness).read()
    with pytest.raises(UserError, match="is not the one that was witnessed"):
        witnessed(store, CHAIN, ENVIRONMENT, witness)


def test_the_refusal_says_what_was_witnessed_and_what_a_person_can_do(store: Bucket, witness: Noted) -> None:
    written(store, witness, 5)
    rewritten(store, 3)
    with pytest.raises(UserError) as refused:
        chain(store, witness).read()
    assert "its witness names event 5, and it ends with event 3" in refused.value.fact
    assert f"headway release accept {CHAIN} -e {ENVIRONMENT} --reason WHY" in refused.value.remedy


def test_verify_names_what_the_witness_says_among_the_flaws(store: Bucket, witness: Noted) -> None:
    kept = written(store, witness, 5).head
    rewritten(store, 7)
    (flaw,) = verify(store, CHAIN, ENVIRONMENT, word=ask(witness, CHAIN))
    assert flaw.startswith(f"its witness names event 5 as {kept[:12]}, and that event is ")


def test_a_store_that_is_gone_does_not_make_a_plan_begin_anew(witness: Noted) -> None:
    class Gone(Bucket):
        def written(self, prefix: str, after: str = "") -> tuple[Written, ...]:
            raise MissingStoreError

    store = Gone(versioned=True)
    with pytest.raises(MissingStoreError):
        witnessed(store, CHAIN, ENVIRONMENT, witness)
    witness.write(CHAIN, f"3:{'a' * 64}")
    with pytest.raises(UserError, match="names event 3, and it ends with event 0"):
        witnessed(store, CHAIN, ENVIRONMENT, witness)


def test_events_after_the_witnessed_one_raise_no_alarm(store: Bucket, witness: Noted) -> None:
    ledger = written(store, witness, 2)
    ledger.append("note", {"count": 2})  # and its runner died before it could say so
    assert len(chain(store, witness).read()) == 3


def test_a_chain_of_which_nothing_is_witnessed_yet_is_read_as_before(store: Bucket, witness: Noted) -> None:
    written(store, None, 3)
    ledger = chain(store, witness)
    assert len(ledger.read()) == 3
    ledger.attest()
    assert witness.words[CHAIN] == of(ledger.events[-1])


def test_an_event_written_while_somebody_reads_is_not_taken_for_a_lost_one(store: Bucket, witness: Noted) -> None:
    other = written(store, witness, 2)

    class Racing(Noted):
        """After the answer, and before the store is read, another runner goes on."""

        def said(self, chain: str) -> str | None:
            answer = witness.said(chain)
            other.append("note", {"count": len(other.events)})
            other.attest()
            return answer

    assert len(chain(store, Racing()).read()) == 3
    assert len(witnessed(store, CHAIN, ENVIRONMENT, Racing())[0].events) == 4


def test_the_store_is_read_after_the_witness_was_asked(store: Bucket, witness: Noted) -> None:
    """The other way round, an event of meanwhile would be missing in what was read."""
    other = written(store, witness, 2)

    class Slow(Bucket):
        def written(self, prefix: str, after: str = "") -> tuple[Written, ...]:
            found = super().written(prefix, after)
            if not asked:
                asked.append(1)
                other.append("note", {"count": 2})
                other.attest()
            return found

    asked: list[int] = []
    slow = Slow(versioned=True)
    slow.objects, slow.versions = store.objects, store.versions
    assert len(chain(slow, witness).read()) == 2


def test_whoever_stood_still_does_not_take_the_witness_back(store: Bucket, witness: Noted) -> None:
    stale = written(store, witness, 2)
    going = chain(store, witness)
    going.read()
    going.append("note", {"count": 2})
    going.attest()
    stale.attest()
    assert witness.words[CHAIN].startswith("3:")


def test_nobody_attests_what_the_witness_contradicts(store: Bucket, witness: Noted) -> None:
    ledger = written(store, witness, 2)
    said = witness.words[CHAIN] = f"2:{'b' * 64}"
    with pytest.raises(UserError, match="is not the one that was witnessed"):
        ledger.attest()
    assert witness.words[CHAIN] == said


def test_a_silent_witness_stops_nobody_and_is_told(store: Bucket, witness: Noted) -> None:
    written(store, witness, 2)
    witness.silent = "AccessDeniedException"
    ledger = chain(store, witness)
    assert len(ledger.read()) == 2
    assert ledger.word == WitnessWord(silent="AccessDeniedException")
    ledger.append("note", {"count": 2})
    ledger.attest()
    witness.silent = ""
    assert witness.words[CHAIN].startswith("2:")
    ledger.attest()
    assert witness.words[CHAIN].startswith("3:")


def test_a_witness_that_could_not_be_asked_is_not_overwritten(store: Bucket, witness: Noted) -> None:
    """It may contradict this very chain."""
    ledger = written(store, witness, 2)
    said = witness.words[CHAIN] = f"9:{'b' * 64}"
    witness.said = refusing  # type: ignore[method-assign]
    ledger.append("note", {})
    ledger.attest()
    assert witness.words[CHAIN] == said


def refusing(_: str) -> str:
    raise SilentWitnessError("ThrottlingException")


@pytest.mark.parametrize("text", ["", "5", "x:y", f"-1:{'a' * 64}", f"5:{'a' * 63}", "\n" * 200])
def test_a_witness_that_names_no_event_is_refused(store: Bucket, witness: Noted, text: str) -> None:
    written(store, witness, 5)
    witness.words[CHAIN] = text
    with pytest.raises(UserError, match="which names no event"):
        chain(store, witness).read()


def test_a_witness_of_another_service_says_nothing_of_this_one(store: Bucket, witness: Noted) -> None:
    written(store, None, 2)
    witness.write("assist/chat", f"9:{'a' * 64}")
    assert len(chain(store, witness).read()) == 2


class Gone(Bucket):
    """Versions too, from some event on."""

    def loses(self, after: int) -> None:
        for name in [*self.versions]:
            if name > key(CHAIN, after):
                self.objects.pop(name, None)
                del self.versions[name]


@pytest.mark.parametrize(("kept", "others"), [(0, 0), (1, 0), (3, 0), (4, 0), (4, 1), (4, 2)])
def test_who_reads_by_turns_sees_that_what_it_read_is_gone(kept: int, others: int) -> None:
    store = Gone(versioned=True)
    written(store, None, 5)
    reader = chain(store, None)
    reader.read()
    store.loses(kept)
    other = chain(store, None)
    other.read()
    for _ in range(others):
        other.append("other", {})
    with pytest.raises(UserError, match="Event 5 of vision/defects does not fit the chain: it was read before"):
        reader.look()
    assert len(reader.events) == 5


def test_who_reads_by_turns_sees_another_chain_of_the_same_length(store: Bucket) -> None:
    reader = written(store, None, 5)
    rewritten(store, 5)
    with pytest.raises(UserError, match="does not fit the chain"):
        reader.look()


def test_who_reads_by_turns_asks_the_witness_each_time(store: Bucket, witness: Noted) -> None:
    reader = written(store, witness, 5)
    for words in (f"5:{'b' * 64}", f"6:{'a' * 64}", "rubbish"):
        witness.words[CHAIN] = words
        with pytest.raises(UserError, match="is not the one that was witnessed"):
            reader.look()
    del witness.words[CHAIN]
    other = chain(store, witness)
    other.read()
    other.append("note", {})
    assert len(reader.look()) == 6


@pytest.mark.parametrize("count", [1, 2, 100, 101, 102])
def test_a_look_reads_one_event_again_and_no_more(store: Bucket, count: int) -> None:
    reader, asked = written(store, None, count), list[str]()
    get = store.get

    def counted(name: str, version: str = "") -> bytes | None:
        asked.append(name)
        return get(name, version)

    store.get = counted  # type: ignore[method-assign]
    assert len(reader.look()) == count
    assert asked == [key(CHAIN, count)]


def test_a_witness_that_knows_the_newest_event_is_not_written_again(store: Bucket, witness: Noted) -> None:
    """A parameter keeps its last hundred values, and SSM lets few be written a second."""
    ledger = written(store, witness, 2)
    witness.write = None  # type: ignore[method-assign, assignment]
    ledger.attest()


# -- a person's word ---------------------------------------------------------------------------------------------------------------


def test_an_accepted_chain_is_read_again_and_says_why(store: Bucket, witness: Noted) -> None:
    before = written(store, witness, 5)
    rewritten(store, 3)
    said = chain(store, witness, "ana").accept("restored from the copy of noon")
    assert said == "its witness names event 5, and it ends with event 3"
    events = chain(store, witness).read()
    assert (events[-1].kind, events[-1].actor) == (ACCEPTED, "ana")
    assert events[-1].body == {"reason": "restored from the copy of noon", "witness": of(before.events[-1]), "found": of(events[2])}
    assert witness.words[CHAIN] == of(events[-1])


def test_a_chain_that_nothing_contradicts_needs_no_acceptance(store: Bucket, witness: Noted) -> None:
    written(store, witness, 2)
    assert chain(store, witness).accept("why not") is None
    assert len(chain(store, witness).read()) == 2


def test_an_empty_ledger_that_is_accepted_may_begin_anew(store: Bucket, witness: Noted) -> None:
    written(store, witness, 2)
    rewritten(store, 0)
    assert chain(store, witness).accept("the environment is new") == "its witness names event 2, and it ends with event 0"
    assert witness.words[CHAIN] == NOTHING == f"0:{UNBOUND}"
    assert not chain(store, witness).read()
    assert len(written(store, witness, 1).events) == 1


def test_who_dies_between_the_acceptance_and_the_witness_accepts_again(store: Bucket, witness: Noted) -> None:
    written(store, witness, 5)
    rewritten(store, 3)

    class Dying(Noted):
        words = witness.words

        def __init__(self) -> None:
            self.silent = ""

        def write(self, chain: str, text: str) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        chain(store, Dying()).accept("restored")
    with pytest.raises(UserError):
        chain(store, witness).read()
    assert chain(store, witness).accept("restored")
    assert len(chain(store, witness).read()) == 5


def test_a_broken_chain_cannot_be_accepted(store: Bucket, witness: Noted) -> None:
    written(store, witness, 5)
    rewritten(store, 3)
    store.put(key(CHAIN, 3), store.objects[key(CHAIN, 2)])
    store.versions[key(CHAIN, 3)] = store.versions[key(CHAIN, 3)][-1:]
    with pytest.raises(UserError, match="does not fit the chain"):
        chain(store, witness).accept("restored")


def test_an_acceptance_that_lost_a_race_says_so(store: Bucket, witness: Noted) -> None:
    written(store, witness, 5)
    rewritten(store, 3)
    ledger = chain(store, witness)
    read = ledger._read

    def slow() -> Any:
        found = read()
        chain(store, witness, "bob").accept("restored")
        return found

    ledger._read = slow  # type: ignore[method-assign]
    with pytest.raises(LostError):
        ledger.accept("restored")


# -- places ------------------------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["folder", "parameters"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    if request.param == "folder":
        yield FolderWitness(tmp_path / "witness")
        return
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "none")
    with mock_aws():
        yield ParameterWitness("prod", "eu-west-1", "s3://l", seconds=60)


def test_a_place_keeps_the_newest_word_of_each_chain(place: LedgerWitness) -> None:
    assert place.said(CHAIN) is None
    for text in ("1:a", "2:b"):
        place.write(CHAIN, text)
    place.write("vision/embeddings", "7:c")
    place.write(f"{CHAIN}/evaluation", "9:d")
    assert place.said(f"{CHAIN}/evaluation") == "9:d", "a chain below another one"
    assert (place.said(CHAIN), place.said("vision/embeddings"), place.said("assist/chat")) == ("2:b", "7:c", None)


def test_parameters_lie_below_the_environments_own_path_in_its_region(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "none")
    with mock_aws():
        ParameterWitness("prod", "eu-west-1", "s3://l", seconds=60).write(CHAIN, "1:a")
        client: Any = boto3.client("ssm", region_name="eu-west-1")
        (found,) = client.get_parameters_by_path(Path="/headway/prod/witness", Recursive=True)["Parameters"]
    assert (found["Name"], found["Value"], found["Type"]) == ("/headway/prod/witness/vision/defects.c527be41ae86", "1:a", "String")


@pytest.mark.parametrize("asks", [lambda one: one.said(CHAIN), lambda one: one.write(CHAIN, "1:a")], ids=["said", "write"])
def test_without_credentials_a_parameter_is_silent(
    asks: Callable[[LedgerWitness], Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(SilentWitnessError, match="NoCredentialsError"):
        asks(ParameterWitness("prod", "eu-west-1", "s3://l", seconds=60))


@pytest.mark.parametrize("asks", [lambda one: one.said(CHAIN), lambda one: one.write(CHAIN, "1:a")], ids=["said", "write"])
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        *((({"Error": {"Code": code}}), code) for code in ("AccessDeniedException", "ThrottlingException", "InternalServerError")),
        ({"Error": {}}, "an answer without a code"),
        ({}, "an answer without a code"),
    ],
)
def test_a_refusal_of_the_parameter_is_silence(asks: Callable[[LedgerWitness], Any], answer: Any, why: str) -> None:
    """Not unknown: nothing would be contradicted."""

    class Refusing:
        def get_parameter(self, **_: str) -> None:
            raise ClientError(answer, "GetParameter")

        put_parameter = get_parameter

    with pytest.raises(SilentWitnessError, match=f"^{why}$"):
        asks(ParameterWitness("prod", "eu-west-1", "s3://l", Refusing()))


def test_a_folder_that_cannot_be_written_is_silent(tmp_path: Path) -> None:
    (tmp_path / "witness").write_text("a file")
    with pytest.raises(SilentWitnessError):
        FolderWitness(tmp_path / "witness").write(CHAIN, "1:a")


@pytest.mark.parametrize("asks", [lambda one: one.said(CHAIN), lambda one: one.write(CHAIN, "1:a")], ids=["said", "write"])
def test_an_answer_that_never_ends_is_silence(asks: Callable[[LedgerWitness], Any]) -> None:
    """A piece of it now and then keeps botocore waiting for ever."""
    ended = Signal()

    class Dripping:
        def get_parameter(self, **_: str) -> None:
            assert current_thread().daemon, "it would keep the process from its end"
            ended.wait(60)

        put_parameter = get_parameter

    with pytest.raises(SilentWitnessError, match="no whole answer"):
        asks(ParameterWitness("prod", "eu-west-1", "s3://l", Dripping(), seconds=0.05))
    ended.set()


def test_a_word_is_read_within_bounds(tmp_path: Path) -> None:
    FolderWitness(tmp_path).write(CHAIN, "1" * 10_000_000)
    assert len(FolderWitness(tmp_path).said(CHAIN) or "") == 200


def test_a_word_that_is_no_text_names_no_event(tmp_path: Path) -> None:
    witness = FolderWitness(tmp_path)
    witness.write(CHAIN, "1:a")
    (file,) = tmp_path.iterdir()
    file.write_bytes(b"1:\xff")
    assert "which names no event" in (ask(witness, CHAIN).against(ChainHashes()) or "")


def test_a_lease_that_is_taken_asks_the_witness_first(store: Bucket, witness: Noted) -> None:
    written(store, witness, 5)
    rewritten(store, 40)
    with pytest.raises(UserError, match="is not the one that was witnessed"):
        chain(store, witness).acquire("runner", timedelta(minutes=1))
    assert len(store.written(f"{CHAIN}/events/")) == 40 and not store.held(f"leases/{CHAIN}.json")


def test_a_chain_without_a_witness_is_told_of_and_stops_nothing() -> None:
    assert nobody("vision/defects").level is ProblemLevel.WARNING
