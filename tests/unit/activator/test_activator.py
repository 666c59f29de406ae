"""A request to a service without a replica: how long it is held, and by what it is let go."""

import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.client import HTTPConnection
from typing import Any

import pytest

from headway.activator.serving import asked, holding
from headway.activator.waiting import LOOK_SECONDS, MOST, MOST_OF_A_SERVICE, SETTLE_SECONDS, Ended, Service, WaitingRoom, ready
from headway.listening import listening

SORTER, OTHER = Service("writing", "sorter"), Service("writing", "other")


def never() -> bool:
    return False


@dataclass
class Hours:
    """A clock that only sleep moves, and a service that is what its looks say in turn, the last one for ever."""

    looks: Sequence[bool | None]
    now: float = 0.0
    looked: list[Service] = field(default_factory=list[Service])

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def serves(self, service: Service) -> bool | None:
        self.looked.append(service)
        return self.looks[min(len(self.looked), len(self.looks)) - 1]

    def room(self) -> WaitingRoom:
        return WaitingRoom(self.serves, lambda: self.now, self.sleep)


@pytest.mark.parametrize("looks", [[True], [None]], ids=["serves", "unknown"])
def test_a_service_that_may_serve_keeps_nobody_waiting(looks: list[bool | None]) -> None:
    hours = Hours(looks)
    assert (hours.room().hold(SORTER, 60, 0, never), hours.now) == (Ended.SERVES, 0.0)


def test_a_request_waits_for_the_first_replica_and_until_proxies_know_of_it() -> None:
    hours = Hours([False, False, None, True])
    assert hours.room().hold(SORTER, 60, 0, never) is Ended.CAME
    assert 3 * LOOK_SECONDS + SETTLE_SECONDS <= hours.now < 3 * LOOK_SECONDS + SETTLE_SECONDS + 1


def test_a_request_is_sent_on_when_its_time_is_over() -> None:
    hours = Hours([False])
    assert hours.room().hold(SORTER, 60, 0, never) is Ended.LATE
    assert 60 <= hours.now < 61


def test_whoever_leaves_no_longer_waits() -> None:
    hours = Hours([False])
    room = hours.room()
    assert room.hold(SORTER, 60, 0, lambda: hours.now > 5) is Ended.LEFT
    assert room.empty and hours.now < 6


def crowd(room: WaitingRoom, services: Sequence[Service], then: Callable[[], object], kept: int = 0) -> int:
    """Hold requests within one another, of each service as many as there are places; how many wait when `then` is called."""
    if not services:
        then()
        return 0
    further = list[int]()

    def left() -> bool:
        further.append(crowd(room, services, then, kept))
        return True

    if room.hold(services[0], 60, kept, left) is Ended.FULL:
        return crowd(room, services[1:], then, kept)
    return 1 + further[0]


def test_one_service_s_callers_leave_places_to_those_of_others() -> None:
    room, others = Hours([False]).room(), list[Ended]()
    assert crowd(room, [SORTER], lambda: others.append(room.hold(OTHER, 1, 0, never))) == MOST_OF_A_SERVICE
    assert others == [Ended.LATE]


def test_a_tenant_s_callers_leave_places_to_those_of_others() -> None:
    room, others, ended = Hours([False]).room(), list[int](), list[Ended]()
    theirs, ours = ([Service(tenant, f"model-{number}") for number in range(25)] for tenant in ("one", "another"))

    def then() -> None:
        others.append(crowd(room, ours, lambda: ended.append(room.hold(SORTER, 1, 0, never))))

    assert crowd(room, theirs, then) == MOST // 2
    assert others == [MOST // 4] and ended == [Ended.LATE]


def test_large_requests_take_more_of_the_gateway_and_so_fewer_wait() -> None:
    assert crowd(Hours([False]).room(), [SORTER], never, kept=8 * 2**20) == MOST // 2 // 8
    assert crowd(Hours([False]).room(), [SORTER], never, kept=8 * 2**20 + 1) == MOST // 2 // 9


def test_one_look_serves_all_who_ask_at_about_the_same_time() -> None:
    hours = Hours([True])
    room = hours.room()
    for _ in range(5):
        room.hold(SORTER, 60, 0, never)
    assert hours.looked == [SORTER]
    hours.sleep(LOOK_SECONDS)
    room.hold(SORTER, 60, 0, never)
    assert hours.looked == [SORTER, SORTER]


def test_who_asks_during_the_first_look_waits_for_what_it_sees() -> None:
    looking, told = threading.Event(), threading.Event()

    def serves(_: Service) -> bool:
        looking.set()
        told.wait(60)
        return True

    room, ended = WaitingRoom(serves, lambda: 0.0, lambda _: None), list[Ended]()
    threads = [threading.Thread(target=lambda: ended.append(room.hold(SORTER, 60, 0, never))) for _ in range(2)]
    threads[0].start()
    assert looking.wait(60)
    threads[1].start()
    assert ended == []
    told.set()
    for each in threads:
        each.join(60)
    assert ended == [Ended.SERVES, Ended.SERVES]


def test_a_series_says_how_many_wait_for_which_service() -> None:
    hours, pages = Hours([False]), list[str]()
    room = hours.room()

    def left() -> bool:
        pages.append(room.text())
        return True

    room.hold(SORTER, 60, 0, left)
    assert 'headway_activator_waiting_requests{model="sorter",tenant="writing"} 1.0' in pages[0]
    assert "waiting_requests{" not in room.text()
    assert 'headway_activator_requests_total{ended="left"} 1.0' in room.text()


@pytest.mark.parametrize(
    ("endpoints", "found"),
    [
        ([{"conditions": {"ready": True}}], True),
        ([{"conditions": {"ready": False}}, {"conditions": {"ready": True}}], True),
        ([{"conditions": {"ready": False}}], False),
        ([{"conditions": {}}], True),
        ([{}], True),
        ([], False),
        (None, False),
        ("odd", False),
        ([None, "odd", {"conditions": "odd"}], False),
    ],
)
def test_an_endpoint_is_ready_unless_it_says_that_it_is_not(endpoints: Any, found: bool) -> None:
    assert ready({"endpoints": endpoints}) is found


@pytest.mark.parametrize(
    "path",
    [
        "/hold/writing/sorter",
        "/hold/writing/sorter/5",
        "/hold/writing/sorter/5/-1",
        "/hold/writing/sorter/",
        "/hold/writing/sorter/3601/0",
        "/hold/writing/sorter/-1/0",
        "/hold/writing/../secrets/5/0",
        "/hold/writing/sorter%3Fwatch/5/0",
        "/hold/Writing/sorter/5/0",
        f"/hold/{'a' * 64}/sorter/5/0",
        "/",
    ],
)
def test_nothing_is_asked_for_that_names_no_service(path: str) -> None:
    assert asked(path) is None


def test_a_question_names_a_service_how_long_to_wait_and_what_is_kept() -> None:
    assert asked("/hold/writing/sorter/600/1024") == (SORTER, 600, 1024)


@pytest.fixture
def port() -> Iterator[tuple[int, threading.Event, WaitingRoom]]:
    """A room behind its port, whose service has a replica once the event is set."""
    there = threading.Event()
    room = WaitingRoom(lambda _: there.is_set(), time_of(there), lambda seconds: time.sleep(min(seconds, 0.02)))
    with listening("127.0.0.1", 0, holding(room), consequence="", remedy="") as found:
        yield found, there, room


def time_of(_: threading.Event) -> Callable[[], float]:
    """A clock by which every look is old: each asks anew."""
    beats = iter(range(10**9))
    return lambda: float(next(beats)) * LOOK_SECONDS


def test_a_proxy_is_answered_once_there_is_a_replica(port: tuple[int, threading.Event, WaitingRoom]) -> None:
    number, there, room = port
    connection = HTTPConnection("127.0.0.1", number, timeout=60)
    connection.request("GET", "/hold/writing/sorter/3600/0")
    while room.empty:
        there.wait(0.01)
    there.set()
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (200, b"came\n")


def test_a_proxy_that_goes_away_makes_nobody_wait(port: tuple[int, threading.Event, WaitingRoom]) -> None:
    number, there, room = port
    with socket.create_connection(("127.0.0.1", number)) as connection:
        connection.sendall(b"GET /hold/writing/sorter/3600/0 HTTP/1.1\r\nhost: activator\r\n\r\n")
        while room.empty:
            there.wait(0.01)
    for _ in range(1000):
        if room.empty:
            return
        there.wait(0.01)
    raise AssertionError("it still waits")


def test_any_other_path_is_refused_with_what_can_be_asked(port: tuple[int, threading.Event, WaitingRoom]) -> None:
    connection = HTTPConnection("127.0.0.1", port[0], timeout=60)
    connection.request("GET", "/hold/writing")
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (404, b"ask /hold/TENANT/MODEL/SECONDS/BYTES\n")
