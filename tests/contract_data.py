"""Contracts from plain data, for tests that write none to a file."""

from collections.abc import Mapping
from typing import Any, TypeVar

from headway.contract.part import Part
from headway.contract.reading.document import Document
from headway.contract.reading.validation import contract_from
from headway.problem import Problem

P = TypeVar("P", bound=Part)


def contract_of(data: Mapping[str, Any], kind: type[P], file: str = "") -> tuple[P | None, tuple[Problem, ...]]:
    """The contract in `data`, or everything that is wrong with it."""
    return contract_from(Document(file, dict(data), {}, ()), kind)
