"""Which endpoints a picker may pick."""

from typing import Any

import pytest

from headway.endpoint_picker.pool_objects import SERVICE, engines_of, shared
from headway.endpoint_picker.tracking import EngineFacts

FACTS = EngineFacts("chat-r1.assist", life="u1")


def engine(ip: str = "10.0.0.1", **changed: Any) -> dict[str, Any]:
    return {"addresses": [ip], "conditions": {"ready": True}, "targetRef": {"kind": "Pod", "uid": "u1"}, **changed}


def piece(*endpoints: Any, **changed: Any) -> dict[str, Any]:
    metadata = {"namespace": "assist", "labels": {SERVICE: "chat-r1"}}
    return {"metadata": metadata, "ports": [{"name": "http", "port": 8000}], "endpoints": list(endpoints), **changed}


def test_every_ready_endpoint_is_one_of_its_service() -> None:
    assert list(engines_of([piece(engine())])) == [("10.0.0.1:8000", FACTS)]
    assert list(engines_of([piece(engine("fd00::1"))])) == [("[fd00::1]:8000", FACTS)]
    assert list(engines_of([piece(engine(conditions=None))])) == [("10.0.0.1:8000", FACTS)], "who does not say so is ready"


@pytest.mark.parametrize(
    "odd",
    [
        {"conditions": {"ready": False}},
        {"conditions": 5},
        {"addresses": None},
        {"addresses": []},
        {"addresses": ["example.com"]},
        {"addresses": ["10.0.0.1:80/x"]},
    ],
)
def test_an_endpoint_that_cannot_be_picked_hides_no_other(odd: dict[str, Any]) -> None:
    assert [address for address, _ in engines_of([piece(engine(**odd), None, engine("10.0.0.2"))])] == ["10.0.0.2:8000"]


@pytest.mark.parametrize(
    "odd", [{"metadata": {}}, {"metadata": None}, {"ports": [{"port": "x"}]}, {"ports": [{"port": 0}]}, {"endpoints": 5}]
)
def test_a_slice_that_cannot_be_read_hides_no_other(odd: dict[str, Any]) -> None:
    found = engines_of([piece(engine("10.0.0.9"), **odd), [], None, piece(engine())])
    assert list(found) == [("10.0.0.1:8000", FACTS)]


def test_a_tenant_with_engines_without_end_leaves_others_theirs() -> None:
    many = [(f"10.0.{number}.1:8000", EngineFacts("chat-r1.alpha", life="u")) for number in range(9)]
    few = [("10.1.0.1:8000", FACTS), ("10.1.0.2:8000", FACTS)]
    assert [*shared([*many, *few], most=5)] == [many[0][0], few[0][0], many[1][0], few[1][0], many[2][0]]
    assert shared([*few, *few]) == dict(few)
