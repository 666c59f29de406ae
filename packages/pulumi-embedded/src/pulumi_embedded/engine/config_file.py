"""Editing Pulumi.STACK.yaml in place: comments, order and the quotes of other values stay as they are."""

import io
import itertools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import YAMLError
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from pulumi_embedded.engine.config import full_key, is_secure
from pulumi_embedded.engine.errors import EngineError
from pulumi_embedded.engine.paths import Path as KeyPath

# What another reader would take for a number, a truth value or nothing, although it is a string.
_AMBIGUOUS: Final = re.compile(r"(?i)|~|null|true|false|yes|no|on|off|y|n|[-+.]?[0-9].*|\.inf|\.nan")
# A list whose dashes stand right below its key, the other of YAML's two customs; the editor writes one for the whole file.
_FLUSH_LIST: Final = re.compile(r"^( *)[^\s#-][^\n]*:[ \t]*(?:#[^\n]*)?\n\1- ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Sealed:
    """A secret, encrypted."""

    ciphertext: str


class ConfigFile:
    """One file, edited in memory until `save`."""

    def __init__(self, file: Path, project: str) -> None:
        """Raises EngineError if the file exists and cannot be read."""
        self._file, self._project = file, project
        self._yaml = YAML(typ="rt")
        self._yaml.preserve_quotes = True
        self._yaml.width = 1_000_000  # never fold a ciphertext
        try:
            text = file.read_text(encoding="utf-8") if file.exists() else ""
            flush = _FLUSH_LIST.search(text) is not None
            self._yaml.indent(mapping=2, sequence=2 if flush else 4, offset=0 if flush else 2)
            document = self._yaml.load(text)
        except (OSError, UnicodeDecodeError, YAMLError) as error:
            raise EngineError(f"cannot edit the stack configuration {file}: {error}") from None
        if document is not None and not isinstance(document, CommentedMap):
            raise EngineError(f"{file}: expected a mapping with `config`")
        self._document = CommentedMap() if document is None else document
        # A file of comments alone loads as nothing; its text is kept in front.
        self._prefix = text if document is None else ""

    def set_salt(self, salt: str) -> None:
        if self._document.get("encryptionsalt") != salt:
            self._document.insert(0, "encryptionsalt", salt)

    def set(self, key: str, path: KeyPath, value: "str | Sealed | list[Any] | dict[str, Any]") -> None:
        """Set `key`, or what lies at `path` below it. As Pulumi does, a string at a path is typed by its looks (`true`, `12`), one without
        a path stays a string."""
        raw: Any = value
        if isinstance(value, Sealed):
            raw = CommentedMap({"secure": value.ciphertext})
        elif isinstance(value, str):
            raw = _typed(value) if path else _text(value)
        config = self._config()
        spelled = self._spelling(key)
        if not path:
            config[spelled] = raw
            return
        if path[-1] == "secure":
            raise EngineError(f"{key}: the name `secure` is reserved for encrypted values; choose another one")
        if spelled not in config or not isinstance(config[spelled], CommentedMap | CommentedSeq):
            config[spelled] = _container(path[0])
        node: Any = config[spelled]
        for step, following in itertools.pairwise(path):
            if not isinstance(_get(node, step), CommentedMap | CommentedSeq):
                _put(node, step, _container(following), key)
            node = _get(node, step)
        _put(node, path[-1], raw, key)

    def remove(self, key: str, path: KeyPath) -> None:
        """Remove `key`, or what lies at `path` below it; what is not there is no error, as with Pulumi."""
        config = self._config()
        spelled = self._spelling(key)
        if not path:
            config.pop(spelled, None)
            return
        node: Any = config.get(spelled)
        for step in path[:-1]:
            node = _get(node, step)
        last = path[-1]
        if isinstance(node, CommentedMap):
            node.pop(last, None)
        elif isinstance(node, CommentedSeq) and isinstance(last, int) and 0 <= last < len(node):
            del node[last]

    def replace_config(self, values: "Mapping[str, str | Sealed | list[Any] | dict[str, Any]]") -> None:
        """Make `values` the whole configuration; what stays keeps its place."""
        config = self._config()
        for key in [key for key in config if full_key(str(key), self._project) not in values]:
            del config[key]
        for key, value in values.items():
            self.set(key, (), value)

    def reseal(self, seal: Callable[[str], str]) -> bool:
        """Give every secret the ciphertext that `seal` makes of its own, at any depth; whether there was one."""
        return _resealed(self._config(), seal)

    def save(self) -> None:
        """Write the file if it has content; its folder is made if need be."""
        if not self._document.get("config"):
            self._document.pop("config", None)
        stream = io.StringIO()
        if self._document:
            self._yaml.dump(self._document, stream)
        temporary = self._file.with_name(self._file.name + ".tmp")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(self._prefix + stream.getvalue(), encoding="utf-8")
            temporary.replace(self._file)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise EngineError(f"cannot write the stack configuration {self._file}: {error.strerror}; it is unchanged") from None

    def _config(self) -> CommentedMap:
        config = self._document.get("config")
        if config is None:
            config = CommentedMap()
            self._document["config"] = config
        return cast(CommentedMap, config)

    def _spelling(self, key: str) -> str:
        """The key as the file spells it (with or without the project's namespace), or in full."""
        return next((str(known) for known in self._config() if full_key(str(known), self._project) == key), key)


def _resealed(node: Any, seal: Callable[[str], str]) -> bool:
    if is_secure(node):
        node["secure"] = seal(node["secure"])
        return True
    found = False
    for inner in list(node.values()) if isinstance(node, CommentedMap) else list(node) if isinstance(node, CommentedSeq) else []:
        found = _resealed(inner, seal) or found
    return found


def _text(value: str) -> Any:
    return DoubleQuotedScalarString(value) if _AMBIGUOUS.fullmatch(value) else value


def _typed(value: str) -> Any:
    if value in ("true", "false"):
        return value == "true"
    return int(value) if re.fullmatch(r"-?(0|[1-9]\d*)", value) else _text(value)


def _container(step: str | int) -> CommentedMap | CommentedSeq:
    return CommentedSeq() if isinstance(step, int) else CommentedMap()


def _get(node: Any, step: str | int) -> Any:
    if isinstance(node, CommentedMap):
        return node.get(step)
    if isinstance(node, CommentedSeq) and isinstance(step, int) and 0 <= step < len(node):
        return node[step]
    return None


def _put(node: Any, step: str | int, value: Any, key: str) -> None:
    if isinstance(node, CommentedSeq):
        if not isinstance(step, int) or step > len(node):
            raise EngineError(f"{key}: index {step} is past the end of a list of {len(node)}; append with [{len(node)}]")
        node.insert(step, value) if step == len(node) else node.__setitem__(step, value)
    elif isinstance(step, int):
        raise EngineError(f"{key}: [{step}] is an index, but there is a mapping, not a list")
    else:
        node[step] = value
