"""Stack configuration as the program sees it: Pulumi.STACK.yaml and the project's defaults, as strings; and keys with their paths.

A value is a scalar, `{secure: CIPHERTEXT}`, or a list or mapping that may hold such values. The program gets strings: `true`, `3`, or
JSON text. Reading follows YAML 1.2 (`yes` and `2024-01-01` are strings), as Pulumi's own reader does; `config_file` owns editing.
"""

import json
import re
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import yaml

from pulumi_embedded.engine.errors import EngineError
from pulumi_embedded.engine.paths import Path as KeyPath
from pulumi_embedded.engine.paths import PathError, parse
from pulumi_embedded.engine.workspace import Project

Decrypt = Callable[[str], str]

MASK: Final = "[secret]"


@dataclass(frozen=True, slots=True)
class StackValue:
    """One configuration value. `text` is what the program gets, `[secret]` if secrets were left closed; `data` is set for structures."""

    text: str
    secret: bool
    data: Any = None

    @property
    def structured(self) -> bool:
        return isinstance(self.data, dict | list)


@dataclass(frozen=True, slots=True)
class StackSettings:
    """What Pulumi.STACK.yaml holds, secrets still encrypted."""

    file: Path
    values: Mapping[str, Any]
    salt: str = ""


def read_settings(file: Path) -> StackSettings:
    """The settings of a stack; empty if the file does not exist. Raises EngineError with line and column, or the key that is wrong."""
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return StackSettings(file, {})
    except (OSError, UnicodeDecodeError) as error:
        raise EngineError(f"cannot read the stack configuration {file}: {error}") from None
    try:
        raw = yaml.load(text, Loader=_Loader)  # noqa: S506 a safe loader
    except yaml.YAMLError as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
        at = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise EngineError(f"{file}: {at}{problem or 'not YAML'}") from None
    fields = cast(dict[str, Any], {} if raw is None else raw)
    if not isinstance(raw, dict | None):
        raise EngineError(f"{file}: expected a mapping with `config`")
    config, salt = fields.get("config") or {}, fields.get("encryptionsalt") or ""
    if not isinstance(config, dict) or not isinstance(salt, str):
        raise EngineError(f"{file}: `config` must be a mapping and `encryptionsalt` a string")
    provider = fields.get("secretsprovider") or "passphrase"
    if provider != "passphrase":
        raise EngineError(f"{file}: secretsprovider '{provider}' is not supported by the embedded engine; it knows `passphrase`")
    if fields.get("environment"):
        raise EngineError(f"{file}: `environment` (Pulumi ESC) is not supported by a file backend; write the values into `config`")
    return StackSettings(file, cast(dict[str, Any], config), salt)


def resolve(project: Project, settings: StackSettings, stack: str, decrypt: Decrypt | None) -> dict[str, StackValue]:
    """Every value of the stack by its full key, in order. Raises EngineError with every missing or mistyped key of the declarations."""
    values = {full_key(str(key), project.name): raw for key, raw in settings.values.items()}
    faults: list[str] = []
    for name, declared in project.config.items():
        key = full_key(str(name), project.name)
        declaration = cast(dict[str, Any], declared) if isinstance(declared, dict) else {"default": declared}
        default = declaration.get("value", declaration.get("default"))
        if key not in values and default is not None:
            values[key] = default
        elif key not in values:
            faults.append(f"Stack '{stack}' is missing configuration value '{name}'; set it with `pulumi config set {name} VALUE`")
        if key in values and not _is_of(values[key], declaration.get("type")):
            faults.append(f"Stack '{stack}' with configuration key '{name}' must be of type '{declaration['type']}'")
    if faults:
        raise EngineError("; ".join(faults))
    return {key: value_of(values[key], decrypt) for key in sorted(values)}


def value_of(raw: Any, decrypt: Decrypt | None) -> StackValue:
    """One raw value of the file, opened; a structure with a secret inside is secret as a whole."""
    if is_secure(raw):
        return StackValue(decrypt(raw["secure"]) if decrypt else MASK, secret=True)
    secret = any(True for _ in _ciphertexts(raw))
    if isinstance(raw, dict | list):
        if secret and decrypt is None:
            return StackValue(MASK, secret=True)
        data = _opened(raw, decrypt)
        return StackValue(json.dumps(data, separators=(",", ":"), sort_keys=True, ensure_ascii=False), secret, data)
    return StackValue(scalar_text(raw), secret=False)


def scalar_text(raw: Any) -> str:
    if isinstance(raw, bool):
        return "true" if raw else "false"
    if isinstance(raw, float):
        return f"{raw:.15g}"
    return "" if raw is None else str(raw)


def is_secure(raw: Any) -> bool:
    return isinstance(raw, dict) and len(raw) == 1 and isinstance(raw.get("secure"), str)


def full_key(key: str, project: str) -> str:
    """`name` -> `PROJECT:name`; the older `ns:config:name` is `ns:name`. Raises EngineError for what is no key."""
    parts = key.split(":")
    if len(parts) == 3 and parts[1] == "config":
        parts = [parts[0], parts[2]]
    if len(parts) == 1:
        parts = [project, *parts]
    if len(parts) != 2 or not all(parts):
        raise EngineError(f"configuration key '{key}': expected NAME or NAMESPACE:NAME")
    return ":".join(parts)


def split_path(key: str, project: str) -> tuple[str, KeyPath]:
    """`ns:a.b[0]["c.d"]` -> (`ns:a`, (`b`, 0, `c.d`)). Raises EngineError for a malformed path."""
    namespace, colon, rest = key.partition(":")
    if not colon or re.search(r"[.\[]", namespace):
        namespace, rest = project, key
    try:
        path = parse(rest)
    except PathError as error:
        raise EngineError(f"configuration key '{key}': {error}") from None
    if not isinstance(path[0], str):
        raise EngineError(f"configuration key '{key}': expected to begin with a name")
    return full_key(f"{namespace}:{path[0]}", project), path[1:]


def _ciphertexts(raw: Any) -> Iterator[str]:
    if is_secure(raw):
        yield raw["secure"]
    elif isinstance(raw, dict | list):
        for inner in raw.values() if isinstance(raw, dict) else raw:
            yield from _ciphertexts(inner)


def _opened(raw: Any, decrypt: Decrypt | None) -> Any:
    if decrypt and is_secure(raw):
        return decrypt(raw["secure"])
    if isinstance(raw, dict):
        return {str(key): _opened(inner, decrypt) for key, inner in raw.items()}
    return [_opened(inner, decrypt) for inner in raw] if isinstance(raw, list) else raw


def _is_of(raw: Any, declared: Any) -> bool:
    if is_secure(raw) or declared is None:
        return True
    match declared:
        case "boolean":
            return isinstance(raw, bool) or raw in ("true", "false")
        case "integer":
            return (isinstance(raw, int) and not isinstance(raw, bool)) or (isinstance(raw, str) and bool(re.fullmatch(r"[-+]?\d+", raw)))
        case "array":
            return isinstance(raw, list)
        case _:
            return not isinstance(raw, dict | list)


class _Loader(yaml.CSafeLoader):
    """YAML 1.2 core schema: what looks like a date or says `yes` is a string; a key that appears twice is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Any] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"the key {key.value} appears twice", key.start_mark)
            seen.add(key.value if isinstance(key, yaml.ScalarNode) else None)
        return super().construct_mapping(node, deep=deep)

    def construct_core_int(self, node: yaml.ScalarNode) -> int:
        text = node.value
        return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", list("-+.0123456789")),
    ("merge", r"<<", ["<"]),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_pattern})$"), _first)
_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_core_int)
