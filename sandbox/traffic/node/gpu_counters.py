"""Counters of GPUs that nobody has, played from a script: a stand-in for NVIDIA's dcgm-exporter. Pure, but for reading the script.

Names are those of dcgm-exporter's `etc/default-counters.csv`, labels those of its `internal/pkg/rendermetrics`, both read at its main branch and
not at the pinned version. Violations are in ns, as NVML counts them (`nvmlViolationTime_t`) and `dcgm_fields.h` of DCGM 4 says; the csv still
says us. Left alone, a GPU is calm. A script says of a node's GPUs what a gauge shows, and by how much a counter
rises in a second since a moment; a counter of which the script says nothing any more begins anew, as after a reload of the driver.
"""

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from headway.problem import UserError

Labels = Mapping[str, str]
SCRIPT = "gpu-script.json"
XID, XIDS_COUNTED = "DCGM_FI_DEV_XID_ERRORS", "DCGM_EXP_XID_ERRORS_COUNT"
WINDOW_MS = "300000"
"""In which the exporter counts Xids, where nobody says otherwise."""
SINCE = "since"


class PlayedCounter(NamedTuple):
    """`calm`: what a gauge shows, or how much a counter rises in a second, while nothing is wrong."""

    counts: bool
    calm: float


COUNTERS: Mapping[str, PlayedCounter] = {
    "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": PlayedCounter(counts=False, calm=0.0),
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": PlayedCounter(counts=True, calm=0.0),
    "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": PlayedCounter(counts=True, calm=0.0),
    "DCGM_FI_DEV_GPU_TEMP": PlayedCounter(counts=False, calm=55.0),
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": PlayedCounter(counts=True, calm=0.0),
    "DCGM_FI_DEV_POWER_USAGE": PlayedCounter(counts=False, calm=60.0),
    "DCGM_FI_DEV_POWER_VIOLATION": PlayedCounter(counts=True, calm=0.0),
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": PlayedCounter(counts=False, calm=0.0),
    "DCGM_FI_DEV_SM_CLOCK": PlayedCounter(counts=False, calm=1500.0),
    "DCGM_FI_DEV_THERMAL_VIOLATION": PlayedCounter(counts=True, calm=0.0),
    XID: PlayedCounter(counts=False, calm=0.0),
}
"""Everything that can be played."""

GpuScript = Mapping[str, Mapping[str, float]]
"""By node: values by the name of their counter, and `since` when counters rise, in Unix seconds."""


def checked(script: Any) -> GpuScript:
    """Raises UserError for what no script is."""
    if not isinstance(script, Mapping):
        raise _refused("It is no object of nodes")
    for node, played in script.items():
        if not isinstance(played, Mapping):
            raise _refused(f"What it says of {node} is no object of counters")
        for name, value in played.items():
            if name != SINCE and name not in COUNTERS:
                raise _refused(f"{node}: {name} is not played; {', '.join(COUNTERS)} are")
            if type(value) not in (int, float) or not math.isfinite(value) or value < 0:
                raise _refused(f"{node}: {name} is {value!r}, and no number from zero on")
    return script


def _refused(fact: str) -> UserError:
    return UserError(f"The script of the played GPUs cannot be followed. {fact}.", "The GPUs show nothing.", "Correct it, or remove it.")


def script_of(folder: Path) -> GpuScript:
    """Of a node agent's state; nothing where none was written. Raises UserError for what no script is."""
    try:
        return checked(json.loads((folder / SCRIPT).read_text()))
    except FileNotFoundError:
        return {}
    except ValueError:
        raise _refused("It is no JSON") from None


def played(script: GpuScript, node: str, now: float) -> Iterator[tuple[str, Labels, float]]:
    """Each counter of one of the node's GPUs at `now` in Unix seconds, with the labels that it has beside the device's."""
    own = script.get(node, {})
    seconds = max(0.0, now - own.get(SINCE, now))
    for name, counter in COUNTERS.items():
        value = own.get(name, counter.calm)
        yield name, {}, value * seconds if counter.counts else value
    if xid := own.get(XID):
        yield XIDS_COUNTED, {"xid": f"{xid:.0f}", "window_size_in_ms": WINDOW_MS}, 1.0


def device_labels(node: Mapping[str, Any] | None, uid: str, name: str) -> dict[str, str]:
    """What says which GPU it is: `node` as the API server has it, `uid` of the pod that uses it."""
    labels = (node or {}).get("metadata", {}).get("labels") or {}
    product = labels.get("nvidia.com/gpu.product", "")
    return {
        "gpu": "0",
        "UUID": f"SIMULATED-{uid}",
        "pci_bus_id": "00000000:00:1E.0",
        "device": "nvidia0",
        "modelName": product.replace("-", " "),
        "Hostname": name,
    }
