"""`headway drift`: one line or one object a look, its exit code, and whose samples it reads."""

import json
import re
import time
import urllib.request
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headway import listening
from headway.cli import drift as command_of_drift
from headway.contract.sampling import Sample
from headway.environment.port import OutOfReachError
from headway.environment.request_samples import UnreadableSamplesError
from headway.ledger.chain import Ledger
from headway.ledger.store import FolderStore
from headway.problem import Exit, UserError
from headway.release.evaluator.drift_watch import DriftLook, DriftWatch
from headway.release.evaluator.serving import DriftPulse
from headway.release.service_place import ServicePlace
from tests.drift_world import Users, traffic
from tests.unit.cli.conftest import PROJECT, Command
from tests.unit.release_world import CHAIN, Scene


@pytest.fixture
def users(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Users:
    """A service in memory in place of every environment's."""
    made = Users(scene)

    def watch_of(looking: Any, here: Any) -> DriftWatch:
        return made.watch()

    monkeypatch.setattr(command_of_drift.DriftLooking, "watch_of", watch_of)
    return made


@pytest.fixture
def command(command_of: Callable[[Any], Command]) -> Command:
    return command_of(command_of_drift.drift)


def drifted(users: Users) -> None:
    """Requests became longer, and nobody has looked since."""
    users.looks(2)
    onset = users.scene.world.clock.timestamp()
    users.words = lambda at: 200.0 if at > onset else 100.0
    users.scene.world.clock += timedelta(hours=2)


def test_a_look_is_told_in_one_line(users: Users, command: Command) -> None:
    answer = command(CHAIN)
    assert answer.exit_code == Exit.OK
    assert answer.stdout == f"{CHAIN}: nothing drifted: 0 numbers of {users.scene.stable}, evidence 0.3 of 100.\n"


def test_drift_ends_with_1_and_tells_whoever_is_to_be_told_once(users: Users, command: Command, posted: list[dict[str, Any]]) -> None:
    drifted(users)
    words = (CHAIN, "--notify", "https://hook.example.com/x")
    answers = [command(*words), command(*words)]
    assert [answer.exit_code for answer in answers] == [Exit.REFUSED, Exit.REFUSED]
    assert re.search(r"Words drifted: \d+% of its usual values lie below ", answers[1].stdout)
    (message,) = posted
    assert (message["service"], message["status"]) == (CHAIN, "drift proven")
    assert "no proof against the version; a person decides" in message["text"]


def test_for_programs_a_look_is_one_object(users: Users, command: Command) -> None:
    drifted(users)
    found = json.loads(command(CHAIN, "-o", "json").stdout)
    assert (found["service"], found["look"], found["release"]) == (CHAIN, "drift proven", users.scene.stable)
    assert set(found["numbers"]) == {"words", "score"}
    assert found["evidence"] >= 100
    assert found["drift"].startswith("words drifted")


def test_metrics_say_of_each_service_whether_drift_is_proven(users: Users) -> None:
    drifted(users)
    pulse = DriftPulse(lambda: 0.0, 100.0, lambda: 7.0)
    pulse.watches((CHAIN,))
    assert 'headway_drift_last_look_timestamp_seconds{model="defects",tenant="vision"} 0.0' in pulse.text()
    pulse.looked(CHAIN, users.looks(0))
    assert 'headway_drift_proven{model="defects",tenant="vision"} 1.0' in pulse.text()
    assert 'headway_drift_last_look_timestamp_seconds{model="defects",tenant="vision"} 7.0' in pulse.text()


class StoppedError(Exception):
    """The test has seen enough."""


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the loop shows of itself at the end of its first round, which is its last."""
    found: list[str] = []

    def sleep(_: float) -> None:
        address = next(each for each in found if each.startswith("http"))
        found.append(urllib.request.urlopen(f"{address}/metrics").read().decode())
        raise StoppedError

    @contextmanager
    def showing(pulse: DriftPulse, address: str, port: int) -> Generator[int]:
        with listening.listening(
            address, port, listening.pages({"/metrics": lambda: (200, pulse.text())}), consequence="", remedy=""
        ) as free:
            found.append(f"http://127.0.0.1:{free}")
            yield free

    monkeypatch.setattr(listening, "showing", showing)
    monkeypatch.setattr(time, "sleep", sleep)
    return found


def test_the_loop_shows_what_it_found_where_it_is_asked_to(users: Users, command: Command, shown: list[str]) -> None:
    drifted(users)
    answer = command(CHAIN, "--watch", "--serve", "127.0.0.1:0")
    assert isinstance(answer.exception, StoppedError)
    assert 'headway_drift_proven{model="defects",tenant="vision"} 1.0' in shown[-1]


def test_a_look_for_which_samples_are_too_few_counts_as_none(users: Users, command: Command, shown: list[str]) -> None:
    users.each = 4
    answer = command(CHAIN, "--watch", "--serve", "127.0.0.1:0")
    assert "Nothing is watched yet." in answer.stdout
    assert 'headway_drift_last_look_timestamp_seconds{model="defects",tenant="vision"} 0.0' in shown[-1]


def test_nothing_of_a_request_is_in_ledger_or_output_or_metrics(users: Users, command: Command, shown: list[str]) -> None:
    users.text = "Erika Mustermann, +49 30 1234567"
    drifted(users)
    answer = command(CHAIN, "--watch", "--serve", "127.0.0.1:0")
    assert "Words drifted" in answer.stdout
    store = users.scene.store
    kept = b"".join(store.get(key) or b"" for key in store.list(f"{CHAIN}/drift/"))
    assert b"values-counted" in kept
    told = answer.stdout + answer.stderr + shown[-1] + kept.decode()
    assert not [part for part in ("Erika", "Mustermann", "1234567") if part in told]


def test_anew_learns_from_now_on_and_keeps_why(users: Users, command: Command) -> None:
    drifted(users)
    assert command(CHAIN).exit_code == Exit.REFUSED
    answer = command(CHAIN, "--anew", "a new customer")
    assert (answer.exit_code, "is known in" in answer.stdout) == (Exit.OK, True)
    assert users.rounds().read()[-1].body["reason"] == "a new customer"


@pytest.mark.parametrize("words", [("--anew", "why"), (CHAIN, "--anew", "why", "--watch")])
def test_anew_is_for_one_service_and_not_for_the_loop(users: Users, command: Command, words: tuple[str, ...]) -> None:
    refused = command(*words)
    assert isinstance(refused.exception, UserError)
    assert refused.exception.exit == Exit.USAGE


def test_without_a_name_each_service_that_is_watched_has_its_look(users: Users, command: Command) -> None:
    assert command().stdout.startswith(f"{CHAIN}: nothing drifted")


def test_samples_that_cannot_be_read_are_said_with_a_remedy(users: Users, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_: Any) -> Any:
        raise UnreadableSamplesError("bucket refuses: AccessDenied")

    monkeypatch.setattr(users, "samples", read)
    refused = command(CHAIN)
    assert isinstance(refused.exception, UserError)
    assert refused.exception.exit == Exit.ENVIRONMENT
    assert "AccessDenied" in refused.exception.fact
    assert command().exit_code == Exit.ENVIRONMENT


def test_a_contract_that_watches_nothing_is_refused(command: Command) -> None:
    refused = command("vision/embeddings")
    assert isinstance(refused.exception, UserError)
    assert "does not say what is watched for drift" in refused.exception.fact


def test_only_answers_of_the_serving_release_to_users_are_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def one(name: str, workload: str, *, mirrored: bool = False) -> Sample:
        bodies: dict[str, Any] = {"request": None, "response": None}
        return Sample(request_id=name, workload=workload, time="2026-11-25T10:00:00Z", mirrored=mirrored, status=200, **bodies)

    kept = [one("a", "defects-r1"), one("b", "defects-r2"), one("c", "defects-r1", mirrored=True)]
    port = SimpleNamespace(request_samples=lambda *_: SimpleNamespace(late_seconds=0.0, read=lambda start, end: kept))
    cluster = SimpleNamespace(route=lambda: SimpleNamespace(hosts={"r1": "defects-r1"}))
    here = ServicePlace(project=PROJECT, environment="sandbox", tenant="vision", model="defects")
    monkeypatch.setattr(ServicePlace, "port", port)
    monkeypatch.setattr(ServicePlace, "cluster", cluster)
    unread = Ledger(FolderStore(tmp_path), CHAIN, "sandbox", "loop", lambda: datetime.now(UTC))
    monkeypatch.setattr(ServicePlace, "drifts", lambda _: unread)
    monkeypatch.setattr(ServicePlace, "ledger", lambda _: unread)
    looking = command_of_drift.DriftLooking((here,), output=command_of_drift.Output.TEXT, notify=None)
    watch = looking.watch_of(here)
    assert [sample.request_id for sample in watch.read("r1", 0.0, 1.0)] == ["a"]
    with pytest.raises(OutOfReachError, match="does not name r9"):
        watch.read("r9", 0.0, 1.0)


def test_status_says_what_drifted_and_that_it_is_no_proof_against_the_version(stored: Scene, read: Command) -> None:
    users = Users(stored)
    drifted(users)
    rows = " ".join(read("status").stdout.split())
    assert re.search(r"drift Nothing drifted, by [\d,]+ numbers of users' requests and answers\. Last read", rows)
    found = json.loads(read("status", "--output", "json").stdout)[CHAIN]["drift"]
    assert (found["learned"], found["drift"]) == (True, None)
    assert users.looks(0).look is DriftLook.DRIFTED
    rows = " ".join(read("status").stdout.split())
    assert re.search(r"drift Words drifted: \d+% of its usual values lie below ", rows)
    assert "That is no proof against the version; a person decides" in rows
    assert json.loads(read("status", "--output", "json").stdout)[CHAIN]["drift"]["drift"].startswith("words drifted")


def test_status_says_that_what_is_usual_is_learned_anew(stored: Scene, read: Command) -> None:
    users = Users(stored)
    drifted(users)
    users.watch().anew("a new customer")
    assert "drift What is usual is being learned." in " ".join(read("status").stdout.split())


def test_the_report_of_a_release_shows_what_drifted_while_it_served(stored: Scene, read: Command) -> None:
    assert "After the promotion" not in read("report").stdout
    users = Users(stored)
    drifted(users)
    users.looks(0)
    page = read("report").stdout
    assert "After the promotion" in page
    assert re.search(r"Words drifted: \d+% of its usual values lie below ", page)


def test_a_loop_that_reads_for_long_gives_signs_of_life(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    users, signs, read = Users(scene), [0], [0]
    scene.world.clock = datetime.now(UTC)

    def samples(start: float, end: float) -> list[Sample]:
        read[0] += 1
        assert signs[0] == read[0]
        return users.samples("", start, end)

    def turned(_: Any) -> None:
        signs[0] += 1

    def sleep(_: float) -> None:
        raise StoppedError

    port = SimpleNamespace(request_samples=lambda *_: SimpleNamespace(late_seconds=0.0, read=samples))
    cluster = SimpleNamespace(route=lambda: SimpleNamespace(hosts={scene.stable: "w"}))
    here = ServicePlace(project=PROJECT, environment="sandbox", tenant="vision", model="defects")
    for name, value in {"port": port, "cluster": cluster}.items():
        monkeypatch.setattr(ServicePlace, name, value)
    monkeypatch.setattr(ServicePlace, "watched", lambda _: traffic())
    monkeypatch.setattr(ServicePlace, "drifts", lambda _: users.rounds())
    monkeypatch.setattr(ServicePlace, "ledger", lambda _: scene.ledger())
    monkeypatch.setattr(DriftPulse, "turned", turned)
    monkeypatch.setattr(time, "sleep", sleep)
    with pytest.raises(StoppedError):
        command_of_drift.DriftLooking((here,), output=command_of_drift.Output.TEXT, notify=None).watch("", alone=True)
    assert read[0] == 4


@pytest.mark.parametrize("odd", [OverflowError("intermediate overflow in fsum"), ValueError("too large"), IndexError("60"), KeyError("a")])
def test_what_callers_sent_to_one_service_keeps_no_other_from_its_turn(
    odd: Exception, users: Users, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Its traceback is kept: it may be a fault of headway as well."""
    monkeypatch.setattr("headway.environment.selection.logs", lambda: tmp_path / "logs")
    looked: list[str] = []

    def look(_: Any, here: ServicePlace) -> Any:
        looked.append(here.model)
        if here.model == "defects":
            raise odd
        return SimpleNamespace(wait=60.0, look=DriftLook.COUNTED)

    def sleep(_: float) -> None:
        raise StoppedError

    monkeypatch.setattr(command_of_drift.DriftLooking, "look", look)
    monkeypatch.setattr(time, "sleep", sleep)
    here = [ServicePlace(project=PROJECT, environment="sandbox", tenant="vision", model=name) for name in ("defects", "embeddings")]
    with pytest.raises(StoppedError):
        command_of_drift.DriftLooking(here, output=command_of_drift.Output.TEXT, notify=None).watch("", alone=False)
    assert looked == ["defects", "embeddings"]
    log, said = tmp_path / "logs" / "headway-error.log", capsys.readouterr().err
    assert f"vision/defects: something there is not as it should be ({type(odd).__name__}: " in said and str(log) in said
    assert "raise odd" in log.read_text()
