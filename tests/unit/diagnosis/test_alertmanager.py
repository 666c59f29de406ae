"""Alertmanager's API as the loop asks it: every replica is given every alert, tries are bounded, and what it answers is judged."""

import json
from typing import Any

import pytest

from headway.diagnosis.alertmanager import PAUSES, AlertmanagerError, Alertmanagers
from headway.diagnosis.notification import FiringAlert
from tests.loopback import Handler, served

NOBODY = "http://127.0.0.1:9"
ALERT = {"labels": {"alertname": "AlertExplained"}}


def alertmanager(answer: Any, status: int = 200) -> tuple[type[Handler], list[Any]]:
    """One that answers so, and what it was asked."""
    asked = list[Any]()

    class Alertmanager(Handler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.reply(status, answer)

        def do_POST(self) -> None:
            asked.append(json.loads(self.body()))
            self.reply(status, answer)

    return Alertmanager, asked


def test_each_replica_is_given_every_alert() -> None:
    (one, first), (other, second) = alertmanager(b""), alertmanager(b"")
    with served(one) as a, served(other) as b:
        Alertmanagers(lambda: [a, NOBODY, b]).give([ALERT])
    assert first == second == [[ALERT]]


@pytest.mark.parametrize("status", [400, 500])
def test_what_no_replica_takes_is_tried_a_few_times_and_said(status: int) -> None:
    (handler, asked), slept = alertmanager(b"no room", status), list[float]()
    with served(handler) as address, pytest.raises(AlertmanagerError, match=f"status {status}: no room"):
        Alertmanagers(lambda: [address], slept.append).give([ALERT])
    assert (len(asked), tuple(slept)) == (1 + len(PAUSES), PAUSES)


def test_without_a_known_alertmanager_nobody_is_given_anything() -> None:
    with pytest.raises(AlertmanagerError, match="none is known"):
        Alertmanagers(list, lambda _: None).give([ALERT])


def test_another_replica_answers_for_one_that_is_away() -> None:
    page = {"labels": {"namespace": "vision", "model": "defects"}, "status": {"state": "active"}}
    handler, asked = alertmanager([page])
    with served(handler) as address:
        assert Alertmanagers(lambda: [NOBODY, address]).pages() == (FiringAlert(tenant="vision", model="defects"),)
    assert "filter=severity%3D%22page%22" in asked[0] and "silenced=false" in asked[0]


def test_what_people_know_is_kept_by_service_and_can_be_given_again() -> None:
    cause = {"labels": {"namespace": "vision", "model": "defects", "cause": "gpu-hot"}, "annotations": {"summary": "x"}, "startsAt": "t"}
    handler, asked = alertmanager([{**cause, "status": {"state": "active"}, "fingerprint": "f"}])
    with served(handler) as address:
        assert Alertmanagers(lambda: [address]).causes() == {"vision/defects": (cause,)}
    assert "silenced=true" in asked[0], "who silenced a cause knows it"


def test_pages_and_tickets_fire_whether_silenced_or_not() -> None:
    ticket = {"labels": {"namespace": "vision", "model": "defects", "severity": "ticket"}, "status": {"state": "suppressed"}}
    handler, asked = alertmanager([ticket])
    with served(handler) as address:
        assert Alertmanagers(lambda: [address]).firing() == (FiringAlert(tenant="vision", model="defects", page=False),)
    assert "filter=severity%3D~%22page%7Cticket%22" in asked[0] and "silenced=true" in asked[0]


def test_what_fires_is_read_to_the_last_alert() -> None:
    alerts = [{"labels": {"namespace": "vision", "model": f"m{number}"}, "status": {"state": "active"}} for number in range(1500)]
    handler, _ = alertmanager(alerts)
    with served(handler) as address:
        assert len(Alertmanagers(lambda: [address]).firing()) == 1500, "a cause whose alert is not read would be ended"


def test_an_alert_that_lies_about_being_a_cause_hides_no_other() -> None:
    cause = {"labels": {"namespace": "vision", "model": "defects", "cause": "model-slower"}}
    handler, _ = alertmanager([{"labels": {}}, {"labels": {"cause": "gpu-hot"}}, cause])
    with served(handler) as address:
        assert list(Alertmanagers(lambda: [address]).causes()) == ["vision/defects"]


@pytest.mark.parametrize("answer", [b"", b"{}", b"[1]", b"[{}]", b"<html>"])
def test_what_is_no_answer_of_alertmanager_is_said(answer: bytes) -> None:
    handler, _ = alertmanager(answer)
    with served(handler) as address, pytest.raises(AlertmanagerError):
        Alertmanagers(lambda: [address]).causes()
