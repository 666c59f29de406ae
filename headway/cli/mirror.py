"""`headway mirror`: what a registry of one's own must hold before a cluster without internet can run the platform."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from headway.cli.output import Output
from headway.errors import UserError

UNPINNED = "no digest known: pin at the copy"


def mirror(
    listed: Annotated[bool, typer.Option("--list", help="Print every chart and image. The only thing this command does.")] = True,
    project: Annotated[Path | None, typer.Option("--project", help="The checkout; found from the working folder otherwise.")] = None,
    output: Annotated[Output, typer.Option("--output", "-o", help="text for people, json for scripts that copy")] = Output.TEXT,
) -> None:
    """List every chart and image of the platform: version, digest where one is known, and how it gets into ECR."""
    from headway.cli.project import find

    found = _read(find(project))
    typer.echo(json.dumps(found, indent=2) if output is Output.JSON else _text(found))


def _read(project: Path) -> dict[str, Any]:
    """As the program that installs them says: it is run, never imported."""
    command = [sys.executable, "-m", "components.mirror"]
    ended = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise UserError(
            f"{project} does not tell what it installs: {ended.stderr.strip().splitlines()[-1] if ended.stderr.strip() else 'no answer'}.",
            "Nothing can be listed.",
            "Repair components/versions.py, or run `make .venv/.ready-dev`.",
        )
    return json.loads(ended.stdout)


def _text(found: dict[str, Any]) -> str:
    lines = [f"Charts (read at their sources {found['read']})"]
    width = max(len(f"{c['chart']} {c['version']}") for c in found["charts"])
    for chart in found["charts"]:
        lines.append(f"  {chart['chart'] + ' ' + chart['version']:<{width}}  {chart['repository']} -> {chart['target']}")
        lines.append(f"    {chart['digest'] or UNPINNED}")
    lines += ["", "Images"]
    width = max(len(i["image"]) for i in found["images"])
    for image in found["images"]:
        lines.append(f"  {image['image']:<{width}}  {image['how']:<12}  {image['target']}")
        lines.append(f"    {image['digest'] or UNPINNED}; used by {', '.join(image['usedBy'])}")
    known = sum(1 for image in found["images"] if image["digest"])
    lines += ["", f"{len(found['charts'])} charts, {len(found['images'])} images, {known} with a digest"]
    return "\n".join(lines)
