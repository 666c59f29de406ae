"""Events that somebody deleted, or wrote anew after that: in a bucket with versions, what came first stays the chain."""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from moto import mock_aws

from headway.ledger.chain import Ledger, LostError
from headway.ledger.events import BOUND, Event, key
from headway.ledger.reading import verify
from headway.ledger.s3_store import S3Store
from headway.ledger.serving import ADOPTED, INTENDED, STARTED, latest
from headway.ledger.traffic_split import TrafficSplit
from headway.problem import UserError
from tests.unit.ledger.conftest import s3

CHAIN, ENVIRONMENT = "vision/defects", "prod"
PROVEN, FORGED = TrafficSplit.only("r1", "1" * 64), TrafficSplit.only("r2", "2" * 64)


class Versioned:
    """The ledger's bucket, and what an administrator may do to it."""

    def __init__(self) -> None:
        self.client = s3()
        self.client.create_bucket(Bucket="ledger", ObjectLockEnabledForBucket=True)
        self.store = S3Store(self.client, "ledger", "releases/")

    def ledger(self) -> Ledger:
        return Ledger(self.store, CHAIN, ENVIRONMENT, "ci", lambda: datetime(2026, 11, 21, tzinfo=UTC))

    def delete(self, number: int) -> None:
        self.client.delete_object(Bucket="ledger", Key=f"releases/{key(CHAIN, number)}")

    def overwrite(self, number: int, content: bytes) -> None:
        time.sleep(0.01)  # moto tells the order of versions by milliseconds
        self.client.put_object(Bucket="ledger", Key=f"releases/{key(CHAIN, number)}", Body=content)


@pytest.fixture
def bucket() -> Iterator[Versioned]:
    with mock_aws():
        made = Versioned()
        ledger = made.ledger()
        ledger.append(ADOPTED, {"division": PROVEN.document()})
        ledger.append(STARTED, {})
        ledger.append("noted", {})
        yield made


def forged(bucket: Versioned, number: int) -> bytes:
    before = bucket.ledger().read()[number - 2]
    body = {"division": FORGED.document()}
    return Event(number=number, previous=before.hash, time="2026-11-21T12:00:00.000Z", actor="mallory", kind=INTENDED, body=body).stored()


def hide_the_newest(bucket: Versioned) -> None:
    bucket.delete(3)


def replace_the_newest(bucket: Versioned) -> None:
    bucket.overwrite(3, forged(bucket, 3))


def delete_and_forge_the_newest(bucket: Versioned) -> None:
    content = forged(bucket, 3)
    bucket.delete(3)
    time.sleep(0.01)
    bucket.store.create(key(CHAIN, 3), content)


def hide_all(bucket: Versioned) -> None:
    for number in (1, 2, 3):
        bucket.delete(number)


ATTACKS = [hide_the_newest, replace_the_newest, delete_and_forge_the_newest, hide_all]


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_whoever_deletes_or_overwrites_changes_no_plan(bucket: Versioned, attack: Callable[[Versioned], None]) -> None:
    before = bucket.ledger().read()
    attack(bucket)
    assert latest(bucket.store, CHAIN, ENVIRONMENT) == PROVEN
    assert bucket.ledger().read() == before


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_verify_names_what_was_deleted_or_overwritten(bucket: Versioned, attack: Callable[[Versioned], None]) -> None:
    attack(bucket)
    assert any(f"{key(CHAIN, 3)} was deleted or written again" in flaw for flaw in verify(bucket.store, CHAIN, ENVIRONMENT))


def test_an_event_that_is_gone_with_all_its_versions_is_missed(bucket: Versioned) -> None:
    """Also beside one that is only hidden."""
    (version,) = bucket.client.list_object_versions(Bucket="ledger", Prefix=f"releases/{key(CHAIN, 2)}")["Versions"]
    bucket.client.delete_object(Bucket="ledger", Key=version["Key"], VersionId=version["VersionId"])
    bucket.delete(1)
    for read in (lambda: latest(bucket.store, CHAIN, ENVIRONMENT), bucket.ledger().read):
        with pytest.raises(UserError, match=f"Event 2 of {CHAIN} does not fit the chain: it is missing, and .*00000003.json is there"):
            read()


def test_a_writer_who_read_before_the_attack_does_not_fill_the_gap(bucket: Versioned) -> None:
    late, another = bucket.ledger(), bucket.ledger()
    late.read()
    another.read()
    another.append("noted", {"by": "another"})
    bucket.delete(4)
    with pytest.raises(LostError, match="event 4"):
        late.append("noted", {"by": "me"})


def test_the_next_event_follows_a_hidden_one(bucket: Versioned) -> None:
    bucket.delete(3)
    ledger = bucket.ledger()
    ledger.read()
    assert ledger.append("noted", {}).number == 4
    assert [event.number for event in bucket.ledger().read()] == [1, 2, 3, 4]


def test_a_sound_chain_with_versions_has_no_flaw(bucket: Versioned) -> None:
    assert verify(bucket.store, CHAIN, ENVIRONMENT) == ()


def test_a_chain_of_more_than_a_page_of_versions_is_read_whole(bucket: Versioned) -> None:
    """S3 lists a thousand at a time, here ten."""
    client: Any = boto3.client("s3", region_name="us-east-1", aws_access_key_id="none", aws_secret_access_key="none")
    store = S3Store(client, "ledger", "releases/")
    for listing in ("ListObjectVersions", "ListObjectsV2"):
        client.meta.events.register(f"provide-client-params.s3.{listing}", lambda params, **_: {**params, "MaxKeys": 10})
    keys = [f"other/service/events/{number:08d}.json" for number in range(1, 36)]
    for name in keys:
        store.create(name, b"x")
    bucket.client.delete_object(Bucket="ledger", Key=f"releases/{keys[30]}")
    found = store.written("other/service/events/", keys[4])
    assert [one.key for one in found] == keys[5:]
    assert [one.key for one in found if not one.once] == [keys[30]]
    assert list(store.list("other/service/events/", keys[4])) == keys[5:30] + keys[31:]


@pytest.mark.parametrize("name", [key(CHAIN, 4), key(CHAIN, 99), f"{CHAIN}/events/zzz"])
def test_what_is_no_event_stops_the_service_until_it_is_deleted(bucket: Versioned, name: str) -> None:
    bucket.store.create(name, b"no event")
    with pytest.raises(UserError):
        bucket.ledger().read()
    bucket.client.delete_object(Bucket="ledger", Key=f"releases/{name}")
    time.sleep(0.01)
    ledger = bucket.ledger()
    assert len(ledger.read()) == 3
    assert ledger.append("noted", {}).number == 4
    assert bucket.ledger().read()[-1].number == 4


def test_a_binding_of_another_service_is_none_once_it_is_deleted(bucket: Versioned) -> None:
    last = bucket.ledger().read()[-1]
    body = {"service": "vision/other", "environment": ENVIRONMENT}
    made = Event(number=last.number + 1, previous=last.hash, time="2026-11-21T12:00:00.000Z", actor="mallory", kind=BOUND, body=body)
    bucket.overwrite(made.number, made.stored())
    with pytest.raises(UserError):
        latest(bucket.store, CHAIN, ENVIRONMENT)
    bucket.delete(made.number)
    assert latest(bucket.store, CHAIN, ENVIRONMENT) == PROVEN
