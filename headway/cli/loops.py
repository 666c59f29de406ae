"""`headway loops push`: makes the image of the platform's own loops and pushes it to the environment's registry, without a container engine;
`headway loops activate` and `headway loops diagnose` are two of them.

The trap: an environment's own repository is made by its cluster layer, encrypted with the environment's key; one that this command made would
let that layer fail over a repository that is there already.
"""

import json
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.bounded_yaml import bounded_yaml
from headway.cli import loops_diagnose
from headway.cli.environment_choice import EnvironmentOption, to_write
from headway.cli.listening_place import listening_place
from headway.cli.loop_process import told_to_end
from headway.cli.nodes import KubeconfigOption
from headway.cli.output import Output, OutputOption
from headway.cli.release_options import ProjectOption
from headway.problem import Exit, UserError

if TYPE_CHECKING:
    from headway.registry_mirror.loops_image import BaseReference, PushedImage

app = typer.Typer(no_args_is_help=True, help="The platform's own loops: node health, the guard of releases, artifacts on nodes.")
_SECTION = re.compile(r"^(?P<before> +headway:loops:[^\n]*\n(?: *#[^\n]*\n)* +image:[ ]*)[^\s#]+", re.MULTILINE)


@app.callback()
def _loops() -> None: ...


@app.command("push")
def push(
    base: Annotated[
        str, typer.Option("--base", metavar="NAME:TAG@sha256:DIGEST", help="What it stands on: an image with Python, made of Debian.")
    ],
    environment: EnvironmentOption = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="REGISTRY/REPOSITORY", help="Push there; found from the stack files otherwise.")
    ] = None,
    platform: Annotated[str, typer.Option("--platform", help="The system nodes': linux/amd64 or linux/arm64.")] = "linux/amd64",
    write: Annotated[bool, typer.Option("--write", help="Write the image into the environment's platform stack file.")] = False,
    output: OutputOption = Output.TEXT,
    project: ProjectOption = None,
) -> None:
    """Make the image of the loops, push it, and print the line that the environment's platform stack needs.

    It holds the `headway` command and requirements/headway.txt, upon BASE. The same inputs make the same digest; what is in the registry is not
    sent again. The cluster layer makes the repository, so deploy that first. Exit codes: 0 it is there, 2 wrong use, 3 a registry or a package
    index cannot be used.
    """
    from headway.environment.checkout import find
    from headway.registry_mirror.loops_image import PLATFORMS, base_reference

    if platform not in PLATFORMS:
        raise UserError(f"{platform} is no platform of nodes.", "Nothing was made.", f"Use one of {', '.join(PLATFORMS)}.", Exit.USAGE)
    root, wanted, environment = find(project), base_reference(base), to_write(environment, project)
    place, own = (to, False) if to else place_of(root, environment)
    pushed = _pushed(root, wanted, place, platform, own=own)
    image = f"{place}:{pushed.tag}@{pushed.digest}"
    file = root / "stacks" / f"Pulumi.{environment}-platform.yaml"
    if write:
        file.write_text(with_image(file.read_text(encoding="utf-8"), image, f"stacks/{file.name}"), encoding="utf-8")
    if output is Output.JSON:
        typer.echo(json.dumps({"image": image, "digest": pushed.digest, "pushed": pushed.pushed, "written": write}, indent=2))
        return
    typer.echo("pushed" if pushed.pushed else "there already")
    typer.echo(f"{'written into' if write else 'write into'} stacks/{file.name}:\n  headway:loops:\n    image: {image}")


@app.command("activate")
def activate(
    serve: Annotated[str, typer.Option("--serve", metavar="ADDRESS:PORT", help="Where the gateway asks.")],
    show: Annotated[str, typer.Option("--show", metavar="ADDRESS:PORT", help="Answer /healthz and /metrics there.")],
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Hold requests to services that have no replica until one serves; how many wait brings the first one.

    Needs the right to list EndpointSlices. Told to end, it first answers who waits. Exit codes: 0 it was told to end, 3 it cannot listen.
    """
    import os
    import time

    from headway.activator import waiting
    from headway.activator.serving import holding
    from headway.environment.kubernetes import KubernetesApi
    from headway.listening import listening, showing

    ending = told_to_end()
    api = KubernetesApi(kubeconfig or os.environ.get("KUBECONFIG"), client=waiting.CLIENT)
    room = waiting.WaitingRoom(waiting.serves(api), time.monotonic, time.sleep)
    place, remedy = listening_place(serve), "Choose another address or port for --serve."
    with (
        showing(room, *listening_place(show), option="--show"),
        listening(*place, holding(room), consequence="Nothing is held.", remedy=remedy),
    ):
        ending.wait()
        while not room.empty:
            time.sleep(waiting.PATIENCE_SECONDS)


app.command("diagnose")(loops_diagnose.diagnose)


def place_of(project: Path, environment: str) -> tuple[str, bool]:
    """The repository as `host/path`, and whether the environment's cluster layer makes it. Raises UserError where it would not."""
    from headway.cli.program import told_by
    from headway.environment.checkout import described

    described(project, environment)
    found: dict[str, Any] = told_by(
        project,
        "stacks.loops_image",
        environment,
        tells="where the image of the loops belongs",
        consequence="Nothing was made.",
        source=f"stacks/Pulumi.{environment}-cluster.yaml",
    )
    if not found["runs"]:
        raise UserError(
            f"Environment {environment} runs no loops.", "An image would serve nobody; nothing was made.", "Name another one.", Exit.USAGE
        )
    if not found["declared"]:
        raise UserError(
            f"`headway:storage.repositories` of stacks/Pulumi.{environment}-cluster.yaml does not name `headway`.",
            "The environment has no repository for the image; nothing was made.",
            f"Add `headway` there, and deploy the cluster layer (`pulumi up -s {environment}-cluster`).",
            Exit.USAGE,
        )
    return found["repository"], not found["mirror"]


def with_image(text: str, image: str, file: str) -> str:
    """A platform stack file with `image` for its loops, and every other character as it was. Raises UserError where it has no such line."""
    changed = _SECTION.sub(lambda found: f"{found['before']}{image}", text, count=1)
    try:
        wanted = bounded_yaml(text)
        wanted["config"]["headway:loops"]["image"] = image
        done = changed != text and bounded_yaml(changed) == wanted
    except (ValueError, LookupError, TypeError):
        done = False
    if not done:
        raise UserError(
            f"{file} has no line `image:` below `headway:loops:` that could be changed.",
            "The image is in the registry; the file is as it was.",
            f"Write it yourself: `headway:loops: {{image: {image}}}`.",
            Exit.REFUSED,
        )
    return changed


def _pushed(project: Path, wanted: "BaseReference", place: str, platform: str, *, own: bool) -> "PushedImage":
    from headway import VERSION
    from headway.cli.mirror_push import client_of, ecr, spool, told_of
    from headway.registry_mirror import loops_image
    from headway.registry_mirror.copying import ImagePlace
    from headway.registry_mirror.ecr import ensure_repository

    host, _, repository = place.partition("/")
    source = ImagePlace(client_of({}, wanted.host), wanted.repository)
    target = ImagePlace(client_of({}, host), repository)
    if not own:
        ensure_repository(host, repository, ecr)
    base = loops_image.base_of(source.registry, wanted, platform, spool())
    python = loops_image.python_of(base)
    typer.echo(f"{wanted.text}: Python {python} on {platform}; packing requirements and command", err=True)
    with tempfile.TemporaryDirectory(prefix="headway-loops-") as work:
        layers = loops_image.layers_of(project, python, platform, Path(work))
        return loops_image.push(base, source, layers, target, VERSION, spool(), told_of(place))
