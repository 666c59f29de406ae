"""`headway mirror --push`: fills a registry of one's own, with a line for each thing and what has arrived of it meanwhile."""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

import typer

from headway.cli.output import Output
from headway.problem import Exit, UserError
from headway.registry_mirror.charts import package_of
from headway.registry_mirror.client import RegistryClient
from headway.registry_mirror.copying import CopyOutcome, ImagePlace, copy_chart, copy_image
from headway.registry_mirror.ecr import credentials_of, ensure_repository

SECONDS_BETWEEN_LINES = 2.0


def push_all(listed: dict[str, Any], mirror: str, *, source: str | None, charts: Path | None, only: Sequence[str], output: Output) -> None:
    """Copy what `listed` names and `only` does not leave out; ends with a list of digests."""
    host, _, prefix = mirror.partition("/")
    if not prefix:
        raise UserError(
            f"{mirror} names no place in a registry.", "Nothing was copied.", "Write REGISTRY/PREFIX, as in headway:registry.", Exit.USAGE
        )
    cache, work = spool(), [(each["image"], each) for each in listed["images"]] + [(each["chart"], each) for each in listed["charts"]]
    work = [(name, each) for name, each in work if not only or any(text in name for text in only)]
    clients: dict[str, RegistryClient] = {}
    outcomes = list[CopyOutcome]()
    for number, (name, each) in enumerate(work, start=1):
        repository, _, tag = f"{prefix}/{each['target']}".rpartition(":")
        told = told_of(f"[{number}/{len(work)}] {name}")
        ensure_repository(host, repository, ecr)
        place = ImagePlace(client_of(clients, host), repository)
        if "image" in each:
            maker, _, path = name.partition("/")
            of = ImagePlace(client_of(clients, source or maker), path.rpartition(":")[0])
            outcome = copy_image(of, place, tag, each["digest"], cache, told)
        else:
            outcome = copy_chart(package_of(each, charts), place, each["version"], cache)
        outcomes.append(outcome)
        typer.echo(f"[{number}/{len(work)}] {name}: {'copied' if outcome.copied else 'there already'}, {outcome.digest}", err=True)
    if output is Output.JSON:
        typer.echo(json.dumps([{"target": f"{host}/{o.target}", "digest": o.digest, "copied": o.copied} for o in outcomes], indent=2))
    else:
        copied = sum(outcome.copied for outcome in outcomes)
        typer.echo(f"{mirror}: {copied} copied, {len(outcomes) - copied} were there already")


def client_of(known: dict[str, RegistryClient], host: str) -> RegistryClient:
    if host not in known:
        docker = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker") / "config.json"
        known[host] = RegistryClient(host, credentials_of(host, ecr, docker))
    return known[host]


def ecr(region: str) -> Any:
    import boto3

    return boto3.client("ecr", region_name=region)


def spool() -> Path:
    """Where a blob lies between the two registries; what an interrupted copy left there is not fetched again."""
    folder = Path(os.environ.get("HEADWAY_CACHE") or Path.home() / ".cache" / "headway") / "mirror"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def told_of(name: str) -> Callable[[str], None]:
    """Prints what it is told, not more often than every few seconds."""
    last = monotonic()

    def told(text: str) -> None:
        nonlocal last
        if monotonic() - last >= SECONDS_BETWEEN_LINES:
            last = monotonic()
            typer.echo(f"{name}: {text}", err=True)

    return told
