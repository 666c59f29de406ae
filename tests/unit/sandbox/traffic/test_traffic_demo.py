"""What the demonstration holds its releases to, and what it says of them."""

import ast
import os
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest

from benchmarks import traffic_rollouts
from benchmarks.traffic_results import TrafficCell, table
from headway.problem import Exit, UserError
from sandbox.cluster.locks import exclusive
from sandbox.cluster.processes import Supervisor
from sandbox.layout import Layout
from sandbox.progress import Silent
from sandbox.traffic import command_records, demo, release_trials
from sandbox.traffic.demo import main
from sandbox.traffic.load import LoadTally
from sandbox.traffic.release_trials import BEFORE_TRAFFIC, ReleaseTrials, TrialResult, forget, stop
from sandbox.traffic.tried_models import PROMOTED, TRIED
from tests.loopback import Handler, served

WRITERS = {"releases": "build.py", "language": "train.py"}
"""What writes the releases that a table tries."""


def ended(outcome: str, where: str) -> TrialResult:
    return TrialResult(release="errors", outcome=outcome, where=where, verdict="", seconds=1.0, users=0, number=1)


@pytest.mark.parametrize("kind", WRITERS)
def test_every_release_that_is_built_has_an_end_that_it_should_have(kind: str) -> None:
    source = Path(release_trials.__file__).parent / "models" / WRITERS[kind]
    (releases,) = (
        node.value
        for node in ast.walk(ast.parse(source.read_text()))
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == "RELEASES"
    )
    assert isinstance(releases, ast.Dict)
    built = {key.value for key in releases.keys if isinstance(key, ast.Constant)}
    tried = TRIED[kind]
    assert built - {"stable"} == set(tried.wanted)
    assert set(tried.alike) <= built
    assert sorted(tried.order) == sorted(tried.wanted), "the table has them all"


@pytest.mark.parametrize("kind", TRIED)
def test_a_demonstration_promotes_a_good_release_and_catches_three_bad_ones(kind: str) -> None:
    tried = TRIED[kind]
    good = [name for name in tried.story if tried.wanted[name] == PROMOTED]
    assert (len(good), len(set(tried.story))) == (1, 4)


def test_a_table_shows_of_whichever_model_how_each_release_ended() -> None:
    told: dict[str, Any] = {
        "run": 1,
        "seconds": 600.0,
        "requests": 2400,
        "lost": 0,
        "out_of_service": 0.0,
        "verdict": "",
        "load_average": 1.0,
    }
    good = TrafficCell(table="language", name="better", outcome="promoted", where="all traffic", as_it_should=True, users=900, **told)
    late = TrafficCell(table="language", name="leak", outcome="rolled back", where="10%", as_it_should=False, users=70, **told)
    other = TrafficCell(table="releases", name="leak", outcome="rolled back", where="mirror 100%", as_it_should=True, users=0, **told)
    tried = TRIED["language"]
    assert list(table((good, late, other), "language", tried.wanted, tried.order))[2:] == [
        "| `leak` | 0 of 1 | rolled back, 10% | 600 s, 600 s | 70 | 0 of 2,400 |",
        "| `better` | 1 of 1 | promoted, all traffic | 600 s, 600 s | all in the end | 0 of 2,400 |",
    ]


@pytest.mark.parametrize(("kind", "there", "kept"), [("releases", "writing/sorter", False), ("language", "writing/sorter", True)])
def test_a_table_of_another_model_begins_the_workspace_anew(tmp_path: Path, kind: str, there: str, *, kept: bool) -> None:
    layout = Layout(project=tmp_path / "checkout", state=tmp_path / "state", cache=tmp_path)
    contract = layout.project / "tenants" / f"{there}.yaml"
    for folder in (contract.parent, layout.state):
        folder.mkdir(parents=True)
    contract.touch()
    begun = replace(TRIED[kind], trials=lambda _, layout, speed, _progress: ReleaseTrials(layout, cast(Any, None), speed))
    assert begun.on(tmp_path, layout, 5.0, Silent()).speed == 5.0
    assert layout.state.exists() is kept


@pytest.mark.parametrize(
    ("name", "found", "met"),
    [
        ("errors", ended("rolled back", "mirror 100%"), True),
        ("errors", ended("rolled back", "10%"), False),
        ("errors", ended("promoted", "all traffic"), False),
        ("wrong", ended("rolled back", BEFORE_TRAFFIC), True),
        ("wrong", ended("rolled back", "mirror 100%"), False),
        ("tail", ended("rolled back", "10%"), True),
        ("tail", ended("held", "10%"), False),
        ("better", ended("promoted", "all traffic"), True),
        ("better", ended("not over", "50%"), False),
    ],
)
def test_a_release_that_is_caught_too_late_has_not_ended_as_it_should(name: str, found: TrialResult, met: bool) -> None:
    assert TRIED["releases"].wanted[name].met(found) is met


@pytest.mark.parametrize(("model", "name"), [((), "garbled"), (("--language",), "errors")])
def test_a_release_that_the_model_does_not_have_is_refused_by_name(
    model: tuple[str, ...], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*model, name])
    assert ended.value.code == 2
    assert f"no release {name}; choose from identical" in capsys.readouterr().err


@pytest.mark.parametrize(("result", "enough"), [(b'[{"value": [1, "5"]}]', True), (b"[]", False)], ids=["requests", "none"])
def test_no_release_begins_before_prometheus_holds_requests_to_judge_it_by(tmp_path: Path, result: bytes, enough: bool) -> None:
    class Prometheus(Handler):
        def do_GET(self) -> None:
            self.reply(200, b'{"data": {"result": ' + result + b"}}")

    layout, nothing = Layout(project=tmp_path, state=tmp_path / "state", cache=tmp_path), cast(Any, None)
    trials = ReleaseTrials(layout, nothing, 15.0)
    with pytest.raises(UserError, match="shows no requests of quality/classifier"):
        trials.measured(within=0.1)
    with served(Prometheus, Supervisor(layout).port("prometheus")):
        if enough:
            trials.measured()
        else:
            with pytest.raises(UserError, match="none was begun"):
                trials.measured(within=0.1)


@pytest.mark.parametrize(("first", "last", "said"), [("not over", "rolled back", "held"), ("not over", "promoted", "promoted")])
def test_a_release_that_nobody_decides_is_taken_back_and_said_to_be_held(tmp_path: Path, first: str, last: str, said: str) -> None:
    asked: list[tuple[str, ...]] = []

    class Undecided(ReleaseTrials):
        def count(self) -> int:
            return 0

        def begin(self, name: str, reason: str, *, quiet: bool = False) -> "subprocess.Popen[bytes]":
            self._children.append(subprocess.Popen(["sleep", "60"]))
            return self._children[0]

        def headway(self, *arguments: str, quiet: bool = False) -> "subprocess.Popen[bytes]":
            asked.append(arguments)
            self._children[0].terminate()
            return subprocess.Popen(["true"])

        def ended(self, name: str, before: int, seconds: float, answered_by: Mapping[str, int]) -> TrialResult:
            return ended(last if asked else first, "10%")

    nothing = cast(Any, None)
    layout = Layout(project=tmp_path, state=tmp_path / "state", cache=tmp_path)
    found = Undecided(layout, nothing, 15.0, held_seconds=0.05).release("better", LoadTally("release"))
    assert (found.outcome, found.where) == (said, "10%")
    assert [one[:2] for one in asked] == [("release", "rollback")]


def test_stop_ends_every_command_that_was_started_and_not_only_the_last(tmp_path: Path) -> None:
    python, nothing = tmp_path / ".venv" / "bin" / "python", cast(Any, None)
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\nexec sleep 60\n")
    python.chmod(0o755)
    busy = ReleaseTrials(Layout(project=tmp_path, state=tmp_path / "state", cache=tmp_path), nothing, 15.0)
    started = [busy.headway("release", "start"), busy.headway("release", "promote")]
    busy.stop()
    assert [child.poll() for child in started] == [-signal.SIGTERM, -signal.SIGTERM]


def test_stop_ends_what_a_killed_demonstration_left_and_spares_recycled_pids(tmp_path: Path) -> None:
    layout = Layout(project=tmp_path, state=tmp_path / "state", cache=tmp_path)
    left, stranger = (subprocess.Popen(["sleep", "60"]) for _ in range(2))
    for each in (left, stranger):
        command_records.record(layout, each.pid)
    record = layout.state / "commands" / str(stranger.pid)
    record.write_text(record.read_text() + "1")
    command_records.record(layout, os.getpid())
    try:
        stop(layout)
        assert left.wait(10) == -signal.SIGTERM
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


@pytest.mark.parametrize(("player", "arguments"), [(demo, []), (traffic_rollouts, ["releases", "--anew"])], ids=["demo", "table"])
def test_a_second_demonstration_is_refused_and_leaves_the_running_one_alone(
    player: ModuleType, arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    layout = Layout(project=tmp_path / "demo" / "checkout", state=tmp_path / "demo" / "state", cache=tmp_path)
    layout.state.mkdir(parents=True)
    cells = tmp_path / "demo" / "rollouts.jsonl"
    cells.touch()
    monkeypatch.setattr(player, "layout_of", lambda _: layout)
    monkeypatch.setattr(player, "stop_on_signals", lambda: None)
    monkeypatch.setattr(traffic_rollouts, "PATIENCE_SECONDS", 0.0)
    with exclusive(tmp_path / "demo" / "demo.lock", what="plays", waiting=print, timeout=0):
        assert player.main(arguments) == Exit.BUSY
    assert f"Process {os.getpid()} still plays the demonstration" in capsys.readouterr().err
    assert layout.state.exists() and cells.exists()


def test_ctrl_c_twice_interrupts_once() -> None:
    ending = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(each) for each in ending]
    try:
        demo.stop_on_signals()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        for each in ending:
            signal.raise_signal(each)
    finally:
        for each, handler in zip(ending, before, strict=True):
            signal.signal(each, handler)


def test_a_folder_that_cannot_be_written_is_told_without_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    layout = Layout(project=tmp_path / "file" / "checkout", state=tmp_path / "file" / "demo" / "state", cache=tmp_path)
    monkeypatch.setattr(demo, "layout_of", lambda _: layout)
    monkeypatch.setattr(demo, "stop_on_signals", lambda: None)
    assert main([]) == Exit.ENVIRONMENT
    assert "file/demo: Not a directory" in capsys.readouterr().err


def test_a_demonstration_begins_from_nothing_and_keeps_earlier_reports(tmp_path: Path) -> None:
    layout = Layout(project=tmp_path / "demo" / "checkout", state=tmp_path / "demo" / "state", cache=tmp_path / "cache")
    ledger, report = layout.ledger / "quality" / "1.json", tmp_path / "demo" / "reports" / "01-better.html"
    for path in (ledger, report):
        path.parent.mkdir(parents=True)
        path.write_text("{}")
    forget(layout)
    forget(layout)
    assert not layout.state.exists()
    assert report.exists()
