"""Contracts as strangers would write them, drawn from the vocabulary itself: refused with reasons, or rendered to
objects that are legal.
"""

import json
import random
import re

import pytest

from headway.contract.model import Model
from headway.contract.tenant import Tenant
from tests.components.contract_generator import part
from tests.components.strangers import rendered, stranger
from tests.contract_data import contract_of


@pytest.mark.parametrize("kind", [Model, Tenant])
def test_a_contract_drawn_blindly_is_refused_with_path_consequence_and_remedy(kind: type[Model] | type[Tenant]) -> None:
    for seed in range(60):
        contract, found = contract_of(part(kind, random.Random(seed)), kind, "x.yaml")
        assert contract is not None or found
        for finding in found:
            assert finding.rule
            assert finding.fact
            assert finding.consequence, finding
            assert finding.remedy, finding


LABEL = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")
NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
SERVICE_NAME = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")


@pytest.mark.parametrize("seed", range(20))
def test_any_valid_contract_becomes_objects_that_kubernetes_accepts(seed: int) -> None:
    bodies = rendered(stranger(seed))
    assert len({(body["kind"], body["metadata"]["name"]) for body in bodies}) == len(bodies)
    for body in bodies:
        text = json.dumps(body, allow_nan=False)
        assert len(text) < 1_000_000
        assert (SERVICE_NAME if body["kind"] == "Service" else NAME).fullmatch(body["metadata"]["name"]), body["metadata"]["name"]
        for metadata in (body["metadata"], body.get("spec", {}).get("template", {}).get("metadata", {})):
            for key, value in metadata.get("labels", {}).items():
                assert LABEL.fullmatch(value), f"{body['kind']}: {key}={value!r}"


def test_strangers_use_every_runtime_sharing_mode_class_and_section() -> None:
    models = [stranger(seed) for seed in range(20)]
    assert {model.runtime.engine.value for model in models} == {"triton", "vllm", "container"}
    assert {model.envelope.gpu.share for model in models} == {"whole", "mig", "mps", "slice"}
    assert {model.workload_class.value for model in models} == {"latency", "throughput"}
    written = {name for model in models for name in model.model_fields_set}
    assert written == set(Model.model_fields)
