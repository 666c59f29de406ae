"""How each fault is put in and taken out. What has to be put back is read first and written down by whoever calls, so
that another process can undo what a killed one has left. Undoing twice does no harm.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from headway.problem import UserError
from headway.release.driver.event_kinds import ReleaseOutcome
from headway.wire import ACCELERATOR_READY
from sandbox.cluster import whole_file
from sandbox.progress import Silent
from sandbox.rehearsal.bed import LESSER_MODEL, LESSER_TENANT, MODEL, TENANT, Json, RehearsalBed
from sandbox.traffic.node.gpu_counters import SINCE, XID
from sandbox.traffic.node.status import timestamp

ABSENT = f"sha256:{'0' * 64}"
"""A digest that no registry has (`sandbox/traffic/node/images.py`)."""
TAINT = "maintenance.example.com/reserved"
_DEATHS = 3
_DEATH_SECONDS = 12.0
"""Until a server that was killed runs again and can be killed anew."""
MIB = 2**20
_HOT_MS = 120.0
_THERMAL_SLOWDOWN = 0x40
"""`nvmlClocksEventReasonHwThermalSlowdown` of `nvml.h`."""


@dataclass(frozen=True)
class FaultActs:
    """`read` answers what `put` and `undo` need."""

    read: Callable[[RehearsalBed], Json]
    put: Callable[[RehearsalBed, Json], None]
    undo: Callable[[RehearsalBed, Json], None]


def _behaves(**changes: float) -> FaultActs:
    """The version that serves behaves otherwise from its next batch on, before each of which it reads the file."""

    def read(bed: RehearsalBed) -> Json:
        return {str(path): path.read_text() for path in bed.behaviours()}

    def put(bed: RehearsalBed, kept: Json) -> None:
        for path, text in kept.items():
            whole_file.replace(Path(path), json.dumps({**json.loads(text), **changes}, sort_keys=True, indent=1) + "\n")

    def undo(bed: RehearsalBed, kept: Json) -> None:
        for path, text in kept.items():
            if Path(path).parent.exists():  # else the pod has gone, and its successor fetched its own
                whole_file.replace(Path(path), text)

    return FaultActs(read, put, undo)


def _one_more(
    before: Callable[[RehearsalBed, Json], None],
    after: Callable[[RehearsalBed, Json], None],
    more: Callable[[RehearsalBed], Json],
    service: tuple[str, str] = (TENANT, MODEL),
) -> FaultActs:
    """A replica more of the service (tenant, model) is wanted after `before`."""

    def read(bed: RehearsalBed) -> Json:
        found = bed.deployment(*service)
        return {"deployment": found["metadata"]["name"], "replicas": int(found["spec"]["replicas"]), **more(bed)}

    def put(bed: RehearsalBed, kept: Json) -> None:
        before(bed, kept)
        bed.scale(kept["deployment"], kept["replicas"] + 1, service[0])

    def undo(bed: RehearsalBed, kept: Json) -> None:
        bed.scale(kept["deployment"], kept["replicas"], service[0])
        after(bed, kept)

    return FaultActs(read, put, undo)


def _quota() -> FaultActs:
    def more(bed: RehearsalBed) -> Json:
        found = bed.quota()
        return {"quota": found["metadata"]["name"], "pods": found["spec"]["hard"]["pods"], "used": found["status"]["used"]["pods"]}

    return _one_more(
        lambda bed, kept: bed.limit_pods(kept["quota"], kept["used"]), lambda bed, kept: bed.limit_pods(kept["quota"], kept["pods"]), more
    )


def _unschedulable() -> FaultActs:
    def cordon(bed: RehearsalBed, kept: Json) -> None:
        for node in kept["nodes"]:
            bed.cordon(node, wanted=True)

    def uncordon(bed: RehearsalBed, kept: Json) -> None:
        for node in kept["nodes"]:
            bed.cordon(node, wanted=False)

    return _one_more(cordon, uncordon, lambda bed: {"nodes": bed.nodes()})


def _taint() -> FaultActs:
    def taint(bed: RehearsalBed, kept: Json) -> None:
        for node in kept["nodes"]:
            bed.taint(node, TAINT, wanted=True)

    def untaint(bed: RehearsalBed, kept: Json) -> None:
        for node in kept["nodes"]:
            bed.taint(node, TAINT, wanted=False)

    return _one_more(taint, untaint, lambda bed: {"nodes": bed.nodes()})


def _store() -> FaultActs:
    def back(bed: RehearsalBed, kept: Json) -> None:
        from sandbox.cloud import objectstore

        objectstore.ensure_running(bed.layout, Silent())

    return _one_more(lambda bed, kept: bed.kill("object-store"), back, lambda bed: {})


def _gpus() -> FaultActs:
    return _one_more(
        lambda bed, kept: bed.take_gpus(kept["gpus"]),
        lambda bed, kept: bed.give_gpus_back(),
        lambda bed: {"gpus": bed.spare_gpus()},
        (LESSER_TENANT, LESSER_MODEL),
    )


def _image() -> FaultActs:
    """A replica more is wanted, of a digest that nobody has pushed."""

    def read(bed: RehearsalBed) -> Json:
        found = bed.deployment()
        pods = found["spec"]["template"]["spec"]
        lists = {field: pods[field] for field in ("containers", "initContainers") if field in pods}
        return {"deployment": found["metadata"]["name"], "replicas": int(found["spec"]["replicas"]), "containers": lists}

    def put(bed: RehearsalBed, kept: Json) -> None:
        absent = {
            field: [{**each, "image": f"{each['image'].partition('@')[0]}@{ABSENT}"} for each in found]
            for field, found in kept["containers"].items()
        }
        bed.template(kept["deployment"], absent, kept["replicas"] + 1)

    def undo(bed: RehearsalBed, kept: Json) -> None:
        bed.template(kept["deployment"], kept["containers"], kept["replicas"] + 1)
        bed.await_template(kept["deployment"])
        bed.scale(kept["deployment"], kept["replicas"])

    return FaultActs(read, put, undo)


def _stuck() -> FaultActs:
    """A release that differs by one place in its queue is held once users get it, which is at once: it skips the copies."""

    def read(bed: RehearsalBed) -> Json:
        before = bed.releases()
        if before.running is not None:
            raise UserError(
                "A release is under way.", "Holding it would be no rehearsal; nothing was done.", "Wait for its end, or roll it back."
            )
        return {"contract": bed.contract.read_text(), "releases": len(before.all)}

    def put(bed: RehearsalBed, kept: Json) -> None:
        changed = yaml.safe_load(kept["contract"])
        changed["batching"]["max_queue"] += 1
        changed["rollout"].pop("mirror", None)
        bed.contract.write_text(yaml.safe_dump(changed, sort_keys=False))
        bed.release_to_users()
        bed.hold_release("wait until I am back")

    def undo(bed: RehearsalBed, kept: Json) -> None:
        bed.end_release()
        newest = bed.releases().all[kept["releases"] :]
        if not any(each.outcome == ReleaseOutcome.PROMOTED for each in newest):  # else whoever was on call wants it
            bed.contract.write_text(kept["contract"])

    return FaultActs(read, put, undo)


def _unloadable() -> FaultActs:
    """What the model reads when it is loaded says nothing any more, and its server must start anew."""

    def put(bed: RehearsalBed, kept: Json) -> None:
        for path in kept:
            whole_file.replace(Path(path), "")
        bed.kill_servers()

    return replace(_behaves(), put=put)


def _crash() -> FaultActs:
    def put(bed: RehearsalBed, kept: Json) -> None:
        for number in range(_DEATHS):
            if number:
                time.sleep(_DEATH_SECONDS * number)  # the node waits longer before each start
            bed.kill_servers()

    return FaultActs(lambda bed: {}, put, lambda bed, kept: None)


def _hot() -> FaultActs:
    """The model's replica takes longer, and the counters of its GPU say why."""
    slow = _behaves(median_ms=_HOT_MS)

    def put(bed: RehearsalBed, kept: Json) -> None:
        hot = {
            "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": float(_THERMAL_SLOWDOWN),
            "DCGM_FI_DEV_GPU_TEMP": 93.0,
            "DCGM_FI_DEV_SM_CLOCK": 600.0,
            "DCGM_FI_DEV_THERMAL_VIOLATION": 6e8,
        }
        bed.play({kept["node"]: {SINCE: time.time(), **hot}})
        slow.put(bed, kept["behaviours"])

    def undo(bed: RehearsalBed, kept: Json) -> None:
        bed.play({})
        slow.undo(bed, kept["behaviours"])

    return FaultActs(lambda bed: {"node": bed.node(), "behaviours": slow.read(bed)}, put, undo)


def _quarantine() -> FaultActs:
    def put(bed: RehearsalBed, kept: Json) -> None:
        bed.play({kept["node"]: {XID: 79.0}})
        bed.condition(kept["node"], _condition("False", "NvidiaXID79Error"))

    def undo(bed: RehearsalBed, kept: Json) -> None:
        bed.play({})
        bed.condition(kept["node"], _condition("True", "AcceleratorReady"))
        bed.release_node(kept["node"])

    return FaultActs(lambda bed: {"node": bed.node()}, put, undo)


def _condition(status: str, reason: str) -> Json:
    now = timestamp(datetime.now(UTC))
    return {"type": ACCELERATOR_READY, "status": status, "reason": reason, "message": "rehearsed", "lastTransitionTime": now}


def _users(**changes: Any) -> FaultActs:
    return FaultActs(lambda bed: {}, lambda bed, kept: bed.load(**changes), lambda bed, kept: bed.load())


def _prometheus() -> FaultActs:
    def undo(bed: RehearsalBed, kept: Json) -> None:
        from sandbox.extras import EXTRAS

        EXTRAS["monitoring"].start(bed.layout, Silent())

    return FaultActs(lambda bed: {}, lambda bed, kept: bed.kill("prometheus"), undo)


ACTS: Mapping[str, FaultActs] = {
    "errors": _behaves(error_share=0.2),
    "slow": _behaves(median_ms=120.0),
    "hang": _behaves(dead_after_requests=1),
    "leak": _behaves(leak_bytes=4 * MIB),
    "crash": _crash(),
    "unloadable": _unloadable(),
    "store": _store(),
    "quota": _quota(),
    "unschedulable": _unschedulable(),
    "taint": _taint(),
    "gpus": _gpus(),
    "image": _image(),
    "stuck": _stuck(),
    "quarantine": _quarantine(),
    "gpu-hot": _hot(),
    "rates": _users(rates={"encoder": 80.0}),
    "token": _users(token_seconds=-60.0),
    "prometheus": _prometheus(),
}
"""As many as the catalogue names."""
