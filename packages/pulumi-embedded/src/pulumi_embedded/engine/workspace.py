"""The project: Pulumi.yaml found from a working folder upwards, what it says, and where a stack's configuration file lies.

Public definition: sdk/go/common/workspace/project.json. Keys that would change what the engine does and that it does not support are
refused by name; descriptive ones are left alone.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import yaml

from pulumi_embedded.engine.errors import EngineError

NAMES: Final = ("Pulumi.yaml", "Pulumi.yml", "Pulumi.json")
_REFUSED: Final = {
    "plugins": "providers are part of the host of the engine",
    "packages": "providers are part of the host of the engine",
}


@dataclass(frozen=True, kw_only=True)
class Project:
    file: Path
    name: str
    runtime: str
    runtime_options: Mapping[str, Any] = field(default_factory=dict)
    main: str = ""
    backend_url: str = ""
    stack_config_dir: str = ""
    refresh_always: bool = False
    config: Mapping[str, Any] = field(default_factory=dict)
    """Declarations and defaults of configuration keys, as written."""

    @property
    def folder(self) -> Path:
        return self.file.parent

    def stack_file(self, stack: str) -> Path:
        """Pulumi.STACK.yaml, in `stackConfigDir` if the project names one; an existing .yml or .json is used instead."""
        folder = self.folder / self.stack_config_dir
        for suffix in (".yaml", ".yml", ".json"):
            file = folder / f"Pulumi.{stack}{suffix}"
            if file.exists():
                return file
        return folder / f"Pulumi.{stack}.yaml"


def find_project(folder: Path) -> Project | None:
    """The project of `folder` or of the nearest folder above it. Raises EngineError for a file that is not a project."""
    start = folder.absolute()
    for candidate in (start, *start.parents):
        for name in NAMES:
            if (candidate / name).is_file():
                return read_project(candidate / name)
    return None


def require_project(folder: Path) -> Project:
    project = find_project(folder)
    if project is None:
        raise EngineError(f"no Pulumi.yaml project file found in {folder} or any folder above it; change to the project, or pass --cwd")
    return project


def read_project(file: Path) -> Project:
    """The project in `file`; raises EngineError that names every fault with its key."""
    fields = _Fields(_mapping_in(file))
    runtime, options = fields.values.get("runtime"), dict[str, Any]()
    if isinstance(runtime, dict):
        options = fields.mapping("options", cast(dict[str, Any], runtime))
        runtime = cast(dict[str, Any], runtime).get("name")
    name = fields.text("name", required=True)
    if not isinstance(runtime, str) or not runtime:
        fields.faults.append("runtime: expected a string, or a mapping with `name`")
    config = fields.values.get("config")
    directory = fields.text("stackConfigDir")
    if isinstance(config, str):  # the older spelling of stackConfigDir
        directory, config = directory or config, None
    refresh = fields.mapping("options").get("refresh")
    if refresh not in (None, "always"):
        fields.faults.append("options.refresh: expected `always`")
    unsupported = ((key, why) for key, why in _REFUSED.items() if fields.values.get(key))
    fields.faults += [f"{key}: not supported by the embedded engine: {why}; remove it" for key, why in unsupported]
    if config is not None and not isinstance(config, dict):
        fields.faults.append("config: expected a mapping of keys to types or defaults")
    project = Project(
        file=file,
        name=name,
        runtime=str(runtime),
        runtime_options=options,
        main=fields.text("main"),
        backend_url=fields.text("url", fields.mapping("backend")),
        stack_config_dir=directory,
        refresh_always=refresh == "always",
        config=cast(dict[str, Any], config) if isinstance(config, dict) else {},
    )
    if fields.faults:
        raise EngineError(f"{file} is not a valid project: " + "; ".join(fields.faults))
    return project


def _mapping_in(file: Path) -> dict[str, Any]:
    try:
        raw = yaml.load(file.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    except (OSError, UnicodeDecodeError) as error:
        raise EngineError(f"cannot read {file}: {error}") from None
    except yaml.YAMLError as error:
        raise EngineError(f"{file} is not YAML: {_at(error)}") from None
    if not isinstance(raw, dict):
        raise EngineError(f"{file}: expected a mapping with `name` and `runtime`")
    return cast(dict[str, Any], raw)


class _Fields:
    """Reads fields by their type, and gathers what is wrong with them."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values
        self.faults: list[str] = []

    def text(self, key: str, where: Mapping[str, Any] | None = None, *, required: bool = False) -> str:
        value = (self.values if where is None else where).get(key)
        if value is None and not required:
            return ""
        if not isinstance(value, str) or (required and not value):
            self.faults.append(f"{key}: expected a string")
            return ""
        return value

    def mapping(self, key: str, where: Mapping[str, Any] | None = None) -> dict[str, Any]:
        value = (self.values if where is None else where).get(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.faults.append(f"{key}: expected a mapping")
            return {}
        return cast(dict[str, Any], value)


def environment_of(overlay: Mapping[str, str]) -> dict[str, str]:
    """The process environment overlaid with what a caller of the Automation API gave."""
    return {**os.environ, **{key: str(value) for key, value in overlay.items()}}


def _at(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or "cannot be parsed"
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}" if mark else str(problem)
