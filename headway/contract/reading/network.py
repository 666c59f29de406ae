"""Whether the nodes of an environment reach the internet, read as data from its stack file, for checks that run without Pulumi.

`stacks.settings` is what the program itself reads and judges; this takes two values and refuses nothing.
"""

from pathlib import Path as FilePath
from typing import Any

from headway.contract.reading.document import LARGEST_DOCUMENT, read


def region_without_nat(file: FilePath) -> str | None:
    """The region of the cluster layer that `file` describes where its network has no NAT, else None. Raises OSError when it cannot be read."""
    with file.open("rb") as opened:
        data = read(opened.read(LARGEST_DOCUMENT + 1), file.name).data
    nat, region = _value(data, "network", "nat"), _value(data, "account", "region")
    return region if nat == "none" and isinstance(region, str) else None


def _value(data: Any, section: str, field: str) -> Any:
    for key in ("config", f"headway:{section}", field):
        data = data.get(key) if isinstance(data, dict) else None
    return data
