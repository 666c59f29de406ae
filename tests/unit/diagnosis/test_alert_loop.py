"""The loop that Alertmanager asks: it answers at once, asks a service once, and gives Alertmanager what it found."""

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from headway.diagnosis import alert_loop
from headway.diagnosis.alert_loop import AlertLoop, DiagnosedService, answering, threads
from headway.diagnosis.alertmanager import AlertmanagerError, Alertmanagers
from headway.diagnosis.cause_alert import MessagePlaces
from headway.diagnosis.episode import KnownCause
from headway.diagnosis.notification import LARGEST_BYTES, FiringAlert
from headway.diagnosis.reasoning import Diagnosis, DiagnosisVerdict, diagnoses
from headway.listening import listening
from headway.release.service_place import ServicePlace
from headway.timestamp import rfc3339
from tests.unit.diagnosis.played import AT, played
from tests.unit.diagnosis.test_cause_alert import alert, notification

SLOW = diagnoses(played({"compute": 0.060}))


@dataclass
class Heard(Alertmanagers):
    """An Alertmanager that keeps what it is given."""

    fires: tuple[FiringAlert, ...] = ()
    known: Collection[str] = ()
    """Services of which a cause is known from before."""
    away: bool = False
    given: list[Mapping[str, Any]] = field(default_factory=list[Mapping[str, Any]])
    """Every alert, as often as it was given."""

    def give(self, alerts: Sequence[Mapping[str, Any]]) -> None:
        if self.away:
            raise AlertmanagerError("it is away")
        self.given += alerts

    def pages(self) -> tuple[FiringAlert, ...]:
        return tuple(each for each in self.firing() if each.page)

    def firing(self) -> tuple[FiringAlert, ...]:
        if self.away:
            raise AlertmanagerError("it is away")
        return self.fires

    def causes(self) -> dict[str, tuple[KnownCause, ...]]:
        """Those that were given and have not ended."""
        if self.away:
            raise AlertmanagerError("it is away")
        held: dict[str, KnownCause] = {chain: _known(chain) for chain in self.known}
        for each in self.given:
            held[json.dumps(each["labels"])] = each
        found: dict[str, tuple[KnownCause, ...]] = {}
        for each in held.values():
            chain = f"{each['labels']['namespace']}/{each['labels']['model']}"
            if "endsAt" not in each or datetime.fromisoformat(each["endsAt"]).timestamp() > AT:
                found[chain] = (*found.get(chain, ()), each)
        return found

    @property
    def summaries(self) -> list[str]:
        return [each["annotations"]["summary"] for each in self.given]


def _known(chain: str) -> KnownCause:
    tenant, _, model = chain.partition("/")
    labels = {"namespace": tenant, "model": model, "cause": "gpu-hot", "place": chain}
    return {"labels": labels, "annotations": {"summary": ""}, "startsAt": ""}


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
    bed.loop._running["vision/defects"] = bed.moment, alert_loop._Ask(suspected=False)
    assert bed.loop.well
    bed.moment += alert_loop.PATIENCE_SECONDS
    assert not bed.loop.well


def test_verdicts_are_counted() -> None:
    bed = Bed()
    bed.loop.take(page())
    bed.end()
    assert f'headway_diagnosis_verdicts_total{{verdict="{DiagnosisVerdict.CAUSE}"}} 1.0' in bed.loop.text()


UNKNOWN = tuple(replace(each, verdict=DiagnosisVerdict.UNKNOWN, cause="") for each in SLOW)
MORE = diagnoses(played({"limited": 0.4}))


def looked(bed: Bed, *answers: tuple[Diagnosis, ...]) -> None:
    """A page, its second look within a minute, and what Alertmanager asks after that, answered so."""
    bed.heard.fires = bed.heard.fires or (FiringAlert(tenant="vision", model="defects"),)
    for number, answer in enumerate(answers):
        bed.found = lambda place, answer=answer: answer
        if number == 1:
            bed.moment += alert_loop.AGAIN_SECONDS
            bed.loop.again()
        else:
            bed.moment += alert_loop.FRESH_SECONDS
            bed.loop.take(page())
        chosen = bed.loop._next()
        assert chosen is not None
        bed.loop._one(*chosen)
        del bed.loop._running[chosen[0]]
        bed.loop._last[chosen[0]] = bed.loop.clock(), chosen[1]


def test_a_page_whose_cause_was_another_is_looked_at_again_and_corrected() -> None:
    bed = Bed()
    looked(bed, SLOW, MORE)
    assert [each.split(":")[0] for each in bed.said] == ["vision/defects", "Correction"]
    assert [each["labels"]["cause"] for each in bed.heard.causes()["vision/defects"]] == [MORE[0].cause], "what was told before has ended"
    assert "headway_diagnosis_corrected_total 1.0" in bed.loop.text()


def test_that_nobody_knows_why_is_told_by_the_second_look_alone() -> None:
    soon, never = Bed(), Bed()
    looked(soon, UNKNOWN, SLOW)
    assert [each.split(":")[0] for each in soon.said] == ["vision/defects"] and SLOW[0].links[-1].says in soon.said[0]
    looked(never, UNKNOWN)
    assert never.said == []
    never.moment += alert_loop.AGAIN_SECONDS
    never.loop.again()
    never.end()
    assert ["unknown" in each for each in never.said] == [True]


def test_a_page_is_corrected_once_and_never_more() -> None:
    bed = Bed()
    looked(bed, SLOW, MORE, SLOW, MORE, UNKNOWN)
    assert len(bed.said) == 2
    assert [each["labels"]["cause"] for each in bed.heard.causes()["vision/defects"]] == [MORE[0].cause]


def test_a_second_look_that_finds_the_same_tells_nobody() -> None:
    bed = Bed()
    looked(bed, SLOW, SLOW, SLOW)
    assert len(bed.said) == 1 and bed.asked == ["vision/defects"] * 3


def test_a_page_is_looked_at_again_once() -> None:
    bed = Bed()
    looked(bed, SLOW, SLOW)
    bed.moment += alert_loop.AGAIN_SECONDS
    bed.loop.again()
    assert bed.loop._free() == []


def test_another_fault_under_the_page_of_one_before_is_looked_at_twice_too() -> None:
    bed = Bed()
    looked(bed, SLOW, SLOW, SLOW)  # the third: Alertmanager tells of another alert, and it is too early to see why
    bed.moment += alert_loop.AGAIN_SECONDS
    bed.found = lambda place: MORE
    bed.loop.again()
    bed.end()
    assert [each.split(":")[0] for each in bed.said] == ["vision/defects", "Correction"]


def test_a_ticket_within_a_minute_of_a_page_that_ended_is_told() -> None:
    bed = Bed(lambda place: SLOW)
    bed.loop._last["vision/defects"] = bed.loop.clock(), alert_loop._Ask(suspected=False)
    bed.loop.take(notification(alert(namespace="vision", model="defects", severity="ticket")))
    bed.moment += alert_loop.AGAIN_SECONDS
    bed.loop.again()
    bed.end()
    assert [each["labels"]["explains"] for each in bed.heard.given] == ["ticket"]


def test_a_page_that_joins_within_a_minute_is_looked_at_after_it() -> None:
    bed = Bed()
    looked(bed, SLOW, SLOW)
    bed.moment += alert_loop.FRESH_SECONDS / 4
    bed.loop.take(page())
    assert bed.loop._free() == [], "it was asked a moment ago"
    bed.moment += alert_loop.AGAIN_SECONDS
    bed.found = lambda place: MORE
    bed.loop.again()
    bed.end()
    assert [each.split(":")[0] for each in bed.said] == ["vision/defects", "Correction"]


def test_a_page_that_has_ended_is_not_looked_at_again() -> None:
    bed = Bed()
    looked(bed, SLOW)
    bed.heard.fires = ()
    bed.loop.take(notification(alert("resolved", namespace="vision", model="defects")))
    bed.end()
    assert bed.loop._again == {}
    assert bed.heard.causes() == {}, "its cause ends with it"


def test_a_second_look_asks_nobody_where_another_replica_heard_the_end() -> None:
    bed = Bed()
    looked(bed, SLOW)
    bed.heard.fires = ()
    bed.moment += alert_loop.AGAIN_SECONDS
    bed.loop.again()
    bed.end()
    assert bed.asked == ["vision/defects"]


def test_a_page_that_fires_again_may_be_corrected_again() -> None:
    bed = Bed()
    looked(bed, SLOW, MORE)
    bed.heard.fires = ()
    bed.loop.take(notification(alert("resolved", namespace="vision", model="defects")))
    bed.loop._end(list(bed.loop._over))
    looked(bed, SLOW, MORE)
    assert len(bed.said) == 4


def test_another_page_under_a_corrected_one_may_be_corrected_too() -> None:
    bed = Bed()
    looked(bed, SLOW, MORE)
    bed.loop.take(notification({**alert(namespace="vision", model="defects"), "startsAt": rfc3339(bed.loop.now() + 60)}))
    looked(bed, SLOW)
    assert len(bed.said) == 3


@pytest.mark.parametrize(
    ("fires", "lasts"),
    [
        (FiringAlert(tenant="vision", model="defects"), True),
        (FiringAlert(tenant="vision", model="defects", page=False), False),
        (FiringAlert(tenant="vision", model="embeddings"), False),
        (FiringAlert(), True),
        (FiringAlert(page=False), False),
    ],
)
def test_a_cause_lasts_while_a_page_may_be_about_its_service(fires: FiringAlert, lasts: bool) -> None:
    bed = Bed(heard=Heard(fires=(fires,)))
    looked(bed, SLOW)
    bed.loop.take(notification(alert("resolved", namespace="vision", model="defects")))
    bed.end()
    assert ("vision/defects" in bed.heard.causes()) is lasts


def test_where_alertmanager_is_away_causes_end_by_themselves() -> None:
    bed = Bed()
    bed.heard.away = True
    bed.loop.take(notification(alert("resolved", namespace="vision", model="defects")))
    bed.end()
    assert bed.said == ["causes of 1 services last until they end by themselves: it is away"]


@dataclass
class Odd(Heard):
    """An Alertmanager of whose answer nobody has thought."""

    def firing(self) -> tuple[FiringAlert, ...]:
        raise RuntimeError("no such thing")


def test_an_error_that_nobody_foresaw_ends_no_worker() -> None:
    bed = Bed(heard=Odd())
    bed.loop.begin()
    bed.loop.take(notification(alert("resolved", namespace="vision", model="defects")))
    bed.loop.take(page())
    bed.end()
    assert bed.asked == ["vision/defects"], "who waits is still answered"
    assert bed.said[:2] == [
        "what fires cannot be read: RuntimeError: no such thing",
        "causes of 1 services last until they end by themselves: RuntimeError: no such thing",
    ]


def test_a_tickets_cause_is_told_and_an_unknown_one_is_not() -> None:
    told, silent = Bed(), Bed(lambda place: UNKNOWN)
    for bed in (told, silent):
        bed.loop.take(notification(alert(namespace="vision", model="defects", severity="ticket")))
        bed.end()
    assert [each["labels"]["explains"] for each in told.heard.given] == ["ticket"]
    assert silent.asked == ["vision/defects"] and silent.heard.given == []


def test_a_page_that_joins_a_ticket_is_asked_although_the_ticket_was() -> None:
    bed = Bed()
    bed.loop.take(notification(alert(namespace="vision", model="defects", severity="ticket")))
    bed.loop.take(notification(alert(namespace="vision", model="defects", severity="page")))
    bed.end()
    assert [each["labels"]["explains"] for each in bed.heard.given] == ["page"]


def test_a_page_is_asked_while_its_ticket_still_is() -> None:
    bed = Bed()
    bed.loop.take(notification(alert(namespace="vision", model="defects", severity="ticket")))
    asked = bed.loop._next()
    bed.loop.take(page())
    assert bed.loop._free() == [], "one after the other"
    assert asked is not None
    bed.loop._one(*asked)
    del bed.loop._running[asked[0]]
    bed.end()
    assert [each["labels"]["explains"] for each in bed.heard.given] == ["ticket", "page"]


def test_a_storm_of_one_service_is_one_message_and_one_correction() -> None:
    bed = Bed()
    for number in range(50):
        bed.loop.take(notification(alert(namespace="vision", model="defects", pod=f"p{number}")))
    looked(bed, SLOW, MORE, MORE)
    assert len(bed.said) == 2


def test_a_loop_that_starts_anew_tells_nobody_what_people_know() -> None:
    bed = Bed(heard=Heard(known={"vision/defects"}), found=lambda place: UNKNOWN)
    bed.loop.take(page())
    bed.end()
    assert bed.said == []


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


def test_its_page_of_series_holds_those_of_the_whole_process() -> None:
    with listening("127.0.0.1", 0, answering(Bed().loop, lambda: "more 1\n"), consequence="", remedy="") as port:
        page = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10).read().decode()
    assert "headway_diagnosis_waiting 0.0" in page and "more 1" in page
