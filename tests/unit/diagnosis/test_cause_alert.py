"""What people are told with an alert: which services are asked, what is one message, and what it says."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.diagnosis.cause_alert import MOST_CHARACTERS, MessagePlaces, alerts_of, description, place_of
from headway.diagnosis.episode import LASTS_SECONDS, MOST_CAUSES, PAGE, TICKET, KnownCause, news
from headway.diagnosis.facts import Blindness, StateKind
from headway.diagnosis.hypothesis import CauseLayer, Symptom
from headway.diagnosis.notification import LARGEST_BYTES, AskedServices, FiringAlert, asked, read
from headway.diagnosis.reasoning import METRICS, ChainLink, Diagnosis, DiagnosisVerdict, Doubt, diagnoses
from headway.diagnosis.wording import summary
from headway.timestamp import rfc3339
from headway.wire import CAUSE_ALERT, CAUSE_GROUP, CAUSE_SEVERITY, CAUSE_URGENCY, TRAIL
from tests.unit.diagnosis.played import AT, ONSET, played, says

KNOWN = ("assist/chat", "vision/defects", "vision/embeddings")
PLACES = MessagePlaces(environment="prod", runbooks="https://git.example.com/docs/runbooks", grafana="https://grafana.example.com")
SLOW = diagnoses(played({"compute": 0.060}))
CALM = diagnoses(played())


def alert(status: str = "firing", **labels: Any) -> dict[str, Any]:
    return {"status": status, "labels": {"alertname": "SloBurnRate", **labels}}


def told(found: Sequence[Diagnosis], receiver: str, places: MessagePlaces, urgency: str = PAGE) -> tuple[KnownCause, ...]:
    """What people hear who know nothing yet."""
    return news(alerts_of(found, receiver, places, urgency), (), urgency=urgency, at=AT).told


def notification(*alerts: Any) -> bytes:
    return json.dumps({"version": "4", "alerts": list(alerts)}).encode()


def of_node(tenant: str, node: str, layer: CauseLayer = CauseLayer.NODE, where: str = "") -> Diagnosis:
    links = (
        ChainLink(name=Symptom.MISSING, says="replicas are missing", evidence=()),
        ChainLink(name="node-not-ready", says="a node is not ready", evidence=("so it says",), where=where or node, node=node),
    )
    return Diagnosis(
        tenant=tenant,
        model="defects",
        at=AT,
        verdict=DiagnosisVerdict.CAUSE,
        symptom=Symptom.MISSING,
        links=links,
        cause="node-not-ready",
        layer=layer,
    )


@pytest.mark.parametrize(
    ("alerts", "expected"),
    [
        ([FiringAlert(tenant="vision", model="defects")], AskedServices(named=("vision/defects",), suspected=())),
        ([FiringAlert(tenant="vision")], AskedServices(named=(), suspected=("vision/defects", "vision/embeddings"))),
        ([FiringAlert()], AskedServices(named=(), suspected=KNOWN)),
        ([FiringAlert(tenant="monitoring")], AskedServices(named=(), suspected=KNOWN)),
        ([FiringAlert(tenant="vision", model="gone")], AskedServices(named=(), suspected=())),
        ([FiringAlert(tenant="stranger", model="defects")], AskedServices(named=(), suspected=())),
        (
            [FiringAlert(tenant="vision", model="defects"), FiringAlert(tenant="vision")],
            AskedServices(named=("vision/defects",), suspected=("vision/embeddings",)),
        ),
        ([], AskedServices(named=(), suspected=())),
    ],
)
def test_an_alert_asks_for_the_services_that_it_may_be_about(alerts: list[FiringAlert], expected: AskedServices) -> None:
    assert asked(alerts, KNOWN) == expected


@given(st.lists(st.builds(FiringAlert, tenant=st.text(max_size=12), model=st.text(max_size=12))))
def test_whatever_labels_say_only_known_services_are_asked(alerts: list[FiringAlert]) -> None:
    found = asked(alerts, KNOWN)
    assert {*found.named, *found.suspected} <= set(KNOWN)


def test_many_alerts_of_one_service_are_one_question() -> None:
    body = notification(*(alert(namespace="vision", model="defects", pod=f"p{number}") for number in range(50)))
    assert read(body) == ((FiringAlert(tenant="vision", model="defects"),), ())


def test_what_has_ended_is_told_apart_and_what_only_verifies_asks_nobody() -> None:
    body = notification(alert("resolved", namespace="vision", model="defects"), alert(verification="run-1"))
    assert read(body) == ((), (FiringAlert(tenant="vision", model="defects"),))


def test_a_ticket_is_no_page() -> None:
    fires, _ = read(notification(alert(severity="ticket"), alert(severity="page")))
    assert [each.page for each in fires] == [False, True]


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"[]", b"{}", b'{"alerts": 1}', b'{"alerts": [1]}', b'{"alerts": [{}]}', b"\xff", b"[" * 100_000),
        *(b'{"alerts": [{"status": "firing", "labels": 1}]}', b'{"alerts": "' + b"x" * LARGEST_BYTES + b'"}'),
    ],
)
def test_what_is_no_notification_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        read(body)


@given(
    st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=10)
)
def test_labels_that_are_no_text_are_no_names(odd: Any) -> None:
    found, _ = read(notification({"status": "firing", "labels": {"namespace": odd, "model": odd}}))
    assert all(isinstance(each.tenant, str) and isinstance(each.model, str) for each in found)


def test_people_hear_of_what_is_old_only_where_nothing_is_new() -> None:
    past = replace(says(StateKind.EVICTED), since=ONSET - 1800, over=True)
    days = replace(says(StateKind.NODE_NOT_READY, subject="n1"), since=ONSET - 3 * 86400)
    found = diagnoses(played({"compute": 0.060}, states=(past, days)))
    assert [each["labels"]["cause"] for each in told(found, "vision-oncall", PLACES)] == ["model-slower"]
    assert [each["labels"]["cause"] for each in told(found, "vision-oncall", PLACES, TICKET)] == ["model-slower", "node-not-ready"]
    assert [each["labels"]["cause"] for each in told(found[1:], "vision-oncall", PLACES)] == ["node-not-ready", "evicted"]
    assert "Since 2023-11-11 21:53:20 UTC." in told(found[1:], "vision-oncall", PLACES)[0]["annotations"]["description"]


def test_a_cause_that_people_know_holds_however_many_are_found_before_it() -> None:
    (first, *_) = diagnoses(played({"compute": 0.060}))
    many = [replace(first, cause=f"cause-{number}") for number in range(MOST_CAUSES + 1)]
    known = told(many[-1:], "vision-oncall", PLACES)
    found = news(alerts_of(many, "vision-oncall", PLACES), known, urgency=PAGE, at=AT)
    assert many[-1].cause in [each["labels"]["cause"] for each in found.given] and not found.corrects


def test_what_is_old_answers_no_page_of_which_nobody_knows_the_cause() -> None:
    days = replace(says(StateKind.NODE_NOT_READY, subject="n1"), since=ONSET - 21 * 86400)
    found = diagnoses(played({"errors": 0.3, "unreached": 0.3}, states=(days,)))
    assert [each.verdict for each in found] == [DiagnosisVerdict.UNKNOWN, DiagnosisVerdict.CAUSE]
    assert [each["labels"]["cause"] for each in told(found, "vision-oncall", PLACES)] == ["unknown"]


def test_a_cause_that_is_an_hour_old_and_holds_is_not_ended_by_another() -> None:
    missing = replace(says(StateKind.IMAGE_MISSING), since=AT - 3660)
    known = told(diagnoses(played(states=(missing,))), "vision-oncall", PLACES)
    both = alerts_of(diagnoses(played({"compute": 0.060}, states=(missing,))), "vision-oncall", PLACES)
    found = news(both, known, urgency=PAGE, at=AT + 60)
    assert [each["annotations"]["summary"].split(":")[0] for each in found.told] == ["Also"] and not found.corrects
    assert [each["endsAt"] for each in found.given if each["labels"]["cause"] == "image-missing"] == [rfc3339(AT + 600, "milliseconds")]


def test_a_cause_goes_to_the_receiver_of_the_contract_with_what_proves_it() -> None:
    (found,) = told(SLOW, "vision-oncall", PLACES)
    labels = found["labels"]
    assert (labels["alertname"], labels["severity"], labels["namespace"], labels["model"]) == (
        CAUSE_ALERT,
        CAUSE_SEVERITY,
        "vision",
        "defects",
    )
    assert (labels["receiver"], labels["cause"], labels["place"]) == ("vision-oncall", SLOW[0].cause, "vision/defects")
    assert found["annotations"]["summary"].startswith("vision/defects: answers take longer, because ")
    text = found["annotations"]["description"]
    assert "before, " in text and " since (" in text and "Ruled out: " in text
    assert text.splitlines()[-1].startswith("Next: headway ")
    assert found["annotations"]["dashboard_url"] == "https://grafana.example.com/d/headway-overview"


def test_a_cause_leads_to_the_requests_and_logs_from_before_it_began() -> None:
    (found,) = told(SLOW, "vision-oncall", PLACES)
    address = urlsplit(found["annotations"]["logs_url"])
    asked = {name: values[0] for name, values in parse_qs(address.query).items()}
    assert address.path == f"/d/{TRAIL}"
    assert (asked["var-tenant"], asked["var-model"]) == ("vision", "defects")
    assert int(asked["from"]) / 1000 < (SLOW[0].onset or 0.0) < int(asked["to"]) / 1000 == AT


def test_a_cause_says_how_it_is_kept_and_nothing_wrong_does_not() -> None:
    said = "Keep it: headway incident capture vision/defects -e prod --at 2023-11-14T22:13:20Z --out incident"
    assert said in description(SLOW[0], "prod").splitlines()
    assert "Keep it" not in description(CALM[0], "prod")


@pytest.mark.parametrize("urgency", [PAGE, TICKET])
def test_a_cause_says_what_it_explains_and_ends_by_itself(urgency: str) -> None:
    (found,) = told(SLOW, "r", PLACES, urgency)
    starts, ends = (datetime.fromisoformat(found[name]) for name in ("startsAt", "endsAt"))
    assert found["labels"][CAUSE_URGENCY] == urgency
    assert (ends - starts).total_seconds() == LASTS_SECONDS[urgency]


@pytest.mark.parametrize(
    ("found", "cause", "words"),
    [
        (CALM, "nothing-is-wrong", "vision/defects: nothing is wrong, as far as can be seen"),
        (
            diagnoses(replace(played(), series={}, blind=(Blindness(what=METRICS, why="Prometheus is away"),))),
            "blind",
            "vision/defects: nobody can say what is wrong, for too little was seen",
        ),
    ],
)
def test_nothing_and_blindness_are_answers(found: tuple[Diagnosis, ...], cause: str, words: str) -> None:
    (alert,) = told(found, "r", PLACES)
    assert (alert["labels"]["cause"], alert["annotations"]["summary"]) == (cause, words)
    assert alert["annotations"]["description"].splitlines()[-1] == "Next: headway diagnose vision/defects -e prod"


def test_an_unknown_cause_is_said_to_be_unknown() -> None:
    this = replace(SLOW[0], verdict=DiagnosisVerdict.UNKNOWN, cause="", links=SLOW[0].links[:1])
    (alert,) = told([this], "r", PLACES)
    assert alert["labels"]["cause"] == "unknown"
    assert summary(this) == "vision/defects: answers take longer, and its cause is unknown"


def one_message(*found: Diagnosis) -> bool:
    alerts = [alert for each in found for alert in told([each], "r", PLACES)]
    return len({tuple(alert["labels"][name] for name in CAUSE_GROUP) for alert in alerts}) == 1


def test_what_one_node_hurts_is_one_message() -> None:
    assert one_message(of_node("vision", "l4-0"), of_node("assist", "l4-0"), of_node("search", "l4-0", where="defects-r0123456789-1"))
    assert not one_message(of_node("vision", "l4-0"), of_node("assist", "l4-1"))


def test_services_are_hurt_apart_by_what_is_their_own() -> None:
    assert not one_message(SLOW[0], replace(SLOW[0], tenant="assist"))
    unknown = replace(SLOW[0], verdict=DiagnosisVerdict.UNKNOWN, cause="")
    assert not one_message(unknown, replace(unknown, tenant="assist"))


def test_a_pod_without_a_node_is_no_node() -> None:
    assert place_of(of_node("vision", "defects-r0123456789-5b6bb57495-tj4tz")) == "vision/defects"
    assert place_of(of_node("vision", "l4-0", CauseLayer.MODEL_SERVER)) == "vision/defects"


def test_a_message_stays_within_its_bounds_and_keeps_its_next_step() -> None:
    doubts = tuple(Doubt(name=str(n), says="x" * 400, said="y" * 400) for n in range(40))
    text = description(replace(SLOW[0], ruled_out=doubts, blind=(Blindness(what="z" * 3000, why="w"),)), "prod")
    assert len(text) <= MOST_CHARACTERS
    assert text.splitlines()[-1].startswith("Next: headway ")


def test_what_objects_say_gives_no_orders_to_a_terminal() -> None:
    hostile = diagnoses(played(states=(says(StateKind.UNREADY, words="\x1b[2J::error::x"),)))
    for each in told(hostile, "r", PLACES):
        assert "\x1b" not in json.dumps(each, ensure_ascii=False)
