"""Storage and supply: buckets and their configurations, objects, image repositories."""

import json

from pulumi_embedded.engine.provider import UNKNOWN, CheckFailure, Properties
from pulumi_embedded.providers.aws.catalogue.references import BUCKET, EXTERNAL_KEY, EXTERNAL_ROLE
from pulumi_embedded.providers.aws.kind import FALSE, AwsKind, Facts, Naming, Ref, account, const, found, later
from pulumi_embedded.providers.aws.rules import Failures, between, exclusive, matches, policy

_BUCKET_NAME = r"(?!xn--|sthree-)(?!.*(-s3alias|--ol-s3)$)[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"
_HOSTED_ZONES = {
    "us-east-1": "Z3AQBSTGFYJSTF",
    "eu-west-1": "Z1BKCTXD74EZPE",
    "eu-central-1": "Z21DNDUVLTQW6Q",
    "us-west-2": "Z3BJ6K6RIION7M",
}
"""S3 website hosted zones (AWS general reference); other regions answer with an empty one."""
_REPOSITORY = Ref("repository", "falls", "RepositoryNotFoundException")
_REGISTRY = account
_DEPRECATED = {
    "versioning": "BucketVersioning",
    "serverSideEncryptionConfiguration": "BucketServerSideEncryptionConfiguration",
    "lifecycleRules": "BucketLifecycleConfiguration",
    "policy": "BucketPolicy",
    "logging": "BucketLogging",
    "acl": "BucketAcl",
    "grants": "BucketAcl",
    "corsRules": "BucketCorsConfiguration",
    "website": "BucketWebsiteConfiguration",
    "replicationConfiguration": "BucketReplicationConfig",
    "accelerationStatus": "BucketAccelerateConfiguration",
    "requestPayer": "BucketRequestPaymentConfiguration",
    "objectLockConfiguration": "BucketObjectLockConfiguration",
}


def _own_resources(inputs: Properties, _: str) -> Failures:
    """The double keeps one owner for each aspect of a bucket: the provider deprecates these inputs for the same reason."""
    for name, resource in _DEPRECATED.items():
        if inputs.get(name) is not None:
            yield CheckFailure(name, f"the double does not model this deprecated input; use aws.s3.{resource}")


def _lifecycle(inputs: Properties, _: str) -> Failures:
    seen: set[str] = set()
    for index, rule in enumerate(inputs.get("rules") or []):
        if not isinstance(rule, dict):
            continue
        path, name = f"rules[{index}]", rule.get("id")
        if isinstance(name, str) and name in seen and name != UNKNOWN:
            yield CheckFailure(f"{path}.id", f'"{name}" is used twice; rule ids are unique')
        seen.add(str(name))
        actions = (
            "expiration", "transitions", "noncurrentVersionExpiration", "noncurrentVersionTransitions", "abortIncompleteMultipartUpload",
        )  # fmt: skip
        if not any(rule.get(action) for action in actions):
            yield CheckFailure(path, f"has no action; give at least one of {', '.join(actions)}")


def _encryption(inputs: Properties, _: str) -> Failures:
    for index, rule in enumerate(inputs.get("rules") or []):
        default = rule.get("applyServerSideEncryptionByDefault") if isinstance(rule, dict) else None
        if isinstance(default, dict) and default.get("kmsMasterKeyId") and default.get("sseAlgorithm") == "AES256":
            path = f"rules[{index}].applyServerSideEncryptionByDefault.kmsMasterKeyId"
            yield CheckFailure(path, "AES256 takes no key; use aws:kms")


def _retention(inputs: Properties, _: str) -> Failures:
    rule = inputs.get("rule")
    default = rule.get("defaultRetention") if isinstance(rule, dict) else None
    if isinstance(default, dict) and (default.get("days") is None) == (default.get("years") is None):
        yield CheckFailure("rule.defaultRetention", "give exactly one of days and years")


def _images(inputs: Properties, _: str) -> Failures:
    """An ECR lifecycle document, as text or object (ECR user guide, "Lifecycle policy properties")."""
    given = inputs.get("policy")
    if given == UNKNOWN or (isinstance(given, str) and UNKNOWN in given):
        return
    try:
        document = json.loads(given) if isinstance(given, str) else given
    except ValueError:
        document = None
    rules = document.get("rules") if isinstance(document, dict) else None
    if not isinstance(rules, list) or not rules:
        yield CheckFailure("policy", "InvalidParameterException: must be a JSON object with a list of rules")
        return
    priorities = [rule.get("rulePriority") for rule in rules if isinstance(rule, dict)]
    if len(set(priorities)) != len(rules):
        yield CheckFailure("policy", "InvalidParameterException: every rule needs a rulePriority of its own")
    for index, rule in enumerate(rules):
        selection = rule.get("selection") or {} if isinstance(rule, dict) else {}
        if selection.get("tagStatus") not in ("tagged", "untagged", "any"):
            yield CheckFailure("policy", f"InvalidParameterException: rules[{index}].selection.tagStatus must be tagged, untagged or any")
        if selection.get("countType") not in ("imageCountMoreThan", "sinceImagePushed", "sinceImagePulled", "sinceImageTransitioned"):
            yield CheckFailure("policy", f"InvalidParameterException: rules[{index}].selection.countType is not legal")
        if selection.get("tagStatus") == "tagged" and not (selection.get("tagPrefixList") or selection.get("tagPatternList")):
            yield CheckFailure("policy", f"InvalidParameterException: rules[{index}].selection needs tagPrefixList or tagPatternList")


def _mutability(inputs: Properties, _: str) -> Failures:
    filters = inputs.get("imageTagMutabilityExclusionFilters")
    exclusive_mode = str(inputs.get("imageTagMutability", "")).endswith("_WITH_EXCLUSION")
    if filters and not exclusive_mode and inputs.get("imageTagMutability") != UNKNOWN:
        yield CheckFailure(
            "imageTagMutabilityExclusionFilters", "needs imageTagMutability IMMUTABLE_WITH_EXCLUSION or MUTABLE_WITH_EXCLUSION"
        )
    if exclusive_mode and not filters:
        yield CheckFailure("imageTagMutabilityExclusionFilters", "is required by a mutability WITH_EXCLUSION")


def _part(name: str, operation: str, **more: object) -> AwsKind:
    """A configuration that belongs to one bucket and goes with it."""
    given: dict[str, object] = {
        "type": f"aws:s3/{name[0].lower()}{name[1:]}:{name}",
        "operation": operation,
        "id": "{bucket}",
        "replaces": ("bucket",),
        "references": {"bucket": BUCKET},
        **more,
    }
    return AwsKind(**given)  # pyright: ignore[reportArgumentType] -- the keywords are Kind's own


_KEY_INPUT = {"kmsKeyId": Ref("KMS key", "free", "KMS.NotFoundException", EXTERNAL_KEY)}
_SSE_KEY = "rules[].applyServerSideEncryptionByDefault.kmsMasterKeyId"
_OBJECT_ABSENT = dict.fromkeys(
    ("checksumCrc32", "checksumCrc32c", "checksumCrc64nvme", "checksumSha1", "checksumSha256"), "the double asks for no such checksum"
)


def _object(name: str, **more: object) -> AwsKind:
    return _part(
        name,
        "s3.PutObject",
        id="{bucket}/{key}",
        named=Naming(field="key", longest=1024, prefix=""),
        references={"bucket": Ref("bucket", "falls", "NoSuchBucket"), **_KEY_INPUT},
        arn="arn:aws:s3:::{bucket}/{key}",
        outputs={
            "etag": found("etag"),
            "versionId": found("versionId"),
            "storageClass": const("STANDARD"),
            "contentType": later("application/octet-stream"),
            "serverSideEncryption": later("AES256"),
        },
        volatile=("etag", "versionId"),
        replaces=("bucket", "key"),
        api={"kmsKeyId": "SSEKMSKeyId", "acl": "ACL", "key": "Key"},
        rules=(exclusive("source", "content", "contentBase64"),),
        **more,
    )


def _zone(facts: Facts) -> str:
    return _HOSTED_ZONES.get(facts.region, "") if facts.known else UNKNOWN


KINDS = (
    AwsKind(
        type="aws:s3/bucket:Bucket",
        operation="s3.CreateBucket",
        api={"acl": "ACL", "versioning": "", "grants": ""},
        id="{bucket}",
        arn="arn:aws:s3:::{bucket}",
        named=Naming(field="bucket", longest=63, prefix="bucketPrefix", lower=True),
        handles={"bucket": ("bucket",), "bucket ARN": ("arn",), "log destination": ("arn",)},
        outputs={
            "bucketDomainName": "{bucket}.s3.amazonaws.com",
            "bucketRegion": lambda f: f.region,
            "bucketRegionalDomainName": "{bucket}.s3.{region}.amazonaws.com",
            "forceDestroy": FALSE,
            "hostedZoneId": _zone,
            "objectLockEnabled": FALSE,
        },
        absent={"websiteDomain": "no website hosting", "websiteEndpoint": "no website hosting"},
        replaces=("bucket", "bucketPrefix", "bucketNamespace", "objectLockEnabled"),
        rules=(
            matches("bucket", _BUCKET_NAME, "a bucket name: 3 to 63 of a-z, 0-9, - and ., beginning and ending with a letter or digit"),
            _own_resources,
        ),
    ),
    _part(
        "BucketVersioning",
        "s3.PutBucketVersioning",
        api={"versioningConfiguration.mfaDelete": "VersioningConfiguration.MFADelete"},
    ),
    _part(
        "BucketServerSideEncryptionConfiguration",
        "s3.PutBucketEncryption.ServerSideEncryptionConfiguration",
        api={"rules.applyServerSideEncryptionByDefault.sseAlgorithm": "Rules.ApplyServerSideEncryptionByDefault.SSEAlgorithm"},
        references={"bucket": BUCKET, _SSE_KEY: Ref("KMS key", "free", "KMS.NotFoundException", EXTERNAL_KEY)},
        rules=(_encryption,),
    ),
    _part(
        "BucketPublicAccessBlock",
        "",
        outputs=dict.fromkeys(("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets", "skipDestroy"), FALSE),
    ),
    _part("BucketPolicy", "", rules=(policy("policy", "resource", 20_480),)),
    _part(
        "BucketLifecycleConfiguration",
        "s3.PutBucketLifecycleConfiguration.LifecycleConfiguration",
        api={"transitionDefaultMinimumObjectSize": "s3.PutBucketLifecycleConfiguration:TransitionDefaultMinimumObjectSize", "rules.id": ""},
        outputs={"transitionDefaultMinimumObjectSize": const("all_storage_classes_128K")},
        rules=(_lifecycle, between("rules[].expiration.days", 1, 2**31, "S3 API reference")),
    ),
    _part(
        "BucketObjectLockConfiguration",
        "s3.PutObjectLockConfiguration.ObjectLockConfiguration",
        outputs={"objectLockEnabled": const("Enabled")},
        rules=(
            _retention,
            between("rule.defaultRetention.days", 1, 36_500, "S3 user guide"),
            between("rule.defaultRetention.years", 1, 100, "S3 user guide"),
        ),
    ),
    _part("BucketOwnershipControls", "s3.PutBucketOwnershipControls.OwnershipControls", api={"rule": "Rules"}),
    _part(
        "BucketLogging",
        "s3.PutBucketLogging.BucketLoggingStatus.LoggingEnabled",
        references={"bucket": BUCKET, "targetBucket": Ref("bucket", "free", "InvalidTargetBucketForLogging")},
    ),
    _part(
        "BucketNotification",
        "s3.PutBucketNotificationConfiguration.NotificationConfiguration",
        api={"queues": "QueueConfigurations", "topics": "TopicConfigurations", "lambdaFunctions": "LambdaFunctionConfigurations"},
        references={
            "bucket": BUCKET,
            "queues[].queueArn": Ref("queue ARN", "free", "InvalidArgument"),
            "topics[].topicArn": Ref("topic ARN", "free", "InvalidArgument"),
        },
    ),
    AwsKind(
        type="aws:s3/accountPublicAccessBlock:AccountPublicAccessBlock",
        id="{account}",
        outputs={
            "accountId": _REGISTRY,
            **dict.fromkeys(("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets"), FALSE),
        },
    ),
    _object("BucketObjectv2", absent=_OBJECT_ABSENT),
    _object("BucketObject"),
    AwsKind(
        type="aws:ecr/repository:Repository",
        operation="ecr.CreateRepository",
        api={"name": "repositoryName", "encryptionConfigurations": "encryptionConfiguration"},
        id="{name}",
        arn="arn:aws:ecr:{region}:{account}:repository/{name}",
        named=Naming(longest=256, prefix="", lower=True),
        references={"encryptionConfigurations[].kmsKey": Ref("KMS key", "free", "KmsException", EXTERNAL_KEY)},
        handles={"repository": ("name",), "repository ARN": ("arn",)},
        outputs={
            "registryId": _REGISTRY,
            "repositoryUrl": "{account}.dkr.ecr.{region}.amazonaws.com/{name}",
            "imageTagMutability": const("MUTABLE"),
            "forceDelete": FALSE,
        },
        replaces=("name", "encryptionConfigurations"),
        rules=(_mutability,),
    ),
    AwsKind(
        type="aws:ecr/lifecyclePolicy:LifecyclePolicy",
        operation="ecr.PutLifecyclePolicy",
        api={"policy": "", "repository": "repositoryName"},
        id="{repository}",
        references={"repository": _REPOSITORY},
        outputs={"registryId": _REGISTRY},
        replaces=("repository",),
        rules=(_images,),
    ),
    AwsKind(
        type="aws:ecr/repositoryPolicy:RepositoryPolicy",
        operation="ecr.SetRepositoryPolicy",
        api={"policy": "policyText", "repository": "repositoryName"},
        id="{repository}",
        references={"repository": _REPOSITORY},
        outputs={"registryId": _REGISTRY},
        replaces=("repository",),
        rules=(policy("policy", "resource", 10_240),),
    ),
    AwsKind(
        type="aws:ecr/registryPolicy:RegistryPolicy",
        operation="ecr.PutRegistryPolicy",
        api={"policy": "policyText"},
        id="{account}",
        outputs={"registryId": _REGISTRY},
        rules=(policy("policy", "resource", 10_240),),
    ),
    AwsKind(
        type="aws:ecr/pullThroughCacheRule:PullThroughCacheRule",
        operation="ecr.CreatePullThroughCacheRule",
        id="{ecrRepositoryPrefix}",
        references={
            "credentialArn": Ref("secret", "blocks", "SecretNotFoundException"),
            "customRoleArn": Ref("role ARN", "free", "InvalidParameterException", EXTERNAL_ROLE),
        },
        outputs={"registryId": _REGISTRY, "upstreamRepositoryPrefix": const("ROOT")},
        replaces=("ecrRepositoryPrefix", "upstreamRegistryUrl", "upstreamRepositoryPrefix"),
        rules=(
            matches(
                "upstreamRegistryUrl",
                r"public\.ecr\.aws|quay\.io|registry\.k8s\.io|registry-1\.docker\.io|ghcr\.io|registry\.gitlab\.com|cgr\.dev"
                r"|[a-z0-9]+\.azurecr\.io|\d{12}\.dkr\.ecr\.[a-z0-9-]+\.amazonaws\.com",
                "an upstream that ECR can cache (ECR user guide: ECR, ECR Public, Quay, Kubernetes, Docker Hub, GitHub, GitLab, Chainguard, Azure)",
            ),
            matches(
                "credentialArn", r"arn:aws:secretsmanager:[^:]+:\d+:secret:ecr-pullthroughcache/.+", "a secret named ecr-pullthroughcache/…"
            ),
        ),
    ),
    AwsKind(
        type="aws:ecr/repositoryCreationTemplate:RepositoryCreationTemplate",
        operation="ecr.CreateRepositoryCreationTemplate",
        api={"encryptionConfigurations": "encryptionConfiguration", "resourceTags": ""},
        id="{prefix}",
        references={
            "customRoleArn": Ref("role ARN", "free", "InvalidParameterException", EXTERNAL_ROLE),
            "encryptionConfigurations[].kmsKey": Ref("KMS key", "free", "KmsException", EXTERNAL_KEY),
        },
        outputs={"registryId": _REGISTRY, "imageTagMutability": const("MUTABLE")},
        replaces=("prefix",),
        rules=(_mutability,),
    ),
    AwsKind(
        type="aws:ecr/registryScanningConfiguration:RegistryScanningConfiguration",
        operation="ecr.PutRegistryScanningConfiguration",
        id="{account}",
        outputs={"registryId": _REGISTRY},
    ),
    AwsKind(
        type="aws:inspector2/enabler:Enabler",
        operation="inspector2.Enable",
        id=lambda f: ",".join(f.inputs["accountIds"]) + "-" + ":".join(f.inputs["resourceTypes"]) if f.known else UNKNOWN,
        replaces=("accountIds",),
    ),
)
