"""Which endpoints a picker may pick."""

from typing import Any

import pytest

from headway.endpoint_picker.pool_objects import ACTIVE_PORTS, EnginePool, engines_of, pools_of
from headway.endpoint_picker.tracking import EngineFacts

POOL = EnginePool("r1", (("app", "chat"), ("release", "r1")), (8000,))


def pool(**spec: Any) -> dict[str, Any]:
    whole = {
        "selector": {"matchLabels": {"release": "r1", "app": "chat"}},
        "targetPorts": [{"number": 8000}],
        "endpointPickerRef": {"name": "chat-picker", "port": {"number": 9002}},
    }
    return {"metadata": {"name": "r1"}, "spec": {**whole, **spec}}


def pod(**changed: Any) -> dict[str, Any]:
    metadata = {"uid": "u1", "labels": {"app": "chat", "release": "r1", "x": "y"}, **changed.pop("metadata", {})}
    status = {
        "podIP": "10.0.0.1",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{"restartCount": 1}, {"restartCount": 2}],
        **changed,
    }
    return {"metadata": metadata, "status": status}


def test_a_pool_belongs_to_the_picker_that_it_names() -> None:
    assert list(pools_of([pool()], "chat-picker")) == [POOL]
    assert list(pools_of([pool()], "another")) == []
    assert POOL.query == "app=chat,release=r1"


@pytest.mark.parametrize(
    "odd",
    [
        {"selector": {"matchLabels": {}}},
        {"selector": None},
        {"targetPorts": [{"number": 0}]},
        {"targetPorts": [{}]},
        {"endpointPickerRef": {"name": "chat-picker", "kind": "Pod"}},
        {"endpointPickerRef": {"name": "chat-picker", "group": "example.com"}},
    ],
)
def test_a_pool_that_cannot_be_read_hides_no_other(odd: dict[str, Any]) -> None:
    assert list(pools_of([pool(**odd), [], None, pool()], "chat-picker")) == [POOL]


def test_every_ready_pod_of_a_pool_is_an_endpoint() -> None:
    facts = EngineFacts("r1", life="u1/3")
    assert list(engines_of(POOL, [pod()])) == [("10.0.0.1:8000", facts)]
    assert list(engines_of(POOL, [pod(podIP="fd00::1")])) == [("[fd00::1]:8000", facts)]


@pytest.mark.parametrize(
    "odd",
    [
        {"conditions": [{"type": "Ready", "status": "False"}]},
        {"conditions": None},
        {"podIP": None},
        {"podIP": "example.com"},
        {"podIP": "10.0.0.1:80/x"},
        {"containerStatuses": 5},
        {"metadata": {"deletionTimestamp": "2026-11-28T12:00:00Z"}},
        {"metadata": {"labels": {"app": "chat", "release": "r2"}}},
        {"metadata": {"annotations": {ACTIVE_PORTS: "8001"}}},
    ],
)
def test_a_pod_that_is_no_endpoint_hides_no_other(odd: dict[str, Any]) -> None:
    assert [address for address, _ in engines_of(POOL, [pod(**odd), {}, None, pod(podIP="10.0.0.2")])] == ["10.0.0.2:8000"]


def test_of_several_ports_a_pod_says_which_are_active() -> None:
    ranks = EnginePool("r1", POOL.selector, (8000, 8001))
    assert [address for address, _ in engines_of(ranks, [pod()])] == ["10.0.0.1:8000", "10.0.0.1:8001"]
    told = pod(metadata={"annotations": {ACTIVE_PORTS: " 8001, 9000,x"}})
    assert [address for address, _ in engines_of(ranks, [told])] == ["10.0.0.1:8001"]
