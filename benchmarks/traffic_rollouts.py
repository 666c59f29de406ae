"""Whole releases on real traffic, for docs/benchmarks.md: `python -m benchmarks.traffic_rollouts KIND [--runs N]`.

`releases` tries each of the classifier's releases, `language` each of the language model's; `faults` releases one that is as good as the
stable one, and kills something in the middle; `operations` are the scenes of `benchmarks.traffic_operations`. Every cell but those of the
last is a real release by the command on the demonstration's workspace, begun from a stable version that behaves as the first; finished
cells are kept in `rollouts.jsonl` beside the workspace, so that an interrupted table goes on where it was. Needs .venv-traffic. A promoted
release is the next one's stable version; where it behaves otherwise, `back` returns to the first by a person's promotion, which is no
cell. `language` needs .venv-llm too, and a workspace with its own tenant: another demonstration's is begun anew.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from benchmarks.traffic_operations import SCENES, operations
from benchmarks.traffic_results import Book, TrafficCell, circumstances, table
from benchmarks.traffic_steps import SERVER, artifact_name, back, kept_process, kill, over, pods_process, seconds_until
from headway.problem import UserError
from headway.release.driver.rollout_state import RolloutState
from sandbox.cluster.control_plane import SandboxCluster
from sandbox.cluster.control_plane_programs import API_SERVER
from sandbox.extras import EXTRAS
from sandbox.progress import Silent
from sandbox.traffic.demo import alone, stop_on_signals
from sandbox.traffic.kube import Kube
from sandbox.traffic.mesh import envoy
from sandbox.traffic.release_trials import CHAIN, ReleaseTrials, TrialResult, layout_of
from sandbox.traffic.steady_load import SteadyLoad
from sandbox.traffic.tried_models import PROMOTED, TRIED

PROJECT = Path(__file__).parents[1]
LATE = 504
MODEL = "triton_python_backend_stub"
PATIENCE_SECONDS = 60.0
"""How long one that was interrupted may take to end what it started."""
_SEEN_SECONDS = 2.0
"""Until the proxies surely have a replica that is ready."""


Fault = Callable[[ReleaseTrials, "subprocess.Popen[bytes]", RolloutState], "subprocess.Popen[bytes] | None"]
"""Breaks something, and does what then mends it; answers the command that goes on with the release where that is another one."""


def _servers(arm: str, program: str) -> Fault:
    def fault(trials: ReleaseTrials, child: "subprocess.Popen[bytes]", rollout: RolloutState) -> None:
        kill(pods_process(trials, rollout.release if arm == "canary" else rollout.stable, program))

    return fault


def _part(name: str, mend: Callable[[ReleaseTrials], object]) -> Fault:
    def fault(trials: ReleaseTrials, child: "subprocess.Popen[bytes]", rollout: RolloutState) -> None:
        kill(kept_process(trials, name))
        mend(trials)

    return fault


def _one_of_two(trials: ReleaseTrials, child: "subprocess.Popen[bytes]", rollout: RolloutState) -> None:
    """Give the stable version a second replica, and kill the first one's server once both serve."""
    kube = Kube(trials.layout.kubeconfig)
    path = f"/apis/apps/v1/namespaces/quality/deployments/classifier-{rollout.stable}"
    kube.merge(f"{path}/scale", {"spec": {"replicas": 2}})
    seconds_until(time.monotonic(), lambda: int(kube.get(path)["status"].get("readyReplicas") or 0) == 2)
    time.sleep(_SEEN_SECONDS)
    kill(pods_process(trials, rollout.stable, SERVER))


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


def releases(trials: ReleaseTrials, loads: SteadyLoad, book: Book, kind: str, names: Sequence[str], runs: int) -> None:
    """Each release `runs` times."""
    wanted, alike = TRIED[kind].wanted, TRIED[kind].alike
    for run, name in ((run, name) for run in range(1, runs + 1) for name in names):
        if not book.has(kind, name, run):
            serving = artifact_name(trials, trials.serving() or trials.first())
            played = "stable" if name == serving == "identical" else name
            if not over(trials) or (trials.serving() and (serving not in alike or serving == played)):
                back(trials)
            book.add(_cell(trials, loads, kind, name, run, wanted[name].met, lambda played=played: _whole(trials, loads, played)))


def faults(trials: ReleaseTrials, loads: SteadyLoad, book: Book, kind: str, names: Sequence[str], runs: int) -> None:
    """Each fault `runs` times, in the middle of a release that is as good as what serves."""
    for run, name in ((run, name) for run in range(1, runs + 1) for name in names):
        if not book.has(kind, name, run):
            if artifact_name(trials, trials.serving() or trials.first()) not in TRIED["releases"].alike or not over(trials):
                back(trials)
            played = "stable" if artifact_name(trials, trials.serving() or trials.first()) == "identical" else "identical"

            def met(ended: TrialResult, name: str = name) -> bool:
                return PROMOTED.met(ended) or (name in MAY_FAIL and ended.outcome == "rolled back")

            book.add(_cell(trials, loads, kind, name, run, met, partial(_broken, trials, loads, FAULTS[name], played)))


def _cell(
    trials: ReleaseTrials,
    loads: SteadyLoad,
    table: str,
    name: str,
    run: int,
    met: Callable[[TrialResult], bool],
    play: Callable[[], TrialResult],
) -> TrafficCell:
    tally = loads.tallies[trials.served.model]
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
    return trials.release(name, loads.tallies[trials.served.model], "table", quiet=True)


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
        child.wait(timeout=trials.held_seconds)
    except subprocess.TimeoutExpired:
        held = True
        trials.headway("release", "rollback", CHAIN, "--reason", "held for too long; nobody is there to decide", quiet=True).wait()
        child.wait()
    found = trials.ended(played, before, time.monotonic() - began, tally.answered_by - seen)
    return replace(found, outcome="held") if held and found.outcome != "promoted" else found


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.traffic_rollouts", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("kind", choices=(*TRIED, "faults", "operations"))
    parser.add_argument("names", nargs="*", help="some of the cells; all by default")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--speed", type=float, help="how much faster the minutes of a rollout pass")
    parser.add_argument("--anew", action="store_true", help="forget finished cells")
    given = parser.parse_args(arguments)
    tried = TRIED.get(given.kind, TRIED["releases"])
    known: Sequence[str] = {"faults": tuple(FAULTS), "operations": tuple(SCENES)}.get(given.kind, tried.order)
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
            if not _taken(
                tried.on(PROJECT, layout, given.speed or tried.speed, Silent()), book, given.kind, given.names or known, given.runs
            ):
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
    print("\n".join(table(cells, given.kind, tried.wanted, [*tried.wanted, *FAULTS])))
    print(f"\n{circumstances(cells, given.kind)}")
    return 0 if all(each.as_it_should for each in cells if each.table == given.kind) else 1


def _taken(trials: ReleaseTrials, book: Book, kind: str, names: Sequence[str], runs: int) -> bool:
    """Take the cells that are missing; False where the workspace does not come up. Nothing of it runs afterwards."""
    try:
        if not trials.up() and over(trials):  # what an interrupted release left may not be ready, and is taken back
            return False
        if kind == "operations":
            for line in operations(trials, names):
                print(line, flush=True)
            return True
        loads = trials.loads()
        loads.start()
        trials.measured()
        (releases if kind in TRIED else faults)(trials, loads, book, kind, names, runs)
        loads.stop()
        return True
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)  # whoever is impatient now would leave half of it running
        trials.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
