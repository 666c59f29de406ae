"""`headway artifact`: the files section of a contract, from a folder that holds the artifact as it will be uploaded.

Reads files only. The trap: what is described is what lies in the folder now; upload it unchanged, or no replica starts.
"""

import hashlib
from pathlib import Path
from typing import Annotated

import typer

from headway.problem import Exit, UserError

PIECE_BYTES = 4 * 2**20


def artifact(
    folder: Annotated[Path, typer.Argument(help="the folder whose content becomes the artifact")],
    md5: Annotated[
        bool, typer.Option("--md5", help="add the MD5 of each file below a folder, which Triton compares at every load")
    ] = False,
) -> None:
    """Print `artifact.files` of a contract: path, SHA-256 and size of every file in FOLDER."""
    typer.echo("\n".join(described(folder, md5)))


def described(folder: Path, md5: bool) -> list[str]:
    """Lines of YAML, sorted by path, and the digest of the whole for the registry.

    Raises UserError for a folder that is none, is empty, or holds a name that contracts refuse.
    """
    from pydantic import ValidationError

    from headway.contract.artifact import File, digest_of
    from headway.model_registry.entry import DIGEST_TAG

    if not folder.is_dir():
        raise UserError(
            f"There is no folder {folder}.", "Nothing was read.", "Name the folder that holds the artifact's files.", Exit.USAGE
        )
    lines, listed, refused = ["files:"], list[File](), list[str]()
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
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
            f"A contract takes no files with these names: {', '.join(refused)}.",
            "Artifacts travel through URLs, shells and Triton's folders.",
            "Use letters, digits, '.', '_' and '-'; no leading dot; no spaces.",
            Exit.REFUSED,
        )
    if len(lines) == 1:
        raise UserError(f"{folder} holds no file.", "There is nothing to serve.", "Put the model's files there first.", Exit.USAGE)
    return [*lines, f"# register it with the tag {DIGEST_TAG}={digest_of(listed)}"]


def _digests(file: Path) -> tuple[str, str]:
    """SHA-256 and MD5, read in pieces: model files are larger than RAM."""
    sha, md = hashlib.sha256(), hashlib.md5(usedforsecurity=False)
    with file.open("rb") as stream:
        while piece := stream.read(PIECE_BYTES):
            sha.update(piece)
            md.update(piece)
    return sha.hexdigest(), md.hexdigest()
