"""What a report says of tokens: an answer that is longer is called that, and neither slow nor dear without what each of its tokens takes."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from headway.ledger.events import Event
from headway.release.driver.event_kinds import EventKind
from headway.release.driver.judge import first_decision, policy_document
from headway.release.evidence.tokens import SHAPE
from headway.release.gate import GatePolicy
from headway.release.report.measured import ReleaseFigures, figures_of
from headway.release.report.token_figures import TokenSums, remark, rows

POLICY = GatePolicy(mirror=1.0)
MIRRORING: dict[str, Any] = {**first_decision(POLICY), "counted": True}
AT_TEN: dict[str, Any] = {**MIRRORING, "stage": 1, "where": "10%", "weight": 0.1, "mirror": 0.0}


def server(answers: float, length: float, each_ms: float = 25.0, **more: float) -> dict[str, float]:
    """What an arm's servers say of so many answers of that length."""
    times = {"first_seconds": 0.08 * answers, "firsts": answers, "each_seconds": each_ms / 1000 * answers, "eaches": answers}
    known = {"prompt": 20 * answers, "answer": length * answers, "answers": answers, **times}
    return {**dict.fromkeys(SHAPE, 0.0), **known, **more}


def arm(requests: float, **more: float) -> dict[str, Any]:
    return {"requests": [requests], "errors": [0.0], "buckets": {"latency": [[requests, 0.0]]}, **more}


def event(kind: EventKind, body: Mapping[str, Any]) -> Event:
    return Event(number=1, time="2026-11-28T12:00:00.000Z", actor="ci", kind=kind, body=body, previous="")


def tick(arms: Mapping[str, Any], tokens: Mapping[str, Any], decision: Mapping[str, Any] = AT_TEN) -> Event:
    return event(EventKind.OBSERVED, {"raw": {"arms": arms, "edges": {"latency": [100.0]}, "tokens": tokens}, "decision": decision})


def figures(*events: Event) -> ReleaseFigures:
    start = event(EventKind.STARTED, {"policy": policy_document(POLICY), "first": first_decision(POLICY)})
    return figures_of((start, *events))


def both(new: dict[str, float], stable: dict[str, float], **busy: float) -> tuple[TokenSums, TokenSums]:
    arms = {"mirrored": arm(new["answers"], **busy), "stable": arm(stable["answers"], **busy)}
    found = figures(tick(arms, {"mirrored": new, "stable": stable}, MIRRORING))
    return found.tokens["new"], found.control_tokens


def test_longer_answers_are_said_to_take_longer_by_their_length_alone() -> None:
    said = remark(*both(server(100, 12), server(100, 5)))
    assert said == (
        "Answers of the new version are 140% longer, 12 tokens and not 5; so whole answers take longer by this alone, "
        "while each further token takes 25 ms (25 ms)."
    )


def test_what_a_longer_answer_costs_is_said_beside_what_its_tokens_cost() -> None:
    said = remark(*both(server(100, 10), server(100, 5), busy=1.0))
    assert said.endswith("An answer takes 10 ms of GPU time (10 ms), 1,000 tokens 1 s (2 s).")


@pytest.mark.parametrize("length", [4.7, 5.0, 5.4])
def test_answers_of_nearly_the_same_length_are_not_remarked(length: float) -> None:
    assert remark(*both(server(100, length), server(100, 5))) == ""


def test_shorter_answers_are_said_to_hide_slower_tokens() -> None:
    said = remark(*both(server(100, 3, each_ms=40.0), server(100, 5)))
    assert "40% shorter" in said
    assert "each further token takes 40 ms (25 ms)" in said


def test_figures_of_tokens_stand_beside_the_stable_versions() -> None:
    new = server(100, 12, truncated=3.0, refused=4.0, cached=500.0, looked_up=2000.0)
    shown = {name: (ours, theirs) for name, ours, theirs in rows(*both(new, server(100, 5)))}
    assert shown["answers that ended at their limit"] == ("3.00 %", "0.00 %")
    assert shown["requests refused"] == ("4.00 %", "0.00 %")
    assert shown["of prompts from the prefix cache"] == ("25.0 %", "")
    assert shown["time to the first token, mean"] == ("80 ms", "80 ms")
    assert "GPU time for 1,000 tokens" not in shown, "nobody knows the GPUs"


def test_of_few_answers_nothing_is_said() -> None:
    few = both(server(19, 12), server(100, 5))
    assert list(rows(*few)) == []
    assert remark(*few) == ""


def test_tokens_are_those_of_the_step_whose_requests_are_shown() -> None:
    copies = tick({"mirrored": arm(100), "stable": arm(100)}, {"mirrored": server(100, 12), "stable": server(100, 5)}, MIRRORING)
    users = {"canary": arm(50), "baseline": arm(50), "stable": arm(400)}
    climbed = tick({"mirrored": arm(100), "stable": arm(100)}, {"mirrored": server(100, 12), "stable": server(100, 5)}, AT_TEN)
    later = tick(users, {"canary": server(50, 6), "baseline": server(50, 4), "stable": server(400, 5)})
    found = figures(copies, climbed, later)
    assert (found.tokens["new"].answer, found.control_tokens.answer) == (6.0, 4.0)


def test_a_tick_that_does_not_know_gpu_time_leaves_no_cost() -> None:
    known = TokenSums().plus(server(100, 5), arm(100, busy=1.0))
    assert known.cost == 2.0
    assert known.plus(server(100, 5), arm(100)).cost is None
    assert replace(known, sums={}).cost is None
