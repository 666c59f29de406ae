"""Steps on a workspace with real traffic that more than one table takes."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from headway.contract.model import Model
from headway.contract.released import release_id
from sandbox.cluster.processes import Supervisor
from sandbox.traffic import profile, servers
from sandbox.traffic.node.container_process import group
from sandbox.traffic.release_trials import ReleaseTrials

SERVER = "tritonserver"
UNDER_WAY_SECONDS = 600.0


def artifact_name(trials: ReleaseTrials, release: str | None) -> str | None:
    """What the artifacts call a release of the model; None for one that they do not know."""
    served = trials.served
    contracts = {name: profile.contract(served, trials.artifacts, name) for name in trials.artifacts.releases(served.model)}
    return next((name for name, found in contracts.items() if release_id(Model.model_validate(found)) == release), None)


def kept_process(trials: ReleaseTrials, name: str) -> int:
    """The pid of a process that the sandbox keeps."""
    return next(each.pid for each in Supervisor(trials.layout).list() if each.name == name and each.pid)


def pods(trials: ReleaseTrials, release: str) -> list[Path]:
    """Records of the servers of `release` that run, by pod."""
    return sorted((servers.folder(trials.layout) / "node" / "records").glob(f"quality_classifier-{release}-*_server.json"))


def process_of(record: Path, program: str) -> int | None:
    """The pid of `program` in the pod of this record."""
    return next((pid for pid in group(json.loads(record.read_text())["pid"]) if Path(f"/proc/{pid}/exe").readlink().name == program), None)


def pods_process(trials: ReleaseTrials, release: str, program: str) -> int:
    """The pid of `program` in a pod of `release`."""
    for record in pods(trials, release):
        if (pid := process_of(record, program)) is not None:
            return pid
    raise LookupError(f"no pod of {release} runs {program}")


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def over(trials: ReleaseTrials) -> bool:
    """Whether no release is under way."""
    rollout = trials.newest()
    return rollout is None or rollout.over


def back(trials: ReleaseTrials) -> None:
    """Have the stable version serve, by a person's promotion where it does not. Its release is another one after a change of the code."""
    if not over(trials):
        trials.headway("release", "rollback", trials.chain, "--reason", "left over", quiet=True).wait()
        trials.headway("release", "resume", trials.chain, quiet=True).wait()
    if trials.serving() is None or artifact_name(trials, trials.serving()) == "stable":
        return
    promoted(trials, "stable", "back to where each cell begins")


def promoted(trials: ReleaseTrials, name: str, why: str) -> None:
    """Have `name` serve by a person's promotion."""
    child = trials.begin(name, why, quiet=True)
    deadline = time.monotonic() + UNDER_WAY_SECONDS
    while child.poll() is None and time.monotonic() < deadline:
        rollout = trials.newest()
        if (
            rollout
            and not rollout.over
            and artifact_name(trials, rollout.release) == name
            and rollout.decision
            and (not rollout.promote or rollout.phase == "baking")
        ):
            trials.headway("release", "promote", trials.chain, "--reason", why, quiet=True).wait()
        time.sleep(1.0)
    if child.wait() != 0 or artifact_name(trials, trials.serving()) != name:
        raise SystemExit(f"{name} does not serve; see `headway release history {trials.chain}`")


def seconds_until(began: float, so: Callable[[], bool], pause: float = 0.5) -> str:
    """How long after `began` (of the monotonic clock) it was so, in words; asked again after `pause` seconds."""
    deadline = time.monotonic() + UNDER_WAY_SECONDS
    while time.monotonic() < deadline:
        if so():
            return f"{time.monotonic() - began:.0f} s"
        time.sleep(pause)
    return f"**not within {UNDER_WAY_SECONDS:.0f} s**"
