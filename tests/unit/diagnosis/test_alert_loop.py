"""The loop that Alertmanager asks: it answers at once, asks a service once, and gives Alertmanager what it found."""

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from headway.diagnosis import alert_loop
from headway.diagnosis.alert_loop import AlertLoop, DiagnosedService, answering, threads
from headway.diagnosis.alertmanager import AlertmanagerError, Alertmanagers
from headway.diagnosis.cause_alert import MessagePlaces
from headway.diagnosis.notification import LARGEST_BYTES, FiringAlert
from headway.diagnosis.reasoning import Diagnosis, DiagnosisVerdict, diagnoses
from headway.listening import listening
from headway.release.service_place import ServicePlace
from tests.unit.diagnosis.played import AT, played
from tests.unit.diagnosis.test_cause_alert import alert, notification

SLOW = diagnoses(played({"compute": 0.060}))


@dataclass
class Heard(Alertmanagers):
    """An Alertmanager that keeps what it is given."""

    fires: tuple[FiringAlert, ...] = ()
    known: Collection[str] = ()
    away: bool = False
    given: list[Mapping[str, Any]] = field(default_factory=list[Mapping[str, Any]])

    def give(self, alerts: Sequence[Mapping[str, Any]]) -> None:
        if self.away:
            raise AlertmanagerError("it is away")
        self.given += alerts

    def pages(self) -> tuple[FiringAlert, ...]:
        if self.away:
            raise AlertmanagerError("it is away")
        return self.fires

    def explained(self) -> set[str]:
        return set(self.known)


@dataclass
class Bed:
    """A loop over two services, whose diagnoses are `found`, and its clock."""

    found: Callable[[ServicePlace], tuple[Diagnosis, ...]] = lambda place: SLOW
    heard: Heard = field(default_factory=Heard)
    moment: float = 1000.0
    said: list[str] = field(default_factory=list[str])
    asked: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        places = [ServicePlace(project=Path(), environment="prod", tenant="vision", model=name) for name in ("defects", "embeddings")]
        services = {each.chain: DiagnosedService(place=each, receiver="vision-oncall") for each in places}

        def diagnose(place: ServicePlace, at: float) -> tuple[Diagnosis, ...]:
            self.asked.append(place.chain)
            return self.found(place)

        self.loop = AlertLoop(
            services=lambda: services,
            alertmanagers=self.heard,
            places=MessagePlaces(environment="prod"),
            clock=lambda: self.moment,
            now=lambda: AT,
            say=self.said.append,
            diagnose=diagnose,
        )

    def end(self) -> None:
        """After everything that waits is answered."""
        self.loop.end()
        self.loop.work()


def page(model: str = "defects") -> bytes:
    return notification(alert(namespace="vision", model=model))


def test_a_page_is_answered_at_once_and_explained_after_that() -> None:
    bed = Bed()
    assert bed.loop.take(page()) == 200
    assert bed.asked == []
    bed.end()
    assert [each["labels"]["receiver"] for each in bed.heard.given] == ["vision-oncall"]


def test_a_receiver_that_labels_name_gets_nothing() -> None:
    bed = Bed()
    bed.loop.take(notification(alert(namespace="vision", model="defects", receiver="assist-oncall", cause="x", place="y")))
    bed.end()
    assert "assist-oncall" not in json.dumps(bed.heard.given)


def test_alerts_of_one_service_within_a_minute_are_one_diagnosis() -> None:
    bed = Bed()
    bed.loop.take(page())
    bed.loop.take(page())
    worker = threading.Thread(target=bed.loop.work)
    worker.start()
    while not bed.heard.given:
        worker.join(0.01)
    while "vision/defects" in bed.loop._running:
        worker.join(0.01)
    bed.loop.take(page())
    bed.moment += alert_loop.FRESH_SECONDS
    bed.loop.take(page())
    bed.loop.end()
    worker.join()
    assert bed.asked == ["vision/defects"] * 2


def test_one_service_that_cannot_be_diagnosed_keeps_no_other_waiting() -> None:
    def found(place: ServicePlace) -> tuple[Diagnosis, ...]:
        if place.model == "defects":
            raise KeyError("metadata")
        return SLOW

    bed = Bed(found)
    bed.loop.take(notification(*(alert(namespace="vision", model=model) for model in ("defects", "embeddings"))))
    bed.end()
    assert bed.asked == ["vision/defects", "vision/embeddings"]
    assert len(bed.heard.given) == 1
    assert "headway_diagnosis_failed_total 1.0" in bed.loop.text()


def test_a_cause_that_nobody_takes_is_counted_and_said() -> None:
    bed = Bed(heard=Heard(away=True))
    bed.loop.take(page())
    bed.end()
    assert "headway_diagnosis_undelivered_total 1.0" in bed.loop.text()
    assert bed.said == ["vision/defects: nobody could be told why: it is away"]


def test_without_room_alertmanager_is_asked_to_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alert_loop, "MOST_WAITING", 1)
    bed = Bed()
    assert [bed.loop.take(page(model)) for model in ("defects", "embeddings", "defects")] == [200, 503, 200]


def test_what_ends_takes_nothing_more_and_answers_who_waits() -> None:
    bed = Bed()
    bed.loop.take(page())
    bed.loop.end()
    assert bed.loop.take(page("embeddings")) == 503
    bed.loop.work()
    assert bed.asked == ["vision/defects"]


def test_a_loop_that_starts_asks_for_what_fires_and_is_not_explained() -> None:
    fires = tuple(FiringAlert(tenant="vision", model=model) for model in ("defects", "embeddings"))
    bed = Bed(heard=Heard(fires=fires, known={"vision/embeddings"}))
    bed.loop.begin()
    bed.end()
    assert bed.asked == ["vision/defects"]


def test_a_loop_that_starts_without_alertmanager_waits_for_it() -> None:
    bed = Bed(heard=Heard(away=True))
    bed.loop.begin()
    assert bed.said == ["what fires cannot be read: it is away"]
    assert bed.loop.take(page()) == 200


def test_of_suspects_only_those_that_look_ill_are_diagnosed(monkeypatch: pytest.MonkeyPatch) -> None:
    bed = Bed()
    monkeypatch.setattr(alert_loop, "suspects", lambda places, *, at, since: [each for each in places if each.model == "embeddings"])
    bed.loop.take(notification(alert(node="l4-0")))
    worker = threading.Thread(target=bed.loop.work)
    worker.start()
    while not bed.heard.given:
        worker.join(0.01)
    bed.loop.end()
    worker.join()
    assert bed.asked == ["vision/embeddings"]


def test_a_diagnosis_that_hangs_is_seen_by_the_probe() -> None:
    bed = Bed()
    bed.loop._running["vision/defects"] = bed.moment
    assert bed.loop.well
    bed.moment += alert_loop.PATIENCE_SECONDS
    assert not bed.loop.well


def test_verdicts_are_counted() -> None:
    bed = Bed()
    bed.loop.take(page())
    bed.end()
    assert f'headway_diagnosis_verdicts_total{{verdict="{DiagnosisVerdict.CAUSE}"}} 1.0' in bed.loop.text()


def status(port: int, body: bytes | None, path: str = "/alerts", **headers: str) -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}{path}", body, headers), timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_it_is_asked_by_http_and_takes_no_more_than_a_notification() -> None:
    bed = Bed()
    working = threads(bed.loop)
    with listening("127.0.0.1", 0, answering(bed.loop), consequence="", remedy="") as port:
        assert status(port, page()) == 200
        assert status(port, b"{}") == 400
        assert status(port, page(), path="/other") == 404
        assert status(port, b" " * 10, **{"Content-Length": str(LARGEST_BYTES + 1)}) == 413
        assert status(port, None, "/healthz") == status(port, None, "/metrics") == 200
    bed.loop.end()
    for each in working:
        each.join(10)
    assert len(bed.heard.given) == 1
