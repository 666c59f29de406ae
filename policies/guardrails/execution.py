"""What a plan may run and make: resources of known providers, judged by their kind, and no program of anybody's on the deployer's machine."""

from collections.abc import Mapping
from typing import Any

from policies.guardrails import workloads as w
from policies.guardrails.rule import Breaches, Domain, PolicyRule, PolicySeverity, breach
from policies.guardrails.view import ResourceView, canonical

_PROGRAMS = ("command:", "pulumi-nodejs:", "pulumi-python:")
"""Packages whose resources are programs: commands, here or over SSH, and dynamic providers of either language."""
_UNSEEN = ("aws-native:", "aws:cloudcontrol/", "aws:cloudformation/")
"""Resources that make others by a template or by a kind in their inputs, which no rule here reads."""
_PROVIDERS = "pulumi:providers:"


def _programs(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    if r.type != w.HELM_RELEASE:
        yield breach("", f"a {r.kind} runs a program with the deployer's rights")
    elif r["postrender"].present:
        yield breach(r["postrender"], "the release runs a program with the deployer's rights")


def _provider(r: ResourceView, c: Mapping[str, Any]) -> Breaches:
    package = r.type.removeprefix(_PROVIDERS)
    if package not in c["packages"]:
        yield breach("", f"no rule knows what the provider {package} makes")


def _unseen(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    yield breach("", f"a {r.kind} of this package makes what no rule sees")


def _same_kind(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    version, kind = r["apiVersion"], r["kind"]
    if kind.present and kind.value != r.kind:
        yield breach(kind, f"the object is a {kind.value} and its resource a {r.kind}, by which it is judged")
    elif version.present and canonical(f"kubernetes:{version.value}:{r.kind}") != canonical(r.type):
        yield breach(version, f"the object is of {version.value} and its resource of {r.type}, by which it is judged")


RULES = (
    PolicyRule(
        id="plan-runs-no-program",
        domain=Domain.SUPPLY_CHAIN,
        title="A plan runs no command and no dynamic provider.",
        rationale="The program would run on whoever deploys, with all its rights and past every rule here, at each preview or update.",
        remedy="Register the resource that the program would make; what has to run in the cluster is a Job.",
        applies=(*_PROGRAMS, w.HELM_RELEASE),
        check=_programs,
        severity=PolicySeverity.CRITICAL,
    ),
    PolicyRule(
        id="provider-known",
        domain=Domain.SUPPLY_CHAIN,
        title="Resources are of providers that the rules know.",
        rationale="The rules judge kinds by name, and would let every kind of another provider pass.",
        remedy="Use the kinds of aws, eks and kubernetes, or add the package to `packages` with a reason.",
        applies=(_PROVIDERS,),
        check=_provider,
        settings={"packages": {"type": "array", "items": {"type": "string"}, "default": ["aws", "eks", "kubernetes"]}},
    ),
    PolicyRule(
        id="resources-are-seen",
        domain=Domain.SUPPLY_CHAIN,
        title="No resource makes others that the rules do not see.",
        rationale="A template may hold an administrator, a public bucket or a second entrance, and reads as one harmless resource.",
        remedy="Register each resource by its own kind of the aws package.",
        applies=_UNSEEN,
        check=_unseen,
        severity=PolicySeverity.CRITICAL,
    ),
    PolicyRule(
        id="object-is-of-its-kind",
        domain=Domain.TENANCY,
        title="A Kubernetes object is of the kind that its resource says.",
        rationale="The provider sends what the inputs say, and rules go by the type of the resource: the object would be judged as another.",
        remedy="Leave out apiVersion and kind, or register the object by its own kind.",
        applies=("kubernetes:",),
        check=_same_kind,
        severity=PolicySeverity.CRITICAL,
    ),
)
