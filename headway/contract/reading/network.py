"""Whether the nodes of an environment reach the internet, and in which account they are, read as data from its stack file, for checks that run
without Pulumi.

`stacks.settings` is what the program itself reads and judges; this takes four values and refuses nothing.
"""

from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

from headway.contract.reading.document import LARGEST_DOCUMENT, read


@dataclass(frozen=True)
class ClosedNetwork:
    """A network without NAT: its region, and the AWS services that it reaches by endpoints of its own."""

    region: str
    endpoints: frozenset[str]


def account_of(file: FilePath) -> str | None:
    """The id of the account that `file` names. Raises OSError when it cannot be read."""
    with file.open("rb") as opened:
        found = _value(read(opened.read(LARGEST_DOCUMENT + 1), file.name).data, "account", "id")
    return found if isinstance(found, str) else None


def closed_network(file: FilePath) -> ClosedNetwork | None:
    """The network that `file` describes, None where it has NAT. Raises OSError when it cannot be read."""
    with file.open("rb") as opened:
        data = read(opened.read(LARGEST_DOCUMENT + 1), file.name).data
    nat, region, endpoints = _value(data, "network", "nat"), _value(data, "account", "region"), _value(data, "network", "endpoints")
    known = frozenset(map(str, endpoints)) if isinstance(endpoints, list) else frozenset[str]()
    return ClosedNetwork(region, known) if nat == "none" and isinstance(region, str) else None


def _value(data: Any, section: str, field: str) -> Any:
    for key in ("config", f"headway:{section}", field):
        data = data.get(key) if isinstance(data, dict) else None
    return data
