"""The ports of others' rules do what their sources say."""

import numpy as np
import pytest
from scipy.stats import mannwhitneyu

from benchmarks.incumbents import BACK, PROMOTED, RUNNING, Argo, Flagger, Kayenta, SageMakerRule, hodges_lehmann, quantile
from benchmarks.release import judge_by
from headway.release.worlds.scenarios import SCENARIOS
from headway.release.worlds.service import Shown
from headway.release.worlds.world import BASE, EDGES

FAST, SLOW, FAR = (EDGES.index(edge) for edge in (100.0, 250.0, 1000.0))
ONE = np.ones(1, dtype=bool)


def arm(fast=970, slow=30, far=0):
    buckets = np.zeros((1, 2, len(EDGES) + 1))
    buckets[0, 0, [FAST, SLOW, FAR]] = fast, slow, far
    return buckets


def shown(canary=None, *, errors=0.0, answered=True, stable=None):
    arms = {"stable": arm() if stable is None else stable, "baseline": arm(), "canary": arm() if canary is None else canary}
    failed = {name: np.array([[errors if name == "canary" else 0.0, 0.0]]) for name in arms}
    return Shown(arms, failed, ONE & answered, ONE)


def run(rule, minutes):
    """Outcome and weight after each minute."""
    rule.learn(arm() * 15, np.zeros((1, 2)))
    seen = []
    for number, minute in enumerate(minutes):
        rule.observe(number, minute)
        seen.append((int(rule.outcome[0]), round(float(rule.weight[0]), 2)))
    return seen


def test_a_quantile_is_interpolated_within_its_bucket():
    assert quantile(arm().sum(axis=1), 0.5)[0] == pytest.approx(50 + 50 * 500 / 970)
    assert quantile(arm().sum(axis=1), 0.99)[0] == pytest.approx(100 + 150 * 20 / 30)
    assert np.isnan(quantile(np.zeros((1, len(EDGES) + 1)), 0.5)[0])
    beyond = np.zeros((1, len(EDGES) + 1))
    beyond[0, -1] = 5
    assert quantile(beyond, 0.99)[0] == EDGES[-1]


def test_flagger_promotes_a_healthy_version_step_by_step():
    seen = run(Flagger(1), [shown()] * 10)
    assert [weight for _, weight in seen[:3]] == [0.10, 0.15, 0.20]
    assert [outcome for outcome, _ in seen] == [RUNNING] * 9 + [PROMOTED]


def test_flagger_rolls_back_one_look_after_the_fifth_failed_check():
    seen = run(Flagger(1), [shown(errors=50.0)] * 6)
    assert [outcome for outcome, _ in seen] == [RUNNING] * 5 + [BACK]
    assert seen[4][1] == 0.05, "a failed check holds the weight"


@pytest.mark.parametrize("minute", [shown(answered=False), shown(np.zeros_like(arm()))])
def test_flagger_counts_no_data_as_a_failed_check(minute):
    assert run(Flagger(1), [minute] * 6)[-1][0] == BACK


def test_flagger_never_forgets_a_failed_check():
    bad, good = shown(errors=50.0), shown()
    assert run(Flagger(1), [bad, good, bad, good, bad, good, bad, good, bad, good])[-1][0] == BACK


def test_flagger_with_ratios_forgives_what_the_primary_suffers_too():
    slow = arm(far=60)
    assert run(Flagger(1, against_primary=True), [shown(slow, stable=slow)] * 10)[-1][0] == PROMOTED
    assert run(Flagger(1), [shown(slow, stable=slow)] * 10)[-1][0] == BACK


def test_argo_gives_up_at_the_fourth_failure_and_promotes_after_four_steps():
    assert [outcome for outcome, _ in run(Argo(1), [shown(errors=50.0)] * 4)] == [RUNNING] * 3 + [BACK]
    assert [outcome for outcome, _ in run(Argo(1), [shown()] * 20)] == [RUNNING] * 19 + [PROMOTED]


def test_argo_gives_up_when_the_metrics_cannot_be_read_for_a_minute():
    assert run(Argo(1), [shown(), shown(answered=False)])[-1][0] == BACK


def test_one_bad_minute_stays_in_argos_window_for_five():
    minutes = [shown(), shown(errors=60.0), *[shown()] * 5]
    assert [outcome for outcome, _ in run(Argo(1), minutes)].index(BACK) == 4


def test_sagemakers_alarm_cannot_tell_the_canary_from_the_rest():
    whole = arm(97000, 3000)
    diluted = shown(errors=100.0, stable=whole)
    assert run(SageMakerRule(1), [diluted] * 4)[-1] == (RUNNING, 0.1)
    assert run(SageMakerRule(1), [shown(errors=100.0)] * 5)[-1][0] == BACK


def test_sagemaker_has_two_steps_of_five_minutes():
    seen = run(SageMakerRule(1), [shown()] * 10)
    assert [weight for _, weight in seen] == [0.1] * 4 + [1.0] * 6
    assert [outcome for outcome, _ in seen] == [RUNNING] * 9 + [PROMOTED]


def test_kayenta_judges_after_twenty_forty_and_sixty_minutes():
    rng = np.random.default_rng(1)
    slow = [shown(arm(900 - int(rng.integers(5)), 100, 60)) for _ in range(60)]
    assert run(Kayenta(1), slow)[19][0] == BACK
    assert run(Kayenta(1), slow)[18][0] == RUNNING
    assert run(Kayenta(1), [shown()] * 60)[-1][0] == PROMOTED
    assert run(Kayenta(1), [shown()] * 59)[-1][0] == RUNNING


def test_the_shift_is_that_of_mann_and_whitney():
    """The interval excludes zero just when the test rejects, but for the correction for continuity."""
    rng = np.random.default_rng(2)
    for shift in (0.0, 0.3, 0.6, 1.0):
        canary, baseline = rng.normal(shift, 1, 40), rng.normal(0, 1, 40)
        lowest, estimate = hodges_lehmann(canary, baseline, 0.98)
        p = mannwhitneyu(canary, baseline, alternative="greater", method="asymptotic").pvalue
        assert (lowest > 0) == (p < 0.01)
        assert estimate == pytest.approx(np.median(np.subtract.outer(canary, baseline)))


@pytest.mark.parametrize("rule", ["Flagger", "Argo Rollouts", "SageMaker"])
def test_a_broken_version_is_found_by_every_rule(rule):
    broken = next(scenario for scenario in SCENARIOS if scenario.name == "errors 50 %")
    cell = judge_by(rule, BASE, broken, 200.0, 20, 1)
    assert (cell.wrong, cell.undecided) == (0, 0)
    assert cell.exposure > 0


def test_sagemakers_alarm_waits_for_its_whole_period():
    assert run(SageMakerRule(1), [shown(errors=100.0)] * 4)[-1][0] == RUNNING
