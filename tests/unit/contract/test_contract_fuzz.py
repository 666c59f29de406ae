"""Mutated contracts: accepted or refused with three sentences each, never a traceback."""

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from headway.contract.crosscheck import TenantContracts, check_model, check_pools, cross_check
from headway.contract.model import Model
from headway.contract.reading.document import read
from headway.contract.reading.validation import at, contract_from
from headway.contract.tenant import Tenant
from headway.problem import Problem
from tests.contract_data import contract_of
from tests.contract_samples import ASSIST, CHAT, CUSTOM, DEFECTS, EMBEDDINGS, H100_POOL, L4_POOL, MIG_POOL, VISION, pool
from tests.fuzz.mutation import places

DOCS = Path(__file__).parents[3] / "docs/reference"
SEEDS: list[tuple[dict[str, Any], type[Model] | type[Tenant]]] = [
    *((data, Model) for data in (DEFECTS, EMBEDDINGS, CHAT, CUSTOM)),
    *((data, Tenant) for data in (VISION, ASSIST)),
]
POOLS = (pool(L4_POOL), pool(MIG_POOL), pool(H100_POOL))
OWNER = Tenant.model_validate(VISION)
ODD: list[Any] = [
    None, True, False, 0, -1, 1, 2**31, 2**62, -(2**62), 0.0, -0.5, 1e308, "", " ", "0", "-1", "1e9", "NaN", "0%", "100%", "100.0001%", "0s", "1us",
    "99999d", "0B", "1B", "8388607Ti", "1Ki", "0/s", "999999999/s", "0 USD", "1 EUR", "\u202e", "ﬀ", "名前", "a" * 10_000, "../..", "{{x}}", "$(id)", "\n", "s3://x/y/",
    "sha256:0", "null", "~", [], {}, [[]], [None], {"": ""}, {"x": {"y": []}}, ["a"] * 300, list(range(300)),
    "triton", "vllm", "container", "mig", "whole", "mps", "slice",
    "dynamic", "continuous", "none", "ab", "rolling", "latency", "1g.10gb", "7g.80gb", "h100", "l4",
]  # fmt: skip


def mutated(data: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """`data` with one to four random changes: values, keys, entries, whole branches from elsewhere."""
    result = copy.deepcopy(data)
    for _ in range(chance.randint(1, 4)):
        paths = places(result)
        if not paths:
            break
        *above, last = chance.choice(paths)
        target: Any = result
        for key in above:
            target = target[key]
        match chance.randrange(7):
            case 0:
                target[last] = copy.deepcopy(chance.choice(ODD))
            case 1:
                del target[last]
            case 2 if isinstance(target, dict):
                target[str(chance.choice(ODD))] = copy.deepcopy(target[last])
            case 3 if isinstance(target, list):
                target.append(copy.deepcopy(target[last]))
            case 4 if isinstance(target, dict):
                target[chance.choice(list(target))] = copy.deepcopy(target[last])
            case 5:
                other: Any = chance.choice(SEEDS)[0]
                for key in chance.choice(places(other)):
                    other = other[key]
                target[last] = copy.deepcopy(other)
            case _ if isinstance(target[last], int) and not isinstance(target[last], bool):
                target[last] = target[last] * chance.choice([-1, 0, 10, 1_000_000])
            case _:
                target[last] = str(target[last])[: chance.randint(0, 12)] + chance.choice(["", "0", "é", "Gi", "%", " "])
    return result


def judge(data: dict[str, Any], kind: type[Model] | type[Tenant]) -> tuple[bool, tuple[Problem, ...]]:
    """What `headway check` does with one contract, after the file has been read."""
    contract, found = contract_of(data, kind, "x.yaml")
    if isinstance(contract, Model):
        together = TenantContracts(OWNER, (contract,))
        together_found = [*check_model(OWNER.name, contract), *cross_check(together), *check_pools([together], POOLS)]
        document = read(b"", "x.yaml")
        found = (*found, *(at(document, problem) for problem in together_found))
    return contract is not None, found


def hold(number: int) -> bool:
    chance = random.Random(number)
    data, kind = SEEDS[number % len(SEEDS)]
    accepted, found = judge(mutated(data, chance), kind)
    assert accepted or found, "a refusal says why"
    for finding in found:
        assert finding.rule
        assert finding.fact
        assert finding.consequence
        assert finding.remedy
        assert len(finding.value_text) <= 60
        for text in (finding.fact, finding.value_text, finding.dotted, finding.remedy):
            text.encode("utf-8")
            assert "Traceback" not in text
    return accepted


@pytest.mark.parametrize("block", range(6))
def test_random_mutations_are_accepted_or_refused_with_reasons(block: int) -> None:
    accepted = [hold(number) for number in range(block * 50, block * 50 + 50)]
    assert not all(accepted), "mutations that never hurt test nothing"


SCHEMAS = {
    kind: Draft202012Validator(json.loads((DOCS / f"{name}.schema.json").read_text(encoding="utf-8")))
    for kind, name in ((Model, "model"), (Tenant, "tenant"))
}
FORM = {"value-not-legal", "field-missing", "value-wrong-type", "field-unknown", "value-wrong-form", "value-wrong"}
"""Rules of form that a schema can state too. It cannot state bounds of quantities: by its pattern, `3Gi` is a size, and never too large."""


def test_an_editor_with_the_published_schema_and_the_command_agree() -> None:
    agreed = 0
    for number in range(400):
        data, kind = SEEDS[number % len(SEEDS)]
        changed = mutated(data, random.Random(number))
        contract, found = contract_of(changed, kind, "x.yaml")
        legal = SCHEMAS[kind].is_valid(changed)
        assert legal or contract is None, f"{number}: accepted, and red in the editor"
        if legal and contract is None and {each.rule for each in found} <= FORM:
            # To JSON Schema 0.0 is a whole number.
            assert all(each.fact.startswith("a number, where a whole number") for each in found), (number, found)
        agreed += legal is (contract is not None)
    assert agreed > 300


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_ten_thousand_mutations_are_accepted_or_refused_with_reasons() -> None:
    accepted = sum(hold(number) for number in range(300, 10_300))
    assert 0 < accepted < 10_000


@settings(max_examples=150)
@given(st.sampled_from(SEEDS), st.integers(0, 10_000), st.binary(max_size=4), st.integers(0, 3))
def test_damaged_text_is_accepted_or_refused_with_reasons(
    seed: tuple[dict[str, Any], type[Model]], position: int, bytes_: bytes, taken: int
) -> None:
    data, kind = seed
    text = yaml.safe_dump(data).encode()
    position %= len(text)
    document = read(text[:position] + bytes_ + text[position + taken :], "x.yaml")
    contract, found = contract_from(document, kind)
    assert (contract is not None) != bool(document.findings or found)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=200)
@given(st.sampled_from(SEEDS), st.integers(0, 10_000), JSON)
def test_any_value_in_any_place_is_accepted_or_refused_with_reasons(
    seed: tuple[dict[str, Any], type[Model]], place: int, value: Any
) -> None:
    data, kind = copy.deepcopy(seed[0]), seed[1]
    paths = places(data)
    *above, last = paths[place % len(paths)]
    target: Any = data
    for key in above:
        target = target[key]
    target[last] = value
    accepted, found = judge(data, kind)
    assert accepted or found
