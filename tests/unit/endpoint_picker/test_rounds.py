"""What the picker's rounds tell it, whatever one engine or the API server does."""

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from headway.endpoint_picker.engine_page import LARGEST_PAGE, EnginePage
from headway.endpoint_picker.rounds import Rounds, asked_page
from headway.endpoint_picker.tracking import EngineFacts
from tests.loopback import Handler, served

A, B = "10.0.0.1:8000", "10.0.0.2:8000"


@dataclass
class Heard:
    """A picker's ears. `says`: page of each address; an error is raised."""

    says: Mapping[str, EnginePage | OSError] = field(default_factory=dict[str, EnginePage | OSError])
    there: dict[str, EngineFacts] | None = field(default_factory=lambda: {A: EngineFacts("r1", life="1"), B: EngineFacts("r1", life="1")})
    told: list[dict[str, int | None]] = field(default_factory=list[dict[str, int | None]])
    reported: dict[str, int | None] = field(default_factory=dict[str, int | None])
    paced: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    failed: list[str] = field(default_factory=list[str])

    def rounds(self) -> Rounds:
        return Rounds(
            self.engines,
            lambda there: self.told.append({address: facts.capacity for address, facts in there.items()}),
            self.report,
            lambda what, _: self.failed.append(what),
            self.page,
        )

    def report(self, address: str, in_progress: int | None, computed: float, took: float) -> None:
        self.reported[address] = in_progress
        if address == A:
            self.paced.append((computed, took))

    def engines(self) -> Mapping[str, EngineFacts]:
        if self.there is None:
            raise OSError("no answer")
        return self.there

    def page(self, address: str) -> EnginePage:
        said = self.says.get(address, EnginePage(1000, 1))
        if isinstance(said, OSError):
            raise said
        return said


def once(rounds: Rounds) -> None:
    with ThreadPoolExecutor(1) as workers:
        rounds.once(workers)


def test_an_engine_without_a_page_is_picked_like_the_others() -> None:
    heard = Heard({A: OSError("refused")})
    once(heard.rounds())
    assert heard.told[-1] == {A: None, B: 1000}
    assert (heard.reported, heard.failed) == ({B: 1}, ["page"])


def test_what_an_engine_once_said_of_its_size_is_believed_until_it_begins_anew() -> None:
    heard = Heard()
    rounds = heard.rounds()
    once(rounds)
    heard.says = {A: OSError("refused"), B: EnginePage()}
    once(rounds)
    assert heard.told[-1] == {A: 1000, B: 1000}
    heard.there = {A: EngineFacts("r1", life="2"), B: EngineFacts("r1", life="1")}
    once(rounds)
    assert heard.told[-1] == {A: None, B: 1000}


def test_what_an_engine_has_computed_is_told_since_it_last_said_so() -> None:
    heard = Heard()
    rounds = heard.rounds()
    for computed, took, life in ((500, 5.0, "1"), (700, 6.0, "1"), (100, 1.0, "1"), (300, 2.0, "2"), (350, 2.5, "2")):
        heard.there, heard.says = {A: EngineFacts("r1", life=life)}, {A: EnginePage(1000, 1, computed, took)}
        once(rounds)
    assert heard.paced == [(0, 0), (200, 1.0), (0, 0), (0, 0), (50, 0.5)], "of one that began anew nothing"


def test_while_the_api_server_is_silent_the_engines_stay_and_are_asked() -> None:
    heard = Heard()
    rounds = heard.rounds()
    once(rounds)
    told, heard.there, heard.says = len(heard.told), None, {A: EnginePage(1000, 7)}
    once(rounds)
    assert (heard.reported[A], heard.failed, len(heard.told)) == (7, ["api"], told)


def test_an_engine_that_does_not_end_its_answer_keeps_no_other_waiting() -> None:
    heard, end = Heard(), threading.Event()
    rounds, page = heard.rounds(), heard.page
    rounds.page = lambda address: (end.wait(60), page(address))[1] if address == A else page(address)
    with ThreadPoolExecutor(2) as workers:
        for number in range(5):
            heard.says = {B: EnginePage(1000, number)}
            rounds.once(workers)
            while heard.reported.get(B) != number:
                end.wait(0.01)
                rounds.once(workers)
        assert A not in heard.reported
        end.set()
    assert heard.reported[A] == 1


class Page(Handler):
    def do_GET(self) -> None:
        pages = {"/metrics": b'vllm:num_requests_running{engine="0"} 2.0\n'}
        self.reply(200, pages[self.path])


class Endless(Handler):
    def do_GET(self) -> None:
        self.reply(200, b"a" * (LARGEST_PAGE + 1))


class Elsewhere(Handler):
    def do_GET(self) -> None:
        self.reply(302, location="http://127.0.0.1:1/")


def test_a_page_is_asked_of_the_engine_itself() -> None:
    with served(Page) as address:
        assert asked_page(address.removeprefix("http://")) == EnginePage(in_progress=2)


@pytest.mark.parametrize("handler", [Endless, Elsewhere])
def test_a_page_without_end_or_elsewhere_is_an_engine_that_says_nothing(handler: type[Handler]) -> None:
    with served(handler) as address, pytest.raises(OSError, match=r".+"):
        asked_page(address.removeprefix("http://"))
