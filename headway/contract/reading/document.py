"""YAML read safely: plain data, the line and column of every node, and each mistake of form as a finding.

A subset of YAML 1.2: one document, mappings with text keys, sequences, plain scalars; no anchors, aliases, tags or merge keys, and no
YAML 1.1 surprises (`yes`, `010`, `12:30` are texts). Read from libyaml's event stream, so that neither depth nor size is trusted; its events
carry the places. ruamel.yaml, which knows places too, builds the whole document with its anchors and tags before anything can be refused,
and takes ten times as long for the contracts of this repository. The trap: an unquoted `1.10` is a number and loses its zero; where a text is
wanted, the message says to quote it.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

import yaml

from headway.problem import FieldPath, Problem, shown

LARGEST_DOCUMENT = 1_000_000
"""Bytes. A contract has a few kilobytes; this leaves room for generated file lists and golden requests."""
DEEPEST = 40
MOST_NODES = 200_000

_INT = re.compile(r"[-+]?(0|[1-9][0-9]*)", re.ASCII)
_FLOAT = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?", re.ASCII)
_NOT_A_NUMBER = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", re.ASCII)

YamlData = dict[str, Any] | list[Any] | str | int | float | bool | None


@dataclass(frozen=True)
class Place:
    """Where a node stands; both count from 1."""

    line: int
    column: int


@dataclass(frozen=True)
class Document:
    """`data` is None when the text could not be read at all; `places` maps the path of each node to where its value begins."""

    file: str
    data: YamlData
    places: dict[FieldPath, Place]
    findings: tuple[Problem, ...]
    plain: Mapping[FieldPath, str] = field(default_factory=dict)
    """Numbers and flags as they are written, such as `1.10` and `1e3`."""

    def written(self, path: FieldPath, value: object) -> str:
        """`value`, which stands at `path`, as it is written there."""
        return self.plain.get(path) or (str(value).lower() if isinstance(value, bool) else str(value))

    def place(self, path: FieldPath) -> Place:
        """Where `path` stands, or the nearest node above it."""
        while path and path not in self.places:
            path = path[:-1]
        return self.places.get(path, Place(0, 0))

    def under(self, name: str, path: FieldPath) -> "Document":
        """A document that holds nothing but the node at `path`, as its field `name`; places stay those of the file."""
        data: Any = self.data
        for part in path:
            data = data[part] if isinstance(data, dict) and part in data else None
        places = {(name, *key[len(path) :]): place for key, place in self.places.items() if key[: len(path)] == path}
        plain = {(name, *key[len(path) :]): text for key, text in self.plain.items() if key[: len(path)] == path}
        return Document(self.file, {name: data}, places, self.findings, plain)


class _RefusedError(Exception):
    """Reading cannot go on; the findings so far say why."""


@dataclass
class _Collection:
    """A mapping or sequence that is being read."""

    path: FieldPath
    value: Any
    key: str | None = None
    expects_key: bool = True
    first: dict[str, int] = field(default_factory=dict)
    """Line of each key."""


def read(text: bytes, file: str) -> Document:
    """The document in `text`; never raises for what is in it."""
    reader = _Reader(file)
    try:
        data = reader.document(text)
    except _RefusedError:
        data = None
    return Document(file, data, reader.places, tuple(reader.findings), reader.plain)


def read_file(file: FilePath) -> Document:
    """The document in `file`, of which no more is read than a document may have. Raises OSError when it cannot be read."""
    with file.open("rb") as opened:
        return read(opened.read(LARGEST_DOCUMENT + 1), file.name)


class _Reader:
    def __init__(self, file: str) -> None:
        self.file = file
        self.places: dict[FieldPath, Place] = {}
        self.findings: list[Problem] = []
        self.plain: dict[FieldPath, str] = {}
        self.nodes = 0

    def refuse(self, rule: str, place: Place, path: FieldPath, value: object, fact: str, consequence: str, remedy: str) -> None:
        self.findings.append(
            Problem(
                rule=rule,
                file=self.file,
                line=place.line,
                column=place.column,
                path=path,
                value=shown(value) if value is not None else "",
                fact=fact,
                consequence=consequence,
                remedy=remedy,
            )
        )

    def stop(self, rule: str, place: Place, fact: str, remedy: str, consequence: str = "The file is not read any further") -> _RefusedError:
        self.refuse(rule, place, (), None, fact, consequence, remedy)
        return _RefusedError()

    def document(self, raw: bytes) -> YamlData:
        if len(raw) > LARGEST_DOCUMENT:
            raise self.stop(
                "document-size",
                Place(0, 0),
                f"the file has more than {LARGEST_DOCUMENT:,} bytes",
                "Keep large data in the artifact: golden requests can name a file there",
                "It is not read at all",
            )
        try:
            text = raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = raw[: error.start].count(b"\n") + 1
            raise self.stop("document-encoding", Place(line, 1), "the file is not UTF-8", "Save it as UTF-8 text") from None
        bad = next((n for n, c in enumerate(text) if c not in "\n\r\t" and (c < " " or c in "\x7f\u2028\u2029\x85\ufeff")), None)
        if bad is not None:
            line, start = text.count("\n", 0, bad) + 1, text.rfind("\n", 0, bad)
            raise self.stop(
                "document-character",
                Place(line, bad - start),
                f"there is an invisible control character (U+{ord(text[bad]):04X})",
                "Remove it",
            )
        try:
            return self._build(yaml.parse(text, Loader=yaml.CSafeLoader))
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            place = Place(mark.line + 1, mark.column + 1) if mark else Place(0, 0)
            tab = "\t" in text.splitlines()[mark.line] if mark and mark.line < len(text.splitlines()) else False
            # Brackets and quotes that are never closed are noticed lines later.
            begun = error.context_mark.line + 1 if error.problem_mark and error.context_mark else place.line
            since = f", {error.context} since line {begun}" if error.context and begun < place.line else ""
            raise self.stop(
                "document-syntax",
                place,
                f"not valid YAML: {error.problem or error.context or 'unknown error'}{since}",
                "Indent with spaces: YAML allows no tabs"
                if tab
                else "Indent it like its neighbours, close what is open, and quote texts that hold `: `, ` #` or begin with a special character",
            ) from None
        except yaml.YAMLError as error:
            raise self.stop("document-syntax", Place(0, 0), f"not valid YAML: {shown(error)}", "Correct the file") from None

    def _build(self, events: Iterator[Any]) -> YamlData:
        stack: list[_Collection] = []
        root: YamlData = None
        documents = 0
        for event in events:
            place = Place(event.start_mark.line + 1, event.start_mark.column + 1)
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise self.stop("document-single", place, "a second document begins with ---", "Keep one contract a file")
            elif isinstance(event, yaml.AliasEvent):
                raise self.stop(
                    "document-no-alias", place, f"the alias *{shown(event.anchor)}", "Write the value out: a contract is read line by line"
                )
            elif isinstance(event, yaml.ScalarEvent | yaml.MappingStartEvent | yaml.SequenceStartEvent):
                self._check_node(event, place, len(stack))
                if stack and isinstance(stack[-1].value, dict) and stack[-1].expects_key:
                    self._key(stack[-1], event, place)
                    continue
                path = self._path(stack)
                value = (
                    self._scalar(event, place, path)
                    if isinstance(event, yaml.ScalarEvent)
                    else {}
                    if isinstance(event, yaml.MappingStartEvent)
                    else []
                )
                self.places.setdefault(path, place)
                if stack:
                    self._put(stack[-1], value)
                else:
                    root = value
                if not isinstance(event, yaml.ScalarEvent):
                    stack.append(_Collection(path, value))
            elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
                stack.pop()
        return root

    def _check_node(self, event: Any, place: Place, depth: int) -> None:
        self.nodes += 1
        if self.nodes > MOST_NODES:
            raise self.stop("document-size", place, f"there are more than {MOST_NODES:,} values", "Keep large data in the artifact")
        if depth > DEEPEST:
            raise self.stop(
                "document-depth", place, f"there are more than {DEEPEST} levels of nesting", "Flatten it: no contract is that deep"
            )
        if event.anchor is not None:
            raise self.stop(
                "document-no-alias",
                place,
                f"there is an anchor, &{shown(event.anchor)}",
                "Write the value out: a contract is read line by line",
            )
        if event.tag is not None and event.tag != "!":
            raise self.stop(
                "document-no-tag", place, f"there is a tag, {shown(event.tag)}", "Leave it out: types follow from the vocabulary"
            )

    @staticmethod
    def _path(stack: list[_Collection]) -> FieldPath:
        if not stack:
            return ()
        top = stack[-1]
        return (*top.path, top.key if isinstance(top.value, dict) and top.key is not None else len(top.value))

    def _key(self, top: _Collection, event: Any, place: Place) -> None:
        if not isinstance(event, yaml.ScalarEvent):
            raise self.stop("document-text-key", place, "a key is no text", "Use a plain word as the key")
        key = str(event.value)
        if key == "<<":
            raise self.stop("document-no-alias", place, "there is a merge key, <<", "Write the values out: a contract is read line by line")
        path = (*top.path, key)
        if key in top.first:
            self.refuse(
                "document-key-once",
                place,
                path,
                key,
                f"the key {shown(key)} stands in line {top.first[key]} and again in line {place.line}",
                "Which of the two counts would depend on the reader",
                "Keep one of them",
            )
        top.first.setdefault(key, place.line)
        top.key, top.expects_key = key, False
        # A key's place stands for a collection below it: that is where one looks.
        self.places[path] = place

    def _put(self, top: _Collection, value: YamlData) -> None:
        if isinstance(top.value, dict):
            top.value.setdefault(top.key, value)
            top.key, top.expects_key = None, True
        else:
            top.value.append(value)

    def _escaped(self, text: str, place: Place, path: FieldPath) -> None:
        """Control characters that only an escape such as `\\0` can bring in; the text itself was looked through before."""
        bad = next((c for c in text if c in "\x7f" or (c < " " and c not in "\n\r\t")), None)
        if bad is not None:
            fact = f"an escape that stands for a control character (U+{ord(bad):04X})"
            self.refuse("document-character", place, path, None, fact, "Kubernetes, terminals and logs cannot carry it", "Remove it")

    def _scalar(self, event: Any, place: Place, path: FieldPath) -> YamlData:
        text = str(event.value)
        if event.style or event.tag == "!":
            self._escaped(text, place, path)
            return text
        if text in ("", "~", "null"):
            return None
        if text in ("true", "false"):
            return text == "true"
        if _NOT_A_NUMBER.fullmatch(text):
            self.refuse(
                "document-finite-number",
                place,
                path,
                text,
                f"{text} is not a finite number",
                "No calculation with it has a result",
                "Write a number",
            )
            return 0
        self.plain[path] = text
        whole, fraction = _INT.fullmatch(text), _FLOAT.fullmatch(text)
        if whole and len(text) <= 20 and -(2**63) <= int(text) < 2**63:
            return int(text)
        if fraction and len(text) <= 40 and math.isfinite(float(text)):
            return float(text)
        if whole or fraction:
            self.refuse(
                "document-finite-number",
                place,
                path,
                text,
                "the number needs more than 64 bits",
                "Other readers of the contract would see another number",
                "Write a smaller number, or put it in quotes if it is a text",
            )
            return 0
        return text
