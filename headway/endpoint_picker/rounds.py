"""Looks for a picker at what is not in the requests: which engines there are, and what their metrics pages say. Never stops for one of them.

An engine is asked by a thread of its own and is not asked again before it has answered or its time is over, so that one which says a byte now
and then keeps nobody waiting. What it once said of its size is believed until it begins anew.
"""

import threading
import urllib.request
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from headway import outgoing
from headway.endpoint_picker.engine_page import LARGEST_PAGE, EnginePage, read
from headway.endpoint_picker.tracking import EngineFacts

PAUSE_SECONDS = 2.0
"""Between two rounds: a new engine is picked after so long, at most."""
PAGE_SECONDS = 1.0
AT_ONCE = 16

Engines = Callable[[], Mapping[str, EngineFacts]]
Page = Callable[[str], EnginePage]


def asked_page(address: str, port: int | None = None) -> EnginePage:
    """What the engine there says, on another port perhaps. Raises OSError where it does not, or too much, or not in time."""
    place = f"{address.rpartition(':')[0]}:{port}" if port else address
    with outgoing.asked(urllib.request.Request(f"http://{place}/metrics"), PAGE_SECONDS) as answer:
        return read(outgoing.body_of(answer, LARGEST_PAGE))


@dataclass
class Rounds:
    """`told` hears all endpoints; `reported` of one its requests in progress, and the tokens that it has computed since it last said so, in how
    many seconds; `failed` which of the two did not answer; from any thread."""

    engines: Engines
    told: Callable[[Mapping[str, EngineFacts]], None]
    reported: Callable[[str, int | None, float, float], None]
    failed: Callable[[str, str], None]
    page: Page = asked_page
    _there: Mapping[str, EngineFacts] = field(default_factory=dict[str, EngineFacts])
    _sizes: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])
    _sums: dict[str, tuple[str, EnginePage]] = field(default_factory=dict[str, "tuple[str, EnginePage]"])
    _asked: dict[str, "Future[Any]"] = field(default_factory=dict[str, "Future[Any]"])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def watch(self, stop: threading.Event, pause: float = PAUSE_SECONDS) -> None:
        """Until told to stop."""
        with ThreadPoolExecutor(AT_ONCE) as workers:
            while not stop.is_set():
                self.once(workers)
                stop.wait(pause)
            workers.shutdown(wait=False, cancel_futures=True)

    def once(self, workers: ThreadPoolExecutor) -> None:
        """Ask the API server, and every engine that is not being asked."""
        try:
            there = self.engines()
        except OSError as failure:
            self.failed("api", str(failure))
        else:
            with self._lock:
                self._there = there
                self._sizes = {address: size for address, size in self._sizes.items() if address in there}
                self._sums = {address: sums for address, sums in self._sums.items() if address in there}
            self._tell()
        self._asked = {address: future for address, future in self._asked.items() if not future.done()}
        for address in self._there:
            if address not in self._asked:
                self._asked[address] = workers.submit(self._ask, address)

    def _ask(self, address: str) -> None:
        try:
            said = self.page(address)
        except OSError as failure:
            self.failed("page", f"{address}: {failure}")
            return
        with self._lock:
            facts = self._there.get(address)
            new = facts is not None and said.capacity is not None and self._sizes.get(address) != (facts.life, said.capacity)
            if facts is not None and said.capacity is not None:
                self._sizes[address] = (facts.life, said.capacity)
            life, before = self._sums.get(address, ("", said))
            if facts is not None:
                self._sums[address] = (facts.life, said)
        if new:
            self._tell()
        # Of one that has begun anew, sums are smaller, and then nothing is known of the time between.
        same = facts is not None and life == facts.life and said.computed >= before.computed and said.took >= before.took
        since = (said.computed - before.computed, said.took - before.took) if same else (0.0, 0.0)
        self.reported(address, said.in_progress, *since)

    def _tell(self) -> None:
        with self._lock:
            sizes = self._sizes
            self.told(
                {
                    address: replace(facts, capacity=sizes[address][1]) if sizes.get(address, ("",))[0] == facts.life else facts
                    for address, facts in self._there.items()
                }
            )
