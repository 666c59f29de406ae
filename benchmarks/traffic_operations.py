"""What acts on served traffic beside releases, one scene after the other: for `python -m benchmarks.traffic_rollouts operations`."""

import contextlib
import json
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from benchmarks.traffic_steps import SERVER, UNDER_WAY_SECONDS, artifact_name, back, kill, pods, process_of, promoted, seconds_until
from headway.problem import Exit
from headway.release.evaluation.watched import DriftEvent
from sandbox.cluster.processes import Supervisor
from sandbox.extras import EXTRAS
from sandbox.progress import Silent
from sandbox.rehearsal.bed import RehearsalBed
from sandbox.traffic.kube import Kube
from sandbox.traffic.release_trials import CHAIN, ReleaseTrials
from sandbox.traffic.steady_load import SteadyLoad

DRIFTING = "search/encoder"
"""Whose users change."""
_DEATHS = 3
_ROUNDS_UNTIL_KNOWN = 4
"""Of forty labelled requests each: more than a version must answer well to count as sound."""


def operations(trials: ReleaseTrials, scenes: Sequence[str]) -> Iterator[str]:
    """What acts on served traffic beside releases, one scene after the other."""
    yield "| what acts | on | after |"
    yield "|---|---|---|"
    for name in scenes:
        yield from SCENES[name](trials)


def _worse(trials: ReleaseTrials) -> Iterator[str]:
    """A version that was promoted answers worse one day: labelled requests prove it, and the version of before serves again."""
    on = f"{CHAIN}, which answers worse after its promotion"
    if artifact_name(trials, trials.serving() or trials.first()) == "identical":
        back(trials)
    loads = trials.loads()
    tally = loads.tallies["classifier"]
    loads.start()
    trials.measured()
    sound = trials.serving()
    for _ in range(_ROUNDS_UNTIL_KNOWN):
        _evaluated(trials)
    promoted(trials, "identical", "what will answer worse")
    RehearsalBed(trials.layout).confuse()
    began = time.monotonic()
    ended = Exit.OK
    while ended == Exit.OK and time.monotonic() < began + UNDER_WAY_SECONDS:
        ended = _evaluated(trials)
    returned = ended == Exit.ROLLED_BACK and trials.serving() == sound
    rollout = trials.newest()
    yield f"| labelled requests prove it | {on} | {rollout.body['reason'] if rollout else '**never**'} |"
    yield f"| the version of before serves again | {on} | {f'{time.monotonic() - began:.0f} s' if returned else f'**not: {ended!r}**'} |"
    loads.stop()
    yield f"| users' requests | the same | {len(tally.lost)} of {tally.statuses.total()} lost |"


def _evaluated(trials: ReleaseTrials) -> int:
    """The exit code of one look, with what follows from it; after the time between two rounds."""
    time.sleep(60.0 / trials.speed)
    return trials.headway("evaluate", CHAIN, "--speed", f"{trials.speed:g}").wait()


def _drifted(trials: ReleaseTrials) -> Iterator[str]:
    """Users whose texts are short and long by turns send long ones alone one day: a person is told, and nothing is taken back."""
    on = f"{DRIFTING}, whose users send long texts alone one day"
    loads, serving = trials.loads(), trials.stable(DRIFTING)
    loads.start()
    began = time.monotonic()
    learned, _ = _watched_until(trials, lambda _: DriftEvent.REFERENCE in trials.drift(DRIFTING))
    yield f"| what is usual is learned | {DRIFTING}, one hour of its time at {trials.speed:g} times its speed | {learned} |"
    false = DriftEvent.DRIFTED in trials.drift(DRIFTING)
    loads.stop()
    changed = replace(trials.loads(), only={"encoder": "hose"})
    changed.start()
    found, ended = _watched_until(trials, lambda code: code != Exit.OK)
    proven = trials.drift(DRIFTING).get(DriftEvent.DRIFTED, {}).get("reason", "**never**")
    yield f"| drift is proven | {on} | {found}, exit code {ended}: {proven}{', **before it**' if false else ''} |"
    yield f"| what serves | the same | {'the same version' if trials.stable(DRIFTING) == serving else '**another one**'} |"
    changed.stop()
    tallies = [each.tallies["encoder"] for each in (loads, changed)]
    lost, sent = sum(len(each.lost) for each in tallies), sum(each.statuses.total() for each in tallies)
    yield f"| users' requests | the same, {time.monotonic() - began:.0f} s | {lost} of {sent} lost |"


def _watched_until(trials: ReleaseTrials, so: Callable[[int], bool]) -> tuple[str, int]:
    """Look for drift until `so` of a look's exit code: after how long, and that code."""
    codes = [int(Exit.OK)]

    def looked() -> bool:
        codes.append(trials.headway("drift", DRIFTING, "--speed", f"{trials.speed:g}").wait())
        return so(codes[-1])

    return seconds_until(time.monotonic(), looked, pause=5.0), codes[-1]


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
        seconds = seconds_until(began, lambda field=field, name=name: int(kube.get(path)[field].get(name) or 0) == 2)
        yield f"| {what} | three times the load, 150 requests a second | {seconds} |"
    began = time.monotonic()
    killed: set[int | None] = {None}
    victim = pods(trials, release)[0]
    while len(killed) <= _DEATHS:
        with contextlib.suppress(OSError):  # it waits for its next start
            found = process_of(victim, SERVER)
            if found is not None and found not in killed:
                kill(found)
                killed.add(found)
        time.sleep(1.0)
    alerts = f"http://127.0.0.1:{keeper.port('alertmanager')}/api/v2/alerts?filter=alertname%3DModelServerRestarts"
    receivers: set[str] = set()

    def told() -> bool:
        with urllib.request.urlopen(alerts, timeout=10) as answer:
            receivers.update(each["name"] for alert in json.load(answer) for each in alert["receivers"])
        return bool(receivers)

    seconds = seconds_until(began, told)
    yield f"| Alertmanager has ModelServerRestarts for {', '.join(sorted(receivers)) or 'nobody'} | one replica's Triton killed three times | {seconds} |"
    loads.stop()
    yield f"| users' requests | the same | {len(tally.lost)} of {tally.statuses.total()} lost |"


SCENES: Mapping[str, Callable[[ReleaseTrials], Iterator[str]]] = {"evaluation": _worse, "drift": _drifted, "scaling": _scaled}
"""Of `operations`."""
