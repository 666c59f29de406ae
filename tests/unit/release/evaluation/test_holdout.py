"""A holdout set is read whole or refused with everything that is wrong with it."""

import json
from typing import Any

import pytest

from headway.contract.evaluation import Evaluation
from headway.problem import UserError
from headway.release.evaluation.holdout import CHARACTERS_AT_MOST, accepted_shares, labelled_requests
from tests.evaluation_world import SHA256, evaluation, lines


def refused(content: bytes, contract: Evaluation) -> list[str]:
    with pytest.raises(UserError) as refusal:
        labelled_requests(content, contract)
    return [each.rule for each in refusal.value.problems]


def changed(number: int, **fields: Any) -> bytes:
    written = lines(60)
    written[number] = {**written[number], **fields}
    return "\n".join(map(json.dumps, written)).encode()


def test_a_set_is_read_line_by_line_with_its_slices():
    found = labelled_requests(changed(3, slices=["night"]), evaluation(60, slices=[]))
    assert (found.sha256, len(found.lines)) == (SHA256, 60)
    assert found.lines[3].sent() == {"request": {"inputs": [3]}, "expect": {"compare": "top", "index": 3}}
    assert found.lines[3].slices == ("night",)


def test_a_line_counts_for_the_whole_set_and_for_slices_of_the_contract():
    contract = evaluation(60)
    found = labelled_requests("\n".join(map(json.dumps, lines(60))).encode(), contract)
    accepted = accepted_shares(contract)
    assert accepted == {"all": 0.03, "night": 0.1}
    assert found.streams(0, accepted) == ("all", "night")
    assert found.streams(1, accepted) == ("all",)


def test_every_line_that_cannot_be_asked_is_named():
    text = changed(2, expect={"compare": "guess"}) + b"\nnot json"
    with pytest.raises(UserError) as refusal:
        labelled_requests(text, evaluation(61, slices=[]))
    assert [each.rule for each in refusal.value.problems] == ["holdout-line-is-a-labelled-request"] * 2
    assert "line 3 " in refusal.value.problems[0].fact
    assert "line 61 " in refusal.value.problems[1].fact


def test_a_request_that_no_call_can_carry_is_refused():
    assert refused(changed(0, request={"inputs": "x" * CHARACTERS_AT_MOST}), evaluation(60, slices=[])) == ["labelled-request-is-short"]


def test_a_set_with_another_number_of_lines_is_refused():
    assert refused(changed(0), evaluation(61, slices=[])) == ["holdout-is-whole"]


def test_a_slice_of_a_few_requests_is_refused():
    assert refused(changed(0), evaluation(60, slices=[{"name": "rain", "wrong": "5%"}])) == ["slice-has-requests"]
