"""What an earlier gate decided can still be made again, and a release that it began goes on."""

import json
from pathlib import Path

import pytest

from headway.ledger.events import Event
from headway.release.driver.event_kinds import EventKind
from headway.release.driver.judge import RolloutJudge, decides_alike, gate_version
from headway.release.driver.verify import recomputed
from headway.release.gate.predecessors import SAME_FIGURES
from tests.unit.release_world import Reading

LEDGER = Path(__file__).parent / "recorded" / "ledger.jsonl"


def recorded_events(**changed: object) -> list[Event]:
    """The stored release; `changed` are numbers of its last decision."""
    events = [Event(**json.loads(line)) for line in LEDGER.read_text(encoding="utf-8").splitlines()]
    last = max(place for place, event in enumerate(events) if event.kind == EventKind.OBSERVED)
    decision = {**events[last].body["decision"], **changed}
    body = {**events[last].body, "decision": decision}
    fields = {name: getattr(events[last], name) for name in ("number", "previous", "time", "actor", "kind")}
    return [*events[:last], Event(**fields, body=body), *events[last + 1 :]]


def test_a_ledger_of_an_earlier_gate_can_still_be_verified():
    found = recomputed(recorded_events(), Reading())
    assert (found.decided, found.foreign, found.undecided) == (15, (), 0)
    assert all("evidence" in flaw or "proof" in flaw for flaw in found.flaws), "another processor may round a last bit"


def test_the_figures_of_an_earlier_gate_are_those_of_this_one():
    events = recorded_events()
    begun = next(place for place, event in enumerate(events) if event.kind == EventKind.STARTED)
    judge = RolloutJudge.of(events[begun : begun + 1], Reading())
    assert judge
    for event in events[begun + 1 :]:
        decision = judge.follow(event)
        if decision is None:
            continue
        recorded = event.body["decision"]
        assert {name: decision[name] for name in ("verdict", "reason", "phase", "weight")} == {
            name: recorded[name] for name in ("verdict", "reason", "phase", "weight")
        }
        for name, signal in recorded["signals"].items():
            for figure in ("evidence", "proof"):
                wanted = signal[figure]
                assert decision["signals"][name][figure] == (None if wanted is None else pytest.approx(wanted, rel=1e-9))


def test_another_figure_in_a_ledger_of_an_earlier_gate_is_found():
    (flaw,) = [flaw for flaw in recomputed(recorded_events(weight=0.5), Reading()).flaws if "weight" in flaw]
    assert flaw.endswith("records weight 0.5, and its counts give 0.0")


def test_another_sentence_of_an_earlier_gate_is_no_flaw():
    flaws = recomputed(recorded_events(sentence="It was said in other words."), Reading()).flaws
    assert not any("sentence" in flaw for flaw in flaws)


def test_a_gate_decides_like_itself_and_its_predecessors_only():
    assert decides_alike(gate_version())
    assert all(decides_alike(version) for version in SAME_FIGURES)
    assert not decides_alike("000000000000")
