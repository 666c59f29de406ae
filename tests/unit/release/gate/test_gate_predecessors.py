"""What an earlier gate decided can still be made again, and a release that it began goes on."""

import hashlib
import json
from pathlib import Path

import pytest

from headway.ledger.events import Event
from headway.release import gate as today
from headway.release.driver.event_kinds import EventKind
from headway.release.driver.judge import RolloutJudge, decided_by, gate_version
from headway.release.driver.verify import recomputed
from headway.release.earlier_gates import KEPT, kept_gate
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
    assert decided_by(gate_version())
    assert all(decided_by(version) for version in SAME_FIGURES)
    assert not decided_by("000000000000")


SOURCES = {
    "a97081ff902c": "b4658269d24a6e512c3ed0a78f0cc9c358b7bff418af0cce4653c4dd66fba974",
    "fc4f452ae5f1": "7d4eb8d0b3b2031130375957f8d857676c33b80effac0758d1110a22c80638ae",
}
"""SHA-256 of the sources of each kept gate, under the name that they had."""


@pytest.mark.parametrize("version", KEPT)
def test_a_kept_gate_is_word_for_word_what_it_was(version):
    gate = kept_gate(version)
    assert gate and gate.__file__
    sources = sorted(Path(gate.__file__).parent.glob("*.py"))
    text = b"".join(source.read_bytes() for source in sources).replace(gate.__name__.encode(), b"headway.release.gate")
    assert hashlib.sha256(text).hexdigest() == SOURCES[version]


@pytest.mark.parametrize("version", KEPT)
@pytest.mark.parametrize("names", ["Verdict", "Reason", "Phase"])
def test_the_words_of_a_kept_gate_are_words_of_this_one(version, names):
    """Else a decision of it would be written down, or counted, as another."""
    kept, now = getattr(kept_gate(version), names), getattr(today, names)
    assert {each.name: each.value for each in kept}.items() <= {each.name: each.value for each in now}.items()
