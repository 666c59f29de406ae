"""`headway backtest` in a simulated world: the promise, the misses, and where the time goes."""

import dataclasses
import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headway.cli.backtest_view import backtest_lines
from headway.cli.main import app
from headway.contract.units import Duration
from headway.problem import UserError
from headway.release.backtest.backtest import Backtest, RelaxedPart
from headway.release.backtest.rehearsal import RehearsalOutcome

TENANTS = str(Path(__file__).parents[3] / "tenants")
HEALTHY = RehearsalOutcome(
    change="none",
    healthy=True,
    rehearsals=200,
    rolled_back=1,
    promoted=199,
    undecided=0,
    minutes=24.0,
    minutes_p90=31.0,
    minutes_spent=25.0,
    exposure=4.0,
    reasons={"failed_latency": 1},
    waited={"step": 15.0, "latency": 8.0, "ready": 2.0},
)
SLOW = dataclasses.replace(HEALTHY, change="p99 +50 %", healthy=False, rolled_back=196, promoted=4, exposure=0.02, minutes=16.0)
FASTER = dataclasses.replace(HEALTHY, minutes_spent=15.0)


def shown(*outcomes, fields=("rollout.step_at_least",), relaxed=FASTER, pods=4):
    parts = tuple(RelaxedPart(field=field, value="1m", outcome=relaxed) for field in fields)
    found = Backtest(outcomes=outcomes, relaxed=parts, pods=pods, ticks=600, unanswered=0)
    return list(backtest_lines(found, "a/b, history", 0.01, 240.0, Duration.parse("1h")))


def test_a_rollback_of_a_good_version_is_shown_as_false_and_why():
    assert "1 of 200 (up to 2.8%)" in shown(HEALTHY)[4]
    assert "failed_latency 1" in shown(HEALTHY)[4]


def test_a_promotion_of_a_worse_version_is_shown_as_a_miss():
    row = next(line for line in shown(HEALTHY, SLOW) if line.startswith("p99"))
    assert "4 of 200" in row
    assert "0.02 min of full traffic" in row


def test_the_part_of_the_contract_that_costs_most_is_named():
    lines = shown(HEALTHY, SLOW)
    assert "rollout.step_at_least costs most: 10 of 25 minutes. Less of it also proves less." in lines
    step = next(line for line in lines if line.startswith("  15.0"))
    assert re.split(r" {2,}", step.strip()) == ["15.0", "the shortest time of a step", "rollout.step_at_least"]


def test_minutes_that_too_few_needed_to_know_are_left_out():
    assert "16 min (9 of 10: -)" in shown(dataclasses.replace(SLOW, minutes_p90=None))[4]
    assert " min (" not in shown(dataclasses.replace(SLOW, minutes=None))[4]


def test_no_part_is_blamed_where_none_costs_a_minute():
    assert "No single part costs a minute or more." in shown(HEALTHY, relaxed=HEALTHY)


def test_a_policy_without_promise_kept_says_so():
    lines = shown(dataclasses.replace(HEALTHY, rolled_back=20))
    assert lines[-1].startswith("The policy does NOT keep its promise of at most 1.00% false rollbacks.")


def test_one_pod_is_said_to_hide_how_pods_differ():
    assert any("only one pod" in line for line in shown(HEALTHY, pods=1))
    assert not any("only one pod" in line for line in shown(HEALTHY))


def test_a_contract_can_be_tried_in_a_simulated_world():
    arguments = ["backtest", "hello/digits", "--world", "base", "--rate", "20", "--rehearsals", "10", "--longest", "60"]
    done = CliRunner().invoke(app, [*arguments, "--tenants", TENANTS, "--output", "json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    outcomes = {outcome["change"]: outcome for outcome in found["outcomes"]}
    assert outcomes["identical versions"]["rolled_back"] == 0
    assert outcomes["errors 5 %"]["promoted"] == 0
    assert found["of"] == "simulated world base, 20 requests a second"


@pytest.mark.parametrize("both", [[], ["--world", "base", "--prometheus", "http://127.0.0.1:9"]])
def test_it_must_be_clear_on_what_to_rehearse(both):
    done = CliRunner().invoke(app, ["backtest", "hello/digits", *both, "--tenants", TENANTS])
    assert isinstance(done.exception, UserError)
    assert "--prometheus" in str(done.exception)
