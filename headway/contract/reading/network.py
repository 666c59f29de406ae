"""Whether the nodes of an environment reach the internet, and in which account they are, read as data from its stack file, for checks that run
without Pulumi.

`stacks.settings` is what the program itself reads and judges; this takes four values and refuses nothing.
"""

from dataclasses import dataclass
from typing import Any

from headway.contract.reading.document import Document


@dataclass(frozen=True)
class ClosedNetwork:
    """A network without NAT: its region, and the AWS services that it reaches by endpoints of its own."""

    region: str
    endpoints: frozenset[str]


def account_of(cluster: Document) -> str | None:
    """The id of the account that a cluster layer's stack file names."""
    found = _value(cluster.data, "account", "id")
    return found if isinstance(found, str) else None


def closed_network(cluster: Document) -> ClosedNetwork | None:
    """The network that a cluster layer's stack file describes, None where it has NAT."""
    data = cluster.data
    nat, region, endpoints = _value(data, "network", "nat"), _value(data, "account", "region"), _value(data, "network", "endpoints")
    known = frozenset(map(str, endpoints)) if isinstance(endpoints, list) else frozenset[str]()
    return ClosedNetwork(region, known) if nat == "none" and isinstance(region, str) else None


def _value(data: Any, section: str, field: str) -> Any:
    for key in ("config", f"headway:{section}", field):
        data = data.get(key) if isinstance(data, dict) else None
    return data
