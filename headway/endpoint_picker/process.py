"""The endpoint picker as a process: its server, its rounds, and the pages by which it shows itself, until it is told to end."""

import asyncio
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from prometheus_client import Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from headway.endpoint_picker.exchange import NONE, PICKED, TOKENS_A_BLOCK, UNKNOWN
from headway.endpoint_picker.rounds import Engines, Page, Rounds
from headway.endpoint_picker.server import GRACE_SECONDS, PickerState, started
from headway.endpoint_picker.tracking import EngineFacts, Tracked
from headway.listening import listening, pages
from headway.problem import UserError

_NAME = "headway_endpoint_picker"
SAID_EVERY_SECONDS = 60.0
"""The same trouble is said once in so long."""


@dataclass
class PickerPage:
    """What a picker shows of itself; read from another thread than the picker's own."""

    state: PickerState
    failures: Counter[str] = field(default_factory=Counter[str])
    heard_at: float = 0.0

    def collect(self) -> Iterator[Metric]:
        engines, requests = self.state.pool.counts()
        yield GaugeMetricFamily(f"{_NAME}_engines", "Endpoints that may be picked.", engines)
        yield GaugeMetricFamily(f"{_NAME}_requests_in_progress", "Requests that were sent and have not ended.", requests)
        since = round(self.state.clock() - self.heard_at, 3) if self.state.heard else float("nan")
        yield GaugeMetricFamily(f"{_NAME}_seconds_since_pods", "Since the API server last said which engines there are.", since)
        forgone = "Prompts that were picked for by load alone, because those in progress took the room to remember them."
        yield CounterMetricFamily(f"{_NAME}_forgone", forgone, self.state.pool.forgone)
        yield _counted("requests", "Requests, by what became of them.", (PICKED, UNKNOWN, NONE), self.state.counts.outcomes)
        yield _counted("failures", "Questions that were not answered, by who was asked.", ("api", "page"), self.failures)

    def text(self) -> str:
        """In Prometheus' text format."""
        return generate_latest(self).decode()


def _counted(name: str, meaning: str, outcomes: tuple[str, ...], found: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(f"{_NAME}_{name}", meaning, labels=("outcome",))
    for outcome in outcomes:
        family.add_metric((outcome,), found[outcome])
    return family


def _told_to_end() -> asyncio.Event:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


async def run(
    engines: Engines,
    page: Page,
    *,
    serve: tuple[str, int],
    show: tuple[str, int],
    say: Callable[[str], None],
    stop: asyncio.Event | None = None,
) -> None:
    """Serve until `stop`, or a signal where none is given. Raises UserError."""
    stop = stop or _told_to_end()
    loop, stopped = asyncio.get_running_loop(), threading.Event()
    state = PickerState(time.monotonic, Tracked(TOKENS_A_BLOCK))
    shows, said_at = PickerPage(state), dict[str, float]()

    def told(there: Mapping[str, EngineFacts]) -> None:
        if len(there) != state.pool.counts()[0]:
            say(f"{len(there)} engines")
        state.heard, shows.heard_at = True, state.clock()
        state.pool.endpoints(there)

    def failed(what: str, why: str) -> None:
        shows.failures[what] += 1
        if state.clock() - said_at.get(what, float("-inf")) >= SAID_EVERY_SECONDS:
            said_at[what] = state.clock()
            say(f"no answer ({what}): {why}")

    def later(done: Callable[..., None]) -> Callable[..., None]:
        def call(*given: object) -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(done, *given)

        return call

    rounds = Rounds(engines, later(told), later(state.pool.reported), later(failed), page)
    shown = pages({"/healthz": lambda: (200, "well\n") if state.heard else (503, "not ready\n"), "/metrics": lambda: (200, shows.text())})
    consequence, remedy = "Nothing was started.", "Choose other ports for --serve and --metrics."
    with listening(*show, shown, consequence=consequence, remedy=remedy) as metrics:
        try:
            server, port = await started(state, f"{serve[0]}:{serve[1]}")
        except RuntimeError as failure:
            raise UserError(f"{serve[0]}:{serve[1]} cannot be listened on: {failure}.", consequence, remedy) from None
        say(f"serving on {serve[0]}:{port}, metrics on {show[0]}:{metrics}")
        looking = threading.Thread(target=rounds.watch, args=(stopped,), daemon=True)
        looking.start()
        await stop.wait()
        await server.stop(GRACE_SECONDS)
        stopped.set()
    say("ended")
