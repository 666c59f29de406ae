"""A pack in this process: what an exemption excuses, and what the run says of one that is over."""

from collections.abc import Mapping
from datetime import date
from typing import Any

import pytest
from pulumi_policy import EnforcementLevel, PolicyCustomTimeouts, PolicyResourceOptions, ResourceValidationArgs, ResourceValidationPolicy
from pulumi_policy.proxy import UnknownValueError

from policies.guardrails.crossguard import policies
from policies.guardrails.exemptions import Exemption
from policies.guardrails.registry import RULES
from tests.policies.world import spoilt

D, STACK = "kubernetes:apps/v1:Deployment", "pulumi:pulumi:Stack"
CONTAINER = ("spec", "template", "spec", "containers", 0)
TAGGED = spoilt(D, (*CONTAINER, "image"), "triton:latest")
EXEMPTION = Exemption("image-by-digest", "*::canary-*", "ml-platform", "mirror is late", date(2027, 1, 31))
OPTIONS = PolicyResourceOptions(True, [], None, [], PolicyCustomTimeouts(0, 0, 0), [])


class Pack:
    """Asks every policy in turn, as `pulumi_policy` does."""

    def __init__(self, today: date, *exemptions: Exemption) -> None:
        self._policies = policies(RULES, exemptions, lambda: today)

    def says(self, type: str, properties: Mapping[str, Any], name: str = "x", config: Mapping[str, Any] | None = None) -> dict[str, str]:
        said: dict[str, str] = {}
        for policy in self._policies:
            assert isinstance(policy, ResourceValidationPolicy)
            settings, told = (config or {}).get(policy.name), list[tuple[str, str | None]]()
            args = ResourceValidationArgs(type, properties, f"urn:pulumi:s::p::{type}::{name}", name, OPTIONS, None, settings)
            if policy.has_validation():
                policy.validate(args, lambda message, urn, told=told: told.append((message, urn)))
            assert all(urn == args.urn for _, urn in told)
            if told:
                said[policy.name] = "\n".join(message for message, _ in told)
        return said


def test_an_exempted_resource_is_excused_from_its_rule_alone() -> None:
    pack = Pack(date(2027, 1, 31), EXEMPTION)
    assert pack.says(D, TAGGED, "canary-1") == {}
    assert set(pack.says(D, TAGGED, "stable-1")) == {"image-by-digest"}
    assert set(pack.says(D, {**TAGGED, **spoilt(D, ("spec", "template", "spec", "hostNetwork"), True)}, "canary-1")) == {"no-host-access"}
    assert set(Pack(date(2027, 1, 31)).says(D, TAGGED, "canary-1")) == {"image-by-digest"}


def test_an_exemption_that_is_over_excuses_nothing_and_is_told_once_a_run() -> None:
    pack = Pack(date(2027, 2, 1), EXEMPTION)
    assert set(pack.says(D, TAGGED, "canary-1")) == {"image-by-digest"}
    told = pack.says(STACK, {})
    assert list(told) == ["exemptions-are-current"]
    assert told["exemptions-are-current"].startswith(
        "exemptions.yaml: the exemption of *::canary-* from image-by-digest (owner ml-platform) expired on 2027-01-31."
    )
    assert Pack(date(2027, 1, 31), EXEMPTION).says(STACK, {}) == {}


def test_what_a_preview_does_not_know_is_advice_that_names_rule_and_place() -> None:
    class Unknown(dict[str, Any]):
        def __getitem__(self, key: str) -> Any:
            raise UnknownValueError("04da6b54-80e4-46f7-96ec-b56ff0331ba9", [key])

    unknown = spoilt(D, CONTAINER, Unknown(image=None))
    told = Pack(date(2027, 1, 1)).says(D, unknown)["rules-are-evaluated"]
    assert "image-by-digest could not be evaluated: spec.template.spec.containers[0].image is not known in this preview" in told
    gate, current, *rules = policies(RULES)
    assert (gate.enforcement_level, current.enforcement_level) == (EnforcementLevel.ADVISORY, EnforcementLevel.MANDATORY)
    assert [rule.name for rule in rules] == [rule.id for rule in RULES]


def test_a_rule_is_asked_by_the_numbers_of_its_configuration() -> None:
    eight = spoilt(D, (*CONTAINER, "resources"), {"limits": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "8"}})
    pack, asked = Pack(date(2027, 1, 1)), "gpus-per-pod-bounded"
    assert pack.says(D, eight, config={asked: {"maxGpusPerPod": 8.0}}) == {}
    assert "4" in pack.says(D, eight, config={asked: {"maxGpusPerPod": 4.0}})[asked]


@pytest.mark.parametrize("type", ["kubernetes:example.com/v1:Thing", STACK])
def test_what_no_rule_is_about_is_asked_nothing(type: str) -> None:
    assert Pack(date(2027, 1, 1), EXEMPTION).says(type, {"a": 1}) == {}
