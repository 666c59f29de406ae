"""The gate's figures in seeded scenarios are those that were recorded, and those of kept gates are what they were."""

import json
from pathlib import Path

import pytest

from headway.release import gate
from headway.release.earlier_gates import KEPT, kept_gate
from headway.release.gate.reasons import REASONS, Effect, Reason
from tests.unit.release.gate.seeded_world import SCENARIOS, compact, decisions

FOLDER = Path(__file__).parent / "recorded"
GATES = {"figures": gate, **{version: kept_gate(version) for version in KEPT}}
RECORDED = {version: json.loads((FOLDER / f"{version}.json").read_text(encoding="utf-8")) for version in GATES}


@pytest.mark.parametrize("version", GATES)
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_seeded_scenario_has_the_recorded_figures(name, version):
    now, before = compact(decisions(name, GATES[version])), RECORDED[version][name]
    assert now["runs"] == before["runs"]
    for said, recorded in zip(now["signals"], before["signals"], strict=True):
        assert set(said) == set(recorded)
        for signal, figures in recorded.items():
            # Processors differ in the last bits of a logarithm.
            assert said[signal] == [None if figure is None else pytest.approx(figure, rel=1e-8) for figure in figures], signal


def test_the_table_of_reasons_has_each_reason_once():
    assert sorted(row.reason for row in REASONS) == sorted(Reason)


def test_what_rolls_back_comes_before_what_holds_or_advances():
    effects = [row.effect for row in REASONS]
    last_failure = max(place for place, effect in enumerate(effects) if effect in (Effect.ROLL_BACK, Effect.GIVE_UP))
    assert not {Effect.HOLD, Effect.ADVANCE} & set(effects[:last_failure])


def test_each_reason_is_told_in_whole_sentences():
    for row in REASONS:
        assert row.sentence[0].isupper() and row.sentence.endswith("."), row.sentence
        assert len({other.sentence for other in REASONS}) == len(REASONS)
