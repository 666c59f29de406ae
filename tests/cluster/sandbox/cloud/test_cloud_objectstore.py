"""The object store as a real process: what was answered outlives it, whatever ends it."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from sandbox.cloud import objectstore
from sandbox.cluster.processes import Supervisor
from sandbox.layout import Layout
from sandbox.progress import Silent

PROJECT = Path(__file__).parents[4]
REGION = "eu-west-1"


@dataclass
class Store:
    """One object store and clients of it."""

    layout: Layout

    def start(self) -> None:
        objectstore.ensure_running(self.layout, Silent())

    def stop(self) -> None:
        Supervisor(self.layout).stop(objectstore.NAME, Silent())

    def kill(self) -> None:
        (process,) = Supervisor(self.layout).list()
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        while any(p.running for p in Supervisor(self.layout).list()):
            time.sleep(0.01)

    def client(self, service: str) -> Any:
        return objectstore.client(service, REGION, objectstore.endpoint(self.layout))

    def versions(self) -> list[tuple[Any, ...]]:
        listed = self.client("s3").list_object_versions(Bucket="ledger").get("Versions", [])
        return sorted((v["Key"], v["VersionId"], v["ETag"], v["LastModified"]) for v in listed)

    @property
    def journal(self) -> Path:
        return self.layout.cloud / "objects" / "journal.jsonl"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(Layout(project=PROJECT, state=tmp_path / "state", cache=tmp_path / "cache"))
    made.start()
    location = {"LocationConstraint": REGION}
    made.client("s3").create_bucket(Bucket="ledger", CreateBucketConfiguration=location, ObjectLockEnabledForBucket=True)
    try:
        yield made
    finally:
        made.stop()


@pytest.mark.parametrize("end", [Store.stop, Store.kill], ids=["stop", "sigkill"])
def test_objects_keep_content_version_and_time_over_a_restart(store: Store, end: Callable[[Store], None]) -> None:
    small, large = b"1", os.urandom(200_000)
    store.client("s3").put_object(Bucket="ledger", Key="0001", Body=small)
    store.client("s3").put_object(Bucket="ledger", Key="0001", Body=large)
    before = store.versions()
    end(store)
    time.sleep(1.1)
    store.start()
    assert store.versions() == before and len(before) == 2
    assert store.client("s3").get_object(Bucket="ledger", Key="0001")["Body"].read() == large


def test_ids_given_while_others_read_stay_over_a_restart(store: Store) -> None:
    """moto draws the id of every answer from the source of the ids that are kept."""
    done = threading.Event()

    def read() -> None:
        client = store.client("s3")
        while not done.is_set():
            client.list_objects_v2(Bucket="ledger")

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    writer = store.client("s3")
    for number in range(60):
        writer.put_object(Bucket="ledger", Key="0001", Body=str(number).encode())
        begun = writer.create_multipart_upload(Bucket="ledger", Key="0002")
        writer.upload_part(Bucket="ledger", Key="0002", UploadId=begun["UploadId"], PartNumber=1, Body=b"part")
    done.set()
    for reader in readers:
        reader.join()
    before = store.versions()
    store.kill()
    store.start()
    assert store.versions() == before


def test_a_conditional_write_still_holds_after_a_restart(store: Store) -> None:
    store.client("s3").put_object(Bucket="ledger", Key="0001", Body=b"first", IfNoneMatch="*")
    store.kill()
    store.start()
    with pytest.raises(ClientError, match="PreconditionFailed"):
        store.client("s3").put_object(Bucket="ledger", Key="0001", Body=b"second", IfNoneMatch="*")
    assert store.client("s3").get_object(Bucket="ledger", Key="0001")["Body"].read() == b"first"


def test_a_locked_object_stays_locked_after_a_restart(store: Store) -> None:
    answer = store.client("s3").put_object(
        Bucket="ledger", Key="k", Body=b"1", ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate="2099-01-01T00:00:00Z"
    )
    store.kill()
    store.start()
    with pytest.raises(ClientError, match="AccessDenied"):
        store.client("s3").delete_object(Bucket="ledger", Key="k", VersionId=answer["VersionId"])


def test_reading_takes_no_memory_that_stays(store: Store) -> None:
    """A ledger is listed each second of a release, for days."""
    s3 = store.client("s3")
    for number in range(100):
        s3.put_object(Bucket="ledger", Key=f"events/{number:08d}", Body=b"a" * 4000)
    store.versions()
    (before,) = (process.memory_bytes for process in Supervisor(store.layout).list())
    for _ in range(100):
        store.versions()
    (after,) = (process.memory_bytes for process in Supervisor(store.layout).list())
    assert (after - before) >> 20 < 20


def test_what_was_deleted_stays_deleted(store: Store) -> None:
    answer = store.client("s3").put_object(Bucket="ledger", Key="k", Body=b"1")
    store.client("s3").delete_object(Bucket="ledger", Key="k", VersionId=answer["VersionId"])
    store.kill()
    store.start()
    assert store.versions() == []


def test_an_entry_torn_by_a_crash_is_left_out_and_the_store_goes_on(store: Store) -> None:
    store.client("s3").put_object(Bucket="ledger", Key="whole", Body=b"1")
    store.kill()
    with store.journal.open("ab") as journal:
        journal.write(b'{"number": 99, "method": "PU')
    store.start()
    store.client("s3").put_object(Bucket="ledger", Key="after", Body=b"2")
    store.kill()
    store.start()
    assert [key for key, *_ in store.versions()] == ["after", "whole"]


def test_a_queue_is_there_after_a_restart_and_its_messages_are_not(store: Store) -> None:
    url = store.client("sqs").create_queue(QueueName="batch", Attributes={"VisibilityTimeout": "77"})["QueueUrl"]
    store.client("sqs").send_message(QueueUrl=url, MessageBody="lost")
    store.kill()
    store.start()
    attributes = store.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert (attributes["VisibilityTimeout"], attributes["ApproximateNumberOfMessages"]) == ("77", "0")
    assert attributes["QueueArn"] == f"arn:aws:sqs:{REGION}:000000000000:batch"


def test_a_refused_request_is_not_in_the_journal(store: Store) -> None:
    before = store.journal.read_bytes()
    with pytest.raises(ClientError):
        store.client("s3").put_object(Bucket="nowhere", Key="k", Body=b"1")
    assert store.journal.read_bytes() == before


def test_no_signature_is_in_the_journal(store: Store) -> None:
    store.client("s3").put_object(Bucket="ledger", Key="k", Body=b"1")
    assert b"Signature=" not in store.journal.read_bytes()


def test_a_service_that_is_not_simulated_says_so(store: Store) -> None:
    with pytest.raises(ClientError, match="the sandbox serves s3 and sqs; sns is not simulated"):
        store.client("sns").list_topics()


def test_a_deny_with_a_condition_does_not_lock_the_sandbox_out(store: Store) -> None:
    resource = '["arn:aws:s3:::ledger","arn:aws:s3:::ledger/*"]'
    condition = '{"Bool":{"aws:SecureTransport":"false"}}'
    statement = f'{{"Effect":"Deny","Principal":"*","Action":"s3:*","Resource":{resource},"Condition":{condition}}}'
    store.client("s3").put_bucket_policy(Bucket="ledger", Policy=f'{{"Version":"2012-10-17","Statement":[{statement}]}}')
    store.client("s3").put_object(Bucket="ledger", Key="k", Body=b"1")
    assert store.client("s3").get_object(Bucket="ledger", Key="k")["Body"].read() == b"1"


def test_it_answers_on_loopback_only(store: Store) -> None:
    port = int(objectstore.endpoint(store.layout).rsplit(":", 1)[1])
    listening = subprocess.run(["cat", "/proc/net/tcp"], capture_output=True, text=True, check=True).stdout
    addresses = {line.split()[1] for line in listening.splitlines()[1:] if line.split()[3] == "0A"}
    assert {address for address in addresses if address.endswith(f":{port:04X}")} == {f"0100007F:{port:04X}"}
