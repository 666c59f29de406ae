"""Where releases are tried on real traffic: a workspace that is up, its tenants under steady load, and the ledger that
says what became of it.

Works by the commands that people use (`headway sandbox up`, `headway release start`), on a copy of the checkout. A
release's own process is a child of this one; whoever stops must end it first, or it goes on without its cluster.
"""

import contextlib
import json
import os
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headway.environment.checkout import ENVIRONMENT_VARIABLE
from headway.ledger.chain import Ledger
from headway.ledger.events import Event
from headway.ledger.store import FolderStore
from headway.ledger.traffic_split import ArmRole
from headway.problem import UserError
from headway.release import messages
from headway.release.driver.event_kinds import EventKind
from headway.release.driver.rollout_state import RolloutState, ServiceState, fold
from headway.release.evaluation.watched import drift_chain
from sandbox.cluster import linux
from sandbox.cluster.processes import Supervisor
from sandbox.layout import HOME_VARIABLE, Layout
from sandbox.plan import ENVIRONMENT
from sandbox.progress import Silent
from sandbox.traffic import command_records, profile, servers, workspace
from sandbox.traffic.load import LoadTally
from sandbox.traffic.node.container_process import group
from sandbox.traffic.profile import SERVED, ModelArtifacts, ServedModel
from sandbox.traffic.steady_load import SteadyLoad

CLASSIFIER = SERVED[0]
CHAIN = CLASSIFIER.chain
"""Whose releases are tried, unless another model is named."""
BEFORE_TRAFFIC = "before traffic"
HELD_SECONDS = 1200.0
"""How long a release may take, whose clock runs on through what the machine does beside it; a held one waits for a person, who is not there."""
_MEASURED = 'count_over_time(istio_requests_total{reporter="destination",destination_workload=~"%s.*"}[30s]) >= 5'
_BACK = "rolled back"
_CHECKOUT = Path(__file__).resolve().parents[2]
"""Not the workspace, whose `sandbox/` is a link."""
_WITHIN = ("demo", "state")
"""How the path of a workspace's state ends."""


@dataclass(frozen=True, kw_only=True)
class TrialResult:
    """How one release ended."""

    release: str
    """Its name among the artifacts."""
    outcome: str
    """`promoted`, `rolled back`, `refused`; `held` where it was decided neither way in time; or `not over`, `not
    begun`."""
    where: str
    """The stage at which that was decided: BEFORE_TRAFFIC, `mirror 100%`, `10%` and so on; of a promoted one `all
    traffic`."""
    verdict: str
    """In the ledger's words."""
    seconds: float
    users: int
    """Requests of users that it answered while it was no more than a candidate."""
    number: int
    """Among the service's releases, from 1."""
    gate: str = ""
    """Which gate decided it."""


@dataclass
class ReleaseTrials:
    """One workspace, and what is played on it."""

    layout: Layout
    artifacts: ModelArtifacts
    speed: float
    """How much faster the minutes of a rollout pass."""
    served: ServedModel = CLASSIFIER
    """Whose releases are tried."""
    held_seconds: float = HELD_SECONDS
    _children: "list[subprocess.Popen[bytes]]" = field(default_factory=list["subprocess.Popen[bytes]"])

    @classmethod
    def of(cls, checkout: Path, layout: Layout, speed: float) -> "ReleaseTrials":
        """Write models and contracts; nothing is started. UserError without the traffic environment."""
        from sandbox.traffic.programs import programs

        artifacts = profile.build(programs(checkout), servers.folder(layout) / "artifacts")
        workspace.make(checkout, layout.project, artifacts)
        return cls(layout, artifacts, speed)

    @property
    def chain(self) -> str:
        return self.served.chain

    def up(self) -> bool:
        """Whether everything runs now."""
        return self.headway("sandbox", "up", "--with", "traffic").wait() == 0

    def loads(self) -> SteadyLoad:
        return SteadyLoad(self.layout, self.artifacts)

    def measured(self, within: float = 60.0) -> None:
        """Wait until Prometheus holds enough of the model's requests for a release to be judged by. Raises
        UserError when it does not."""
        server = Supervisor(self.layout).port("prometheus")
        asked = urllib.parse.urlencode({"query": _MEASURED % self.served.model})
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            with (
                contextlib.suppress(OSError),
                urllib.request.urlopen(f"http://127.0.0.1:{server}/api/v1/query?{asked}", timeout=5) as answer,
            ):
                if json.load(answer)["data"]["result"]:
                    return
            time.sleep(0.5)
        raise UserError(
            f"Prometheus shows no requests of {self.chain} after {within:.0f} s of load.",
            "No release could be judged, so none was begun.",
            f"What went wrong is in {self.layout.logs} (envoy-access.log, mesh.log, prometheus.log); `make demo-down` ends what runs.",
        )

    def headway(self, *arguments: str, quiet: bool = False) -> "subprocess.Popen[bytes]":
        """Start `headway` on the workspace, its output ours."""
        self._children = [child for child in self._children if child.poll() is None]
        self._children.append(headway(self.layout, *arguments, quiet=quiet))
        return self._children[-1]

    def begin(self, name: str, reason: str, *, quiet: bool = False) -> "subprocess.Popen[bytes]":
        """Let the model team write release `name` of the model into its contract, and start it."""
        workspace.release(self.layout.project, self.artifacts, self.served.model, name)
        return self.headway("release", "start", self.chain, "--reason", reason, "--speed", f"{self.speed:g}", quiet=quiet)

    def release(self, name: str, tally: LoadTally, reason: str = "demonstration", *, quiet: bool = False) -> TrialResult:
        """Try release `name` until it is over; `tally` hears of the load's answers meanwhile. One that is held too long
        is taken back."""
        began, before, seen = time.monotonic(), self.count(), Counter(tally.answered_by)
        child, held = self.begin(name, f"{reason}: {name}", quiet=quiet), None
        try:
            child.wait(timeout=self.held_seconds)
        except subprocess.TimeoutExpired:
            held = self.ended(name, before, time.monotonic() - began, tally.answered_by - seen)
            self.headway("release", "rollback", self.chain, "--reason", "held for too long; nobody is there to decide", quiet=True).wait()
        child.wait()
        found = self.ended(name, before, time.monotonic() - began, tally.answered_by - seen)
        return replace(held, outcome="held") if held and found.outcome != "promoted" else found

    def ended(self, name: str, before: int, seconds: float, answered_by: Mapping[str, int]) -> TrialResult:
        """What became of the release that came after `before` others; `answered_by` counts users' requests since it
        began."""
        events = _ledger(self.layout, self.chain).read()
        found = fold(events)
        rollout, number = found.rollout, len(found.all)
        if rollout is None or number == before:
            return TrialResult(release=name, outcome="not begun", where="", verdict="", seconds=seconds, users=0, number=0)
        return TrialResult(
            release=name,
            outcome=str(rollout.outcome) if rollout.outcome else "not over",
            where=_where(events, rollout),
            verdict=messages.why(rollout),
            seconds=seconds,
            users=answered_by.get(rollout.release, 0),
            number=number,
            gate=rollout.gate,
        )

    def newest(self) -> RolloutState | None:
        """The newest release of the model, running or over."""
        return self._service().rollout

    def serving(self) -> str | None:
        """The stable release; None while the ledger knows of none."""
        return self._service().stable

    def first(self) -> str | None:
        """The release that was stable before any other was tried."""
        found = self._service()
        return found.all[0].stable if found.all else found.stable

    def count(self) -> int:
        """Releases so far."""
        return len(self._service().all)

    def _service(self) -> ServiceState:
        return service(self.layout, self.chain)

    def report(self, number: int, name: str) -> Path:
        """Write the report of one release; where it lies."""
        place = self.layout.state.parent / "reports" / f"{number:02}-{name}.html"
        place.parent.mkdir(parents=True, exist_ok=True)
        self.headway("release", "report", self.chain, "--number", str(number), "--out", str(place)).wait()
        return place

    def drift(self, chain: str) -> Mapping[str, Mapping[str, Any]]:
        """What the ledger says of a service's drift: the newest body of each kind of event."""
        return {each.kind: each.body for each in _ledger(self.layout, drift_chain(chain)).read()}

    def stable(self, chain: str) -> str | None:
        """The release of a service that serves."""
        return service(self.layout, chain).stable

    def weight(self) -> int:
        """Of the newest release, percent of users' requests."""
        rollout = self.newest()
        return rollout.split.weight(rollout.release, ArmRole.CANARY).whole_percent if rollout else 0

    def memory(self) -> int:
        """Bytes that every process of the workspace takes now, each with its share of what it shares."""
        records = (servers.folder(self.layout) / "node" / "records").glob("*.json")
        pods = sum(linux.memory_bytes(pid) for path in records for pid in group(json.loads(path.read_text())["pid"]))
        return pods + sum(each.memory_bytes for each in Supervisor(self.layout).list())

    def stop(self) -> None:
        """End the commands that run, then every process of the workspace."""
        stop(self.layout)
        for child in self._children:
            child.wait()


def headway(layout: Layout, *arguments: str, quiet: bool = False, log: Path | None = None) -> "subprocess.Popen[bytes]":
    """Start `headway` on a workspace; `stop` ends it. All that it says goes to `log`, where there is one."""
    with log.open("ab") if log else contextlib.nullcontext() as said:
        child = subprocess.Popen(
            [str(layout.project / ".venv" / "bin" / "python"), "-m", "headway.cli.main", *arguments, "--project", str(layout.project)],
            env={**os.environ, HOME_VARIABLE: str(layout.state), ENVIRONMENT_VARIABLE: ENVIRONMENT},
            cwd=_CHECKOUT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL if quiet else said,
            stderr=said,
            start_new_session=True,  # Ctrl-C is for who started it, who then ends it
        )
    command_records.record(layout, child.pid)
    return child


def service(layout: Layout, chain: str = CHAIN) -> ServiceState:
    """A model's releases, as the workspace's ledger tells them."""
    return fold(_ledger(layout, chain).read())


def _ledger(layout: Layout, chain: str = CHAIN) -> Ledger:
    return Ledger(FolderStore(layout.ledger), chain, ENVIRONMENT, "onlooker", lambda: datetime.now(UTC))


def _where(events: Sequence[Event], rollout: RolloutState) -> str:
    """The stage at which the release's last decision found it; a decision to go back names none."""
    stages = [
        e.body["decision"]["where"]
        for e in events
        if e.number > rollout.number and e.kind == EventKind.OBSERVED and e.body["decision"]["phase"] != _BACK
    ]
    if stages:
        return stages[-1]
    return str(rollout.body["first"]["where"]) if rollout.decision else BEFORE_TRAFFIC


def stop(layout: Layout) -> None:
    """End every command that works on the workspace, whoever started it, then every process of it."""
    command_records.end_all(layout)
    Supervisor(layout).stop_all(Silent())


def forget(layout: Layout) -> None:
    """Begin from nothing: a release that an earlier demonstration promoted would be no new one. Its reports stay."""
    if layout.state.exists():
        stop(layout)
        shutil.rmtree(layout.state)


def layout_of(checkout: Path) -> Layout:
    """Where the workspace of a checkout lives: beside the sandbox's own state, and none of it. A shell that `sandbox env
    --demo` points at a workspace means that one."""
    outer = Layout.of(checkout)
    if outer.state.parts[-2:] == _WITHIN:
        return Layout(project=outer.state.parent / "checkout", state=outer.state, cache=outer.cache)
    return Layout(project=outer.state / "demo" / "checkout", state=outer.state / "demo" / "state", cache=outer.cache)
