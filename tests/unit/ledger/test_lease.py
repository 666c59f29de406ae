"""Whose turn it is to drive: renewed beside the chain, judged by no clock but the store's own, and fenced by the chain."""

import io
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from botocore.stub import Stubber
from hypothesis import given
from hypothesis import strategies as st
from moto import mock_aws
from moto.s3.models import s3_backends

from headway.ledger import lease as leases
from headway.ledger.chain import Ledger, LostError
from headway.ledger.reading import verify
from headway.ledger.s3_store import S3Store
from headway.ledger.store import FolderStore, LedgerStore, TakenError, UnreachableError
from headway.problem import Exit, UserError
from tests.unit.ledger.conftest import s3
from tests.unit.release_kill import Shelf
from tests.unit.release_world import CHAIN, START

TERM = timedelta(minutes=1)


@dataclass
class Time:
    """The time that passes, and the clocks that tell it."""

    now: datetime = START
    s3: Any = None

    def passes(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        if self.s3:  # moto stamps what is written with this machine's time
            for key in self.s3.buckets["ledger"].keys.values():
                key.last_modified -= timedelta(seconds=seconds)


@dataclass
class Place:
    store: LedgerStore
    time: Time = field(default_factory=Time)

    def ledger(self, name: str, wrong: timedelta = timedelta()) -> Ledger:
        """Seen by a runner whose clock is `wrong` by so much."""
        return Ledger(self.store, CHAIN, "sandbox", name, lambda: self.time.now + wrong)

    def delete(self) -> None:
        assert isinstance(self.store, Shelf)
        del self.store.objects[leases.key(CHAIN)]


@pytest.fixture
def place() -> Place:
    shelf = Shelf()
    here = Place(shelf)
    shelf.clock = lambda: here.time.now
    return here


@pytest.fixture(params=["folder", "s3"])
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """On the stores that people use."""
    if request.param == "folder":
        time = Time()
        yield Place(FolderStore(tmp_path, lambda: time.now.timestamp()), time)
        return
    with mock_aws():
        s3().create_bucket(Bucket="ledger")
        yield Place(S3Store(s3(), "ledger", "releases/"), Time(s3=s3_backends["123456789012"]["aws"]))


def refused(ledger: Ledger, name: str) -> UserError:
    with pytest.raises(UserError, match="is driven by") as found:
        ledger.acquire(name, TERM)
    assert found.value.exit is Exit.BUSY
    return found.value


def test_a_live_lease_keeps_others_out_and_a_dead_ones_runs_out(stored: Place) -> None:
    one, two = stored.ledger("one"), stored.ledger("two")
    one.acquire("one", TERM)
    stored.time.passes(50)
    refused(two, "two")
    stored.time.passes(12)
    assert two.acquire("two", TERM).holder == "two"
    assert [event.kind for event in two.events] == ["lease", "lease"]


@pytest.mark.parametrize(
    "odd",
    [
        b"",
        b"null",
        b"[]",
        b"[" * 100_000,
        b'{"count":1e999}',
        *(b'{"count":1,"holder":"x","number":99,"renewed":"","seconds":%s}' % s for s in (b"1e9", b'"nan"', b"-1")),
    ],
)
def test_an_odd_lease_keeps_nobody_out_for_longer_than_a_lease_lasts(place: Place, odd: bytes) -> None:
    assert isinstance(place.store, Shelf)
    place.store.objects[leases.key(CHAIN)], place.store.when[leases.key(CHAIN)] = odd, place.time.now
    assert place.ledger("two").acquire("two", TERM).holder == "two"


def test_a_lease_that_is_renewed_for_hours_is_one_event_and_one_object(stored: Place) -> None:
    one, two = stored.ledger("one"), stored.ledger("two")
    for _ in range(15):
        one.acquire("one", TERM)
        stored.time.passes(30)
        refused(two, "two")
    assert [event.kind for event in two.read()] == ["lease"]
    assert stored.store.list("leases/") == (leases.key(CHAIN),)


def test_a_lease_given_back_is_free_at_once(stored: Place) -> None:
    one = stored.ledger("one")
    one.acquire("one", timedelta(hours=1))
    one.release("one")
    assert (one.left("one"), one.events[-1].body) == (0, {"holder": "one"})
    assert stored.ledger("two").acquire("two", TERM).holder == "two"


def test_who_is_told_to_wait_is_told_for_whom_and_until_when(place: Place) -> None:
    place.ledger("one").acquire("one", TERM)
    place.time.passes(20)
    assert refused(place.ledger("two"), "two").fact == "The rollout of vision/defects is driven by one until 2026-11-21T12:01:00.000Z."


def test_a_lease_that_is_renewed_for_longer_lasts_for_longer(place: Place) -> None:
    one = place.ledger("one")
    one.acquire("one", TERM)
    one.acquire("one", 5 * TERM)
    place.time.passes(299)
    refused(place.ledger("two"), "two")
    place.time.passes(2)
    assert place.ledger("two").acquire("two", TERM).holder == "two"


def test_the_longest_lease_is_believed_and_ends_on_time(place: Place) -> None:
    place.ledger("one").acquire("one", timedelta(seconds=leases.LONGEST_SECONDS))
    two = place.ledger("two")
    place.time.passes(3599)
    refused(two, "two")
    place.time.passes(2)
    assert two.acquire("two", TERM).holder == "two"


def test_who_reads_is_told_whose_turn_it_is_and_for_how_long(place: Place) -> None:
    one, two = place.ledger("one"), place.ledger("two")
    assert (one.lease(), one.left("one")) == (None, 0)
    assert one.acquire("one", TERM) == leases.Lease("one", 1, 60)
    place.time.passes(20)
    two.read()
    assert two.lease() == leases.Lease("one", 1, 40)
    assert (one.left("one"), one.left("two"), two.left("one")) == (40, 0, 0)
    one.acquire("one", TERM)
    assert one.left("one") == 60
    place.delete()
    assert two.lease() == leases.Lease("one", 1, 60)
    place.time.passes(20)
    assert two.lease() == leases.Lease("one", 1, 40), "from when it was missed"


def test_a_holder_known_to_be_dead_keeps_nobody_out(place: Place) -> None:
    place.ledger("one").acquire("one", TERM)
    assert place.ledger("two").acquire("two", TERM, gone=lambda holder: holder == "one").holder == "two"
    place.delete()
    assert place.ledger("three").acquire("three", TERM, gone=lambda holder: holder == "two").holder == "three", "nor in its lease's absence"


def test_a_driver_cannot_write_any_more_once_another_one_took_over(place: Place) -> None:
    one, two = place.ledger("one"), place.ledger("two")
    one.acquire("one", TERM)
    place.time.passes(61)
    two.acquire("two", TERM)
    with pytest.raises(LostError):
        one.append("intended", {})
    one.read()
    assert one.left("one") == 0
    refused(one, "one")


@pytest.mark.parametrize("wrong", [timedelta(days=-400), timedelta(hours=-1), timedelta(hours=1), timedelta(days=400)])
def test_a_clock_that_is_wrong_neither_breaks_a_live_lease_nor_keeps_a_dead_one(place: Place, wrong: timedelta) -> None:
    for name, other in ((timedelta(), wrong), (wrong, timedelta())):
        here = Place(Shelf(), place.time)
        here.store.clock = lambda: place.time.now  # type: ignore[attr-defined]
        one, two = here.ledger("one", name), here.ledger("two", other)
        one.acquire("one", TERM)
        place.time.passes(59)
        refused(two, "two")
        assert 0 < one.left("one") <= 1
        place.time.passes(2)
        assert one.left("one") < 0
        two.acquire("two", TERM)


def test_a_lease_deleted_again_after_its_holder_showed_it_is_waited_for_anew(place: Place) -> None:
    """Whoever missed it first saw neither: to him it was away all the time."""
    one, two = place.ledger("one"), place.ledger("two")
    one.acquire("one", TERM)
    place.delete()
    refused(two, "two")
    place.time.passes(60)
    one.acquire("one", TERM)
    place.delete()
    refused(two, "two")
    assert one.left("one") > 0 and two.left("two") <= 0


def test_who_misses_a_lease_stands_in_for_it_until_its_holder_shows_it(place: Place) -> None:
    one, two = place.ledger("one"), place.ledger("two")
    one.acquire("one", TERM)
    place.delete()
    place.time.passes(30)
    assert refused(two, "two").fact.endswith("is driven by one until 2026-11-21T12:01:30.000Z.")
    held = place.store.held(leases.key(CHAIN))
    assert held is not None
    assert json.loads(held.body) == {"count": 1, "holder": "two", "number": 1, "renewed": "2026-11-21T12:00:30.000Z", "seconds": 60}
    assert one.lease() == leases.Lease("one", 1, 60)
    one.acquire("one", TERM)
    held = place.store.held(leases.key(CHAIN))
    assert held is not None and json.loads(held.body)["holder"] == "one"


def test_a_lease_whose_object_is_deleted_is_shown_again_by_its_holder(place: Place) -> None:
    one, two = place.ledger("one"), place.ledger("two")
    one.acquire("one", TERM)
    place.delete()
    refused(two, "two")
    place.time.passes(30)
    one.acquire("one", TERM)
    place.time.passes(59)
    refused(two, "two")
    assert len(one.read()) == 1, "who drives did not change"


def test_a_lease_without_its_object_lasts_one_full_time_from_when_it_is_missed(place: Place) -> None:
    one, two = place.ledger("one"), place.ledger("two")
    one.acquire("one", TERM)
    place.delete()
    place.time.passes(600)
    refused(two, "two")
    place.time.passes(59)
    found = two.lease()
    assert found is not None and found.live
    place.time.passes(2)
    two.acquire("two", TERM)


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"no json", b'{"holder":"two","number":"x"}'])
def test_an_object_that_is_no_lease_shows_nothing(place: Place, content: bytes) -> None:
    one = place.ledger("one")
    one.acquire("one", TERM)
    place.store.objects[leases.key(CHAIN)] = content  # type: ignore[attr-defined]
    refused(place.ledger("two"), "two")
    one.acquire("one", TERM)
    assert one.left("one") == 60


def test_an_older_writing_put_back_gives_nobody_a_turn_that_is_over(place: Place) -> None:
    one, two = place.ledger("one"), place.ledger("two")
    one.acquire("one", TERM)
    before = place.store.objects[leases.key(CHAIN)]  # type: ignore[attr-defined]
    place.time.passes(61)
    two.acquire("two", TERM)
    place.store.objects[leases.key(CHAIN)] = before  # type: ignore[attr-defined]
    refused(one, "one")
    assert two.acquire("two", TERM).number == 2


def test_who_renews_while_another_one_makes_up_his_mind_keeps_the_lease(place: Place) -> None:
    """Also where both writings would hold the same: each is another one."""
    one, two = place.ledger("one"), place.ledger("two")
    one.acquire("one", TERM)
    place.time.passes(61)
    replace = place.store.replace

    def meanwhile(*words: Any) -> str:
        place.store.replace = replace  # type: ignore[method-assign]
        place.time.now -= timedelta(seconds=61)  # the very same time again
        one.acquire("one", TERM)
        return replace(*words)

    place.store.replace = meanwhile  # type: ignore[method-assign]
    with pytest.raises(LostError, match="the lease of vision/defects was written by somebody else"):
        two.acquire("two", TERM)
    assert [event.actor for event in two.read()] == ["one"]


def test_a_holder_that_died_between_object_and_event_blocks_for_one_lease_only(place: Place) -> None:
    one, two, three = (place.ledger(name) for name in ("one", "two", "three"))
    one.acquire("one", TERM)
    place.time.passes(61)
    place.store.create = refusing  # type: ignore[method-assign]
    with pytest.raises(UnreachableError):
        two.acquire("two", TERM)
    del place.store.create  # type: ignore[attr-defined]
    for ledger, name in ((one, "one"), (three, "three")):
        refused(ledger, name)
    assert one.append("intended", {}).number == 2, "nobody else has acted"
    place.time.passes(61)
    three.acquire("three", TERM)
    assert verify(place.store, CHAIN, "sandbox") == ()


def refusing(key: str, body: bytes) -> None:
    raise UnreachableError("killed")


def test_a_lease_of_an_older_headway_which_wrote_no_object_is_waited_for(place: Place) -> None:
    older = place.ledger("older")
    older.append("lease", {"holder": "older", "until": "2026-11-21T12:01:00.000Z"})
    two = place.ledger("two")
    refused(two, "two")
    place.time.passes(61)
    assert two.acquire("two", TERM).number == 2


ACTS = (*["acquire"] * 5, *["pass"] * 3, *["delete"] * 2, "append", "release", "break", "die")


@given(
    wrong=st.lists(st.integers(-5000, 5000), min_size=3, max_size=3),
    acts=st.lists(st.tuples(st.sampled_from(ACTS), st.integers(0, 2), st.integers(1, 45)), min_size=12, max_size=40),
)
def test_whatever_happens_at_most_one_runner_believes_that_it_may_act(wrong: list[int], acts: list[tuple[str, int, int]]) -> None:
    """Three runners whose clocks are wrong, an object that is deleted now and then, and deaths between object and
    event."""
    shelf, time = Shelf(), Time()
    shelf.clock = lambda: time.now
    place = Place(shelf, time)
    fresh = itertools.count()
    runners = [(f"{number}", place.ledger(f"{number}", timedelta(seconds=wrong[number]))) for number in range(3)]
    for act, who, seconds in acts:
        name, ledger = runners[who]
        try:
            match act:
                case "acquire":
                    ledger.acquire(name, TERM)
                case "append":
                    ledger.append("step", {})
                case "release":
                    ledger.read()
                    ledger.release(name)
                case "delete":
                    shelf.objects.pop(leases.key(CHAIN), None)
                case "break":
                    shelf.create = refusing  # type: ignore[method-assign]
                    ledger.acquire(name, TERM)
                case "die":
                    again = f"{who}/{next(fresh)}"
                    runners[who] = (again, place.ledger(again, timedelta(seconds=wrong[who])))
                case _:
                    time.passes(seconds)
        except (UserError, LostError, UnreachableError, TakenError):
            pass
        shelf.__dict__.pop("create", None)
        believing = [name for name, ledger in runners if ledger.left(name) > 0]
        assert len(believing) <= 1
    assert verify(shelf, CHAIN, "sandbox") == ()


def test_s3_tells_by_its_own_clock_how_old_a_lease_is_and_never_more_than_it_is() -> None:
    """A day that is long past or to come for this machine; `Date` and `Last-Modified` tell whole seconds."""
    made = s3()
    written = datetime(2031, 5, 4, 12, 0, tzinfo=START.tzinfo)
    with Stubber(made) as stub:
        for seconds in (0, 30):
            headers = {"date": format_datetime(written + timedelta(seconds=seconds), usegmt=True)}
            body = {"Body": io.BytesIO(b"{}"), "ContentLength": 2, "ETag": '"e"', "LastModified": written}
            stub.add_response("get_object", {**body, "ResponseMetadata": {"HTTPHeaders": headers}})
        ages = [found.age for _ in range(2) if (found := S3Store(made, "ledger").held("leases/a"))]
    assert ages == [0.0, 29.0]
