"""What a change of a contract changes, and whether it needs a new release."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.contract.difference import RELEASED, difference
from headway.contract.model import Model
from headway.contract.tenant import Tenant
from tests.contract_samples import ADAPTED, CHAT, DEFECTS, EMBEDDINGS, changed, model, tenant


def between(data: dict[str, Any], change: dict[str, Any]) -> dict[str, bool]:
    """Changed path to whether it needs a release."""
    found = difference(Model.model_validate(data), Model.model_validate(changed(data, change)))
    return {each.dotted: each.release for each in found.changes}


@pytest.mark.parametrize(
    ("change", "path", "release"),
    [
        ({"runtime/image": "r.example.com/t@sha256:" + "ab" * 32}, "runtime.image", True),
        ({"artifact/version": "2026.12.0"}, "artifact.version", True),
        ({"envelope/cpu": "2"}, "envelope.cpu", True),
        ({"batching/max_delay": "3ms"}, "batching.max_delay", True),
        ({"health/drain": "40s"}, "health.drain", True),
        ({"workload_class": "throughput"}, "workload_class", True),
        ({"scaling/max_replicas": 5}, "scaling.max_replicas", False),
        ({"slo/0/objective": "99.9%"}, "slo.availability.objective", False),
        ({"rollout/bake": "3h"}, "rollout.bake", False),
        ({"degradation/overload_at": 40}, "degradation.overload_at", False),
        ({"data/retention": "60d"}, "data.retention", False),
        ({"observability/tracing": "2%"}, "observability.tracing", False),
        ({"owner": "someone"}, "owner", False),
    ],
)
def test_only_what_enters_a_pod_needs_a_new_release(change: dict[str, Any], path: str, release: bool) -> None:
    assert between(DEFECTS, change) == {path: release}


def test_a_changed_adapter_is_said_to_be_a_release_of_the_whole_service() -> None:
    adapted = changed(CHAT, ADAPTED)
    found = difference(model(adapted), model(adapted, runtime__adapters__1__rank=16)).changes
    assert [(each.dotted, each.release) for each in found] == [("runtime.adapters.terse.rank", True)]
    assert "whose gate does not tell adapters apart" in found[0].effect


def test_sections_of_a_release_exist() -> None:
    assert set(RELEASED) <= set(Model.model_fields)


def test_an_inserted_entry_does_not_change_those_after_it() -> None:
    entry = {**copy.deepcopy(DEFECTS["slo"][2]), "signal": "latency", "quantile": "50%"}
    found = between(DEFECTS, {"slo": [DEFECTS["slo"][0], entry, DEFECTS["slo"][2]]})
    assert found == {"slo.latency.quantile": False, "slo.latency.threshold": False}
    files = [{"path": "config.bin", "sha256": "ab" * 32, "size": "1B"}, *DEFECTS["artifact"]["files"]]
    assert list(between(DEFECTS, {"artifact/files": files})) == ['artifact.files["config.bin"]']


def test_a_contract_does_not_differ_from_itself() -> None:
    for data in (DEFECTS, EMBEDDINGS, CHAT):
        assert difference(model(data), model(data)).changes == ()
    assert difference(tenant(), tenant()).changes == ()


def test_sums_that_move_are_named() -> None:
    found = difference(model(CHAT), model(CHAT, scaling__max_replicas=4))
    assert {each.what: (each.old, each.new) for each in found.moved} == {
        "cost a month, at most, on the cheapest instance type": ("15,067 USD", "20,090 USD"),
        "quota: gpus.h100": ("3", "4"),
    }


def test_a_tenant_and_a_model_have_nothing_to_compare() -> None:
    with pytest.raises(TypeError):
        difference(model(), tenant())


@given(kind=st.sampled_from([Model, Tenant]))
def test_every_field_has_an_effect_that_says_what_it_changes(kind: type[Model] | type[Tenant]) -> None:
    from headway.contract.difference import effect

    for field in kind.model_fields:
        assert effect((field,))
