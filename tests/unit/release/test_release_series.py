"""Releases as series: what a ledger says, for as long as it can be read."""

from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from headway.ledger.events import Event
from headway.ledger.kept import UnfinishedError
from headway.ledger.store import UnreachableError
from headway.problem import UserError
from headway.release.driver.rollout_state import ServiceState, fold
from headway.release.release_series import ReleaseSeries
from tests.unit.release.driver.test_rollout_state import APPLIED, asked, chain, divided, intended, moment, observed

_ORDER = ("tenant", "model", "release", "state", "phase", "reason", "outcome")


class Told:
    """A ledger that says what it was told."""

    def __init__(self, *told: tuple[str, dict[str, Any]]) -> None:
        self.events: list[Event] | None = chain(*told)

    def look(self) -> ServiceState:
        if self.events is None:
            raise UnreachableError("no answer")
        return fold(self.events)


def shown(series: ReleaseSeries) -> dict[tuple[str, ...], float]:
    """By name and labels; without what is 0."""
    return {
        (sample.name, *(sample.labels[key] for key in sorted(sample.labels, key=_ORDER.index))): sample.value
        for family in text_string_to_metric_families(series.text())
        for sample in family.samples
        if sample.value
    }


def series_of(ledger: Told, said: list[str] | None = None) -> ReleaseSeries:
    found = ReleaseSeries(lambda: {"vision/defects": lambda: ledger}, (said if said is not None else []).append)
    found.look()
    return found


WHO = ("vision", "defects")


def test_a_release_under_way_has_its_state_its_share_and_the_gates_word() -> None:
    found = shown(series_of(Told(intended(divided(10)), APPLIED, observed())))
    assert found[("headway_release_state", *WHO, "r2", "active")] == 1
    assert found[("headway_release_verdict", *WHO, "r2", "releasing", "PASSED")] == 1
    assert (found[("headway_release_users_share", *WHO, "r1")], found[("headway_release_users_share", *WHO, "r2")]) == (0.9, 0.1)


def test_a_release_that_a_person_holds_says_so() -> None:
    found = shown(series_of(Told(intended(divided(10)), APPLIED, asked("freeze"))))
    assert ("headway_release_state", *WHO, "r2", "held") in found


def test_releases_that_are_over_are_counted_by_how_they_ended() -> None:
    found = shown(series_of(Told(intended(divided(10)), ("ended", {"outcome": "rolled back"}))))
    assert found[("headway_release_ended_total", *WHO, "rolled back")] == 1
    assert not [name for name in found if name[0] == "headway_release_state"]


def test_every_outcome_is_counted_from_zero_so_that_its_first_time_is_a_rise() -> None:
    text = series_of(Told()).text()
    assert 'headway_release_ended_total{model="defects",outcome="rolled back",tenant="vision"} 0.0' in text


def test_what_nobody_can_read_has_no_state_and_is_told_once() -> None:
    said: list[str] = []
    ledger = Told(intended(divided(10)), APPLIED)
    series = series_of(ledger, said)
    ledger.events = None
    series.look()
    series.look()
    assert shown(series) == {("headway_release_unread", *WHO): 1.0}
    assert said == ["vision/defects: its releases cannot be read: no answer"]


def test_a_ledger_that_answers_again_is_read_again() -> None:
    ledger = Told()
    events, ledger.events = ledger.events, None
    series = series_of(ledger)
    ledger.events = events
    series.look()
    assert ("headway_release_unread", *WHO) not in shown(series)


def test_the_time_of_the_newest_event_is_shown() -> None:
    from datetime import datetime

    found = shown(series_of(Told(intended(divided(10)))))
    assert found[("headway_release_event_timestamp_seconds", *WHO)] == datetime.fromisoformat(moment(3)).timestamp()


def test_a_service_that_is_no_more_has_no_series() -> None:
    known: dict[str, Any] = {"vision/defects": Told}
    series = ReleaseSeries(lambda: known, lambda text: None)
    series.look()
    known.clear()
    series.look()
    assert shown(series) == {}


def test_a_refused_ledger_is_read_ever_more_seldom_until_it_is_right() -> None:
    class Refused(Told):
        looks, flawed = 0, True

        def look(self) -> ServiceState:
            self.looks += 1
            if self.flawed:
                raise UserError("It has a flaw.", "It is not read.", "Mend it.")
            return super().look()

    said: list[str] = []
    ledger = Refused()
    series = series_of(ledger, said)
    for _ in range(30):
        series.look()
    assert (ledger.looks, len(said)) == (6, 1)
    assert shown(series) == {("headway_release_unread", *WHO): 1.0}
    ledger.flawed = False
    for _ in range(8):
        series.look()
    assert ("headway_release_unread", *WHO) not in shown(series)
    looks = ledger.looks
    series.look()
    assert ledger.looks == looks + 1


def test_a_long_ledger_is_read_on_at_each_look() -> None:
    class Long(Told):
        looks = 0

        def look(self) -> ServiceState:
            self.looks += 1
            raise UnfinishedError("vision/defects", self.looks)

    ledger = Long()
    series = series_of(ledger)
    for _ in range(9):
        series.look()
    assert ledger.looks == 10
