"""The GPU pools of an environment, read as data from its stack file, for checks that run without Pulumi.

`stacks.settings` is what the program itself reads; this is the same text with the same models, so that `headway check` can say which pool
a model would land on. The trap: only `headway:pools` is looked at, and nothing else in the file is judged.
"""

from pathlib import Path as FilePath

from headway.contract.part import Part
from headway.contract.pool import Pool
from headway.contract.reading.document import read_file
from headway.contract.reading.validation import contract_from
from headway.problem import Problem

POOLS_KEY = "headway:pools"


class _Pools(Part):
    """The part of a stack file that this module reads."""

    pools: tuple[Pool, ...]
    """The GPU pools."""


def pools_of(file: FilePath) -> tuple[tuple[Pool, ...], tuple[Problem, ...]]:
    """The pools in a stack file, or what is wrong with them. Raises OSError when the file cannot be read."""
    document = read_file(file)
    config = document.data.get("config") if isinstance(document.data, dict) else None
    values = config.get(POOLS_KEY) if isinstance(config, dict) else None
    if document.data is not None and not isinstance(values, list):
        missing = Problem(
            rule="environment-has-pools",
            file=file.name,
            fact=f"the file has no list config.{POOLS_KEY}",
            consequence="Nothing can be said about where models would run",
            remedy="Name the stack file of a cluster layer",
        )
        return (), (*document.findings, missing)
    found, findings = contract_from(document.under("pools", ("config", POOLS_KEY)), _Pools)
    return (found.pools if found else ()), (*document.findings, *findings)
