"""The loop that Alertmanager asks why an alert fires: it answers at once, and diagnoses after that, a few services at a time.

How Alertmanager asks (v0.28.1): a notification whose answer is 5xx or none is sent again until its group's next turn, which is `group_interval`
(`dispatch/dispatch.go`, `context.WithTimeout(ag.ctx, ag.timeout(ag.opts.GroupInterval))`), one that is answered 4xx never
(`notify/util.go`, `Retrier.Check`; `notify/webhook/webhook.go`). So a loop that has no room says 503, and what is no notification 400.

What is lost: whoever was still to be asked when the process is killed. The next one begins with every page that fires and is not explained, and
Alertmanager repeats every page.
"""

import http.server
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client import Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from headway.diagnosis import notification
from headway.diagnosis.alertmanager import AlertmanagerError, Alertmanagers
from headway.diagnosis.cause_alert import MessagePlaces, told
from headway.diagnosis.gathering import gather, suspects
from headway.diagnosis.reasoning import Diagnosis, DiagnosisVerdict, diagnoses
from headway.environment.port import OutOfReachError
from headway.listening import IDLE_SECONDS, asked_body, pages
from headway.problem import UserError, printable
from headway.release.service_place import ServicePlace

AT_ONCE = 4
MOST_WAITING = 200
"""Services: an environment has about a hundred."""
SPAN_SECONDS = 3600.0
"""How far back a diagnosis looks for the beginning, as `headway diagnose` does."""
FRESH_SECONDS = 60.0
"""Alerts of one service that come within so long are answered by one diagnosis."""
PATIENCE_SECONDS = 300.0
"""A diagnosis that takes longer hangs, and the process is started anew."""


@dataclass(frozen=True, kw_only=True)
class DiagnosedService:
    """`receiver`: whom its contract names, whatever an alert's labels say."""

    place: ServicePlace
    receiver: str


Services = Callable[[], Mapping[str, DiagnosedService]]
"""Every service of the environment by its chain, as its contract says now."""
Diagnose = Callable[[ServicePlace, float], tuple[Diagnosis, ...]]


def diagnosed(place: ServicePlace, at: float) -> tuple[Diagnosis, ...]:
    """Of one service at a moment in Unix seconds."""
    return diagnoses(gather(place, at=at, since=SPAN_SECONDS))


@dataclass
class AlertLoop:
    """`clock` in seconds that only grow, `now` in Unix seconds."""

    services: Services
    alertmanagers: Alertmanagers
    places: MessagePlaces
    clock: Callable[[], float]
    now: Callable[[], float]
    say: Callable[[str], None]
    diagnose: Diagnose = diagnosed

    def __post_init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: dict[str, bool] = {}
        """By service, in the order in which they are asked; whether it is only suspected."""
        self._running: dict[str, float] = {}
        self._last: dict[str, float] = {}
        self._verdicts = dict.fromkeys(DiagnosisVerdict, 0)
        self._failed = self._undelivered = self._refused = 0
        self._seconds = 0.0
        self._ending = False

    def take(self, body: bytes) -> int:
        """The status that a notification is answered with."""
        try:
            fires = notification.firing(body)
        except ValueError:
            return 400
        try:
            asked = notification.asked(fires, self.services())
        except (UserError, OSError, OutOfReachError) as failure:
            self.say(f"which services there are cannot be read: {printable(str(failure))}")
            return 503
        return 200 if self._add({**dict.fromkeys(asked.named, False), **dict.fromkeys(asked.suspected, True)}) else 503

    def begin(self) -> None:
        """Ask for every page that fires and is not explained; what nobody answers is asked again by Alertmanager."""
        try:
            fires, explained = self.alertmanagers.pages(), self.alertmanagers.explained()
            asked = notification.asked(fires, self.services())
        except (AlertmanagerError, UserError, OSError, OutOfReachError) as failure:
            self.say(f"what fires cannot be read: {printable(str(failure))}")
            return
        self._add({chain: False for chain in asked.named if chain not in explained})

    def _add(self, asked: Mapping[str, bool]) -> bool:
        """Whether there was room for all; else for none."""
        with self._changed:
            moment = self.clock()
            new = {
                chain: suspected
                for chain, suspected in asked.items()
                if chain not in self._waiting or (self._waiting[chain] and not suspected)
                if chain not in self._running and moment - self._last.get(chain, -FRESH_SECONDS) >= FRESH_SECONDS
            }
            if len(self._waiting.keys() | new.keys()) > MOST_WAITING or self._ending:
                self._refused += 1
                return False
            self._waiting |= new
            self._changed.notify_all()
            return True

    def work(self) -> None:
        """One service after the other, until told to end and none is left. For a thread of its own, of `AT_ONCE`."""
        while (chain := self._next()) is not None:
            began = self.clock()
            try:
                self._one(chain)
            except AlertmanagerError as failure:
                self._undelivered += 1
                self.say(f"{chain}: nobody could be told why: {printable(str(failure))}")
            except Exception as failure:  # one service's objects must not end the answers to all others
                self._failed += 1
                self.say(f"{chain}: {type(failure).__name__}: {printable(str(failure))[:300]}")
            finally:
                with self._changed:
                    del self._running[chain]
                    self._last[chain] = self.clock()
                    self._seconds += self.clock() - began

    def _next(self) -> str | None:
        """The next to ask. Suspects are asked about together, and only those that look ill are left."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._ending)
                if not self._waiting:
                    return None
                named = next((chain for chain, suspected in self._waiting.items() if not suspected), None)
                if named is not None:
                    del self._waiting[named]
                    self._running[named] = self.clock()
                    return named
                doubted, self._waiting = list(self._waiting), {}
            self._add(dict.fromkeys(self._ill(doubted), False))

    def _ill(self, chains: list[str]) -> Iterator[str]:
        try:
            known = self.services()
            those = tuple(known[chain].place for chain in chains if chain in known)
            yield from (each.chain for each in suspects(those, at=self.now(), since=SPAN_SECONDS))
        except Exception as failure:  # as in `work`
            self._failed += 1
            self.say(f"{len(chains)} services cannot be looked over: {type(failure).__name__}: {printable(str(failure))[:300]}")

    def _one(self, chain: str) -> None:
        service = self.services().get(chain)
        if service is None:  # its contract has gone meanwhile
            return
        found = self.diagnose(service.place, self.now())
        undecided = not any(each.verdict is DiagnosisVerdict.CAUSE for each in found)
        explained = self.alertmanagers.explained() if undecided else ()
        if alerts := told(found, service.receiver, self.places, explained):
            self.alertmanagers.give(alerts)
        for each in found:
            self._verdicts[each.verdict] += 1
        for each in alerts:
            self.say(each["annotations"]["summary"])

    def end(self) -> None:
        """Take nothing more; whoever waits is still answered."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()

    @property
    def well(self) -> bool:
        """Whether no diagnosis hangs."""
        with self._changed:
            return all(self.clock() - since < PATIENCE_SECONDS for since in self._running.values())

    def collect(self) -> Iterator[Metric]:
        """As prometheus_client asks a collector."""
        verdicts = CounterMetricFamily("headway_diagnosis_verdicts", "Diagnoses that alerts asked for.", labels=("verdict",))
        for verdict, number in self._verdicts.items():
            verdicts.add_metric((verdict.value,), number)
        yield verdicts
        yield CounterMetricFamily("headway_diagnosis_seconds", "Time that diagnoses took.", self._seconds)
        yield CounterMetricFamily("headway_diagnosis_failed", "Diagnoses that ended without an answer.", self._failed)
        yield CounterMetricFamily("headway_diagnosis_undelivered", "Diagnoses that no Alertmanager took.", self._undelivered)
        yield CounterMetricFamily("headway_diagnosis_refused", "Notifications for which there was no room.", self._refused)
        yield GaugeMetricFamily("headway_diagnosis_waiting", "Services that are still to be diagnosed.", len(self._waiting))

    def text(self) -> str:
        """In Prometheus' text format."""
        return generate_latest(self).decode()  # pyright: ignore[reportArgumentType]  it asks for `collect` alone


def answering(loop: AlertLoop) -> type[http.server.BaseHTTPRequestHandler]:
    """`POST /alerts` for Alertmanager, `/healthz` and `/metrics`."""
    shown = pages({"/healthz": lambda: (200, "well\n") if loop.well else (503, "stuck\n"), "/metrics": lambda: (200, loop.text())})

    class Answering(shown):  # type: ignore[valid-type,misc]
        timeout = IDLE_SECONDS

        def do_POST(self) -> None:
            try:
                status = loop.take(asked_body(self, notification.LARGEST_BYTES)) if self.path == "/alerts" else 404
            except ValueError:
                self.close_connection = True
                status = 413
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

    return Answering


def threads(loop: AlertLoop) -> list[threading.Thread]:
    """The workers, at work."""
    found = [threading.Thread(target=loop.work, daemon=True) for _ in range(AT_ONCE)]
    for each in found:
        each.start()
    return found
