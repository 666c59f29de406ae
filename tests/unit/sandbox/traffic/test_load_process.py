"""What the demonstration's load says of users, and where a shell that means a demonstration finds it."""

from pathlib import Path
from typing import cast

import pytest
from typer.testing import CliRunner

from headway.cli.main import app
from headway.problem import UserError
from sandbox.cluster.processes import Supervisor
from sandbox.layout import HOME_VARIABLE, Layout
from sandbox.traffic import demo, load_process
from sandbox.traffic.load import NO_ANSWER, LoadAnswer, LoadTally
from sandbox.traffic.load_process import UsersTally, tally_of
from sandbox.traffic.release_trials import layout_of
from tests.loopback import Handler, served
from tests.unit.docs.test_commands import lines, typed_blocks

PROJECT = Path(__file__).parents[4]


BEGAN = "2026-11-25T03:00:00+00:00"


def tally(*answers: tuple[int, float]) -> LoadTally:
    made = LoadTally("release")
    for status, latency in answers:
        made.take(LoadAnswer(due=0.0, latency=latency, status=status, headers={}))
    return made


def test_a_refusal_is_an_answer_and_a_servers_error_is_a_loss() -> None:
    found = tally_of(tally((200, 0.02), (401, 0.01), (503, 0.01), (NO_ANSWER, 10.0)), BEGAN)
    assert found == UsersTally(sent=4, lost=2, refused=1, p99_ms=20.0, began=BEGAN)


def test_the_quantile_is_of_the_newest_answers_and_none_before_there_is_one() -> None:
    assert tally_of(tally(*[(200, 9.0)] * 100, *[(200, 0.02)] * 500), BEGAN).p99_ms == 20.0
    assert tally_of(tally(), BEGAN).p99_ms is None


def test_the_load_is_read_where_it_runs_and_missed_where_it_does_not(tmp_path: Path) -> None:
    class Load(Handler):
        def do_GET(self) -> None:
            self.reply(200, {"classifier": {"sent": 5, "lost": 1, "refused": 0, "p99_ms": 22.5, "began": BEGAN}})

    layout = Layout(project=tmp_path, state=tmp_path / "state", cache=tmp_path)
    with pytest.raises(UserError, match="make demo-traffic"):
        load_process.read(layout)
    with served(Load, Supervisor(layout).port(load_process.NAME)):
        assert load_process.read(layout) == {"classifier": UsersTally(sent=5, lost=1, refused=0, p99_ms=22.5, began=BEGAN)}


def test_a_shell_that_means_the_demonstration_ends_that_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outside = layout_of(tmp_path)
    monkeypatch.setenv(HOME_VARIABLE, str(outside.state))
    assert layout_of(outside.project) == outside
    assert layout_of(tmp_path) == outside


def test_variables_of_a_demonstration_that_never_ran_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))
    error = cast(UserError, CliRunner().invoke(app, ["sandbox", "env", "--demo", "--project", str(PROJECT)]).exception)
    assert "make demo-traffic" in str(error)


def test_what_the_load_says_at_its_start_is_what_the_page_types_first() -> None:
    typed = [line for block in typed_blocks(demo.PAGE) for line in lines(block)]
    assert typed[:4] == ["make demo-traffic", *demo.FIRST_LINES]
