"""What people are told from the first alert to the last: a cause, at most one correction, and its end."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pytest

from headway.diagnosis.episode import (
    ALSO,
    CORRECTION,
    LASTS_SECONDS,
    MOST_CAUSES,
    PAGE,
    TICKET,
    CauseNews,
    FoundCauses,
    KnownCause,
    ended,
    news,
    over,
)
from headway.timestamp import rfc3339
from headway.wire import CAUSE_URGENCY
from tests.unit.diagnosis.played import AT

LATER = AT + 60


def cause(name: str, urgency: str = PAGE, at: str = "2023-11-14T22:12:20.000Z", **labels: str) -> KnownCause:
    about = {"namespace": "vision", "model": "defects", "cause": name, "place": "vision/defects", CAUSE_URGENCY: urgency, **labels}
    return {"labels": about, "annotations": {"summary": f"because {name}"}, "startsAt": at}


def told(found: Sequence[KnownCause], known: Sequence[KnownCause], *, urgency: str = PAGE) -> CauseNews:
    return news(FoundCauses(fresh=tuple(found)), known, urgency=urgency, at=LATER)


def causes(alerts: Sequence[KnownCause]) -> list[str]:
    return [each["labels"]["cause"] for each in alerts]


def ends(this: KnownCause) -> float:
    return datetime.fromisoformat(this["endsAt"]).timestamp()


@pytest.mark.parametrize("first", ["gpu-hot", "unknown", "nothing-is-wrong"])
def test_of_a_page_people_hear_whatever_was_found(first: str) -> None:
    found = told([cause(first)], [])
    assert causes(found.told) == causes(found.given) == [first] and not found.corrects


def test_the_same_cause_again_is_given_and_told_to_nobody() -> None:
    found = told([cause("gpu-hot")], [cause("gpu-hot")])
    assert causes(found.given) == ["gpu-hot"] and found.told == ()


@pytest.mark.parametrize("before", ["gpu-hot", "unknown"])
def test_another_cause_is_told_as_a_correction_and_ends_the_one_before(before: str) -> None:
    found = told([cause("model-slower")], [cause(before)])
    new, old = found.given
    assert found.corrects and found.told == (new,)
    assert new["annotations"]["summary"] == f"{CORRECTION}because model-slower"
    assert (old["labels"]["cause"], ends(old)) == (before, LATER)


def test_a_second_correction_is_not_told_and_what_people_know_lasts() -> None:
    (correction,) = told([cause("model-slower")], [cause("gpu-hot")]).told
    found = told([cause("out-of-memory")], [correction])
    assert found.told == () and causes(found.given) == ["model-slower"]
    assert ends(found.given[0]) == LATER + LASTS_SECONDS[PAGE]


def test_a_correction_that_is_found_again_stays_one() -> None:
    (correction,) = told([cause("model-slower")], [cause("gpu-hot")]).told
    (again,) = told([cause("model-slower")], [correction]).given
    assert again["annotations"]["summary"] == correction["annotations"]["summary"]
    assert told([cause("gpu-hot")], [again]).told == (), "another replica of the loop knows it too"


def test_a_tickets_cause_is_not_corrected() -> None:
    found = told([cause("model-slower", TICKET)], [cause("gpu-hot", TICKET)], urgency=TICKET)
    assert found.told == () and causes(found.given) == ["gpu-hot"]


def test_who_knows_a_cause_is_not_told_that_nobody_does() -> None:
    found = told([cause("unknown")], [cause("gpu-hot")])
    assert found.told == () and causes(found.given) == ["gpu-hot"]
    assert ends(found.given[0]) == LATER + LASTS_SECONDS[PAGE]


def test_one_more_cause_beside_the_known_one_ends_neither() -> None:
    found = told([cause("gpu-hot"), cause("more-requests")], [cause("gpu-hot")])
    assert causes(found.told) == ["more-requests"] and sorted(causes(found.given)) == ["gpu-hot", "more-requests"]
    assert not any("endsAt" in each for each in found.given)


def test_the_same_cause_in_another_place_is_another_cause() -> None:
    assert told([cause("gpu-hot", place="l4-1")], [cause("gpu-hot", place="l4-0")]).corrects


@pytest.mark.parametrize("known", [[], [cause("gpu-hot", TICKET)], [cause("gpu-hot", PAGE)]])
def test_a_ticket_tells_nobody_that_nothing_is_known(known: list[KnownCause]) -> None:
    assert told([cause("unknown", TICKET)], known, urgency=TICKET).told == ()


def test_what_a_page_has_told_no_ticket_tells_again() -> None:
    assert told([cause("gpu-hot", TICKET)], [cause("gpu-hot", PAGE)], urgency=TICKET) == CauseNews()


def test_what_a_ticket_has_told_a_page_tells_as_its_own() -> None:
    found = told([cause("gpu-hot", PAGE)], [cause("gpu-hot", TICKET)])
    assert causes(found.told) == ["gpu-hot"] and not found.corrects


@pytest.mark.parametrize(
    ("paged", "fires", "expected"),
    [(True, True, []), (False, True, ["page"]), (False, False, ["page", "ticket"]), (True, False, ["ticket"])],
)
def test_a_cause_is_over_with_what_it_explains(paged: bool, fires: bool, expected: list[str]) -> None:
    known = [cause("page", PAGE), cause("ticket", TICKET)]
    assert causes(over(known, paged=paged, fires=fires)) == expected


def test_a_cause_of_before_an_update_explains_a_page() -> None:
    old: dict[str, Any] = {"labels": {"cause": "gpu-hot"}, "annotations": {}, "startsAt": ""}
    assert over([old], paged=False, fires=True) == (old,)


def test_a_known_cause_without_words_is_no_correction() -> None:
    assert told([cause("model-slower")], [{"labels": {"cause": "gpu-hot"}, "startsAt": ""}]).corrects


def test_what_ends_keeps_its_labels_and_its_beginning() -> None:
    (gone,) = ended([cause("gpu-hot")], LATER)
    assert {name: gone[name] for name in ("labels", "startsAt")} == {name: cause("gpu-hot")[name] for name in ("labels", "startsAt")}
    assert ends(gone) == LATER


def test_what_is_found_beside_a_cause_that_holds_corrects_nothing() -> None:
    found = told([cause("gpu-hot"), cause("more-requests")], [cause("gpu-hot")])
    assert [each["annotations"]["summary"] for each in found.told] == [f"{ALSO}because more-requests"] and not found.corrects
    again = told([cause("gpu-hot"), cause("more-requests")], found.given)
    assert again.told == () and again.given[1]["annotations"]["summary"].startswith(ALSO), "it stays what people were told"
    assert told([cause("model-slower")], again.given).corrects, "the one correction is still to be had"


def test_no_more_is_told_beside_a_cause_than_people_can_hold() -> None:
    known = [cause(f"cause-{number}") for number in range(MOST_CAUSES)]
    assert told([*known, cause("one-more")], known).told == ()


def test_what_holds_no_more_keeps_nobody_from_hearing_of_another_cause() -> None:
    known = [cause(f"cause-{number}") for number in range(MOST_CAUSES)]
    assert causes(told([known[0], cause("one-more")], known).told) == ["one-more"]


@pytest.mark.parametrize(("began", "corrects"), [(LATER - 1, False), (LATER + 1, True)])
def test_another_page_that_began_after_a_correction_may_be_corrected_again(began: float, corrects: bool) -> None:
    correction = {**told([cause("model-slower")], [cause("gpu-hot")]).told[0], "startsAt": rfc3339(LATER)}
    found = news(FoundCauses(fresh=(cause("out-of-memory"),)), [correction], urgency=PAGE, at=LATER + 60, began=began)
    assert found.corrects is corrects


def test_what_is_over_and_was_told_is_kept_beside_another_cause() -> None:
    found = news(
        FoundCauses(fresh=(cause("model-slower"),), stale=(cause("out-of-memory"),)), [cause("out-of-memory")], urgency=PAGE, at=LATER
    )
    assert not found.corrects and [each["labels"]["cause"] for each in found.given if "endsAt" not in each] == [
        "model-slower",
        "out-of-memory",
    ]


@pytest.mark.parametrize("before", ["unknown", "model-fails"])
def test_what_is_old_corrects_nothing_and_what_people_know_lasts(before: str) -> None:
    found = news(FoundCauses(stale=(cause("node-not-ready"),)), [cause(before)], urgency=PAGE, at=LATER)
    assert found.told == () and [(each["labels"]["cause"], ends(each)) for each in found.given] == [(before, LATER + LASTS_SECONDS[PAGE])]


def test_what_is_old_answers_where_nothing_else_does() -> None:
    assert causes(news(FoundCauses(stale=(cause("node-not-ready"),)), [], urgency=PAGE, at=LATER, first=True).told) == ["node-not-ready"]


@pytest.mark.parametrize(("urgency", "expected"), [(PAGE, ["unknown"]), (TICKET, ["out-of-memory"])])
def test_that_nobody_knows_why_a_page_fires_comes_before_what_is_past(urgency: str, expected: list[str]) -> None:
    found = FoundCauses(fresh=(cause("unknown", urgency),), stale=(cause("out-of-memory", urgency),))
    assert causes(news(found, [], urgency=urgency, at=LATER).told) == expected
    if urgency == PAGE:
        assert news(found, [], urgency=PAGE, at=LATER, first=True).told == ()


@pytest.mark.parametrize(("found", "known"), [("fresh", []), ("stale", []), ("fresh", [cause("gone")])])
def test_of_many_causes_people_are_told_the_first_few(found: str, known: list[KnownCause]) -> None:
    many = tuple(cause(f"cause-{number}") for number in range(MOST_CAUSES + 1))
    assert causes(news(FoundCauses(**{found: many}), known, urgency=PAGE, at=LATER).told) == causes(many[:MOST_CAUSES])
