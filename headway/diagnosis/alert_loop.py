"""The loop that Alertmanager asks why an alert fires: it answers at once, and diagnoses after that, a few services at a time.

How Alertmanager asks (v0.28.1): a notification whose answer is 5xx or none is sent again until its group's next turn, which is `group_interval`
(`dispatch/dispatch.go`, `context.WithTimeout(ag.ctx, ag.timeout(ag.opts.GroupInterval))`), one that is answered 4xx never
(`notify/util.go`, `Retrier.Check`; `notify/webhook/webhook.go`). So a loop that has no room says 503, and what is no notification 400.

What is lost: whoever was still to be asked when the process is killed. The next one begins with every page that fires and is not explained, and
Alertmanager repeats every page.

After each notification a page is looked at a second time, within a minute, when there is more to compare, for another fault may have begun under
the page of one before: what then is another cause is told as a correction, once for each page that begins (`episode.py`). That nobody knows
why is told by the second look alone. A notification of what has ended ends what was told of it.
"""

import http.server
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from prometheus_client import Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from headway.diagnosis import episode, notification
from headway.diagnosis.alertmanager import AlertmanagerError, Alertmanagers
from headway.diagnosis.cause_alert import MessagePlaces, alerts_of
from headway.diagnosis.gathering import SPAN_SECONDS, gather, suspects
from headway.diagnosis.reasoning import Diagnosis, DiagnosisVerdict, diagnoses
from headway.environment.port import OutOfReachError
from headway.listening import IDLE_SECONDS, asked_body, pages
from headway.problem import UserError, printable
from headway.release.service_place import ServicePlace

AT_ONCE = 4
MOST_WAITING = 200
"""Services: an environment has about a hundred."""
FRESH_SECONDS = 60.0
"""Alerts of one service that come within so long are answered by one diagnosis."""
AGAIN_SECONDS = 40.0
"""After the first look at a page: steps of ten seconds need three to be compared, and people hear within the first minute."""
_REMINDS_SECONDS = 1.0
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


@dataclass(frozen=True)
class _Ask:
    """`suspected`: no alert names the service; `page`: the most urgent alert is one; `again`: it is a page's second look."""

    suspected: bool
    page: bool = True
    again: bool = False

    def covers(self, other: "_Ask") -> bool:
        """Whether who is asked so need not be asked as `other` too."""
        return (self.page or not other.page) and (not self.suspected or other.suspected)

    def joined(self, other: "_Ask | None") -> "_Ask":
        """One question in place of both."""
        if other is None:
            return self
        return _Ask(suspected=self.suspected and other.suspected, page=self.page or other.page, again=self.again and other.again)


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
        self._waiting: dict[str, _Ask] = {}
        """By service, in the order in which they are asked."""
        self._over: dict[str, None] = {}
        """Services of which an alert has ended."""
        self._again: dict[str, tuple[float, _Ask]] = {}
        """When a service's next look is due, by the clock, and at what."""
        self._running: dict[str, tuple[float, _Ask]] = {}
        self._last: dict[str, tuple[float, _Ask]] = {}
        self._began: dict[str, float] = {}
        """When the newest page of a service began, in Unix seconds."""
        self._verdicts = dict.fromkeys(DiagnosisVerdict, 0)
        self._failed = self._undelivered = self._refused = self._corrected = 0
        self._seconds = 0.0
        self._ending = False

    def take(self, body: bytes) -> int:
        """The status that a notification is answered with."""
        try:
            fires, ended = notification.read(body)
        except ValueError:
            return 400
        try:
            known = self.services()
        except (UserError, OSError, OutOfReachError) as failure:
            self.say(f"which services there are cannot be read: {printable(str(failure))}")
            return 503
        gone = notification.asked(ended, known)
        with self._changed:
            self._newest(fires, known)
            self._over |= dict.fromkeys((*gone.named, *gone.suspected))
            self._changed.notify_all()
        return 200 if self._add(_asks(fires, known)) else 503

    def begin(self) -> None:
        """Ask for every page that fires and is not explained; what nobody answers is asked again by Alertmanager."""
        try:
            fires, causes = self.alertmanagers.pages(), self.alertmanagers.causes()
            services = self.services()
            asked = notification.asked(fires, services)
        except Exception as failure:  # as in `work`
            self.say(f"what fires cannot be read: {_why(failure)}")
            return
        with self._changed:
            self._newest(fires, services)
        explained = {chain for chain, known in causes.items() if any(map(episode.is_decided, known))}
        self._add({chain: _Ask(suspected=False) for chain in asked.named if chain not in explained})

    def _newest(self, fires: Sequence[notification.FiringAlert], known: Collection[str]) -> None:
        for each in fires:
            if each.page and (chain := f"{each.tenant}/{each.model}") in known:
                self._began[chain] = max(self._began.get(chain, 0.0), each.began)

    def again(self) -> None:
        """Ask once more for whose time has come."""
        with self._changed:
            moment = self.clock()
            for chain in [chain for chain, (due, _) in self._again.items() if moment >= due and chain not in self._running]:
                _, ask = self._again.pop(chain)
                if not self._ending:
                    self._waiting[chain] = ask.joined(self._waiting.get(chain))
            self._changed.notify_all()

    def _add(self, asked: Mapping[str, _Ask]) -> bool:
        """Whether there was room for all; else for none."""
        with self._changed:
            moment = self.clock()
            new = {chain: ask for chain, ask in asked.items() if not self._covered(chain, ask, moment)}
            if len(self._waiting.keys() | new.keys()) > MOST_WAITING or self._ending:
                self._refused += 1
                return False
            for chain, ask in new.items():
                self._waiting[chain] = ask.joined(self._waiting.get(chain))
            for chain, ask in asked.items():
                if not ask.suspected and chain not in self._waiting:  # what it tells of may be newer than the last look
                    self._again.setdefault(chain, (moment + AGAIN_SECONDS / 2, replace(ask, again=ask.page)))
            self._changed.notify_all()
            return True

    def _covered(self, chain: str, ask: _Ask, moment: float) -> bool:
        """Whether it is asked, or was a moment ago."""
        waiting, running, last = self._waiting.get(chain), self._running.get(chain), self._last.get(chain)
        recent = [running[1]] if running else [last[1]] if last and moment - last[0] < FRESH_SECONDS else []
        return any(each.covers(ask) for each in (*([waiting] if waiting else ()), *recent))

    def work(self) -> None:
        """One service after the other, until told to end and none is left. For a thread of its own, of `AT_ONCE`."""
        while (chosen := self._next()) is not None:
            chain, ask = chosen
            began = self.clock()
            try:
                self._one(chain, ask)
            except AlertmanagerError as failure:
                self._undelivered += 1
                self.say(f"{chain}: nobody could be told why: {printable(str(failure))}")
            except Exception as failure:  # one service's objects must not end the answers to all others
                self._failed += 1
                self.say(f"{chain}: {_why(failure)}")
            finally:
                with self._changed:
                    del self._running[chain]
                    self._last[chain] = self.clock(), ask
                    self._seconds += self.clock() - began
                    self._changed.notify_all()

    def _next(self) -> tuple[str, _Ask] | None:
        """The next to ask, once what has ended is ended. Suspects are asked about together, and only those that look ill are left."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._over or self._free() or (self._ending and not self._waiting))
                over, self._over = list(self._over), {}
                free = self._free()
                if not over and not free:
                    return None
                named = next((chain for chain in free if not self._waiting[chain].suspected), None)
                if not over and named is not None:
                    ask = self._waiting.pop(named)
                    self._running[named] = self.clock(), ask
                    return named, ask
                doubted = {} if over else {chain: self._waiting.pop(chain) for chain in free}
            if over:
                self._end(over)
            else:
                self._add({chain: replace(doubted[chain], suspected=False) for chain in self._ill(list(doubted))})

    def _free(self) -> list[str]:
        """Those that wait, and are not asked at this moment."""
        return [chain for chain in self._waiting if chain not in self._running]

    def _ill(self, chains: list[str]) -> Iterator[str]:
        try:
            known = self.services()
            those = tuple(known[chain].place for chain in chains if chain in known)
            yield from (each.chain for each in suspects(those, at=self.now(), since=SPAN_SECONDS))
        except Exception as failure:  # as in `work`
            self._failed += 1
            self.say(f"{len(chains)} services cannot be looked over: {_why(failure)}")
            yield from chains

    def _one(self, chain: str, ask: _Ask) -> None:
        service = self.services().get(chain)
        if service is None:  # its contract has gone meanwhile
            return
        if ask.again and chain not in self._hurt(self.alertmanagers.pages(), self.services()):
            return  # the page has ended, and another replica was told so
        first = ask.page and not ask.again
        if first:
            with self._changed:
                self._again[chain] = self.clock() + AGAIN_SECONDS, _Ask(suspected=False, again=True)
        at, urgency = self.now(), episode.PAGE if ask.page else episode.TICKET
        found = self.diagnose(service.place, at)
        for each in found:
            self._verdicts[each.verdict] += 1
        known = self.alertmanagers.causes().get(chain, ())
        news = episode.news(
            alerts_of(found, service.receiver, self.places, urgency),
            known,
            urgency=urgency,
            at=at,
            first=first,
            began=self._began.get(chain, 0.0),
        )
        if news.given:
            self.alertmanagers.give(news.given)
        self._corrected += news.corrects
        for each in news.told:
            self.say(each["annotations"]["summary"])

    @staticmethod
    def _hurt(fires: Sequence[notification.FiringAlert], known: Collection[str]) -> set[str]:
        """Those of the `known` services that any of these alerts may be about."""
        asked = notification.asked(fires, known)
        return {*asked.named, *asked.suspected}

    def _end(self, chains: Sequence[str]) -> None:
        """End what was told of services of which nothing fires any more."""
        try:
            causes, fires = self.alertmanagers.causes(), self.alertmanagers.firing()
            known = self.services()
            paged = self._hurt([each for each in fires if each.page], known)
            fire = {*notification.asked(fires, known).named, *paged}
            with self._changed:
                for chain in set(chains) - fire:
                    self._again.pop(chain, None)
                    self._began.pop(chain, None)
            gone = [each for chain in chains for each in episode.over(causes.get(chain, ()), paged=chain in paged, fires=chain in fire)]
            if gone:
                self.alertmanagers.give(episode.ended(gone, self.now()))
        except Exception as failure:  # as in `work`
            self.say(f"causes of {len(chains)} services last until they end by themselves: {_why(failure)}")

    def end(self) -> None:
        """Take nothing more; whoever waits is still answered."""
        with self._changed:
            self._ending = True
            self._again.clear()
            self._changed.notify_all()

    def wait(self, seconds: float) -> bool:
        """Until told to end, or for so long; whether it was told."""
        with self._changed:
            return self._changed.wait_for(lambda: self._ending, seconds)

    @property
    def well(self) -> bool:
        """Whether no diagnosis hangs."""
        with self._changed:
            return all(self.clock() - since < PATIENCE_SECONDS for since, _ in self._running.values())

    def collect(self) -> Iterator[Metric]:
        """As prometheus_client asks a collector."""
        verdicts = CounterMetricFamily("headway_diagnosis_verdicts", "Diagnoses that alerts asked for.", labels=("verdict",))
        for verdict, number in self._verdicts.items():
            verdicts.add_metric((verdict.value,), number)
        yield verdicts
        yield CounterMetricFamily("headway_diagnosis_seconds", "Time that diagnoses took.", self._seconds)
        yield CounterMetricFamily("headway_diagnosis_failed", "Diagnoses that ended without an answer.", self._failed)
        yield CounterMetricFamily("headway_diagnosis_undelivered", "Diagnoses that no Alertmanager took.", self._undelivered)
        yield CounterMetricFamily("headway_diagnosis_corrected", "Causes of which people were told another one before.", self._corrected)
        yield CounterMetricFamily("headway_diagnosis_refused", "Notifications for which there was no room.", self._refused)
        yield GaugeMetricFamily("headway_diagnosis_waiting", "Services that are still to be diagnosed.", len(self._waiting))

    def text(self) -> str:
        """In Prometheus' text format."""
        return generate_latest(self).decode()  # pyright: ignore[reportArgumentType]  it asks for `collect` alone


def answering(loop: AlertLoop, *also: Callable[[], str]) -> type[http.server.BaseHTTPRequestHandler]:
    """`POST /alerts` for Alertmanager, `/healthz` and `/metrics`; `also`: other series of the process, in Prometheus' text format."""

    def series() -> tuple[int, str]:
        return 200, "".join(each() for each in (loop.text, *also))

    shown = pages({"/healthz": lambda: (200, "well\n") if loop.well else (503, "stuck\n"), "/metrics": series})

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


def _why(failure: Exception) -> str:
    """In its own words where it is one that tells people something, else with its type."""
    words = printable(str(failure))[:300]
    return words if isinstance(failure, AlertmanagerError | UserError | OutOfReachError) else f"{type(failure).__name__}: {words}"


def _asks(fires: Sequence[notification.FiringAlert], known: Collection[str]) -> dict[str, _Ask]:
    """By service the most that its alerts ask for."""
    found: dict[str, _Ask] = {}
    for page in (False, True):
        asked = notification.asked([each for each in fires if each.page is page], known)
        for chain in (*asked.suspected, *asked.named):
            found[chain] = _Ask(suspected=chain not in asked.named, page=page).joined(found.get(chain))
    return found


def threads(loop: AlertLoop) -> list[threading.Thread]:
    """The workers, and who reminds them, at work."""

    def remind() -> None:
        while not loop.wait(_REMINDS_SECONDS):
            loop.again()

    found = [*(threading.Thread(target=loop.work, daemon=True) for _ in range(AT_ONCE)), threading.Thread(target=remind, daemon=True)]
    for each in found:
        each.start()
    return found
