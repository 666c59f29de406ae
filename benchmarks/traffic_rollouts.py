"""Whole releases on real traffic, for docs/benchmarks.md: `python -m benchmarks.traffic_rollouts releases|faults|operations [--runs N]`.

`releases` tries each of the classifier's nine releases; `faults` releases one that is as good as the stable one, and kills something in the
middle; `operations` has an evaluation take a version back, KEDA scale and Alertmanager tell. Every cell of the first two is a real release
by the command on the demonstration's workspace, begun from a stable version that behaves as the first; finished cells are kept in
`rollouts.jsonl` beside the workspace, so that an interrupted table goes on where it was. Needs .venv-traffic. A promoted release is the
next one's stable version; where it behaves otherwise, `_back` returns to the first by a person's promotion, which is no cell.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from benchmarks.traffic_results import Book, TrafficCell, circumstances, table
from headway.contract.model import Model
from headway.contract.released import release_id
from headway.problem import Exit, UserError
from headway.release.driver.rollout_state import RolloutState
from sandbox.cluster.control_plane import SandboxCluster
from sandbox.cluster.control_plane_programs import API_SERVER
from sandbox.cluster.processes import Supervisor
from sandbox.extras import EXTRAS
from sandbox.progress import Silent
from sandbox.rehearsal.bed import RehearsalBed
from sandbox.traffic import profile, servers
from sandbox.traffic.demo import PROMOTED, WANTED, alone, stop_on_signals
from sandbox.traffic.kube import Kube
from sandbox.traffic.mesh import envoy
from sandbox.traffic.node.container_process import group
from sandbox.traffic.profile import SERVED
from sandbox.traffic.release_trials import CHAIN, HELD_SECONDS, ReleaseTrials, TrialResult, layout_of
from sandbox.traffic.steady_load import SteadyLoad

PROJECT = Path(__file__).parents[1]
SPEED = 15.0
ALIKE = ("stable", "identical", "slow-start")
"""What behaves alike once it serves. Either of the first two is to the other what `identical` is to `stable`."""
ORDER = ("wrong", "crash-at-maximum", "errors", "slow-tail", "tail", "leak", "dead", "late", "identical", "slow-start", "better")
"""Of a run: one way back to the first version is enough."""
LATE = 504
SERVER, MODEL = "tritonserver", "triton_python_backend_stub"
_UNDER_WAY_SECONDS = 600.0
_DEATHS = 3
_ROUNDS_UNTIL_KNOWN = 4
"""Of forty labelled requests each: more than a version must answer well to count as sound."""
PATIENCE_SECONDS = 60.0
"""How long one that was interrupted may take to end what it started."""
_SEEN_SECONDS = 2.0
"""Until the proxies surely have a replica that is ready."""


def _artifact_name(trials: ReleaseTrials, release: str | None) -> str | None:
    """What the artifacts call a release of the classifier; None for one that they do not know."""
    classifier = next(each for each in SERVED if f"{each.tenant}/{each.model}" == CHAIN)
    contracts = {name: profile.contract(classifier, trials.artifacts, name) for name in trials.artifacts.releases(classifier.model)}
    return next((name for name, found in contracts.items() if release_id(Model.model_validate(found)) == release), None)


Fault = Callable[[ReleaseTrials, "subprocess.Popen[bytes]", RolloutState], "subprocess.Popen[bytes] | None"]
"""Breaks something, and does what then mends it; answers the command that goes on with the release where that is another one."""


def _kept(trials: ReleaseTrials, name: str) -> int:
    """The pid of a process that the sandbox keeps."""
    return next(each.pid for each in Supervisor(trials.layout).list() if each.name == name and each.pid)


def _pods(trials: ReleaseTrials, release: str) -> list[Path]:
    """Records of the servers of `release` that run, by pod."""
    return sorted((servers.folder(trials.layout) / "node" / "records").glob(f"quality_classifier-{release}-*_server.json"))


def _process(record: Path, program: str) -> int | None:
    """The pid of `program` in the pod of this record."""
    return next((pid for pid in group(json.loads(record.read_text())["pid"]) if Path(f"/proc/{pid}/exe").readlink().name == program), None)


def _pods_process(trials: ReleaseTrials, release: str, program: str) -> int:
    """The pid of `program` in a pod of `release`."""
    for record in _pods(trials, release):
        if (pid := _process(record, program)) is not None:
            return pid
    raise LookupError(f"no pod of {release} runs {program}")


def _kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def _servers(arm: str, program: str) -> Fault:
    def fault(trials: ReleaseTrials, child: "subprocess.Popen[bytes]", rollout: RolloutState) -> None:
        _kill(_pods_process(trials, rollout.release if arm == "canary" else rollout.stable, program))

    return fault


def _part(name: str, mend: Callable[[ReleaseTrials], object]) -> Fault:
    def fault(trials: ReleaseTrials, child: "subprocess.Popen[bytes]", rollout: RolloutState) -> None:
        _kill(_kept(trials, name))
        mend(trials)

    return fault


def _one_of_two(trials: ReleaseTrials, child: "subprocess.Popen[bytes]", rollout: RolloutState) -> None:
    """Give the stable version a second replica, and kill the first one's server once both serve."""
    kube = Kube(trials.layout.kubeconfig)
    path = f"/apis/apps/v1/namespaces/quality/deployments/classifier-{rollout.stable}"
    kube.merge(f"{path}/scale", {"spec": {"replicas": 2}})
    _seconds_until(time.monotonic(), lambda: int(kube.get(path)["status"].get("readyReplicas") or 0) == 2)
    time.sleep(_SEEN_SECONDS)
    _kill(_pods_process(trials, rollout.stable, SERVER))


def _driver(trials: ReleaseTrials, child: "subprocess.Popen[bytes]", rollout: RolloutState) -> "subprocess.Popen[bytes]":
    child.kill()
    child.wait()
    return trials.headway("release", "resume", CHAIN, quiet=True)


def _again(extra: str) -> Callable[[ReleaseTrials], object]:
    return lambda trials: EXTRAS[extra].start(trials.layout, Silent())


FAULTS: Mapping[str, Fault] = {
    "Triton of the candidate": _servers("canary", SERVER),
    "model process of the candidate": _servers("canary", MODEL),
    "Triton, the stable version's only one": _servers("stable", SERVER),
    "Triton, one of the stable version's two": _one_of_two,
    "Envoy": _part(envoy.NAME, _again("traffic")),
    "Prometheus": _part("prometheus", _again("monitoring")),
    "the release's driver": _driver,
    "the API server": _part(API_SERVER, lambda trials: SandboxCluster(trials.layout).start(Silent())),
}
"""What is killed, by SIGKILL, once the candidate has users."""
MAY_FAIL = ("Triton of the candidate", "model process of the candidate")
"""A candidate whose process dies may be rolled back for it, and may not cost its users more."""


def releases(trials: ReleaseTrials, loads: SteadyLoad, book: Book, names: Sequence[str], runs: int) -> None:
    """Each release `runs` times."""
    for run, name in ((run, name) for run in range(1, runs + 1) for name in names):
        if not book.has("releases", name, run):
            serving = _artifact_name(trials, trials.serving() or trials.first())
            played = "stable" if name == serving == "identical" else name
            if not _over(trials) or (trials.serving() and (serving not in ALIKE or serving == played)):
                _back(trials)
            book.add(_cell(trials, loads, "releases", name, run, WANTED[name].met, lambda played=played: _whole(trials, loads, played)))


def faults(trials: ReleaseTrials, loads: SteadyLoad, book: Book, names: Sequence[str], runs: int) -> None:
    """Each fault `runs` times, in the middle of a release that is as good as what serves."""
    for run, name in ((run, name) for run in range(1, runs + 1) for name in names):
        if not book.has("faults", name, run):
            if _artifact_name(trials, trials.serving() or trials.first()) not in ALIKE or not _over(trials):
                _back(trials)
            played = "stable" if _artifact_name(trials, trials.serving() or trials.first()) == "identical" else "identical"

            def met(ended: TrialResult, name: str = name) -> bool:
                return PROMOTED.met(ended) or (name in MAY_FAIL and ended.outcome == "rolled back")

            book.add(_cell(trials, loads, "faults", name, run, met, partial(_broken, trials, loads, FAULTS[name], played)))


def _cell(
    trials: ReleaseTrials,
    loads: SteadyLoad,
    table: str,
    name: str,
    run: int,
    met: Callable[[TrialResult], bool],
    play: Callable[[], TrialResult],
) -> TrafficCell:
    tally = loads.tallies["classifier"]
    sent, lost, answered = tally.statuses.total(), len(tally.lost), tally.answered
    ended = play()
    gone = [due for due, _ in tally.lost[lost:]]
    late = sum(status == LATE for _, status in tally.lost[lost:])
    found = TrafficCell(
        table=table,
        name=name,
        run=run,
        outcome=ended.outcome,
        where=ended.where,
        as_it_should=met(ended),
        seconds=round(ended.seconds, 1),
        users=ended.users,
        requests=tally.statuses.total() - sent,
        lost=len(gone),
        late=late,
        out_of_service=round(max(gone) - min(gone), 2) if gone else 0.0,
        verdict=ended.verdict,
        load_average=round(os.getloadavg()[0], 1),
        p50_ms=round(tally.quantile(0.5, answered) * 1000, 1),
        p99_ms=round(tally.quantile(0.99, answered) * 1000, 1),
        gate=ended.gate,
    )
    print(
        f"{table} {name} {run}: {found.outcome} at {found.where} after {found.seconds:.0f} s, lost {found.lost}, p99 {found.p99_ms} ms, "
        f"load {found.load_average}. {found.verdict}",
        flush=True,
    )
    return found


def _whole(trials: ReleaseTrials, loads: SteadyLoad, name: str) -> TrialResult:
    return trials.release(name, loads.tallies["classifier"], "table", quiet=True)


def _broken(trials: ReleaseTrials, loads: SteadyLoad, fault: Fault, played: str) -> TrialResult:
    """Release `played`, and let `fault` happen once it has users."""
    tally = loads.tallies["classifier"]
    began, before, seen = time.monotonic(), trials.count(), Counter(tally.answered_by)
    child = trials.begin(played, "table", quiet=True)
    while child.poll() is None:
        rollout = trials.newest()
        if rollout and trials.count() > before and rollout.settled and 0 < trials.weight() < 100 and tally.answered_by[rollout.release]:
            child = fault(trials, child, rollout) or child
            break
        time.sleep(0.5)
    held = False
    try:
        child.wait(timeout=HELD_SECONDS)
    except subprocess.TimeoutExpired:
        held = True
        trials.headway("release", "rollback", CHAIN, "--reason", "held for too long; nobody is there to decide", quiet=True).wait()
        child.wait()
    found = trials.ended(played, before, time.monotonic() - began, tally.answered_by - seen)
    return replace(found, outcome="held") if held and found.outcome != "promoted" else found


def _over(trials: ReleaseTrials) -> bool:
    """Whether no release is under way."""
    rollout = trials.newest()
    return rollout is None or rollout.over


def _back(trials: ReleaseTrials) -> None:
    """Have the stable version serve, by a person's promotion where it does not. Its release is another one after a change of the code."""
    if not _over(trials):
        trials.headway("release", "rollback", CHAIN, "--reason", "left over", quiet=True).wait()
        trials.headway("release", "resume", CHAIN, quiet=True).wait()
    if trials.serving() is None or _artifact_name(trials, trials.serving()) == "stable":
        return
    _promoted(trials, "stable", "back to where each cell begins")


def _promoted(trials: ReleaseTrials, name: str, why: str) -> None:
    """Have `name` serve by a person's promotion."""
    child = trials.begin(name, why, quiet=True)
    deadline = time.monotonic() + _UNDER_WAY_SECONDS
    while child.poll() is None and time.monotonic() < deadline:
        rollout = trials.newest()
        if (
            rollout
            and not rollout.over
            and _artifact_name(trials, rollout.release) == name
            and rollout.decision
            and (not rollout.promote or rollout.phase == "baking")
        ):
            trials.headway("release", "promote", CHAIN, "--reason", why, quiet=True).wait()
        time.sleep(1.0)
    if child.wait() != 0 or _artifact_name(trials, trials.serving()) != name:
        raise SystemExit(f"{name} does not serve; see `headway release history {CHAIN}`")


def operations(trials: ReleaseTrials, scenes: Sequence[str]) -> Iterator[str]:
    """What acts on served traffic beside releases, one scene after the other."""
    yield "| what acts | on | after |"
    yield "|---|---|---|"
    for name in scenes:
        yield from SCENES[name](trials)


def _worse(trials: ReleaseTrials) -> Iterator[str]:
    """A version that was promoted answers worse one day: labelled requests prove it, and the version of before serves again."""
    on = f"{CHAIN}, which answers worse after its promotion"
    if _artifact_name(trials, trials.serving() or trials.first()) == "identical":
        _back(trials)
    loads = trials.loads()
    tally = loads.tallies["classifier"]
    loads.start()
    trials.measured()
    sound = trials.serving()
    for _ in range(_ROUNDS_UNTIL_KNOWN):
        _evaluated(trials)
    _promoted(trials, "identical", "what will answer worse")
    RehearsalBed(trials.layout).confuse()
    began = time.monotonic()
    ended = Exit.OK
    while ended == Exit.OK and time.monotonic() < began + _UNDER_WAY_SECONDS:
        ended = _evaluated(trials)
    back = ended == Exit.ROLLED_BACK and trials.serving() == sound
    rollout = trials.newest()
    yield f"| labelled requests prove it | {on} | {rollout.body['reason'] if rollout else '**never**'} |"
    yield f"| the version of before serves again | {on} | {f'{time.monotonic() - began:.0f} s' if back else f'**not: {ended!r}**'} |"
    loads.stop()
    yield f"| users' requests | the same | {len(tally.lost)} of {tally.statuses.total()} lost |"


def _evaluated(trials: ReleaseTrials) -> int:
    """The exit code of one look, with what follows from it; after the time between two rounds."""
    time.sleep(60.0 / trials.speed)
    return trials.headway("evaluate", CHAIN, "--speed", f"{trials.speed:g}").wait()


def _scaled(trials: ReleaseTrials) -> Iterator[str]:
    """KEDA on three times the load, an alert on a server that dies again and again."""
    EXTRAS["autoscaling"].start(trials.layout, Silent())
    kube, keeper = Kube(trials.layout.kubeconfig), Supervisor(trials.layout)
    (deployment,) = kube.get("/apis/apps/v1/namespaces/quality/deployments")["items"]
    release, path = (
        deployment["metadata"]["labels"]["platform.io/release"],
        f"/apis/apps/v1/namespaces/quality/deployments/{deployment['metadata']['name']}",
    )
    loads = SteadyLoad(trials.layout, trials.artifacts, rates={"classifier": 150.0, "encoder": 8.0})
    tally = loads.tallies["classifier"]
    began = time.monotonic()
    loads.start()
    for what, field in (("KEDA asks for a second replica", "spec"), ("it is ready", "status")):
        name = {"spec": "replicas", "status": "readyReplicas"}[field]
        seconds = _seconds_until(began, lambda field=field, name=name: int(kube.get(path)[field].get(name) or 0) == 2)
        yield f"| {what} | three times the load, 150 requests a second | {seconds} |"
    began = time.monotonic()
    killed: set[int | None] = {None}
    victim = _pods(trials, release)[0]
    while len(killed) <= _DEATHS:
        with contextlib.suppress(OSError):  # it waits for its next start
            found = _process(victim, SERVER)
            if found is not None and found not in killed:
                _kill(found)
                killed.add(found)
        time.sleep(1.0)
    alerts = f"http://127.0.0.1:{keeper.port('alertmanager')}/api/v2/alerts?filter=alertname%3DModelServerRestarts"
    receivers: set[str] = set()

    def told() -> bool:
        with urllib.request.urlopen(alerts, timeout=10) as answer:
            receivers.update(each["name"] for alert in json.load(answer) for each in alert["receivers"])
        return bool(receivers)

    seconds = _seconds_until(began, told)
    yield f"| Alertmanager has ModelServerRestarts for {', '.join(sorted(receivers)) or 'nobody'} | one replica's Triton killed three times | {seconds} |"
    loads.stop()
    yield f"| users' requests | the same | {len(tally.lost)} of {tally.statuses.total()} lost |"


SCENES: Mapping[str, Callable[[ReleaseTrials], Iterator[str]]] = {"evaluation": _worse, "scaling": _scaled}
"""Of `operations`."""


def _seconds_until(began: float, so: Callable[[], bool]) -> str:
    deadline = time.monotonic() + _UNDER_WAY_SECONDS
    while time.monotonic() < deadline:
        if so():
            return f"{time.monotonic() - began:.0f} s"
        time.sleep(0.5)
    return f"**not within {_UNDER_WAY_SECONDS:.0f} s**"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.traffic_rollouts", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("kind", choices=("releases", "faults", "operations"))
    parser.add_argument("names", nargs="*", help="some of the cells; all by default")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--speed", type=float, default=SPEED, help="how much faster the minutes of a rollout pass")
    parser.add_argument("--anew", action="store_true", help="forget finished cells")
    given = parser.parse_args(arguments)
    known: Sequence[str] = {"releases": ORDER, "faults": tuple(FAULTS), "operations": tuple(SCENES)}[given.kind]
    if unknown := sorted(set(given.names) - set(known)):
        parser.error(f"there is no {', '.join(unknown)}; choose from {', '.join(known)}")
    stop_on_signals()
    layout = layout_of(PROJECT)
    path = layout.state.parent / "rollouts.jsonl"
    book = Book(path)
    try:
        with alone(layout, timeout_seconds=PATIENCE_SECONDS):
            if given.anew:
                path.unlink(missing_ok=True)
            if not _taken(ReleaseTrials.of(PROJECT, layout, given.speed), book, given.kind, given.names or known, given.runs):
                return 1
    except KeyboardInterrupt:
        print(f"Interrupted; finished cells are kept in {path}.", flush=True)
        return 130
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return int(error.exit)
    if given.kind == "operations":
        return 0
    cells = book.cells()
    print("\n".join(table(cells, given.kind, [*WANTED, *FAULTS])))
    print(f"\n{circumstances(cells, given.kind)}")
    return 0 if all(each.as_it_should for each in cells if each.table == given.kind) else 1


def _taken(trials: ReleaseTrials, book: Book, kind: str, names: Sequence[str], runs: int) -> bool:
    """Take the cells that are missing; False where the workspace does not come up. Nothing of it runs afterwards."""
    try:
        if not trials.up() and _over(trials):  # what an interrupted release left may not be ready, and is taken back
            return False
        if kind == "operations":
            for line in operations(trials, names):
                print(line, flush=True)
            return True
        loads = trials.loads()
        loads.start()
        trials.measured()
        (releases if kind == "releases" else faults)(trials, loads, book, names, runs)
        loads.stop()
        return True
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)  # whoever is impatient now would leave half of it running
        trials.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
