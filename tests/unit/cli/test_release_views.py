"""How a release looks on a terminal, in a log and to a machine."""

import itertools
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from headway.cli import release_status, release_view
from headway.cli.release_view import JsonView, LogView, StoryLine, heard
from headway.contract.reading.loader import load_tenant
from headway.ledger.events import Event
from headway.problem import UserError
from headway.release import messages
from headway.release.driver.event_kinds import EventKind
from headway.release.driver.rollout_state import RolloutState, fold
from headway.release.report import page, summary
from headway.release.report.measured import ArmSums, ReleaseFigures, figures_of, nearest
from tests.unit.release_kill import Shelf
from tests.unit.release_world import BAD, CHAIN, Scene

TENANTS = Path(__file__).parents[3] / "tenants"


@pytest.fixture(scope="module")
def ended() -> tuple[Scene, RolloutState]:
    (found,) = load_tenant(TENANTS / "vision").contracts
    scene = Scene.of(Shelf(), next(model for model in found.models if model.name == "defects"))
    scene.world.shares = BAD
    scene.begin()
    return scene, scene.driver().run()


def lines(events: Sequence[Event]) -> tuple[StoryLine, ...]:
    said: tuple[StoryLine, ...] = ()
    for event in events:
        said = heard(said, event)
    return said


def drawn(thing: object) -> str:
    console = Console(record=True, width=120, force_terminal=False)
    console.print(thing)
    return console.export_text()


def test_the_picture_shows_verdict_ladder_signals_and_what_happened(
    ended: tuple[Scene, RolloutState], capsys: pytest.CaptureFixture[str]
) -> None:
    scene, rollout = ended
    text = drawn(release_view.panel(CHAIN, rollout, lines(scene.ledger().read()[-3:])))
    assert "Rolled back. Requests are slower than the policy tolerates." in text
    assert "copies 100 % → 1 % → 5 %" in text
    assert "latency" in text and "of 10" in text
    assert rollout.release in text


def test_the_picture_shows_both_versions_figures_and_their_limit(ended: tuple[Scene, RolloutState]) -> None:
    scene, rollout = ended
    events = scene.ledger().read()
    text = drawn(release_view.panel(CHAIN, rollout, lines(events[-3:]), figures_of(events)))
    (row,) = [line for line in text.splitlines() if "latency p99" in line]
    assert re.search(r"fail +>500 ms 45\d ms 50\d ms 12\d,\d{3} ", row)


def test_figures_of_a_bake_are_said_to_be_of_unlike_loads(ended: tuple[Scene, RolloutState], capsys: pytest.CaptureFixture[str]) -> None:
    _, rollout = ended
    held_back = ReleaseFigures(key=("baking", 0), where="95%", stable=ArmSums(requests=10.0))
    said = "The stable version then had few requests and so less load, for which the gate allows."
    release_status.show(CHAIN, iter(()), rollout, held_back)
    assert said in " ".join(capsys.readouterr().out.split())
    assert said in " ".join(drawn(release_view.panel(CHAIN, rollout, (), held_back)).replace("│", " ").split())


def test_a_log_names_the_figures_nearest_to_failing(
    ended: tuple[Scene, RolloutState], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    view = LogView(CHAIN, None)
    told(view, ended[0], monkeypatch)
    (failed,) = [line for line in capsys.readouterr().out.splitlines() if " FAIL" in line]
    assert re.search(r"policy tolerates. \(latency: >500 ms against 45\d ms, limit 50\d ms, n 12\d,\d{3}\)$", failed)


def test_where_nothing_is_held_against_it_the_least_proven_figures_are_named(ended: tuple[Scene, RolloutState]) -> None:
    figures = figures_of(ended[0].ledger().read())
    proven, open_yet = ({"evidence": 0.9, "bound": 400.0, "proof": proof, "proof_bound": 20.0} for proof in (900.0, 0.01))
    assert nearest(figures, {"signals": {"errors": proven, "latency": open_yet}}).startswith("(latency: ")
    assert nearest(figures, {"signals": {"errors": open_yet, "latency": proven}}).startswith("(errors: ")


def test_status_as_data_holds_the_figures_as_numbers(ended: tuple[Scene, RolloutState]) -> None:
    events = ended[0].ledger().read()
    errors = release_view.document(fold(events), figures_of(events))["release"]["measured"]["errors"]
    assert errors["unit"] == "share" and errors["limit"] == 0.002 and 0 < errors["new"] < 0.002


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (100, 30), (200, 60)])
def test_what_happened_last_is_seen_on_any_terminal(ended: tuple[Scene, RolloutState], columns: int, rows: int) -> None:
    scene, rollout = ended
    console = Console(width=columns, height=rows, force_terminal=False)
    figures = figures_of(scene.ledger().read())
    said = lines([event for event in scene.ledger().read() if event.kind in (EventKind.OBSERVED, EventKind.SHIFTED, EventKind.ENDED)])
    shown = [
        "".join(part.text for part in line)
        for line in console.render_lines(release_view.fitting(console, CHAIN, rollout, said[-7:], figures))
    ]
    assert len(shown) < rows
    assert "Rolled back." in "".join(shown[-4:])
    assert not any("…" in line for line in shown), "no bar or figure is cut"
    (latency,) = [line for line in shown if line.startswith("│ latency")]
    assert latency.count(" of ") >= 1


def test_a_pass_names_the_step_that_it_leads_to(ended: tuple[Scene, RolloutState]) -> None:
    tick = next(event for event in ended[0].ledger().read() if event.kind == EventKind.OBSERVED)
    decision = {**tick.body["decision"], "verdict": "PASS", "phase": "releasing", "where": "10%"}
    assert str(messages.said(replace(tick, body={**tick.body, "decision": decision}))).startswith("PASS, now at 10%. ")
    on_copies = {**decision, "verdict": "CONTINUE", "where": "mirror 100%"}
    assert str(messages.said(replace(tick, body={**tick.body, "decision": on_copies}))).startswith("CONTINUE on copies of 100%. ")


def test_the_beginning_says_that_the_reason_is_one(ended: tuple[Scene, RolloutState]) -> None:
    begins = next(event for event in ended[0].ledger().read() if event.kind == EventKind.STARTED)
    assert " its strategy is canary. Reason: faster." in str(messages.said(replace(begins, body={**begins.body, "reason": "faster"})))


def test_ticks_that_say_the_same_are_one_line_that_counts_them(ended: tuple[Scene, RolloutState]) -> None:
    events = ended[0].ledger().read()
    said = lines(events)
    texts = [messages.said(line.first) for line in said]
    ticks = [line for line in said if line.first.kind == EventKind.OBSERVED]
    assert sum(line.times for line in ticks) == sum(event.kind == EventKind.OBSERVED for event in events)
    assert all(one != other for one, other in itertools.pairwise(texts)), "no two lines in a row say the same"
    folded = next(line for line in ticks if line.times > 1)
    assert str(folded).startswith(f"{messages.said(folded.first)} {folded.times} ticks in ")
    assert " min" in str(folded) and "least proof " in str(folded)
    assert all("ticks in" not in str(line) for line in ticks if line.times == 1)


def test_the_evidence_names_the_signals_nearest_to_failure_and_far_from_proof() -> None:
    def signal(evidence: float, proof: float | None, verdict: str = "CONTINUE") -> dict[str, Any]:
        return {"verdict": verdict, "evidence": evidence, "bound": 400.0, "proof": proof, "proof_bound": 20.0}

    def said(phase: str = "releasing", **signals: dict[str, Any]) -> str:
        return messages.evidence({"phase": phase, "signals": signals})

    latency, errors, unknown = signal(30.0, 9.0), signal(2.0, 3.0), signal(300.0, 1.0, "NO_DATA")
    assert said(latency=latency, errors=errors, cost=unknown) == "against it 30 of 400 (latency), least proof 3 of 20 (errors)"
    assert said(errors=signal(0.5, 3.0)) == "least proof 3 of 20 (errors)", "below 1 it says nothing"
    assert said("baking", latency=latency) == "against it 30 of 400 (latency), least proof 9 of 20 (latency)"
    assert said("done", latency=latency) == "against it 30 of 400 (latency)", "nothing is asked any more"
    assert said(cost=unknown) == ""


def test_a_bar_is_full_when_the_evidence_decides_and_empty_when_it_says_nothing() -> None:
    assert messages.reach(400.0, 400.0) == 1.0
    assert messages.reach(20.0, 400.0) == pytest.approx(0.5)
    assert [messages.reach(value, 400.0) for value in (1.0, 0.01, 0.0, None)] == [0.0] * 4
    assert messages.reach("inf", 400.0) == 1.0


def told(view: release_view.ReleaseView, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release_view, "_fresh", lambda _: True)
    events = scene.ledger().read()
    for event in events:
        view.told(event, fold(events[: event.number]))


def test_a_log_has_a_line_for_what_is_new(
    ended: tuple[Scene, RolloutState], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scene, rollout = ended
    view = LogView(CHAIN, None)
    told(view, scene, monkeypatch)
    view.ended(rollout)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "Rolled back. Requests are slower than the policy tolerates."
    assert len(lines) < len(scene.ledger().read()), "ticks that say nothing new are left out"
    assert not any("lease-" in line or "None" in line for line in lines)


def test_machines_get_an_object_a_line_and_the_end_as_the_last(
    ended: tuple[Scene, RolloutState], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scene, rollout = ended
    view = JsonView(CHAIN, None)
    told(view, scene, monkeypatch)
    view.ended(rollout)
    read = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert read[-1]["end"]["outcome"] == "rolled back"
    assert [one["event"] for one in read[:-1]] == scene.kinds()


def test_status_and_history_name_release_outcome_and_reason(
    ended: tuple[Scene, RolloutState], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scene, rollout = ended
    monkeypatch.setenv("COLUMNS", "200")
    release_view.overview({CHAIN: scene.service(), "vision/embeddings": fold(())})
    release_view.past(CHAIN, [rollout])
    out = capsys.readouterr().out
    assert rollout.release in out and "not in the ledger yet" in out and "slower" in out


def test_a_history_is_read_line_by_line_on_a_narrow_terminal(
    ended: tuple[Scene, RolloutState], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, rollout = ended
    monkeypatch.setenv("COLUMNS", "80")
    release_view.past(CHAIN, [rollout])
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == f"1  {rollout.release} against {rollout.stable}, {rollout.time[:16].replace('T', ' ')}Z, rolled back"
    assert lines[1].startswith(f"by {rollout.actor}")
    assert len(lines) <= 5, lines


def test_a_step_of_copies_is_named_as_the_ladder_names_it() -> None:
    assert [messages.at_which(where) for where in ("mirror 100%", "10%", "all traffic")] == [
        "on copies of 100%",
        "at 10%",
        "at all traffic",
    ]


def test_a_release_under_way_is_told_from_one_that_is_over(ended: tuple[Scene, RolloutState]) -> None:
    scene, rollout = ended
    events = scene.ledger().read()
    under_way = fold(events[: rollout.failing.number - 1]) if rollout.failing else fold(())
    found = release_view.document(under_way)["release"]
    assert found["outcome"] is None and found["status"] == "active" and found["weight"] == 0
    assert release_view.summary(rollout)["outcome"] == "rolled back"


ORDERS = "\x1b]52;c;eA==\x07[red]<script>x</script>`\u202e"
"""To a terminal, which would fill its clipboard with it, to a browser and to whoever draws or reads the text."""


def texts(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where a value has texts; of a list's items the first one stands for all."""
    if isinstance(value, str):
        yield path
    for key, each in value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ():
        yield from texts(each, (*path, key))


def ordered(value: Any, path: tuple[Any, ...]) -> Any:
    """The same with orders at the end of one text."""
    if not path:
        return value + ORDERS
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    made = {key: ordered(each, path[1:]) if key == path[0] else each for key, each in pairs}
    return made if isinstance(value, dict) else list(made.values())


def test_no_text_of_an_event_is_an_order_to_terminals_or_browsers(
    ended: tuple[Scene, RolloutState], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(release_view, "_fresh", lambda _: True)
    events, tried = ended[0].ledger().read(), set[Any]()
    for at, event in enumerate(events):
        for path in [("actor",), *(("body", *way) for way in texts(dict(event.body)))]:
            if (event.kind, path) in tried:
                continue
            tried.add((event.kind, path))
            changed = {"actor": event.actor, "body": dict(event.body)}
            told = [*events[:at], replace(event, **ordered(changed, path)), *events[at + 1 :]]
            try:
                rollout = fold(told).past[-1]
            except UserError:
                continue
            release_view.past(CHAIN, [rollout])
            release_view.overview({CHAIN: fold(told)})
            view = LogView(CHAIN, None)
            view.told(told[at], fold(told[: at + 1]))
            view.ended(rollout)
            rows = release_status.standing(CHAIN, fold(told), None, datetime.now(UTC))
            release_status.show(CHAIN, rows, rollout, figures_of(told))
            pages = (page.html(CHAIN, "prod", rollout, told), summary.markdown(CHAIN, rollout, told))
            shown = (capsys.readouterr().out, drawn(release_view.panel(CHAIN, rollout, lines(told), figures_of(told))))
            assert "<script>x" not in pages[0]
            assert not any("\x1b" in each for each in (*shown, pages[1])), (event.kind, path)
            assert not re.search("(?m)^[^`]*<script>x", pages[1]), (event.kind, path)
    assert len(tried) > 60
