"""Buckets, objects and queues behind their records: made in the object store through boto3, as the provider would make them in AWS.

Requests are written from the inputs by botocore's own request shapes, so nothing is translated by hand that has the same name.
Access logging is a record only: nobody writes access logs here, and moto checks its target in a way that S3 does not.
Trap: a bucket that exists is somebody's to every creation but the second half of one whose record the account has and the host goes on with.
S3 says so in every region but us-east-1, where it answers 200 (API reference, CreateBucket, BucketAlreadyOwnedByYou); there the provider asks
first (hashicorp/terraform-provider-aws, internal/service/s3/bucket.go, resourceBucketCreate, "Special case").
"""

import base64
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import url2pathname

from botocore.exceptions import BotoCoreError, ClientError

from pulumi_embedded.engine.provider import Properties, ProviderError, ProviderStep
from pulumi_embedded.providers.aws.account import AccountObject
from pulumi_embedded.providers.aws.backend import ObjectBackend
from pulumi_embedded.providers.aws.kind import Facts
from pulumi_embedded.providers.aws.limits import is_a, member_name, service

Clients = Callable[[str, str], Any]
"""(service, region) -> a boto3 client; starts the object store where it does not run."""

_GONE = {"NoSuchBucket", "404", "NoSuchKey", "QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue", "NotFound"}
_MOTOS = {"InvalidBucket"}
"""Of moto alone (`put_object_lock_configuration`), where a bucket holds objects. S3 locks such a bucket, too (its user guide, "Configuring S3
Object Lock", on an existing bucket), so the lock of a bucket that goes with all that it holds is unset first.
"""
_OWN = {"BucketAlreadyOwnedByYou", "QueueAlreadyExists", "QueueNameExists"}
_GOVERNANCE = {"BypassGovernanceRetention": True}


@contextmanager
def _answers(*accepted: str) -> Generator[None]:
    """Refusals of the store become ours, but for those `accepted` by their code."""
    try:
        yield
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", ""))
        if code not in accepted:
            raise ProviderError(f"{code}: {error.response.get('Error', {}).get('Message', '')}") from None
    except BotoCoreError as error:
        raise ProviderError(f"the object store does not answer: {error}; see its log, or start it") from None


def request(value: Any, shape: Any) -> Any:
    """Inputs in the form of an API request; members that the request does not have are left out."""
    if is_a(shape, "structure") and isinstance(value, dict):
        named = ((member_name(shape, key), item) for key, item in value.items() if item is not None)
        return {name: request(item, shape.members[name]) for name, item in named if name}
    if is_a(shape, "list"):
        return [request(item, shape.member) for item in (value if isinstance(value, list) else [value])]
    return value


@dataclass(frozen=True)
class BucketPart:
    """A configuration of a bucket: the operation that sets it, how its payload is found in the inputs, and what unsets it."""

    operation: str
    member: str
    payload: Callable[[Properties], Any] = lambda inputs: inputs
    unset: tuple[str, Mapping[str, Any]] = ("", {})
    get: str = ""
    """Reads it; an error says that it is not there."""


def _rules_of(inputs: Properties) -> Properties:
    return {"rules": [{"filter": {"prefix": ""}, **rule} if "prefix" not in rule else rule for rule in inputs["rules"]]}


PARTS: Mapping[str, BucketPart] = {
    "BucketVersioning": BucketPart(
        "PutBucketVersioning",
        "VersioningConfiguration",
        lambda i: i["versioningConfiguration"] if i["versioningConfiguration"]["status"] != "Disabled" else {},
        ("put_bucket_versioning", {"VersioningConfiguration": {"Status": "Suspended"}}),
    ),
    "BucketServerSideEncryptionConfiguration": BucketPart(
        "PutBucketEncryption", "ServerSideEncryptionConfiguration", unset=("delete_bucket_encryption", {}), get="get_bucket_encryption"
    ),
    "BucketPublicAccessBlock": BucketPart(
        "PutPublicAccessBlock", "PublicAccessBlockConfiguration", unset=("delete_public_access_block", {}), get="get_public_access_block"
    ),
    "BucketPolicy": BucketPart("PutBucketPolicy", "Policy", lambda i: i["policy"], ("delete_bucket_policy", {}), "get_bucket_policy"),
    "BucketLifecycleConfiguration": BucketPart(
        "PutBucketLifecycleConfiguration",
        "LifecycleConfiguration",
        _rules_of,
        ("delete_bucket_lifecycle", {}),
        "get_bucket_lifecycle_configuration",
    ),
    "BucketObjectLockConfiguration": BucketPart(
        "PutObjectLockConfiguration",
        "ObjectLockConfiguration",
        lambda i: {"objectLockEnabled": "Enabled", **i},
        ("put_object_lock_configuration", {"ObjectLockConfiguration": {"ObjectLockEnabled": "Enabled"}}),
    ),
    "BucketOwnershipControls": BucketPart(
        "PutBucketOwnershipControls",
        "OwnershipControls",
        lambda i: {"rules": [i["rule"]]},
        ("delete_bucket_ownership_controls", {}),
        "get_bucket_ownership_controls",
    ),
    "BucketNotification": BucketPart(
        "PutBucketNotificationConfiguration",
        "NotificationConfiguration",
        lambda i: {"queueConfigurations": i.get("queues", []), "topicConfigurations": i.get("topics", [])},
        ("put_bucket_notification_configuration", {"NotificationConfiguration": {}}),
    ),
}


@dataclass(frozen=True)
class Buckets(ObjectBackend):
    """`aws:s3/bucket:Bucket`."""

    clients: Clients

    def before(self, facts: Facts) -> Properties:
        name = str(facts.inputs["bucket"])
        if not facts.known and _exists(lambda: self.clients("s3", facts.region).head_bucket(Bucket=name)):
            code = "BucketAlreadyExists" if facts.region == "us-east-1" else "BucketAlreadyOwnedByYou"
            raise ProviderError(
                f"{code}: {name} exists, perhaps by a creation that was cut off: choose another name, delete it, or import it"
            )
        return dict(facts.extra)

    def created(self, object: AccountObject, inputs: Properties, step: ProviderStep) -> Properties:
        s3 = self.clients("s3", object.region)
        wanted: dict[str, Any] = {"Bucket": object.id, "ObjectLockEnabledForBucket": inputs.get("objectLockEnabled") is True}
        if object.region != "us-east-1":
            wanted["CreateBucketConfiguration"] = {"LocationConstraint": object.region}
        with _answers(*_OWN):
            s3.create_bucket(**wanted)
        self._tag(s3, object)
        return dict(object.extra)

    def updated(self, object: AccountObject, old: Properties, inputs: Properties, step: ProviderStep) -> Properties:
        self._tag(self.clients("s3", object.region), object)
        return dict(object.extra)

    def deleted(self, object: AccountObject, step: ProviderStep) -> None:
        s3 = self.clients("s3", object.region)
        with _answers(*_GONE):
            if object.inputs.get("forceDestroy") is True:
                step.status("emptying the bucket")
                _empty(s3, object.id)
            elif _has_versions(s3, object.id):
                raise ProviderError(
                    f"BucketNotEmpty: bucket {object.id} still holds objects or versions of them; delete them, or set forceDestroy and run up"
                )
            s3.delete_bucket(Bucket=object.id)

    def live(self, object: AccountObject, inputs: Properties) -> Properties | None:
        return inputs if _exists(lambda: self.clients("s3", object.region).head_bucket(Bucket=object.id)) else None

    def _tag(self, s3: Any, object: AccountObject) -> None:
        tags = object.outputs.get("tagsAll") or {}
        with _answers():
            if tags:
                s3.put_bucket_tagging(Bucket=object.id, Tagging={"TagSet": [{"Key": k, "Value": v} for k, v in sorted(tags.items())]})
            else:
                s3.delete_bucket_tagging(Bucket=object.id)


@dataclass(frozen=True)
class BucketParts(ObjectBackend):
    """A configuration of a bucket."""

    clients: Clients
    part: BucketPart

    def created(self, object: AccountObject, inputs: Properties, step: ProviderStep) -> Properties:
        self._put(object, inputs)
        return dict(object.extra)

    def updated(self, object: AccountObject, old: Properties, inputs: Properties, step: ProviderStep) -> Properties:
        self._put(object, inputs)
        return dict(object.extra)

    def deleted(self, object: AccountObject, step: ProviderStep) -> None:
        method, more = self.part.unset
        with _answers(*_GONE, *_MOTOS):
            getattr(self.clients("s3", object.region), method)(Bucket=object.id, **more)

    def live(self, object: AccountObject, inputs: Properties) -> Properties | None:
        s3 = self.clients("s3", object.region)
        ask = getattr(s3, self.part.get) if self.part.get else s3.head_bucket
        return inputs if _exists(lambda: ask(Bucket=object.id)) else None

    def _put(self, object: AccountObject, inputs: Properties) -> None:
        model = service("s3").operation_model(self.part.operation)
        payload = self.part.payload({key: value for key, value in inputs.items() if key not in ("bucket", "region")})
        if payload == {} and self.part.member == "VersioningConfiguration":
            return  # "Disabled" is a bucket whose versioning was never set
        shape = model.input_shape.members[self.part.member] if model.input_shape else None
        body = request(payload, shape) if shape is not None else payload
        with _answers():
            _call(self.clients("s3", object.region), self.part.operation, Bucket=object.id, **{self.part.member: body})


@dataclass(frozen=True)
class StoredObjects(ObjectBackend):
    """`aws:s3/bucketObjectv2:BucketObjectv2` and its older twin."""

    clients: Clients

    def created(self, object: AccountObject, inputs: Properties, step: ProviderStep) -> Properties:
        return self._put(object, inputs)

    def updated(self, object: AccountObject, old: Properties, inputs: Properties, step: ProviderStep) -> Properties:
        return self._put(object, inputs)

    def deleted(self, object: AccountObject, step: ProviderStep) -> None:
        s3 = self.clients("s3", object.region)
        with _answers(*_GONE):
            for version in _versions(s3, object.inputs["bucket"], object.inputs["key"]):
                if version["Key"] == object.inputs["key"]:
                    s3.delete_object(Bucket=object.inputs["bucket"], Key=version["Key"], VersionId=version["VersionId"], **_GOVERNANCE)

    def live(self, object: AccountObject, inputs: Properties) -> Properties | None:
        ask = self.clients("s3", object.region).head_object
        return inputs if _exists(lambda: ask(Bucket=object.inputs["bucket"], Key=object.inputs["key"])) else None

    def _put(self, object: AccountObject, inputs: Properties) -> Properties:
        skipped = ("source", "content", "contentBase64", "sourceHash", "forceDestroy", "etag", "tags", "acl", "kmsKeyId", "region")
        shape = service("s3").operation_model("PutObject").input_shape
        wanted = request({key: value for key, value in inputs.items() if key not in skipped}, shape) if shape else {}
        if inputs.get("kmsKeyId"):
            wanted["SSEKMSKeyId"] = inputs["kmsKeyId"]
        with _answers():
            answer = self.clients("s3", object.region).put_object(**wanted, Body=_content(inputs))
        return {"etag": str(answer["ETag"]).strip('"'), "versionId": answer.get("VersionId", "")}


_ATTRIBUTES = {
    "contentBasedDeduplication": "ContentBasedDeduplication",
    "deduplicationScope": "DeduplicationScope",
    "delaySeconds": "DelaySeconds",
    "fifoQueue": "FifoQueue",
    "fifoThroughputLimit": "FifoThroughputLimit",
    "kmsDataKeyReusePeriodSeconds": "KmsDataKeyReusePeriodSeconds",
    "kmsMasterKeyId": "KmsMasterKeyId",
    "maxMessageSize": "MaximumMessageSize",
    "messageRetentionSeconds": "MessageRetentionPeriod",
    "policy": "Policy",
    "receiveWaitTimeSeconds": "ReceiveMessageWaitTimeSeconds",
    "redriveAllowPolicy": "RedriveAllowPolicy",
    "redrivePolicy": "RedrivePolicy",
    "sqsManagedSseEnabled": "SqsManagedSseEnabled",
    "visibilityTimeoutSeconds": "VisibilityTimeout",
}
"""Inputs -> queue attributes, which SQS keeps as a map of texts."""


@dataclass(frozen=True)
class Queues(ObjectBackend):
    """`aws:sqs/queue:Queue`."""

    clients: Clients

    def created(self, object: AccountObject, inputs: Properties, step: ProviderStep) -> Properties:
        # A repeated create with the same attributes answers the same queue.
        with _answers():
            self.clients("sqs", object.region).create_queue(
                QueueName=object.outputs["name"], Attributes=_attributes(inputs), tags=object.outputs.get("tagsAll") or {}
            )
        return dict(object.extra)

    def updated(self, object: AccountObject, old: Properties, inputs: Properties, step: ProviderStep) -> Properties:
        cleared = {
            _ATTRIBUTES[key]: "" for key in ("policy", "redrivePolicy", "redriveAllowPolicy") if old.get(key) and not inputs.get(key)
        }
        attributes = _attributes({key: value for key, value in inputs.items() if key != "fifoQueue"}) | cleared
        with _answers():
            if attributes:
                self.clients("sqs", object.region).set_queue_attributes(QueueUrl=object.id, Attributes=attributes)
        return dict(object.extra)

    def deleted(self, object: AccountObject, step: ProviderStep) -> None:
        with _answers(*_GONE):
            self.clients("sqs", object.region).delete_queue(QueueUrl=object.id)

    def live(self, object: AccountObject, inputs: Properties) -> Properties | None:
        ask = self.clients("sqs", object.region).get_queue_attributes
        return inputs if _exists(lambda: ask(QueueUrl=object.id, AttributeNames=["QueueArn"])) else None


@dataclass(frozen=True)
class QueueParts(ObjectBackend):
    """A policy of a queue, as a resource of its own."""

    clients: Clients
    input: str

    def created(self, object: AccountObject, inputs: Properties, step: ProviderStep) -> Properties:
        self._set(object, inputs[self.input])
        return dict(object.extra)

    def updated(self, object: AccountObject, old: Properties, inputs: Properties, step: ProviderStep) -> Properties:
        self._set(object, inputs[self.input])
        return dict(object.extra)

    def deleted(self, object: AccountObject, step: ProviderStep) -> None:
        with _answers(*_GONE):
            self.clients("sqs", object.region).set_queue_attributes(QueueUrl=object.id, Attributes={_ATTRIBUTES[self.input]: ""})

    def _set(self, object: AccountObject, value: str) -> None:
        with _answers():
            self.clients("sqs", object.region).set_queue_attributes(QueueUrl=object.id, Attributes={_ATTRIBUTES[self.input]: value})


def _exists(ask: Callable[[], Any]) -> bool:
    try:
        ask()
    except ClientError as error:
        if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") in (400, 404):
            return False
        raise ProviderError(f"the object store refused: {error}") from None
    except BotoCoreError as error:
        raise ProviderError(f"the object store does not answer: {error}; start it") from None
    return True


def _call(client: Any, operation: str, **wanted: Any) -> Any:
    from botocore import xform_name

    return getattr(client, xform_name(operation))(**wanted)


def _attributes(inputs: Properties) -> dict[str, str]:
    """`FifoQueue: false` is the one attribute that SQS refuses for what it means by default."""
    given = {_ATTRIBUTES[key]: value for key, value in inputs.items() if key in _ATTRIBUTES and value not in (None, "")}
    written = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in given.items()}
    return {name: value for name, value in written.items() if (name, value) != ("FifoQueue", "false")}


def _versions(s3: Any, bucket: str, prefix: str = "") -> Iterator[Mapping[str, str]]:
    for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket, Prefix=prefix):
        yield from page.get("Versions", [])
        yield from page.get("DeleteMarkers", [])


def _has_versions(s3: Any, bucket: str) -> bool:
    return next(_versions(s3, bucket), None) is not None


def _empty(s3: Any, bucket: str) -> None:
    for version in list(_versions(s3, bucket)):
        s3.delete_object(Bucket=bucket, Key=version["Key"], VersionId=version["VersionId"], **_GOVERNANCE)


def _content(inputs: Properties) -> bytes:
    source = inputs.get("source")
    if isinstance(source, dict):
        if "text" in source:
            return str(source["text"]).encode()
        if "path" in source:
            return Path(url2pathname(str(source["path"]))).read_bytes()
        raise ProviderError("source: the double reads file and text assets; archives and remote assets are not modelled")
    if inputs.get("contentBase64") is not None:
        return base64.b64decode(inputs["contentBase64"])
    return str(inputs.get("content") or "").encode()


def backends(clients: Clients) -> Mapping[str, ObjectBackend]:
    """The backends of everything that the object store holds, by token."""
    parts = {f"aws:s3/{name[0].lower()}{name[1:]}:{name}": BucketParts(clients, part) for name, part in PARTS.items()}
    return {
        "aws:s3/bucket:Bucket": Buckets(clients),
        **parts,
        "aws:s3/bucketObject:BucketObject": StoredObjects(clients),
        "aws:s3/bucketObjectv2:BucketObjectv2": StoredObjects(clients),
        "aws:sqs/queue:Queue": Queues(clients),
        "aws:sqs/queuePolicy:QueuePolicy": QueueParts(clients, "policy"),
        "aws:sqs/redrivePolicy:RedrivePolicy": QueueParts(clients, "redrivePolicy"),
        "aws:sqs/redriveAllowPolicy:RedriveAllowPolicy": QueueParts(clients, "redriveAllowPolicy"),
    }
