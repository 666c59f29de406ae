"""Digests of charts and images of which no public source states one: what their makers answered first, kept in a file of the checkout.

Trust on first use: the first answer is believed, and every other answer after it is refused. So whoever asks first compares what
is written down with what the maker states, before the file is committed.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from headway.bounded_json import bounded_json
from headway.problem import Exit, UserError
from headway.registry_mirror.charts import package_of
from headway.registry_mirror.client import RegistryClient
from headway.whole_file import replaced


@dataclass(frozen=True, kw_only=True)
class PinAnswer:
    """What a maker answered for one chart or image; `before` is the digest of the first answer, None where this is it."""

    name: str
    digest: str
    before: str | None

    @property
    def other(self) -> bool:
        return self.before not in (None, self.digest)


def pin_name(each: Mapping[str, Any]) -> str:
    """A row of the listing by its name and version: another version needs a pin of its own."""
    return str(each["image"]) if "image" in each else f"{each['chart']} {each['version']}"


def answer_of(each: Mapping[str, Any], registry: Callable[[str], RegistryClient]) -> PinAnswer:
    """Ask the maker of a row of the listing. Raises UserError where it does not answer, or has it not."""
    if "image" in each:
        maker, _, path = str(each["image"]).partition("/")
        repository, _, tag = path.rpartition(":")
        found = registry(maker).manifest(repository, tag)
        if found is None:
            raise UserError(f"{maker} has no {repository}:{tag}.", "It was not pinned.", "Look the image up there.", Exit.ENVIRONMENT)
        digest = found.digest
    else:
        digest = f"sha256:{hashlib.sha256(package_of({**each, 'digest': None}, None)).hexdigest()}"
    return PinAnswer(name=pin_name(each), digest=digest, before=each["digest"])


def kept(file: Path, answers: list[PinAnswer], wanted: set[str]) -> int:
    """Write first answers into `file` beside those that are there, and take out those of names that are not `wanted` any
    more; how many are in it then. What was there is never changed. Raises UserError for a file that is none of these."""
    found: Any = {}
    if file.exists():
        try:
            found = bounded_json(file.read_bytes())
            if not isinstance(found, dict):
                raise ValueError("it holds no digests by name")
        except ValueError as odd:
            raise UserError(
                f"{file} cannot be read: {odd}.", "Nothing was written.", "Take it from its last commit.", Exit.REFUSED
            ) from None
    pins = {each.name: each.digest for each in answers} | cast(dict[str, Any], found)
    pins = {name: digest for name, digest in sorted(pins.items()) if name in wanted}
    replaced(file, f"{json.dumps(pins, indent=2)}\n".encode())
    return len(pins)
