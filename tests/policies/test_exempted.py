"""A pack in this process: what an exemption excuses, and what the run says of one that is over."""

from collections.abc import Mapping
from datetime import date
from typing import Any

import pytest
from pulumi_policy import PolicyCustomTimeouts, PolicyResourceOptions, ResourceValidationArgs, ResourceValidationPolicy

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
            for message, urn in told:
                assert urn == args.urn and policy.name not in said
                said[policy.name] = message
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


def test_a_rule_is_asked_by_the_numbers_of_its_configuration() -> None:
    eight = spoilt(D, (*CONTAINER, "resources"), {"limits": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "8"}})
    pack, asked = Pack(date(2027, 1, 1)), "gpus-per-pod-bounded"
    assert pack.says(D, eight, config={asked: {"maxGpusPerPod": 8.0}}) == {}
    assert "4" in pack.says(D, eight, config={asked: {"maxGpusPerPod": 4.0}})[asked]


@pytest.mark.parametrize("type", ["kubernetes:example.com/v1:Thing", STACK])
def test_what_no_rule_is_about_is_asked_nothing(type: str) -> None:
    assert Pack(date(2027, 1, 1), EXEMPTION).says(type, {"a": 1}) == {}
