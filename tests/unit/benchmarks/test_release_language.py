"""The simulated service of a language model shows what it is said to show, and its table says who was wrong."""

import numpy as np
import pytest

from benchmarks.language_worlds import EACH, EDGES, FINE_EACH, FIRST, LATENCY, SCENARIOS, LanguageService, LanguageWorld
from benchmarks.release_language import VIEWS, LanguageResult, judge, table

NAMED = {scenario.name: scenario for scenario in SCENARIOS}
ROLLOUTS = 20
HALF, NONE = np.full(ROLLOUTS, 0.5), np.zeros(ROLLOUTS)


def medians(name: str, arm: str) -> dict[str, float]:
    """The edge below which half of an arm's requests lie, by histogram, over ten minutes without copies."""
    service = LanguageService(LanguageWorld(), NAMED[name], 10.0, ROLLOUTS, seed=3)
    minutes = [service.minute(number, HALF / 2, HALF, NONE) for number in range(10)]
    found: dict[str, float] = {}
    for histogram, edges in EDGES.items():
        below = np.cumsum(sum(each.buckets[arm][histogram].sum(axis=(0, 1)) for each in minutes))
        found[histogram] = (*edges, float("inf"))[int(np.searchsorted(below, below[-1] / 2))]
    return found


def test_longer_answers_take_longer_and_each_of_their_tokens_does_not() -> None:
    longer, usual = (medians("answers twice as long", arm) for arm in ("canary", "baseline"))
    assert longer[LATENCY] > 1.5 * usual[LATENCY]
    assert {name: longer[name] for name in (FIRST, EACH)} == {name: usual[name] for name in (FIRST, EACH)}


def test_a_slower_decode_hides_behind_shorter_answers_and_not_in_tokens() -> None:
    hidden, usual = (medians("decode +50 %, answers shorter by a third", arm) for arm in ("canary", "baseline"))
    assert hidden[LATENCY] == pytest.approx(usual[LATENCY], rel=0.26)
    assert hidden[FINE_EACH] > 1.2 * usual[FINE_EACH]


def test_a_request_that_outlasts_its_caller_fails_and_comes_again() -> None:
    shown = {}
    for name in ("identical versions", "long requests time out and are sent again"):
        service = LanguageService(LanguageWorld(), NAMED[name], 10.0, ROLLOUTS, seed=4)
        minutes = [service.minute(number, NONE, NONE, NONE) for number in range(10)]
        counted = [(each.errors["stable"].sum(), each.buckets["stable"][LATENCY].sum()) for each in minutes]
        shown[name] = np.sum(counted, axis=0)
    (few, usual), (failed, requests) = shown.values()
    assert failed > 5 * few
    assert requests > usual + failed / 2


def test_the_gate_takes_longer_answers_for_slower_ones_unless_it_reads_tokens() -> None:
    found = [judge(NAMED["answers twice as long"], names, 10.0, 4, seed=1).wrong for names in VIEWS.values()]
    assert found == [4, 0, 0]


@pytest.mark.parametrize("arms", ["both new arms", "the new version alone"])
def test_first_tokens_of_a_cold_cache_take_no_version_back(arms: str) -> None:
    assert judge(NAMED[f"prefix cache cold in {arms}"], VIEWS["tokens, at the proxies"], 10.0, 4, seed=1).wrong == 0


def test_the_table_has_a_row_for_each_scenario_and_a_share_for_each_view() -> None:
    cells = {(each.name, view, 10.0): LanguageResult(1, 0, float("nan"), 20) for each in SCENARIOS for view in VIEWS}
    lines = list(table(cells, [10.0]))
    assert len(lines) == 4 + len(SCENARIOS)
    assert {line.count("|") for line in lines} == {3 * len(VIEWS) + 2}
    assert "| identical versions | 5.0 | 0 | - |" in lines[3]
