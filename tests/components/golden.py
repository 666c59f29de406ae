"""Golden files: one example in full, and for every other one what is different about it.

A text is read as blocks, each a title and its lines: a resource with its inputs, or a Kubernetes object. The file of
a difference begins with the names that differ on purpose (the environment, its account), which it then writes as
`<environment>`, `<account>`. Each block follows that is changed, new (`+`) or gone (`-`); `=` marks one that is
equal, where the order of blocks matters. The full text and the difference together give the other text back, so a
change anywhere changes one of the files.
"""

import difflib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

FOLDER = Path(__file__).parents[1] / "golden"
UPDATE = "HEADWAY_UPDATE_GOLDEN"
SHOWN = 3
"""Lines that are gone are repeated in a difference up to this many; of more, their place in the full text says
which.
"""

Blocks = Mapping[str, list[str]]


def compare(name: str, text: str) -> None:
    """Hold `text` against the golden file `name`, or write the file anew where UPDATE is set."""
    path = FOLDER / name
    if os.environ.get(UPDATE):
        path.write_text(text)
    if text != path.read_text():
        pytest.fail(f"{name} differs. If the change is wanted, set {UPDATE}=1, run this test again and review the file's difference.")


def resources(text: str) -> Blocks:
    """Blocks of a list of resources: a title at the margin, then its indented lines."""
    return _blocks((line, not line.startswith("  ")) for line in text.splitlines())


def objects(text: str) -> Blocks:
    """Blocks of YAML documents, by kind and name."""
    found: dict[str, list[str]] = {}
    for document in text.split("\n---\n"):
        body: Any = yaml.load(document, Loader=yaml.CSafeLoader)
        _add(found, f"{body['kind']} {body['metadata']['name']}").extend(document.splitlines())
    return found


def named(text: str, names: Mapping[str, str]) -> str:
    """`text` with each of `names` replaced by its placeholder, where it is a whole word."""
    for placeholder, name in names.items():
        if f"<{placeholder}>" in text:
            raise ValueError(f"<{placeholder}> stands in the text: one could not tell it from {name}")
        text = re.sub(rf"\b{re.escape(name)}\b", f"<{placeholder}>", text)
    return text


def difference(full: Blocks, other: Blocks, names: Mapping[str, str], *, ordered: bool) -> str:
    """What the golden file of `other` holds; `ordered` says that the order of blocks matters."""
    head = [f"<{placeholder}> {name}" for placeholder, name in names.items()]
    return "".join(f"{line}\n" for line in (*head, *_changes(full, other, ordered)))


def _changes(full: Blocks, other: Blocks, ordered: bool) -> Iterator[str]:
    yield from (f"- {title}" for title in full if title not in other)
    for title, lines in other.items():
        if title not in full:
            yield f"+ {title}"
            yield from (f"+{line}" for line in lines)
        elif lines != full[title]:
            yield f"  {title}"
            yield from _lines(full[title], lines)
        elif ordered:
            yield f"= {title}"


def _lines(full: list[str], other: list[str]) -> Iterator[str]:
    matcher = difflib.SequenceMatcher(None, full, other, autojunk=False)
    for tag, first, last, start, end in matcher.get_opcodes():
        if tag != "equal":
            yield f"@@ {first + 1},{last - first} @@"
            if last - first <= SHOWN:
                yield from (f"-{line}" for line in full[first:last])
            yield from (f"+{line}" for line in other[start:end])


def _blocks(lines: Iterable[tuple[str, bool]]) -> Blocks:
    found: dict[str, list[str]] = {}
    block: list[str] = []
    for line, is_title in lines:
        if is_title:
            block = _add(found, line)
        else:
            block.append(line)
    return found


def _add(found: dict[str, list[str]], title: str) -> list[str]:
    if title in found:
        raise ValueError(f"two blocks have the title {title!r}")
    return found.setdefault(title, [])
