"""The operations that a stack has seen: one JSON file each, newest first when read. Secret configuration stays encrypted in it."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

from pulumi_embedded.engine.errors import EngineError
from pulumi_embedded.engine.values import Properties

_SUFFIX: Final = ".history.json"

Result = Literal["succeeded", "failed"]


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """A value as the program saw it; ciphertext if `secret`."""

    value: str
    secret: bool
    object: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedUpdate:
    kind: str
    start: datetime
    end: datetime
    message: str
    environment: Mapping[str, str]
    config: Mapping[str, ConfigEntry]
    result: Result
    changes: Mapping[str, int] = field(default_factory=dict)


def record(folder: Path, update: RecordedUpdate) -> None:
    """Add one operation. Raises EngineError if it cannot be written."""
    # Numbered, not named by time: a clock that was set back must not make an old operation the latest.
    name = f"{max(_numbers(folder), default=0) + 1:08d}{_SUFFIX}"
    fields = {
        "kind": update.kind,
        "startTime": _stamp(update.start),
        "endTime": _stamp(update.end),
        "message": update.message,
        "environment": dict(update.environment),
        "config": {key: {"value": entry.value, "secret": entry.secret, "object": entry.object} for key, entry in update.config.items()},
        "result": update.result,
        "resourceChanges": dict(update.changes),
    }
    _put(folder / name, json.dumps(fields, indent=1, sort_keys=True))


def resealed(folder: Path, seal: Callable[[str], str]) -> dict[str, str]:
    """Every entry with secret configuration as it is to be written, by the name of its file: secrets as `seal` makes them."""
    found: dict[str, str] = {}
    for each in _numbers(folder):
        file = folder / f"{each:08d}{_SUFFIX}"
        update = _read(file)
        secrets = [entry for entry in update["config"].values() if entry["secret"]]
        for entry in secrets:
            entry["value"] = seal(entry["value"])
        if secrets:
            found[file.name] = json.dumps(update, indent=1, sort_keys=True)
    return found


def write(folder: Path, texts: Mapping[str, str]) -> None:
    """Put entries, by the names of their files, in the place of those that are there. Raises EngineError if one cannot be written."""
    for name, text in texts.items():
        _put(folder / name, text)


def page(folder: Path, size: int, number: int, decrypt: Callable[[str], str] | None) -> list[Properties]:
    """Operations as `stack history --json` prints them, newest first. Secret values are left out without `decrypt`."""
    updates = entries(folder, size, number)
    return [{**update, "config": {key: _config(entry, decrypt) for key, entry in update["config"].items()}} for update in updates]


def entries(folder: Path, size: int, number: int = 1) -> list[Properties]:
    """Page `number` (from 1) of `size` operations as recorded, newest first, each with its `version`."""
    numbers = sorted(_numbers(folder), reverse=True)[(number - 1) * size : number * size]
    return [{**_read(folder / f"{each:08d}{_SUFFIX}"), "version": each} for each in numbers]


def _put(file: Path, text: str) -> None:
    temporary = file.with_name(f"{file.name}.tmp")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(file)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise EngineError(f"cannot record the operation in {file.parent}: {error.strerror}; the state itself is saved") from None


def _numbers(folder: Path) -> list[int]:
    names = (path.name.removesuffix(_SUFFIX) for path in folder.glob(f"*{_SUFFIX}"))
    return [int(name) for name in names if name.isdigit()]


def _read(file: Path) -> Properties:
    try:
        update = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(update["config"], dict) or not isinstance(update["resourceChanges"], dict):
            raise TypeError
    except (OSError, ValueError, KeyError, TypeError):
        raise EngineError(f"the history entry {file} cannot be read; delete it, nothing else depends on it") from None
    return update


def _config(entry: Mapping[str, Any], decrypt: Callable[[str], str] | None) -> Properties:
    if entry["secret"] and decrypt is None:
        return {"secret": True}
    value = decrypt(entry["value"]) if entry["secret"] and decrypt else entry["value"]
    shown: Properties = {"value": value, "secret": entry["secret"]}
    if entry["object"]:
        shown["objectValue"] = json.loads(value)
    return shown


def _stamp(moment: datetime) -> str:
    """Three digits of a second and a Z: the one form that every Automation API client parses."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"
