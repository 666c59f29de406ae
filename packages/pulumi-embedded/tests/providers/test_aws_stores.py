"""Buckets, objects and queues: really made by boto3, read back, refused where they are not empty."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aws_world import REGION, Made, Watch, World, client
from botocore.exceptions import ClientError
from moto import mock_aws

from pulumi_embedded.engine.provider import ProviderError
from pulumi_embedded.providers.aws.stores import PARTS

POLICY = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Principal": "*", "Resource": "arn:aws:s3:::b/*"}],
    }
)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with mock_aws():
        yield World(tmp_path)


def s3() -> Any:
    return client("s3", REGION)


def sqs() -> Any:
    return client("sqs", REGION)


def bucket(world: World, **more: Any) -> Made:
    return world.make("s3/bucket", "artifacts", bucket="artifacts-1", **more)


def test_a_bucket_exists_in_its_region_with_its_tags(world: World) -> None:
    bucket(world, tags={"team": "a"})
    assert s3().get_bucket_location(Bucket="artifacts-1")["LocationConstraint"] == REGION
    assert s3().get_bucket_tagging(Bucket="artifacts-1")["TagSet"] == [{"Key": "team", "Value": "a"}]


def test_every_configuration_of_a_bucket_is_set_as_the_inputs_say(world: World) -> None:
    made = bucket(world, objectLockEnabled=True)
    key = world.make("kms/key", "key").outputs["arn"]
    default = {"sseAlgorithm": "aws:kms", "kmsMasterKeyId": key}
    parts: dict[str, dict[str, Any]] = {
        "bucketVersioning": {"versioningConfiguration": {"status": "Enabled"}},
        "bucketServerSideEncryptionConfiguration": {"rules": [{"applyServerSideEncryptionByDefault": default, "bucketKeyEnabled": True}]},
        "bucketPublicAccessBlock": {"blockPublicAcls": True, "restrictPublicBuckets": True},
        "bucketOwnershipControls": {"rule": {"objectOwnership": "BucketOwnerEnforced"}},
        "bucketLifecycleConfiguration": {
            "rules": [{"id": "old", "status": "Enabled", "noncurrentVersionExpiration": {"noncurrentDays": 30}}]
        },
        "bucketObjectLockConfiguration": {"rule": {"defaultRetention": {"mode": "GOVERNANCE", "days": 7}}},
        "bucketPolicy": {"policy": POLICY},
    }
    for name, inputs in parts.items():
        world.make(f"s3/{name}", name, bucket=made.id, **inputs)
    there = s3()
    named = {"Bucket": made.id}
    assert there.get_bucket_versioning(**named)["Status"] == "Enabled"
    rule = there.get_bucket_encryption(**named)["ServerSideEncryptionConfiguration"]["Rules"][0]
    assert (rule["ApplyServerSideEncryptionByDefault"]["KMSMasterKeyID"], rule["BucketKeyEnabled"]) == (key, True)
    block = there.get_public_access_block(**named)["PublicAccessBlockConfiguration"]
    assert (block["BlockPublicAcls"], block["BlockPublicPolicy"]) == (True, False)
    assert there.get_bucket_ownership_controls(**named)["OwnershipControls"]["Rules"] == [{"ObjectOwnership": "BucketOwnerEnforced"}]
    assert there.get_bucket_lifecycle_configuration(**named)["Rules"][0]["NoncurrentVersionExpiration"]["NoncurrentDays"] == 30
    assert there.get_object_lock_configuration(**named)["ObjectLockConfiguration"]["Rule"]["DefaultRetention"]["Days"] == 7
    assert json.loads(there.get_bucket_policy(**named)["Policy"]) == json.loads(POLICY)


def test_a_configuration_that_is_deleted_is_unset(world: World) -> None:
    made = bucket(world)
    world.make("s3/bucketPolicy", "p", bucket=made.id, policy=POLICY).delete()
    with pytest.raises(ClientError, match="NoSuchBucketPolicy"):
        s3().get_bucket_policy(Bucket=made.id)


def test_the_lock_of_a_bucket_with_objects_goes_before_the_bucket(world: World) -> None:
    made = bucket(world, objectLockEnabled=True, forceDestroy=True)
    retention = {"defaultRetention": {"mode": "GOVERNANCE", "days": 7}}
    lock = world.make("s3/bucketObjectLockConfiguration", "l", bucket=made.id, rule=retention)
    s3().put_object(Bucket=made.id, Key="k", Body=b"1")
    lock.delete()
    made.delete()
    assert s3().list_buckets()["Buckets"] == []


def test_a_bucket_with_objects_is_not_deleted_unless_by_force(world: World) -> None:
    made = bucket(world)
    s3().put_object(Bucket=made.id, Key="model", Body=b"1")
    with pytest.raises(ProviderError, match=r"BucketNotEmpty.*set forceDestroy"):
        made.delete()
    assert made.read() is not None
    made.update(forceDestroy=True)
    made.delete()
    assert made.read() is None and s3().list_buckets()["Buckets"] == []


def test_a_refused_deletion_leaves_the_configurations_of_the_bucket(world: World) -> None:
    made = bucket(world)
    versioning = world.make("s3/bucketVersioning", "v", bucket=made.id, versioningConfiguration={"status": "Enabled"})
    s3().put_object(Bucket=made.id, Key="model", Body=b"1")
    with pytest.raises(ProviderError):
        made.delete()
    assert versioning.read() is not None


def test_force_also_removes_old_versions_and_locked_ones(world: World) -> None:
    made = bucket(world, objectLockEnabled=True, forceDestroy=True)
    for body in (b"1", b"2"):
        s3().put_object(Bucket=made.id, Key="k", Body=body, ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate="2099-01-01T00:00:00Z")
    made.delete()
    assert s3().list_buckets()["Buckets"] == []


def test_a_bucket_that_somebody_deleted_is_found_missing(world: World) -> None:
    made = bucket(world)
    s3().delete_bucket(Bucket=made.id)
    assert made.read() is None


def test_a_bucket_of_which_the_account_knows_nothing_is_somebodys(world: World) -> None:
    s3().create_bucket(Bucket="artifacts-1", CreateBucketConfiguration={"LocationConstraint": REGION})
    with pytest.raises(ProviderError, match="BucketAlreadyOwnedByYou: artifacts-1 exists"):
        bucket(world)


def test_a_bucket_that_a_killed_create_made_is_its_own_to_a_host_that_goes_on(world: World) -> None:
    made = bucket(world)
    again = world.another(takes_over=True).create(made.urn, made.type, made.name, made.inputs, Watch(repeated=True))
    assert again[0] == made.id


@pytest.mark.parametrize("takes_over", [False, True])
@pytest.mark.parametrize(("region", "code"), [(REGION, "BucketAlreadyOwnedByYou"), ("us-east-1", "BucketAlreadyExists")])
def test_a_bucket_is_nobodys_by_a_killed_create_that_never_recorded_it(world: World, takes_over: bool, region: str, code: str) -> None:
    """S3 answers 200 in us-east-1 alone, and there the provider asks first (`internal/service/s3/bucket.go`, resourceBucketCreate)."""
    made = bucket(world, region=region)
    made.delete()
    place = {} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}
    client("s3", region).create_bucket(Bucket=made.id, **place)
    with pytest.raises(ProviderError, match=f"{code}: artifacts-1 exists"):
        world.another(takes_over=takes_over).create(made.urn, made.type, made.name, made.inputs, Watch(repeated=True))


def test_a_bucket_that_a_killed_create_made_is_somebodys_to_any_other_host(world: World) -> None:
    made = bucket(world)
    with pytest.raises(ProviderError, match="BucketAlreadyOwnedByYou: artifacts-1 exists, perhaps by a creation that was cut off"):
        world.another().create(made.urn, made.type, made.name, made.inputs, Watch(repeated=True))


def test_a_queue_of_the_same_is_answered_again_after_a_kill(world: World) -> None:
    """SQS API reference, CreateQueue: QueueNameExists where an attribute differs."""
    made = world.make("sqs/queue", "q", name="work")
    repeated = Watch(repeated=True)
    assert world.another().create(made.urn, made.type, made.name, made.inputs, repeated)[0] == made.id
    with pytest.raises(ProviderError, match=r"AlreadyExists: .*work"):
        world.another().create(made.urn, made.type, made.name, {**made.inputs, "visibilityTimeoutSeconds": 60}, repeated)


def test_an_object_holds_its_content_and_answers_its_version(world: World, tmp_path: Path) -> None:
    made = bucket(world)
    world.make("s3/bucketVersioning", "v", bucket=made.id, versioningConfiguration={"status": "Enabled"})
    (tmp_path / "file").write_bytes(b"from a file")
    asset = {"4dabf18193072939515e22adb298388d": "c44067f5952c0a294b673a41bacd8c17", "path": str(tmp_path / "file")}
    text = world.make("s3/bucketObjectv2", "text", bucket=made.id, key="a/text", content="hello")
    file = world.make("s3/bucketObjectv2", "file", bucket=made.id, key="a/file", source=asset, contentType="text/plain")
    answer = s3().get_object(Bucket=made.id, Key="a/file")
    assert (answer["Body"].read(), answer["ContentType"]) == (b"from a file", "text/plain")
    first = text.outputs["versionId"]
    assert first and text.update(content="world")["versionId"] != first
    text.delete()
    file.delete()
    made.delete()


def test_deprecated_inputs_are_refused_with_the_resource_to_use(world: World) -> None:
    failures = world.check("s3/bucket", versioning={"enabled": True})
    assert [(f.property, "aws.s3.BucketVersioning" in f.reason) for f in failures] == [("versioning", True)]


def test_a_queue_has_the_attributes_it_was_given(world: World) -> None:
    dead = world.make("sqs/queue", "dead", name="dead")
    redrive = json.dumps({"deadLetterTargetArn": dead.outputs["arn"], "maxReceiveCount": 3})
    live = world.make("sqs/queue", "live", name="live", visibilityTimeoutSeconds=120, redrivePolicy=redrive)
    there = sqs().get_queue_attributes(QueueUrl=live.id, AttributeNames=["All"])["Attributes"]
    assert there["VisibilityTimeout"] == "120" and json.loads(there["RedrivePolicy"])["maxReceiveCount"] == 3
    assert there["QueueArn"] == live.outputs["arn"]
    live.update(visibilityTimeoutSeconds=60, redrivePolicy=None)
    there = sqs().get_queue_attributes(QueueUrl=live.id, AttributeNames=["All"])["Attributes"]
    assert there["VisibilityTimeout"] == "60" and "RedrivePolicy" not in there


def test_a_message_sent_to_the_url_of_a_queue_arrives(world: World) -> None:
    queue = world.make("sqs/queue", "q", name="work")
    sqs().send_message(QueueUrl=queue.outputs["url"], MessageBody="hello")
    assert sqs().receive_message(QueueUrl=queue.outputs["url"])["Messages"][0]["Body"] == "hello"


def test_a_queue_that_somebody_deleted_is_found_missing(world: World) -> None:
    queue = world.make("sqs/queue", "q", name="work")
    sqs().delete_queue(QueueUrl=queue.id)
    assert queue.read() is None


@pytest.mark.parametrize(("policy", "told"), [('{"maxReceiveCount": 3}', "deadLetterTargetArn"), ("[", "JSON"), (
    '{"deadLetterTargetArn": "arn", "maxReceiveCount": "3"}', "maxReceiveCount")])  # fmt: skip
def test_a_redrive_policy_that_sqs_would_refuse_is_refused(world: World, policy: str, told: str) -> None:
    assert any(told in failure.reason for failure in world.check("sqs/queue", redrivePolicy=policy))


def test_every_part_names_an_operation_of_s3() -> None:
    assert [name for name, part in PARTS.items() if not hasattr(s3(), part.unset[0])] == []
