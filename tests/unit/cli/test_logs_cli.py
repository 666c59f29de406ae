"""`headway logs` on the files of a sandbox: which lines, since when, and what goes on coming."""

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from headway.cli.logs import moment, written
from headway.cli.main import app
from headway.cli.output import Output
from headway.environment.container_logs import LogLine, LogQuery
from headway.environment.port import OutOfReachError
from headway.problem import Exit, UserError
from sandbox.environment import Sandbox
from sandbox.traffic.pod_logs import FileReader

NOW = datetime(2026, 11, 25, 4, 0, tzinfo=UTC)
PODS = (
    "vision/defects-r0123456789-7d-a",
    "vision/defects-rabcdefabcd-7d-b",
    "vision/defects-lite-r0123456789-1-c",
    "assist/chat-r0123456789-1-d",
)
Command = Callable[..., Result]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADWAY_SANDBOX_HOME", str(tmp_path))
    monkeypatch.delenv("HEADWAY_ENVIRONMENT", raising=False)
    pods = tmp_path / "logs" / "pods"
    for pod in PODS:
        (pods / pod).mkdir(parents=True)
        for container in ("fetch", "server"):
            (pods / pod / f"{container}.log").write_text(f"first of {container}\nlast of {container}\n")
    return pods


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["logs", *words])


@pytest.mark.parametrize(
    ("words", "pods"),
    [
        (["vision"], PODS[:3]),
        (["vision/defects"], PODS[:2]),
        (["vision/defects", "--release", "rabcdefabcd"], PODS[1:2]),
        (["vision", "--pod", "defects-lite"], PODS[2:3]),
        (["assist/chat"], PODS[3:]),
    ],
)
def test_lines_are_picked_by_tenant_model_release_and_pod(folder: Path, words: list[str], pods: tuple[str, ...]) -> None:
    said = run(*words, "-c", "server").output.splitlines()
    names = [pod.partition("/")[2] for pod in pods]
    assert said == [f"{pod} server | {text} of server" for pod in names for text in ("first", "last")]


def test_the_newest_lines_are_printed_and_no_more_than_asked_for(folder: Path) -> None:
    assert run("assist", "-n", "1").output == "chat-r0123456789-1-d server | last of server\n"


def test_of_several_pods_the_one_that_printed_last_has_the_newest_lines(folder: Path) -> None:
    for pod, at in zip(PODS, (3.0, 2.0, 1.0, 0.0), strict=True):
        os.utime(folder / pod / "server.log", (at, at))
    assert run("vision", "-c", "server", "--since", "1970-01-01T00:00:00Z", "-n", "1").output == (
        "defects-r0123456789-7d-a server | last of server\n"
    )


def test_a_container_that_has_been_silent_since_is_left_out(folder: Path) -> None:
    for file in folder.rglob("*.log"):
        os.utime(file, (1.0, 1.0))
    answer = run("vision", "--since", "15m")
    assert answer.stdout == ""
    assert "vision printed nothing since" in answer.stderr


def test_programs_get_a_line_as_data(folder: Path) -> None:
    found = json.loads(run("assist", "-n", "1", "-o", "json").stdout)
    assert found == {"time": None, "pod": "chat-r0123456789-1-d", "container": "server", "line": "last of server"}


def test_what_a_program_prints_cannot_command_the_terminal(folder: Path) -> None:
    (folder / PODS[3] / "server.log").write_text("\x1b[2Jgone\x07\n")
    assert run("assist", "-c", "server").output == "chat-r0123456789-1-d server |  [2Jgone \n"


def test_no_name_that_a_sender_gives_itself_is_an_order_to_a_terminal() -> None:
    line = LogLine(time=None, pod="a\x1b[2J", container="b\u202e", text="c")
    assert written(line, Output.TEXT) == "a [2J b  | c"


def test_who_follows_gets_whole_lines_as_they_come(folder: Path) -> None:
    file = folder / PODS[3] / "server.log"
    reader = FileReader(folder, LogQuery(tenant="assist", container="server", since=NOW, most=10))
    os.utime(file, (NOW.timestamp(), NOW.timestamp()))
    assert len(reader.read()) == 2
    with file.open("a") as more:
        more.write("half")
        more.flush()
        assert reader.read() == []
        more.write(" and half\n")
    assert [line.text for line in reader.read()] == ["half and half"]


def test_following_ends_with_ctrl_c_after_what_was_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", interrupted)
    assert run("assist", "-f", "-c", "fetch").output.startswith("chat-r0123456789-1-d fetch | first of fetch\n")


def test_a_sandbox_that_serves_nothing_says_what_does(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEADWAY_SANDBOX_HOME", str(tmp_path / "other"))
    error = run("vision").exception
    assert isinstance(error, UserError) and error.remedy == "`make demo` serves real ones."


def test_logs_that_cannot_be_read_name_the_right_that_is_needed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Away:
        def read(self) -> list[object]:
            raise OutOfReachError("Loki answers 403: forbidden")

    monkeypatch.setattr(Sandbox, "container_logs", lambda *_: Away())
    error = run("vision").exception
    assert isinstance(error, UserError)
    assert error.fact == "Logs of sandbox cannot be read (Loki answers 403: forbidden)." and "services/proxy" in error.remedy


def test_who_follows_waits_for_logs_that_do_not_answer_for_a_while(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [
        [LogLine(time=None, pod="a", container="server", text="before")],
        None,
        None,
        [LogLine(time=None, pod="a", container="server", text="after")],
    ]

    class Loki:
        def read(self) -> list[LogLine]:
            if not answers:
                raise KeyboardInterrupt
            if (found := answers.pop(0)) is None:
                raise OutOfReachError("ConnectionError")
            return found

    monkeypatch.setattr(Sandbox, "container_logs", lambda *_: Loki())
    monkeypatch.setattr("time.sleep", lambda _: None)
    said = run("vision", "-f")
    assert said.stdout == "a server | before\na server | after\n"
    assert said.stderr.count("cannot be read (ConnectionError). Asking again.") == 1


def test_a_tenant_that_no_contract_knows_is_doubted(folder: Path) -> None:
    assert "The checkout has no contract of visoin; is it spelt right?" in run("visoin", "-e", "sandbox").stderr
    assert "spelt" not in run("vision", "-r", "r9999999999").stderr


@pytest.mark.parametrize(
    "words", [["vision", "--since", "yesterday"], ["vision", "--since", "2026-11-25T04:00:00"], ["Vision"], ["v/../x"]]
)
def test_what_means_nothing_is_a_fault_of_the_command_line(folder: Path, words: list[str]) -> None:
    error = run(*words).exception
    assert isinstance(error, UserError) and error.exit is Exit.USAGE


def test_to_follow_and_to_end_contradict_each_other(folder: Path) -> None:
    error = run("vision", "-f", "--until", "1m").exception
    assert isinstance(error, UserError) and error.exit is Exit.USAGE


def test_a_time_is_a_span_before_now_or_one_with_its_zone() -> None:
    assert moment("15m", "--since", NOW) == datetime(2026, 11, 25, 3, 45, tzinfo=UTC)
    assert moment("2026-11-25T05:00:00+02:00", "--since", NOW) == datetime(2026, 11, 25, 3, 0, tzinfo=UTC)
