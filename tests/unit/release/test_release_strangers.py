"""What `headway release` says to who does not know it: wrong names, and ledgers that another Headway wrote."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from headway.cli import release, release_guard, release_view
from headway.contract.reading.loader import load_tenant
from headway.environment.port import OutOfReachError
from headway.ledger.chain import Ledger
from headway.ledger.serving import latest
from headway.ledger.store import FolderStore
from headway.problem import Exit, UserError
from headway.release.driver.rollout_state import fold
from tests.unit.release_kill import promoting
from tests.unit.release_world import CHAIN, START, Scene

PROJECT = Path(__file__).parents[3]
Command = Callable[..., Result]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ledger of a release that was promoted."""
    folder = tmp_path_factory.mktemp("ledger")
    (found,) = load_tenant(PROJECT / "tenants" / "vision").contracts
    scene = Scene.of(FolderStore(folder), next(model for model in found.models if model.name == "defects"), mirror=None, weights=["10%"])
    promoting(scene, 1)
    scene.run()
    return folder


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    monkeypatch.setenv("HEADWAY_SANDBOX_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HEADWAY_ENVIRONMENT", "sandbox")
    monkeypatch.setenv("HEADWAY_SANDBOX_LEDGER", (tmp_path / "ledger").as_uri())
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("HEADWAY_LEDGER", "HEADWAY_PROMETHEUS"):
        monkeypatch.delenv(name, raising=False)

    def run(*words: str) -> Result:
        return CliRunner().invoke(release.app, [*words, "--project", str(PROJECT)])

    return run


def refusal(result: Result) -> UserError:
    assert isinstance(result.exception, UserError), result.output
    return result.exception


READING = ("status", "history", "report", "verify", "watch")
ACTING = (("freeze", "--reason", "x"), ("promote", "--reason", "x"), ("rollback", "--reason", "x"), ("resume",), ("start",))


@pytest.mark.parametrize("words", [*((name,) for name in READING), *ACTING, ("assign", "bob")], ids=lambda words: words[0])
@pytest.mark.parametrize(
    ("service", "more", "says"),
    [
        ("vision/nosuch", (), "There is no service vision/nosuch"),
        ("vision", (), "'vision' names no service"),
        ("../..", (), "'../..' names no service"),
        ("vision/../x", (), "names no service"),
        ("vision/defects", ("--environment", "nosuch"), "There is no environment nosuch"),
        ("vision/defects", ("--environment", "../x"), "There is no environment ../x"),
    ],
)
def test_a_wrong_name_is_a_mistake_of_the_command_line_whatever_is_asked(
    command: Command, words: tuple[str, ...], service: str, more: tuple[str, ...], says: str
) -> None:
    name, *rest = words
    found = refusal(command(name, service, *rest, *more))
    assert found.fact.startswith(says) or says in found.fact
    assert found.exit is Exit.USAGE


def test_who_mistypes_a_service_is_told_which_there_are(command: Command) -> None:
    assert "assist/chat, vision/defects, vision/embeddings" in refusal(command("status", "vision/defect")).remedy


def test_who_asks_for_the_report_of_no_release_is_told_how_one_begins(command: Command) -> None:
    assert refusal(command("report", CHAIN)).remedy == f"`headway release start {CHAIN} -e sandbox` begins one."


def test_without_credentials_of_an_environment_that_is_said(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "none")
    found = refusal(command("status", "vision/defects", "--environment", "prod"))
    assert found.fact == "What the layers of prod have handed over cannot be read: Unable to locate credentials."
    assert "/headway/prod/layers" in found.remedy
    assert found.exit is Exit.ENVIRONMENT


def test_a_service_whose_contract_is_gone_is_still_read_from_its_ledger(command: Command, tmp_path: Path) -> None:
    events = tmp_path / "ledger" / "vision" / "former" / "events"
    events.mkdir(parents=True)
    (events / "00000001.json").write_text("{}")
    assert "does not fit the chain" in refusal(command("history", "vision/former")).fact


def newer(tmp_path: Path, written: Path, kind: str, change: Callable[[Any], Any], files: int | None = None) -> Ledger:
    """The ledger, or its first `files` events, with one event more, which a Headway of tomorrow wrote."""
    store = FolderStore(tmp_path / "ledger")
    kept = [*sorted(written.rglob("events/*.json"))[:files], *written.rglob("releases/*.json")]
    for file in kept:
        store.create(file.relative_to(written).as_posix(), file.read_bytes())
    ledger = Ledger(store, CHAIN, "sandbox", "tomorrow", lambda: START)
    divided = next(event.body for event in reversed(ledger.read()) if event.kind in ("intended", "adopted"))
    ledger.append(kind, change(json.loads(json.dumps(divided))))
    return ledger


def recoloured(body: Any) -> Any:
    body["division"]["arms"][0]["colour"] = "blue"
    return body


@pytest.mark.parametrize(("kind", "change"), [("teleported", lambda _: {}), ("intended", recoloured)])
def test_every_command_refuses_a_ledger_of_a_newer_headway_by_name(
    command: Command, tmp_path: Path, written: Path, kind: str, change: Callable[[Any], Any]
) -> None:
    number = len(newer(tmp_path, written, kind, change, files=-2).events)  # before it ended
    for name in ("status", "history", "report", "watch"):
        found = refusal(command(name, CHAIN))
        assert found.fact == f"Event {number} of the release ledger ({kind}) says something that this Headway does not know."
        assert found.exit is Exit.REFUSED
    if kind == "intended":
        with pytest.raises(UserError, match="this Headway does not know"):
            latest(FolderStore(tmp_path / "ledger"), CHAIN, "sandbox")


def test_verify_proves_such_a_chain_and_says_what_it_could_not_read(command: Command, tmp_path: Path, written: Path) -> None:
    newer(tmp_path, written, "teleported", lambda _: {}, files=1)
    result = command("verify", CHAIN, "--output", "json")
    assert (result.exit_code, json.loads(result.output)["sound"]) == (0, True)
    assert "(teleported) says something that this Headway does not know" in json.loads(result.output)["not_decided_again"][-1]


class Api:
    """An API server that has one tenant, or does not answer."""

    def __init__(self, *, away: bool = False) -> None:
        self.away = away

    def get(self, path: str) -> dict[str, Any] | None:
        if self.away:
            raise OutOfReachError("connection refused")
        return {} if path == "/api/v1/namespaces/vision" else None


def test_a_guard_of_a_tenant_that_is_not_there_guards_nobody_and_says_so() -> None:
    with pytest.raises(UserError, match="The cluster has no tenant visoin"):
        release_guard._exists(Api(), "visoin")  # type: ignore[arg-type]
    release_guard._exists(Api(), "vision")  # type: ignore[arg-type]
    release_guard._exists(Api(away=True), "visoin")  # type: ignore[arg-type]


def test_who_would_go_back_to_a_version_that_is_being_removed_is_told(command: Command, tmp_path: Path, written: Path) -> None:
    asked_with("noon", "somebody", written, tmp_path)
    before = sorted((tmp_path / "ledger").rglob("*"))
    found = refusal(command("rollback", CHAIN, "--reason", "lunch"))
    assert found.exit is Exit.REFUSED and "is being removed" in found.fact
    assert sorted((tmp_path / "ledger").rglob("*")) == before


ODD = "50 % [bold]off[/bold] [/x]\x1b[31m\nand <b>more</b>"


def asked_with(reason: str, actor: str, written: Path, tmp_path: Path) -> None:
    """The ledger as it was before its end, with a freeze by somebody whose words are odd."""
    store = FolderStore(tmp_path / "ledger")
    for file in (*sorted(written.rglob("events/*.json"))[:-2], *written.rglob("releases/*.json")):
        store.create(file.relative_to(written).as_posix(), file.read_bytes())
    ledger = Ledger(store, CHAIN, "sandbox", actor, lambda: START)
    ledger.read()
    ledger.append("asked", {"wish": "freeze", "reason": reason})


def test_a_report_becomes_a_picture_in_the_file_that_was_named(command: Command, tmp_path: Path, written: Path) -> None:
    asked_with("ü 漢 " + "long " * 80, "dependabot[bot]", written, tmp_path)
    found = command("report", CHAIN, "--picture", "--out", str(tmp_path / "release.png"))
    assert found.exit_code == 0, found.output
    assert (tmp_path / "release.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("words", [(), ("--markdown", "--out", "both.md")])
def test_a_picture_without_a_file_of_its_own_is_refused(command: Command, written: Path, words: tuple[str, ...]) -> None:
    found = refusal(command("report", CHAIN, "--picture", *words))
    assert found.exit is Exit.USAGE and "--out FILE.png" in found.remedy


def test_what_people_write_is_shown_as_they_wrote_it_and_obeyed_by_no_terminal(command: Command, tmp_path: Path, written: Path) -> None:
    asked_with(ODD, "dependabot[bot]", written, tmp_path)
    for words in (("status", CHAIN), ("history", CHAIN), ("report", CHAIN, "--markdown")):
        found = command(*words)
        assert found.exception is None or isinstance(found.exception, SystemExit), words
        assert "\x1b[31m" not in found.output
    shown = command("report", CHAIN, "--markdown").output
    assert "50 % [bold]off[/bold] [/x] [31m and &lt;b&gt;more&lt;/b&gt;" in shown


def test_who_started_a_release_is_named_whole(capsys: pytest.CaptureFixture[str], written: Path) -> None:
    rollout = replace(fold(Ledger(FolderStore(written), CHAIN, "sandbox", "x", lambda: START).read()).all[0], actor="ci[bot]")
    release_view.past(CHAIN, [rollout])
    assert "[bot]" in "".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("verb", ["freeze", "promote", "rollback"])
def test_a_reason_that_says_nothing_is_none(command: Command, verb: str) -> None:
    found = refusal(command(verb, CHAIN, "--reason", " "))
    assert (found.fact, found.exit) == ("--reason is empty.", Exit.USAGE)


def test_a_report_that_was_written_says_where(command: Command, tmp_path: Path, written: Path) -> None:
    asked_with("noon", "somebody", written, tmp_path)
    said = command("report", CHAIN, "--out", str(tmp_path / "page.html")).stdout
    assert said.startswith(f"{tmp_path / 'page.html'}: the report of release ")
    assert said.endswith(f" of {CHAIN} in sandbox\n")


@pytest.mark.parametrize("held", [False, True])
def test_a_wish_that_nobody_hears_now_says_so(command: Command, tmp_path: Path, written: Path, held: bool) -> None:
    asked_with("noon", "somebody", written, tmp_path)
    ledger = Ledger(FolderStore(tmp_path / "ledger"), CHAIN, "sandbox", "runner", lambda: START)
    ledger.acquire("ci@elsewhere/1/1", timedelta(minutes=1), lambda _: True)
    if not held:
        ledger.release("ci@elsewhere/1/1")
    found = json.loads(command("freeze", CHAIN, "--reason", "lunch", "--output", "json").stdout)
    assert (found["asked"], found["reason"], found["driven"]) == ("freeze", "lunch", held)
    assert ("Nobody drives it now" in command("freeze", CHAIN, "--reason", "lunch").output) is not held
