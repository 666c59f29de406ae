"""Types whose creation is a call that sets or overwrites, so that to AWS a creation which is repeated is the same one again."""

from typing import Final

_TYPES: Final = {
    "autoscaling": ("lifecycleHook", "schedule", "tag"),
    "cloudwatch": ("eventRule", "eventTarget", "logResourcePolicy", "metricAlarm"),
    "ebs": ("defaultKmsKey", "encryptionByDefault"),
    "ec2": ("defaultNetworkAcl", "defaultRouteTable", "defaultSecurityGroup", "instanceMetadataDefaults", "tag", "vpcEndpointPolicy"),
    "ecr": ("lifecyclePolicy", "registryPolicy", "registryScanningConfiguration", "repositoryPolicy"),
    "iam": ("rolePoliciesExclusive", "rolePolicy", "rolePolicyAttachment", "rolePolicyAttachmentsExclusive"),
    "kms": ("keyPolicy",),
    "s3": (
        *("accountPublicAccessBlock", "bucketLifecycleConfiguration", "bucketLogging", "bucketNotification", "bucketObject"),
        *("bucketObjectLockConfiguration", "bucketObjectv2", "bucketOwnershipControls", "bucketPolicy", "bucketPublicAccessBlock"),
        *("bucketServerSideEncryptionConfiguration", "bucketVersioning"),
    ),
    "secretsmanager": ("secretPolicy",),
    "sns": ("topicPolicy",),
    "sqs": ("queuePolicy", "redriveAllowPolicy", "redrivePolicy"),
}
OVERWRITTEN: Final = frozenset(f"aws:{module}/{name}:{name[0].upper()}{name[1:]}" for module, names in _TYPES.items() for name in names)
"""Their calls, by the API references of the services: Put*, Set*, Modify*, Enable*, CreateTags and CreateOrUpdateTags, AttachRolePolicy. Each
overwrites, or does nothing where the same is there.
"""
ANSWERED_AGAIN: Final = frozenset({"aws:sns/topic:Topic", "aws:sns/topicSubscription:TopicSubscription", "aws:sqs/queue:Queue"})
"""Whose creation answers what is there, where it is made of the same, and is refused otherwise (API references: SQS CreateQueue, "provide the
exact name and values of all the queue's attributes", else QueueNameExists; SNS CreateTopic, "this action is idempotent"; SNS Subscribe). Whatever
is made by another Create* is refused, or made a second time.
"""
