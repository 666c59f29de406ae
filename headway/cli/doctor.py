"""`headway doctor`: what would stop the first apply of an environment, found without changing anything."""

import json
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.completion import cluster_stacks
from headway.cli.environment_choice import EnvironmentOption, cluster_stack
from headway.cli.output import Output, OutputOption
from headway.problem import Exit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headway.capacity.described import Described
    from headway.contract.crosscheck import TenantContracts
    from headway.doctor.check import DoctorResult, Unanswered
    from headway.doctor.platform_needs import PlatformNeeds
    from headway.environment.kubernetes import KubernetesApi


_ONLINE = (
    "identity",
    "administrator",
    "service-linked-roles",
    "principals",
    "zones",
    "quotas",
    "offerings",
    "add-on-versions",
    "add-ons",
    "endpoints",
    "reservations",
    "certificate",
    "images",
    "buckets",
    "reachability",
)
"""Checks that ask AWS, a registry or the cluster."""


def doctor(
    context: typer.Context,
    environment: EnvironmentOption = None,
    stack: Annotated[
        str | None,
        typer.Option("--stack", "-s", autocompletion=cluster_stacks, help="The same by its cluster layer's stack, such as dev-cluster."),
    ] = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Ask nothing of AWS; only this machine and the stack file are checked.")
    ] = False,
    output: OutputOption = Output.TEXT,
    project: Annotated[Path | None, typer.Option("--project", help="The checkout; found from the working folder otherwise.")] = None,
) -> None:
    """Check everything that the first apply needs: tools, credentials, quotas, offerings, add-ons, reservations, groups,
    the loops' image, secrets, images, buckets, and the way to the API server.

    It reads only, and takes seconds; what it did not look at is said. Exit codes: 0 all is well; 1 the apply would fail; 3 something could not be
    checked, and nothing else is wrong.
    """
    from headway.capacity.described import described
    from headway.doctor.account import generated_arns
    from headway.doctor.check import CheckState
    from headway.environment.checkout import find
    from headway.environment.trusted import trusted

    checkout = find(project)
    stack = cluster_stack(context, environment, stack, project)
    environment, layer = described(checkout, stack)
    access = checkout / "stacks" / f"Pulumi.{environment}-access.yaml"
    if access.is_file():
        layer = layer.model_copy(update={"trusted": trusted(access), "generated": generated_arns(layer, environment)})
    results = (
        *_examined(checkout, environment, layer, offline=offline),
        *_surroundings(checkout, environment, layer, offline=offline),
    )
    if output is Output.JSON:
        record = {"stack": stack, "environment": environment, "checks": [_record(each) for each in results]}
        typer.echo(json.dumps({**record, "not_looked_at": list(_ONLINE if offline else ())}, indent=2))
    else:
        _print(stack, results)
        if offline:
            typer.echo(f"Not looked at, because nothing may be asked: {', '.join(_ONLINE)}.")
    if any(each.blocking for each in results):
        raise typer.Exit(Exit.REFUSED)
    if any(each.state is CheckState.UNKNOWN for each in results) and not offline:
        raise typer.Exit(Exit.ENVIRONMENT)


def _examined(checkout: Path, environment: str, layer: "Described", *, offline: bool) -> "Sequence[DoctorResult]":
    from headway.cli.mirror import installed_by
    from headway.doctor.account import generated_roles, judge
    from headway.doctor.aws import account_facts
    from headway.doctor.samples import judge_samples
    from headway.doctor.tools import installed, judge_aws, judge_kubectl, judge_pulumi
    from headway.environment.aws import clients

    tools = installed()
    pinned = installed_by(checkout)
    kubernetes, addons = pinned["kubernetes"], pinned["addons"]
    here = (
        judge_pulumi(tools["pulumi"], version("pulumi")),
        judge_aws(tools["aws"]),
        judge_kubectl(tools["kubectl"], kubernetes),
        judge_samples(layer),
    )
    if offline:
        return here
    asked = clients(layer.region, retries={"mode": "standard", "max_attempts": 3}, connect_timeout=5, read_timeout=20)
    facts = account_facts(layer, addons, kubernetes, asked, environment)
    return (*here, *judge(layer, facts, addons, kubernetes, generated=generated_roles(environment) if layer.generated else None))


def _surroundings(checkout: Path, environment: str, layer: "Described", *, offline: bool) -> "Sequence[DoctorResult]":
    """What the platform and the tenants will need, beyond the account."""
    from headway.doctor import asking, places, platform_needs
    from headway.doctor.check import Unanswered
    from headway.doctor.image_ways import judge_ways
    from headway.doctor.people import judge_groups
    from headway.environment.aws import clients
    from headway.environment.selection import environment as chosen

    tenants = _tenants(checkout, environment, layer)
    needs = _platform_needs(checkout, environment)
    receivers = [(each.tenant.name, model.observability.receiver) for each in tenants for model in each.models]
    secrets = platform_needs.secrets(needs, receivers)
    served = {model.runtime.image: f"{each.tenant.name}/{model.name}" for each in tenants for model in each.models}
    images = [*_images(checkout, needs), *served]
    here = (
        judge_groups(layer, [each.tenant for each in tenants]),
        platform_needs.judge_loops(needs, layer.pools),
        judge_ways(images, layer, served),
    )
    if offline:
        return (*here, platform_needs.judge_secrets(secrets, Unanswered("offline")))
    asked = clients(layer.region, retries={"mode": "standard", "max_attempts": 3}, connect_timeout=5, read_timeout=20)
    answers = asking.endpoint_answers(environment, asked)

    def cluster() -> "KubernetesApi":
        return chosen(environment, checkout).kubernetes

    there = asking.secrets_there(secrets, cluster) if answers is True else _why(answers)
    pem = asking.certificate(needs, cluster) if answers is True else _why(answers)
    names = [each.tenant.name for each in tenants]
    return (
        *here,
        platform_needs.judge_secrets(secrets, there),
        platform_needs.judge_certificate(needs, names, pem, datetime.now(UTC)),
        places.judge_images(asking.images_there(images, asked), served, needs.image),
        places.judge_buckets(asking.bucket_owners(places.bucket_names(environment, layer), layer, asked)),
        places.judge_reach(layer, asking.own_addresses(), answers),
    )


def _why(answers: "bool | Unanswered") -> "Unanswered":
    from headway.doctor.check import Unanswered

    return answers if isinstance(answers, Unanswered) else Unanswered("the API server takes no connection from here")


def _tenants(checkout: Path, environment: str, layer: "Described") -> "list[TenantContracts]":
    """Contracts of the environment's tenants; those that are refused are `headway check`'s to tell."""
    from headway.contract.reading.loader import load_tenant
    from headway.contract.reading.tenants import tenants_of

    names = [name for name in tenants_of(environment, checkout / "stacks") if (checkout / "tenants" / name).is_dir()]
    found = (load_tenant(checkout / "tenants" / name, layer.pools).tenant(name) for name in names)
    return [each for each in found if each is not None]


def _platform_needs(checkout: Path, environment: str) -> "PlatformNeeds":
    from headway.contract.reading.document import read_file
    from headway.doctor.platform_needs import PlatformNeeds

    file = checkout / "stacks" / f"Pulumi.{environment}-platform.yaml"
    data = read_file(file).data if file.is_file() else None
    config = data.get("config") if isinstance(data, dict) else None
    return PlatformNeeds.read(config if isinstance(config, dict) else {})


def _images(checkout: Path, needs: "PlatformNeeds") -> list[str]:
    """By the address from which nodes will pull them."""
    from headway.cli.mirror import installed_by

    listed = installed_by(checkout)["images"]
    found = [
        (f"{needs.mirror}/{each['target']}" if needs.mirror else each["image"]) + (f"@{each['digest']}" if each["digest"] else "")
        for each in listed
    ]
    return [*found, *([needs.image] if needs.image else [])]


def _record(result: "DoctorResult") -> dict[str, object]:
    problems = [each.record("level", "path", "subject") for each in result.problems]
    return {"check": result.name, "state": result.state.value, "seen": result.seen, "problems": problems}


def _print(stack: str, results: "Sequence[DoctorResult]") -> None:
    from rich.console import Console

    from headway.doctor.check import CheckState
    from headway.problem import count

    console = Console(highlight=False, soft_wrap=True)
    marks = {CheckState.OK: "[green]✓[/]", CheckState.PROBLEM: "[red]✗[/]", CheckState.UNKNOWN: "[yellow]?[/]"}
    for _, alike in groupby(results, key=lambda result: (result.state, result.seen) if result.state is CheckState.UNKNOWN else result):
        group = list(alike)
        mark = marks[group[0].state]
        for each in group[0].problems:
            console.print(mark if each.blocking else "[yellow]![/]", f"{group[0].name}:", end=" ")
            console.print(str(each).replace("\n", "\n  "), markup=False)
        if not group[0].problems:
            console.print(mark, f"{', '.join(result.name for result in group)}:", end=" ")
            console.print(group[0].seen, markup=False)
    wrong = sum(each.blocking for result in results for each in result.problems)
    warned = sum(not each.blocking for result in results for each in result.problems)
    unseen = sum(result.state is CheckState.UNKNOWN for result in results)
    fine = sum(result.state is CheckState.OK for result in results)
    console.print(
        f"\n{stack}: {count(fine, 'check')} fine, {count(wrong, 'problem')} in the way of the apply, {count(warned, 'warning')}, {unseen} not checked."
    )
