"""Under object lock an event is kept for as long as the bucket says, and a writing of a lease for hours."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber
from moto import mock_aws

from headway.ledger import lease
from headway.ledger.s3_store import REPLACED_KEPT, S3Store
from headway.ledger.store import TakenError
from headway.ledger.store_proof import prove
from tests.unit.ledger.conftest import s3

EVENT, LEASE = "vision/defects/events/00000001.json", lease.key("vision/defects")
LOCKED_DAYS = 365


@pytest.fixture
def client() -> Iterator[Any]:
    """S3 with a bucket that locks what is written, and one that locks nothing."""
    with mock_aws():
        made = s3()
        made.create_bucket(Bucket="ledger", ObjectLockEnabledForBucket=True)
        rule = {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": LOCKED_DAYS}}
        made.put_object_lock_configuration(Bucket="ledger", ObjectLockConfiguration={"ObjectLockEnabled": "Enabled", "Rule": rule})
        made.create_bucket(Bucket="open")
        yield made


def kept(client: Any, key: str) -> list[timedelta]:
    """For how long from now each version is."""
    found = client.list_object_versions(Bucket="ledger", Prefix=key)["Versions"]
    told = [client.head_object(Bucket="ledger", Key=key, VersionId=each["VersionId"]) for each in found]
    assert {each["ObjectLockMode"] for each in told} == {"GOVERNANCE"}
    return [each["ObjectLockRetainUntilDate"] - datetime.now(UTC) for each in told]


def renewed(store: S3Store, times: int) -> None:
    tag = store.replace(LEASE, b"0", None)
    for number in range(1, times):
        tag = store.replace(LEASE, str(number).encode(), tag)


def test_a_renewed_lease_leaves_no_version_that_is_kept_like_an_event(client: Any) -> None:
    store = S3Store(client, "ledger")
    store.create(EVENT, b"{}")
    renewed(store, 5)
    assert len(kept(client, LEASE)) == 5
    assert max(kept(client, LEASE)) <= REPLACED_KEPT < timedelta(days=1)
    assert min(kept(client, EVENT)) > timedelta(days=LOCKED_DAYS - 1)


def test_a_writing_of_a_lease_is_kept_for_hours_from_the_writers_own_time() -> None:
    made = s3()
    until = datetime(2026, 11, 29, 0, tzinfo=UTC)
    hashed = {"ChecksumAlgorithm": "SHA256", "ChecksumSHA256": "a4ayc/80/OGda4BO/1o/V0etpOqiLx1JwB5S3beHW0s="}
    kept = {"ObjectLockMode": "GOVERNANCE", "ObjectLockRetainUntilDate": until}
    with Stubber(made) as stub:
        stub.add_response("put_object", {"ETag": "2"}, {"Bucket": "l", "Key": LEASE, "Body": b"1", "IfMatch": "1", **kept, **hashed})
        assert S3Store(made, "l", clock=datetime(2026, 11, 28, 12, tzinfo=UTC).timestamp).replace(LEASE, b"1", "1") == "2"


def test_no_version_of_an_event_can_be_deleted(client: Any) -> None:
    S3Store(client, "ledger").create(EVENT, b"{}")
    (event,) = client.list_object_versions(Bucket="ledger", Prefix=EVENT)["Versions"]
    with pytest.raises(ClientError, match="AccessDenied"):
        client.delete_object(Bucket="ledger", Key=EVENT, VersionId=event["VersionId"])


def test_a_writing_of_a_lease_is_kept_for_longer_than_a_lease_is_believed() -> None:
    assert timedelta(seconds=lease.LONGEST_SECONDS) < REPLACED_KEPT


def test_a_bucket_without_object_lock_holds_leases_all_the_same(client: Any) -> None:
    store = S3Store(client, "open")
    renewed(store, 3)
    held = store.held(LEASE)
    assert held is not None and held.body == b"2"
    with pytest.raises(TakenError):
        store.replace(LEASE, b"other", None)


@pytest.mark.parametrize("bucket", ["ledger", "open"])
def test_the_proof_of_a_store_passes_with_a_lock_and_without(client: Any, bucket: str) -> None:
    prove(S3Store(client, bucket))
