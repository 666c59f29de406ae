"""`headway mirror`: what a registry of one's own must hold before a cluster without internet can run the platform.

The trap: Helm installs a chart by its version, and a version is what its repository says today. What pins a chart is that its package was
compared before it was copied (`--charts`).
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from headway.cli.output import Output
from headway.cli.program import told_by
from headway.problem import Exit, UserError

UNPINNED = "no digest known: headway mirror --pin"


def mirror(
    listed: Annotated[bool, typer.Option("--list", help="Print every chart and image, which is what happens without options.")] = True,
    charts: Annotated[
        Path | None, typer.Option("--charts", help="Compare the packages in this folder (`helm pull`) with the charts' digests instead.")
    ] = None,
    project: Annotated[Path | None, typer.Option("--project", help="The checkout; found from the working folder otherwise.")] = None,
    output: Annotated[Output, typer.Option("--output", "-o", help="`text` for people, `json` for scripts that copy.")] = Output.TEXT,
    push: Annotated[
        str | None, typer.Option("--push", metavar="REGISTRY/PREFIX", help="Copy every chart and image there; what is there stays.")
    ] = None,
    pin: Annotated[
        bool, typer.Option("--pin", help="Ask the makers for each digest that is not known, and keep it; refuse another one later.")
    ] = False,
    source: Annotated[
        str | None,
        typer.Option("--source", metavar="REGISTRY", help="With --push: pull all images from this registry instead of the makers'."),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", help="With --push or --pin: only what has this text in its name; may be repeated.")
    ] = None,
) -> None:
    """List every chart and image of the platform: version, digest where one is known, and its place in a registry of your own.

    With --push, fill that registry: images by digest, charts as artifacts. An interrupted copy goes on where it ended.
    With --pin, write down digests that no public source states. Exit codes: 0 done; 1 something is not what was recorded;
    3 a maker or a registry does not answer.
    """
    from headway.environment.checkout import find

    if pin and push is not None:
        raise UserError(
            "--pin and --push are two steps.",
            "Nothing was done.",
            "Run `headway mirror --pin`, look at what it wrote, then push.",
            Exit.USAGE,
        )
    checkout = find(project)
    found = installed_by(checkout)
    _known(found, only or ())
    if pin:
        from headway.cli.mirror_pin import pin_all

        pin_all(found, checkout, only=only or (), output=output)
        return
    if push is not None:
        from headway.cli.mirror_push import push_all

        push_all(found, push, source=source, charts=charts, only=only or (), output=output)
        return
    if charts is not None:
        compare(found["charts"], charts)
        typer.echo(f"{len(found['charts'])} charts are what components/versions.py says")
        return
    typer.echo(json.dumps(found, indent=2) if output is Output.JSON else _text(found))


def _known(found: dict[str, Any], only: Sequence[str]) -> None:
    """Raises UserError for a text that nothing has in its name: a copy of nothing would look like a success."""
    names = [each["image"] for each in found["images"]] + [each["chart"] for each in found["charts"]]
    if absent := [text for text in only if not any(text in name for name in names)]:
        raise UserError(
            f"--only {absent[0]} is in the name of no chart and of no image.",
            "Nothing was done.",
            "`headway mirror` lists the names.",
            Exit.USAGE,
        )


def installed_by(project: Path) -> dict[str, Any]:
    """Versions, charts and images as the program that installs them says."""
    return told_by(
        project, "components.mirror", tells="what it installs", consequence="Nothing can be listed.", source="components/versions.py"
    )


def compare(charts: list[dict[str, Any]], folder: Path) -> None:
    """Raises UserError with everything at once: packages that are missing, other than their digest says, or without one."""
    if not folder.is_dir():
        raise UserError(
            f"There is no folder {folder}.", "Nothing was compared.", "Name the folder that holds the charts' packages.", Exit.USAGE
        )
    problems, record = list[str](), list[str]()
    for chart in charts:
        package = folder / f"{chart['chart']}-{chart['version']}.tgz"
        if not package.is_file():
            problems.append(
                f"{package.name} is missing: helm pull {chart['chart']} --repo {chart['repository']} --version {chart['version']}"
            )
            continue
        with package.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if chart["digest"] is None:
            record.append(f'{chart["chart"]} {chart["version"]}: digest="{digest}"')
        elif chart["digest"] != f"sha256:{digest}":
            problems.append(f"{package.name} is sha256:{digest}, and not {chart['digest']}")
    if problems or record:
        raise UserError(
            "\n".join([*problems, *(f"No digest is recorded for {each}" for each in record)]),
            "What would be copied and installed is not what was reviewed.",
            "Copy no package that differs. Compare a new digest with what the chart's publisher states, then record it (`headway mirror --pin`).",
            Exit.REFUSED,
        )


def _text(found: dict[str, Any]) -> str:
    lines = [f"Charts (read at their sources {found['read']})"]
    width = max(len(f"{c['chart']} {c['version']}") for c in found["charts"])
    for chart in found["charts"]:
        lines.append(f"  {chart['chart'] + ' ' + chart['version']:<{width}}  {chart['repository']} -> {chart['target']}")
        lines.append(f"    {chart['digest'] or UNPINNED}")
    lines += ["", "Images"]
    width = max(len(i["image"]) for i in found["images"])
    for image in found["images"]:
        lines.append(f"  {image['image']:<{width}}  {image['target']}")
        lines.append(f"    {image['digest'] or UNPINNED}; used by {', '.join(image['usedBy'])}")
    known = sum(1 for image in found["images"] if image["digest"])
    pinned = sum(1 for chart in found["charts"] if chart["digest"])
    lines += ["", f"{len(found['charts'])} charts, {pinned} with a digest; {len(found['images'])} images, {known} with a digest"]
    return "\n".join(lines)
