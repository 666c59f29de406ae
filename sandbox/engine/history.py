"""The operations that a stack has seen: one JSON file each, newest first when read. Secret configuration stays encrypted in it."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from sandbox.engine.errors import EngineError
from sandbox.engine.values import Properties

Result = Literal["succeeded", "failed"]


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """A value as the program saw it; ciphertext if `secret`."""

    value: str
    secret: bool
    object: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    kind: str
    start: datetime
    end: datetime
    message: str
    environment: Mapping[str, str]
    config: Mapping[str, ConfigEntry]
    result: Result
    changes: Mapping[str, int] = field(default_factory=dict)


def record(folder: Path, update: Update) -> None:
    """Add one operation. Raises EngineError if it cannot be written."""
    name = f"{update.start.timestamp() * 1e9:020.0f}.history.json"
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
    temporary = folder / f"{name}.tmp"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps(fields, indent=1, sort_keys=True), encoding="utf-8")
        temporary.replace(folder / name)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise EngineError(f"cannot record the operation in {folder}: {error.strerror}; the state itself is saved") from None


def page(folder: Path, size: int, number: int, decrypt: Callable[[str], str] | None) -> list[Properties]:
    """Operations as `stack history --json` prints them, newest first; `size` 0 means all. Secret values are left out without `decrypt`."""
    names = sorted((path.name for path in folder.glob("*.history.json")), reverse=True) if folder.is_dir() else []
    count = len(names)
    numbered = [(count - index, name) for index, name in enumerate(names)]
    chosen = numbered[(number - 1) * size : number * size] if size else numbered
    return [_shown(version, folder / name, decrypt) for version, name in chosen]


def _shown(version: int, file: Path, decrypt: Callable[[str], str] | None) -> Properties:
    try:
        update: Properties = json.loads(file.read_text(encoding="utf-8"))
        config = {key: _config(entry, decrypt) for key, entry in update["config"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise EngineError(f"the history entry {file} cannot be read; delete it, nothing else depends on it") from None
    return {**update, "version": version, "config": config}


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
