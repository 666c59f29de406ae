"""Evidence from Prometheus: raw counters of every pod, from before the tick to its end, as one `Raw`.

One endpoint answers a whole reading; where it does not, the next is asked anew, because two Prometheus servers scrape at different times.
The trap: a counter first seen in this tick may be an old one that was not scraped for a while, so the last value of each is looked up far
back before a series counts as new-born.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from headway.contract.xids import FATAL as FATAL_XIDS
from headway.problem import Problem, ProblemLevel
from headway.release.evidence import prefix_cache, queries, tokens
from headway.release.evidence.counted import LATENCY, Counted, Risen, mesh_counts
from headway.release.evidence.drained import NOT_YET, DrainMeasurement, EarlierScrapes, newest, requests_since, waiting
from headway.release.evidence.prometheus import Prometheus, PrometheusEndpoint, UnansweredError
from headway.release.evidence.reading import ArmNames, JudgedService, RawReading, TickWindow, unanswered
from headway.release.evidence.samples import Series, UnreadableError, appeared, rises, scraped
from headway.wire import CLASS_HEADER

REMEMBERED = "6h"
"""How far back a series' last value is looked for. One that was silent for longer counts as new."""
_SCRAPES_BACK = 8
"""How far back a look at an arm that should get nothing goes."""


@dataclass(frozen=True, kw_only=True)
class ScrapeSettings:
    """How the sources scrape."""

    scrape_seconds: float = 15.0
    settle_seconds: float = 5.0
    """How long after a scrape its samples can be queried."""

    @property
    def patience_seconds(self) -> float:
        """Gap between two scrapes from which on a target counts as not scraped: two in a row were missed."""
        return 3.2 * self.scrape_seconds


class _Asking:
    """The questions of one reading, put to one endpoint."""

    def __init__(self, source: Prometheus, ends: Sequence[float]) -> None:
        self._source, self.ends = source, ends
        self.asked: list[str] = []

    def vector(self, query: str) -> list[Series]:
        self.asked.append(f"{query} @ {self.ends[-1]:.3f}")
        return self._source.samples(query, self.ends[-1])

    def window(self, selector: str, before: float = 0.0) -> list[Series]:
        """All samples of the reading, and of the seconds before."""
        length = round((self.ends[-1] - self.ends[0] + before) * 1000)
        return self.vector(f"{selector}[{length}ms]")

    def rises(self, selector: str) -> list[tuple[Mapping[str, str], Any]]:
        """What each counter rose by in each tick."""
        return rises(self.window(selector), self.before(selector), self.ends)

    def before(self, selector: str) -> list[Series]:
        """The last sample of each series up to the reading."""
        query = f"last_over_time({selector}[{REMEMBERED}])"
        self.asked.append(f"{query} @ {self.ends[0]:.3f}")
        return self._source.samples(query, self.ends[0])


class PrometheusEvidence:
    """The `Evidence` of production, and of a sandbox with monitoring. Endpoints in order of preference."""

    def __init__(
        self, endpoints: Sequence[PrometheusEndpoint], settings: ScrapeSettings | None = None, timeout_seconds: float = 5.0
    ) -> None:
        if not endpoints:
            raise ValueError("no endpoint. Nobody could be asked. Give the address of a Prometheus")
        self._settings = settings or ScrapeSettings()
        self._sources = [Prometheus(endpoint, timeout_seconds) for endpoint in endpoints]

    @property
    def settle_seconds(self) -> float:
        return self._settings.settle_seconds

    def close(self) -> None:
        for source in self._sources:
            source.close()

    def read(self, service: JudgedService, arms: ArmNames, window: TickWindow) -> RawReading:
        """Raw counters of one tick; never raises for a source that is down."""
        return self.readings(service, arms, [window.start, window.end])[0]

    def history(self, service: JudgedService, arms: ArmNames, before: float, seconds: float) -> RawReading:
        """What the stable version did in the `seconds` before."""
        return self.read(service, ArmNames(stable=arms.stable), TickWindow(before - seconds, before))

    def time(self) -> float | None:
        """What time it is where the first that answers runs; None where none does."""
        for source in self._sources:
            try:
                return source.samples("vector(time())", None)[0].samples[-1][1]
            except (UnansweredError, IndexError):
                continue
        return None

    def drained(self, service: JudgedService, arm: str, seen: EarlierScrapes | None) -> tuple[DrainMeasurement, EarlierScrapes | None]:
        """Whether `arm` still gets requests; never raises for a source that is down."""
        reasons: list[str] = []
        back = f"[{_SCRAPES_BACK * self._settings.scrape_seconds * 1000:.0f}ms]"
        up = f"{queries.UP}{{namespace=~{queries.quoted('|' + service.tenant)}}}"
        selectors = (queries.at_replica(queries.REQUESTS, service.tenant, (arm,)), queries.unreached(service.tenant, (arm,)))
        for source in self._sources:
            try:
                scrapes = source.samples(up + back, None)
                known = seen if seen and seen.endpoint == source.endpoint.shown else None
                against = known or EarlierScrapes(endpoint=source.endpoint.shown, scrapes=newest(scrapes))
                if waiting(scrapes, against):
                    return DrainMeasurement(requests=None, reason=NOT_YET), against
                alive = source.samples(up, None)
                counters = [one for selector in selectors for one in source.samples(selector + back, None)]
                return requests_since(arm, counters, scrapes, alive, against), against
            except UnansweredError as error:
                reasons.append(str(error))
        return DrainMeasurement(requests=None, reason="; ".join(reasons)), seen

    def readings(self, service: JudgedService, arms: ArmNames, ends: Sequence[float]) -> list[RawReading]:
        """A reading for each tick between two consecutive `ends`, all from the same answers."""
        windows = [TickWindow(start, end) for start, end in itertools.pairwise(ends)]
        reasons: list[str] = []
        queries_sent: list[str] = []
        for source in self._sources:
            asking = _Asking(source, ends)
            try:
                return self._from(asking, service, arms, windows, source.endpoint.shown)
            except (UnansweredError, UnreadableError) as error:
                reasons.append(str(error))
                queries_sent = asking.asked
        shown = [source.endpoint.shown for source in self._sources]
        return [unanswered(service, window, "; ".join(reasons), queries_sent, shown) for window in windows]

    def by_pod(self, service: JudgedService, arm: str, ends: Sequence[float]) -> tuple[dict[str, list[RawReading]], RawReading]:
        """Readings of each pod of one arm by itself, for `backtest`, and the arm's whole last reading. Raises UnansweredError."""
        arms = ArmNames(stable=arm)
        reasons: list[str] = []
        for source in self._sources:
            asking = _Asking(source, ends)
            try:
                requests = asking.rises(queries.at_replica(queries.REQUESTS, service.tenant, arms.present))
                durations = asking.rises(queries.at_replica(queries.DURATIONS, service.tenant, arms.present))
                up = self._up(asking, service, arms, [labels for labels, _ in requests])["control"]
                pods = sorted({labels.get(queries.POD, "") for labels, _ in requests})
                streams = _streams(asking, service, arms.present)
                broken = asking.rises(queries.of_pods(queries.BROKEN, service.tenant, arms.present))
                whole = mesh_counts(service, arms, requests, durations, [], streams)
                readings: dict[str, list[RawReading]] = {}
                for pod in pods:
                    asked, lasted, spoken = (
                        _of_pod(pod, requests),
                        _of_pod(pod, durations),
                        {n: _of_pod(pod, s) for n, s in streams.items()},
                    )
                    judged = replace(service, edges=whole.edges)
                    counted = mesh_counts(judged, arms, asked, lasted, [], spoken, _of_pod(pod, broken))
                    readings[pod] = [counted.arms(place, {})["stable"] for place in range(len(ends) - 1)]
                return readings, {"edges": dict(whole.edges), "up": up, "classes": list(service.classes) or ["all"]}
            except (UnansweredError, UnreadableError) as error:
                reasons.append(str(error))
        raise UnansweredError("; ".join(reasons))

    def arms_of(self, tenant: str, model: str, at: float) -> list[str]:
        """Deployments of a model that the mesh counted requests of, within the last six hours. Raises UnansweredError."""
        pattern = queries.quoted(f"{model}-.*")
        selector = f'{queries.REQUESTS}{{{queries.REPORTER}="{queries.AT_REPLICA}",{queries.WORKLOAD_NAMESPACE}={queries.quoted(tenant)}'
        query = f"count by ({queries.WORKLOAD}) (last_over_time({selector},{queries.WORKLOAD}=~{pattern}}}[{REMEMBERED}]))"
        return sorted(one.labels[queries.WORKLOAD] for one in self._sources[0].samples(query, at))

    def preflight(self, service: JudgedService, arms: ArmNames, *, now: float, seconds: float = 900.0) -> Sequence[Problem]:
        """Why there could be no evidence of `service`, from what its stable arm showed in the last `seconds`."""
        problems: list[Problem] = []
        for source in self._sources:
            try:
                source.samples("vector(1)", now)
            except UnansweredError as error:
                problems.append(
                    Problem(
                        fact=str(error),
                        consequence="A release could not be judged by it",
                        remedy="Check the address, the token and the certificates",
                        level=ProblemLevel.ERROR if len(self._sources) == 1 else ProblemLevel.WARNING,
                    )
                )
        raw = self.history(service, arms, now, seconds)
        if not raw["answered"]:
            return (
                *problems,
                Problem(fact=raw["reason"], consequence="The arms could not be compared", remedy="Mend the source, then start again"),
            )
        return (*problems, *_shortcomings(service, arms, raw))

    def _from(
        self, asking: _Asking, service: JudgedService, arms: ArmNames, windows: Sequence[TickWindow], endpoint: str
    ) -> list[RawReading]:
        namespace, present = service.tenant, arms.present
        requests = asking.rises(queries.at_replica(queries.REQUESTS, namespace, present))
        durations = asking.rises(queries.at_replica(queries.DURATIONS, namespace, present)) if _judges(service, LATENCY) else []
        lost = asking.rises(queries.unreached(namespace, present))
        broken = asking.rises(queries.of_pods(queries.BROKEN, namespace, present))
        counted = mesh_counts(service, arms, requests, durations, lost, _streams(asking, service, present), broken)
        up = self._up(asking, service, arms, [labels for labels, _ in requests])
        absent: set[str] = set()
        alone, engine = self._of_servers(asking, service, arms, counted, absent)
        spoken = asking.rises(tokens.selector(namespace, present)) if engine.startswith(tokens.ENGINE) else []
        canary = self._health(asking, service, arms, absent, len(windows))
        said = [tokens.of_tick(arms, spoken, requests, counted, place) for place in range(len(windows))]
        shown = [prefix_cache.compared(counted.arms(place, alone[place]), said[place]) for place in range(len(windows))]
        return [
            {
                "window": [window.start, window.end],
                "answered": True,
                "reason": "",
                "classes": list(service.classes) or ["all"],
                "edges": {name: list(ends) for name, ends in sorted(counted.edges.items())},
                "arms": shown[place][0],
                "up": {"canary": up["canary"][place], "control": up["control"][place]},
                **canary[place],
                **({"tokens": said[place]} if said[place] else {}),
                **({"cached": shown[place][1]} if shown[place][1] else {}),
                "absent": sorted(absent | counted.absent),
                "queries": asking.asked,
                "endpoints": [endpoint],
            }
            for place, window in enumerate(windows)
        ]

    def _up(self, asking: _Asking, service: JudgedService, arms: ArmNames, mesh: Sequence[Mapping[str, str]]) -> dict[str, list[bool]]:
        """By canary and control and tick: whether what shows its counters was scraped throughout."""
        patience = self._settings.patience_seconds
        jobs = tuple({labels.get("job", "") for labels in mesh})
        of = f",job=~{queries.one_of(jobs)}" if jobs else ""
        series = asking.window(f"{queries.UP}{{namespace=~{queries.quoted('|' + service.tenant)}{of}}}", before=patience)
        ticks = list(zip(asking.ends, asking.ends[1:], strict=False))

        def whole(arm: str) -> list[bool]:
            targets = {(labels.get("job"), labels.get("instance")) for labels in mesh if labels.get(queries.WORKLOAD) == arm}
            pods = queries.compiled_pods_of(arm)
            mine = [
                one.samples
                for one in series
                if (one.labels.get("job"), one.labels.get("instance")) in targets or pods.fullmatch(one.labels.get("pod", ""))
            ]
            complete: list[bool] = []
            for start, end in ticks:
                there = [one for one in mine if any(start < moment <= end for moment, _ in one)]
                complete.append(bool(there) and all(scraped(one, start, end, patience) for one in there))
            return complete

        controls = [whole(arm) for arm in (arms.stable, arms.baseline) if arm]
        control = [all(flags) for flags in zip(*controls, strict=True)]
        return {"control": control, "canary": whole(arms.canary) if arms.canary else [True] * len(ticks)}

    def _of_servers(
        self, asking: _Asking, service: JudgedService, arms: ArmNames, counted: Counted, absent: set[str]
    ) -> tuple[list[dict[str, dict[str, float | None]]], str]:
        """By tick and arm: seconds in the queue and GPU seconds, from what the pods and their GPUs say; and which series of the server said
        the first, empty where none did."""
        use: list[dict[str, dict[str, float | None]]] = [{arm: {} for arm in arms.present} for _ in range(len(asking.ends) - 1)]
        waits: dict[str, tuple[Any, Any]] = {}
        engine = ""
        for seconds_of, number_of, unit in queries.QUEUE_SECONDS:
            seconds = _by_arm(arms, asking.rises(queries.of_pods(seconds_of, service.tenant, arms.present)))
            if not seconds:
                continue
            number = _by_arm(arms, asking.rises(queries.of_pods(number_of, service.tenant, arms.present)))
            waits = {arm: (seconds[arm] * unit, number.get(arm, np.zeros_like(seconds[arm]))) for arm in seconds}
            engine = seconds_of
            break
        else:
            absent.add("time in queue")
        for arm, (seconds, number) in waits.items():
            for place, (waited, answered) in enumerate(zip(seconds, number, strict=True)):
                # Seconds of all requests that the mesh counted, at the mean of those that the server counted.
                use[place][arm]["queued"] = float(waited / answered * counted.total(arm, place)) if answered > 0 else None
        activity = [
            *asking.window(queries.of_exported_pods(queries.ACTIVITY, service.tenant, arms.present)),
            *asking.window(queries.of_pods(queries.ACTIVITY, service.tenant, arms.present)),
        ]
        if not activity:
            absent.add(queries.ACTIVITY)
        for place, (start, end) in enumerate(zip(asking.ends, asking.ends[1:], strict=False)):
            for arm in arms.present:
                pods = queries.compiled_pods_of(arm)
                mine = [
                    np.mean([value for moment, value in one.samples if start < moment <= end])
                    for one in activity
                    if pods.fullmatch(_pod(one.labels)) and any(start < moment <= end for moment, _ in one.samples)
                ]
                if mine:
                    use[place][arm]["busy"] = float(np.sum(mine)) * (end - start)
                    use[place][arm]["available"] = len(mine) * (end - start)
        return use, engine

    def _health(self, asking: _Asking, service: JudgedService, arms: ArmNames, absent: set[str], ticks: int) -> list[dict[str, Any]]:
        """By tick: what is said of the canary's pods. States are those at the end of the reading."""
        nothing = {"ready": None, "restarts": 0, "out_of_memory": False, "fatal_gpu_error": False, "memory": None, "control_memory": None}
        if arms.canary is None:
            return [dict(nothing) for _ in range(ticks)]
        canary, namespace = (arms.canary,), service.tenant
        ready = asking.vector(queries.of_pods(queries.READY, namespace, canary, 'condition="true"'))
        restarts = asking.rises(queries.of_pods(queries.RESTARTS, namespace, canary))
        killed = asking.vector(queries.of_pods(queries.TERMINATED, namespace, canary, f'reason="{queries.OUT_OF_MEMORY}"'))
        memory = self._memory(asking, namespace, arms)
        of_canary = [pods(queries.XID, namespace, canary) for pods in (queries.of_exported_pods, queries.of_pods)]
        xids = [one for selector in of_canary for one in asking.window(selector)]
        earlier = [one for selector in of_canary for one in asking.before(selector)] if xids else []
        for name, series in ((queries.READY, ready), (queries.RESTARTS, restarts), (queries.MEMORY_USED, memory), (queries.XID, xids)):
            if not series:
                absent.add(name)
        health: list[dict[str, Any]] = []
        for place, (start, end) in enumerate(zip(asking.ends, asking.ends[1:], strict=False)):
            codes = appeared(xids, earlier, start, end)
            health.append(
                {
                    "ready": any(one.samples[-1][1] == 1 for one in ready) if ready else None,
                    "restarts": int(sum(risen[place] for _, risen in restarts)),
                    "out_of_memory": any(one.samples[-1][1] == 1 for one in killed),
                    "fatal_gpu_error": bool(codes & FATAL_XIDS),
                    "memory": memory.get(arms.canary),
                    "control_memory": memory.get(arms.baseline or "", memory.get(arms.stable)),
                }
            )
        return health

    def _memory(self, asking: _Asking, namespace: str, arms: ArmNames) -> dict[str, float]:
        """The largest share in use over the GPUs of each arm of which one is known."""
        shares: dict[str, float] = {}
        for selector in (queries.of_exported_pods, queries.of_pods):
            used, free = (selector(name, namespace, arms.present) for name in (queries.MEMORY_USED, queries.MEMORY_FREE))
            for one in asking.vector(f"{used} / ({used} + {free})"):
                share = one.samples[-1][1]
                for arm in arms.present:
                    if math.isfinite(share) and queries.compiled_pods_of(arm).fullmatch(_pod(one.labels)):
                        shares[arm] = max(share, shares.get(arm, 0.0))
            if shares:
                return shares
        return shares


def _of_pod(pod: str, series: Risen) -> Risen:
    return [one for one in series if one[0].get(queries.POD, "") == pod]


def _streams(asking: _Asking, service: JudgedService, arms: tuple[str, ...]) -> dict[str, Risen]:
    """By histogram, what the arms' proxies counted of streams of tokens; not asked for where a release is judged by other ones."""
    wanted = {name: metric for name, (metric, _) in queries.STREAMS.items() if _judges(service, name)}
    return {name: asking.rises(queries.of_pods(metric, service.tenant, arms)) for name, metric in wanted.items()}


def _judges(service: JudgedService, histogram: str) -> bool:
    """Whether a release may be judged by it: one that has begun goes on by those of its beginning."""
    return not service.edges or histogram in service.edges


def _pod(labels: Mapping[str, str]) -> str:
    return labels.get("exported_pod") or labels.get("pod", "")


def _by_arm(arms: ArmNames, risen: Sequence[tuple[Mapping[str, str], Any]]) -> dict[str, Any]:
    """Sums over the pods of each arm that has any."""
    sums: dict[str, Any] = {}
    for arm in arms.present:
        pods = queries.compiled_pods_of(arm)
        mine = [values for labels, values in risen if pods.fullmatch(_pod(labels))]
        if mine:
            sums[arm] = np.sum(mine, axis=0)
    return sums


def _shortcomings(service: JudgedService, arms: ArmNames, raw: RawReading) -> list[Problem]:
    """What the stable arm's own counters lack."""
    problems: list[Problem] = []
    stable = raw["arms"].get("stable")
    if not raw["edges"] or stable is None or sum(stable["requests"]) == 0:
        problems.append(
            Problem(
                fact=f"{queries.REQUESTS} shows no request of {service.tenant}/{arms.stable} at its replicas",
                consequence="A new version would have nothing to be compared with",
                remedy="Check that the pods have proxies, that these are scraped, and that somebody calls the model",
            )
        )
    elif service.classes and sum(stable["requests"]) < stable["unclassified"]:
        problems.append(
            Problem(
                fact=f"most requests carry none of the classes {', '.join(service.classes)} in {queries.CLASS}",
                consequence="Most requests would not be compared",
                remedy=f"Update the tenant's stack, whose filter lets the replicas' proxies write {CLASS_HEADER}, or remove the classes",
            )
        )
    if stable is not None and not stable["tells_copies"]:
        problems.append(
            Problem(
                fact=f"no request of {service.tenant}/{arms.stable} carries the label {queries.MIRRORED}",
                consequence="Copies could not be told from users' requests, so a mirror stage would never end",
                remedy="Let the mesh write the label, or leave rollout.mirror out",
                level=ProblemLevel.WARNING,
            )
        )
    problems.extend(
        Problem(
            fact=f"nobody shows {name}",
            consequence="The new version is not judged by it",
            remedy="Let it be scraped, if it should be",
            level=ProblemLevel.WARNING,
        )
        for name in raw["absent"]
    )
    return problems
