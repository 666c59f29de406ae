"""`headway artifact push` against the sandbox's object store, killed in the middle and taken up again; and that store, as strict as S3."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from botocore.exceptions import ClientError

from components.permissions import VERSION
from components.storage.bucket import BucketArgs, policy
from headway.artifact_upload.plan import MIB, PART_BYTES
from sandbox.layout import Layout
from tests.cluster.sandbox.cloud.test_cloud_objectstore import PROJECT, Store

BUCKET = "headway-sandbox-artifacts"
ARGS = BucketArgs(name=BUCKET, key_arn=None, superseded_days=1, disposable=True, write_once=True)
PARTS = 19
KEY = "vision/defects/1/defects/1/model.onnx"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(Layout(project=PROJECT, state=tmp_path / "state", cache=tmp_path / "cache"))
    made.start()
    made.client("s3").create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    made.client("s3").put_bucket_policy(
        Bucket=BUCKET, Policy=json.dumps({"Version": VERSION, "Statement": [each.wire() for each in policy(ARGS)]})
    )
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "artifact"
    for name, size in (("defects/1/model.onnx", PARTS * PART_BYTES + 5), ("golden/one.json", 20), ("golden/none.json", 0)):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_bytes(os.urandom(size))
    return made


def push(store: Store, folder: Path, version: str = "vision/defects/1") -> "subprocess.Popen[str]":
    words = [sys.executable, "-m", "headway.cli.main", "artifact", "push", str(folder), version, "--bucket", BUCKET]
    environment = {**os.environ, "HEADWAY_SANDBOX_HOME": str(store.layout.state), "HEADWAY_ENVIRONMENT": "sandbox"}
    return subprocess.Popen(words, cwd=PROJECT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


def arrived(store: Store) -> dict[str, set[int]]:
    """Parts that S3 has of unfinished uploads, by upload."""
    s3 = store.client("s3")
    uploads = s3.list_multipart_uploads(Bucket=BUCKET).get("Uploads", [])
    listed = {each["UploadId"]: s3.list_parts(Bucket=BUCKET, Key=each["Key"], UploadId=each["UploadId"]) for each in uploads}
    return {upload: {part["PartNumber"] for part in answer.get("Parts", [])} for upload, answer in listed.items()}


def sent(store: Store) -> Counter[str]:
    """How often each part was taken, by its number."""
    queries = [json.loads(line)["query"] for line in store.journal.read_text().splitlines(keepends=True) if line.endswith("\n")]
    return Counter(query.split("partNumber=")[1].split("&")[0] for query in queries if "partNumber=" in query)


def test_a_killed_upload_goes_on_where_it_ended_also_after_the_store_was_killed(store: Store, folder: Path) -> None:
    process = push(store, folder)
    while sum(sent(store).values()) < 2:  # not asked of the store, which would take longer than the rest of the upload
        assert process.poll() is None, process.communicate()
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    store.kill()
    store.start()
    ((upload, parts),) = arrived(store).items()
    assert 2 <= len(parts) <= PARTS, "the upload was killed in its middle"

    code, out, err = ended(push(store, folder))
    assert code == 0, err
    assert "defects/1/model.onnx: uploaded" in err and "3 uploaded, 0 already there" in err
    assert arrived(store) == {}, "the same upload was completed"
    assert {sent(store)[str(number)] for number in parts} == {1}, "what had arrived was not sent again"
    assert store.client("s3").get_object(Bucket=BUCKET, Key=KEY)["Body"].read() == (folder / "defects/1/model.onnx").read_bytes()

    section = yaml.safe_load(out)["artifact"]
    assert section["uri"] == "artifacts://vision/defects/1/"
    assert [file["path"] for file in section["files"]] == ["defects/1/model.onnx", "golden/none.json", "golden/one.json"]

    code, again, err = ended(push(store, folder))
    assert (code, again) == (0, out)
    assert "0 uploaded, 3 already there" in err
    assert upload


def test_other_content_under_the_same_version_is_refused_and_nothing_is_sent(store: Store, folder: Path) -> None:
    (folder / "defects/1/model.onnx").write_bytes(b"small")
    assert ended(push(store, folder))[0] == 0
    (folder / "golden/one.json").write_bytes(b"x" * 20)
    (folder / "golden/two.json").write_bytes(b"new")
    code, out, err = ended(push(store, folder))
    assert (code, out) == (1, "")
    assert "golden/one.json" in err and "other content" in err and "Traceback" not in err
    assert "Contents" not in store.client("s3").list_objects_v2(Bucket=BUCKET, Prefix="vision/defects/1/golden/two")


def test_an_object_without_a_checksum_is_read_before_it_is_believed(store: Store, folder: Path) -> None:
    (folder / "defects/1/model.onnx").write_bytes(b"model")
    store.client("s3").put_object(Bucket=BUCKET, Key=KEY, Body=b"model", IfNoneMatch="*")
    code, _, err = ended(push(store, folder))
    assert code == 0 and "defects/1/model.onnx: already there" in err
    (folder / "defects/1/model.onnx").write_bytes(b"other")
    assert ended(push(store, folder))[0] == 1


def test_a_store_that_is_gone_is_told_in_three_lines(store: Store, folder: Path) -> None:
    (folder / "defects/1/model.onnx").write_bytes(b"model")
    store.stop()
    code, _, err = ended(push(store, folder))
    assert code == 3
    assert "cannot be reached" in err and "Traceback" not in err and "sandbox'" not in err


def refused(call: Any, **arguments: Any) -> str:
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    return caught.value.response["Error"]["Code"]


def test_the_store_demands_conditions_where_the_buckets_policy_does(store: Store) -> None:
    s3 = store.client("s3")
    assert refused(s3.put_object, Bucket=BUCKET, Key="vision/a", Body=b"1") == "AccessDenied"
    s3.put_object(Bucket=BUCKET, Key="vision/a", Body=b"1", IfNoneMatch="*")
    assert refused(s3.put_object, Bucket=BUCKET, Key="vision/a", Body=b"2", IfNoneMatch="*") == "PreconditionFailed"
    assert refused(s3.copy_object, Bucket=BUCKET, Key="vision/b", CopySource=f"{BUCKET}/vision/a") == "AccessDenied"
    upload = s3.create_multipart_upload(Bucket=BUCKET, Key="vision/c", ChecksumAlgorithm="SHA256")["UploadId"]
    tag = s3.upload_part(Bucket=BUCKET, Key="vision/c", UploadId=upload, PartNumber=1, Body=b"1", ChecksumAlgorithm="SHA256")["ETag"]
    whole = {"Bucket": BUCKET, "Key": "vision/c", "UploadId": upload, "MultipartUpload": {"Parts": [{"PartNumber": 1, "ETag": tag}]}}
    assert refused(s3.complete_multipart_upload, **whole) == "AccessDenied"
    s3.put_object(Bucket=BUCKET, Key="vision/c", Body=b"3", IfNoneMatch="*")
    assert refused(s3.complete_multipart_upload, **whole, IfNoneMatch="*") == "PreconditionFailed"
    s3.put_object_tagging(Bucket=BUCKET, Key="vision/a", Tagging={"TagSet": [{"Key": "a", "Value": "b"}]})
    s3.delete_bucket_policy(Bucket=BUCKET)
    s3.put_object(Bucket=BUCKET, Key="vision/a", Body=b"2")


def test_the_store_refuses_a_body_that_its_checksum_does_not_prove(store: Store) -> None:
    s3 = store.client("s3")
    wrong = "A" * 43 + "="
    assert refused(s3.put_object, Bucket=BUCKET, Key="vision/a", Body=b"1", ChecksumSHA256=wrong, IfNoneMatch="*") == "BadDigest"
    upload = s3.create_multipart_upload(Bucket=BUCKET, Key="vision/c", ChecksumAlgorithm="SHA256")["UploadId"]
    part = {"Bucket": BUCKET, "Key": "vision/c", "UploadId": upload, "PartNumber": 1, "Body": b"1" * MIB}
    assert refused(s3.upload_part, **part, ChecksumSHA256=wrong) == "BadDigest"
