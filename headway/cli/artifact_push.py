"""`headway artifact push`: reads a folder, finds the bucket, and shows how much has arrived."""

import re
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from headway.artifact_upload.bucket import ArtifactPrefix, OtherContentError
from headway.artifact_upload.folder import files_below
from headway.artifact_upload.plan import FileUpload, planned
from headway.contract.reading.tenants import tenants_of
from headway.environment.checkout import described, find, is_name
from headway.problem import Exit, UserError

_VERSION = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,38}[A-Za-z0-9])?")
"""What a contract takes as `artifact.version`."""


def place_of(version: str, environment: str, bucket: str | None, project: Path | None) -> ArtifactPrefix:
    """Where TENANT/MODEL/VERSION lies in the environment. Raises UserError for what it does not have."""
    from headway.environment.selection import environment as chosen

    tenant, model, number = _parts(version)
    root = find(project)
    described(root, environment)
    known = tenants_of(environment, root / "stacks")
    if tenant not in known:
        raise UserError(
            f"Environment {environment} has no tenant {tenant}.",
            "Nobody there could read the artifact; nothing was uploaded.",
            f"Use one of {', '.join(known)}, or write stacks/Pulumi.{environment}-{tenant}.yaml.",
            Exit.USAGE,
        )
    here = chosen(environment, root)
    client: Any = here.object_store()
    return ArtifactPrefix(client=client, bucket=bucket or here.artifact_bucket, prefix=f"{tenant}/{model}/{number}/")


def contract_of(version: str, project: Path | None) -> Path:
    """The contract of the model of TENANT/MODEL/VERSION. Raises UserError where there is none."""
    tenant, model, _ = _parts(version)
    found = find(project) / "tenants" / tenant / f"{model}.yaml"
    if not found.is_file():
        raise UserError(
            f"There is no contract {found} to write into.", "Nothing was uploaded.", f"`headway new model {tenant} {model}` makes one."
        )
    return found


def push_all(place: ArtifactPrefix, folder: Path, listing: str) -> None:
    """Have every file of `folder` in the bucket, as `listing` describes it. Raises UserError; what is other there is told
    before anything is sent."""
    console = Console(stderr=True)
    files = [planned(path, path.relative_to(folder).as_posix()) for path in files_below(folder)]
    if changed := [file.path for file in files if f"{file.path}, sha256: {file.sha256}" not in listing]:
        raise UserError(
            f"{', '.join(changed)} changed while the folder was read.", "Nothing was uploaded.", "Leave the folder alone, and run it again."
        )
    waiting = _missing(place, files)
    for file in files:
        if file not in waiting:
            console.print(f"{file.path}: already there", highlight=False)
    if waiting:
        _send(place, waiting, console)
    console.print(
        f"s3://{place.bucket}/{place.prefix}: {len(waiting)} uploaded, {len(files) - len(waiting)} already there",
        highlight=False,
        soft_wrap=True,
    )


def _parts(version: str) -> tuple[str, str, str]:
    parts = version.split("/")
    if len(parts) == 3 and is_name(parts[0]) and is_name(parts[1]) and _VERSION.fullmatch(parts[2]) and parts[2] != "latest":
        return parts[0], parts[1], parts[2]
    raise UserError(
        f"{version!r} names no version of a model.",
        "Nothing was uploaded.",
        "Write TENANT/MODEL/VERSION, such as vision/defects/2026.11.2; `latest` is no version, because each is written once.",
        Exit.USAGE,
    )


def _missing(place: ArtifactPrefix, files: list[FileUpload]) -> list[FileUpload]:
    missing, other = list[FileUpload](), list[str]()
    for file in files:
        try:
            if not place.holds(file):
                missing.append(file)
        except OtherContentError:
            other.append(file.path)
    if other:
        raise _refused(place, other)
    return missing


def _send(place: ArtifactPrefix, files: list[FileUpload], console: Console) -> None:
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        total = progress.add_task("all files", total=sum(file.size for file in files))
        for file in files:
            task = progress.add_task(file.path, total=file.size)
            try:
                place.put(file, lambda count, task=task: (progress.advance(task, count), progress.advance(total, count))[0])
            except OtherContentError:
                raise _refused(place, [file.path]) from None
            progress.remove_task(task)
            console.print(f"{file.path}: uploaded, {file.size:,} bytes, verified", highlight=False, soft_wrap=True)


def _refused(place: ArtifactPrefix, paths: list[str]) -> UserError:
    return UserError(
        f"Below s3://{place.bucket}/{place.prefix} these files exist with other content: {', '.join(paths)}.",
        "A version is written once: whoever runs it relies on its digests. They were not touched.",
        "Choose another version, or upload the folder that this version was made from.",
        Exit.REFUSED,
    )
