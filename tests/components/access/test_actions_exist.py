"""Every action of a deployer's policy is one that AWS has: a misspelt one allows nothing, and nobody is told."""

from typing import Any

import botocore.session
import pytest

from components.access.actions import ACTIONS

WITHOUT_OPERATION = {
    "iam:PassRole",
    "s3:GetAccelerateConfiguration",
    "s3:GetBucketCORS",
    "s3:GetBucketObjectLockConfiguration",
    "s3:GetBucketPublicAccessBlock",
    "s3:GetEncryptionConfiguration",
    "s3:GetLifecycleConfiguration",
    "s3:GetReplicationConfiguration",
    "s3:ListBucket",
    "s3:ListTagsForResource",
    "s3:PutBucketObjectLockConfiguration",
    "s3:PutBucketPublicAccessBlock",
    "s3:PutEncryptionConfiguration",
    "s3:PutLifecycleConfiguration",
    "s3:TagResource",
    "s3:UntagResource",
}
"""Actions that are not called like the operation that they allow: Service Authorization Reference, IAM and S3."""
ALL = {action for actions in ACTIONS.values() for action in actions}


@pytest.mark.parametrize("service", sorted({action.partition(":")[0] for action in ALL}))
def test_each_action_of_a_service_is_an_operation_of_it(service: str) -> None:
    model: Any = botocore.session.get_session().get_service_model(service)
    known = {f"{service}:{name}" for name in model.operation_names}
    assert sorted({action for action in ALL if action.startswith(f"{service}:")} - known - WITHOUT_OPERATION) == []


def test_what_is_excused_is_used() -> None:
    assert sorted(WITHOUT_OPERATION - ALL) == []
