"""The labelled parts of the demonstration's classifier: the contract pins the very file that the object store gets."""

import hashlib
from typing import Any

from headway.contract.evaluation import Evaluation
from headway.release.evaluation.holdout import labelled_requests
from sandbox.traffic import labelled_parts

GOLDEN: list[dict[str, Any]] = [
    {"name": f"kind-{kind}", "request": {"inputs": [{"name": "features", "shape": [1, 2], "datatype": "FP32", "data": [float(kind), 1.0]}]}}
    for kind in range(8)
]


def test_the_contract_pins_the_parts_that_are_uploaded() -> None:
    found = labelled_parts.content(GOLDEN)
    evaluation = Evaluation.model_validate(labelled_parts.evaluation("models", GOLDEN))
    assert evaluation.holdout.located("any") == f"s3://models/{labelled_parts.prefix(found)}/{labelled_parts.FILE}"
    assert (int(evaluation.holdout.size), evaluation.holdout.sha256) == (len(found), hashlib.sha256(found).hexdigest())
    assert evaluation.like == GOLDEN[0]["name"]
    assert len(labelled_requests(found, evaluation).lines) == labelled_parts.PARTS


def test_parts_are_the_same_each_time_and_none_is_a_golden_request() -> None:
    found = labelled_parts.content(GOLDEN)
    assert found == labelled_parts.content(GOLDEN)
    parts = labelled_requests(found, Evaluation.model_validate(labelled_parts.evaluation("models", GOLDEN))).lines
    assert not [part for part in parts if part.request in [each["request"] for each in GOLDEN]]


def test_other_golden_requests_make_other_parts_at_another_address() -> None:
    one, other = labelled_parts.content(GOLDEN), labelled_parts.content(GOLDEN[:4])
    assert labelled_parts.prefix(one) != labelled_parts.prefix(other)
