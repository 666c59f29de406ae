"""`headway artifact`: the files section of a contract, from a folder that holds the artifact as it will be uploaded; and the upload.

The trap: what is described is what lies in the folder now; uploaded in another state, no replica starts.
"""

import hashlib
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from headway.cli.environment_choice import EnvironmentOption, to_write
from headway.cli.release_options import ProjectOption
from headway.problem import Exit, UserError

PIECE_BYTES = 4 * 2**20


class _Artifact(TyperGroup):
    """`headway artifact FOLDER` is `headway artifact describe FOLDER`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["describe", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_Artifact,
    invoke_without_command=True,
    help="Describe the files of an artifact for a contract (`headway artifact FOLDER`), and upload them.",
)


@app.callback()
def _alone(ctx: typer.Context) -> None:
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())
        raise typer.Exit(Exit.USAGE)


@app.command("describe")
def artifact(
    folder: Annotated[Path, typer.Argument(help="The folder whose content becomes the artifact.")],
    md5: Annotated[
        bool, typer.Option("--md5", help="Add the MD5 of each file below a folder, which Triton compares at every load.")
    ] = False,
) -> None:
    """Print `artifact.files` of a contract: path, SHA-256 and size of every file in FOLDER."""
    typer.echo("\n".join(described(folder, md5)))


@app.command("push")
def push(
    folder: Annotated[Path, typer.Argument(help="The folder whose content becomes the artifact.")],
    version: Annotated[str, typer.Argument(metavar="TENANT/MODEL/VERSION", help="What it becomes; each is written once.")],
    environment: EnvironmentOption = None,
    bucket: Annotated[
        str | None, typer.Option("--bucket", help="The environment's artifact bucket; asked of its cluster stack otherwise.")
    ] = None,
    md5: Annotated[bool, typer.Option("--md5", help="Add MD5s to what is printed, as `describe` does.")] = False,
    write: Annotated[bool, typer.Option("--write", help="Write the section into the model's contract instead of printing it.")] = False,
    project: ProjectOption = None,
) -> None:
    """Upload FOLDER to the environment's artifact bucket, and print the `artifact` section of the contract.

    What is there with the same content stays; other content under the same name is refused before anything is sent. An interrupted upload goes
    on where it ended. Each object is compared with the SHA-256 that S3 reports. Exit codes: 0 all is there, 1 refused, 2 wrong use,
    3 S3 cannot be used.
    """
    from headway.cli.artifact_push import contract_of, place_of, push_all
    from headway.contract.reading.artifact_section import with_artifact

    place = place_of(version, to_write(environment, project), bucket, project)
    lines = described(folder, md5)
    tenant, model, number = version.split("/")
    uri = f"artifacts://{tenant}/{model}/{number}/"
    contract = contract_of(version, project) if write else None
    text = with_artifact(contract.read_text(encoding="utf-8"), uri, number, lines) if contract else None
    push_all(place, folder, "\n".join(lines))
    if contract and text:
        contract.write_text(text, encoding="utf-8")
        typer.echo(f"{contract}: artifact is now version {number}; `headway check` says whether it fits.")
        return
    typer.echo("artifact:")
    typer.echo(f"  uri: {uri}")
    typer.echo(f'  version: "{number}"')
    typer.echo(f'  registry: {{system: mlflow, model: {model}, version: "{number}"}}    # replace')
    typer.echo("\n".join(f"  {line}" for line in lines))


def described(folder: Path, md5: bool) -> list[str]:
    """Lines of YAML, sorted by path, and the digest of the whole for the registry.

    Raises UserError for a folder that is none, is empty, or holds a name that contracts refuse.
    """
    from pydantic import ValidationError

    from headway.artifact_upload.folder import files_below
    from headway.contract.artifact import File, digest_of
    from headway.model_registry.entry import DIGEST_TAG

    lines, listed, refused = ["files:"], list[File](), list[str]()
    for file in files_below(folder):
        name = file.relative_to(folder).as_posix()
        try:
            sha, md = _digests(file)
            entry = File.model_validate({"path": name, "sha256": sha, "size": f"{file.stat().st_size}B"})
        except ValidationError:
            refused.append(name)
            continue
        except OSError as error:
            raise UserError(f"{file} cannot be read: {error.strerror}.", "Its digest is unknown.", "Make it readable.") from None
        listed.append(entry)
        proof = f", md5: {md}" if md5 and "/" in name else ""
        lines.append(f"  - {{path: {entry.path}, sha256: {entry.sha256}{proof}, size: {int(entry.size)}B}}")
    if refused:
        raise UserError(
            f"A contract takes no files with these names: {', '.join(refused[:5])}{f' and {len(refused) - 5} more' * (len(refused) > 5)}.",
            "Artifacts travel through URLs, shells and Triton's folders.",
            "Use letters, digits, '.', '_' and '-'; no leading dot; no spaces.",
            Exit.REFUSED,
        )
    return [*lines, f"# register it with the tag {DIGEST_TAG}={digest_of(listed)}"]


def _digests(file: Path) -> tuple[str, str]:
    """SHA-256 and MD5, read in pieces: model files are larger than RAM."""
    sha, md = hashlib.sha256(), hashlib.md5(usedforsecurity=False)
    with file.open("rb") as stream:
        while piece := stream.read(PIECE_BYTES):
            sha.update(piece)
            md.update(piece)
    return sha.hexdigest(), md.hexdigest()
