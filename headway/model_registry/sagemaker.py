"""SageMaker's model registry: a model is a package group, a version one of its packages. Credentials are boto3's own.

The trap: a package may say where its files lie in two places; the newer `ModelDataSource` is read first.
Source: docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeModelPackage.html.
"""

from dataclasses import dataclass
from typing import Any

from headway.model_registry.entry import DIGEST_TAG, Registered
from headway.problem import UserError

APPROVED = "Approved"
MISSING = ("ResourceNotFound", "ValidationException")
"""What SageMaker answers for a group that does not exist, depending on how it is asked."""


@dataclass(frozen=True)
class SageMakerRegistry:
    """`client` is boto3's SageMaker client."""

    client: Any

    @classmethod
    def of(cls) -> "SageMakerRegistry":
        """By boto3's own credentials and region. Raises UserError without a region."""
        import boto3
        from botocore.exceptions import BotoCoreError

        try:
            session: Any = boto3.Session()
            return cls(session.client("sagemaker"))
        except BotoCoreError as error:
            raise _unreadable(str(error)) from None

    def find(self, model: str, version: str) -> Registered | None:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            arn = self._arn(model, version)
            return None if arn is None else _registered(self.client.describe_model_package(ModelPackageName=arn))
        except ClientError as error:
            code: str = error.response.get("Error", {}).get("Code", "")
            if code in MISSING:
                return None
            raise _unreadable(code or str(error)) from None
        except BotoCoreError as error:
            raise _unreadable(str(error)) from None

    def _arn(self, model: str, version: str) -> str | None:
        pages = self.client.get_paginator("list_model_packages").paginate(ModelPackageGroupName=model, ModelPackageType="Versioned")
        return next(
            (
                str(package["ModelPackageArn"])
                for page in pages
                for package in page["ModelPackageSummaryList"]
                if str(package.get("ModelPackageVersion")) == version
            ),
            None,
        )


def _registered(package: dict[str, Any]) -> Registered:
    containers = package.get("InferenceSpecification", {}).get("Containers", [{}])
    source = containers[0].get("ModelDataSource", {}).get("S3DataSource", {})
    uri = str(source.get("S3Uri") or containers[0].get("ModelDataUrl", ""))
    approval = str(package.get("ModelApprovalStatus", APPROVED))
    words = {"PendingManualApproval": "waiting for approval", "Rejected": "rejected"}
    refusal = None if approval == APPROVED else words.get(approval, approval)
    return Registered(uri, package.get("CustomerMetadataProperties", {}).get(DIGEST_TAG), refusal)


def _unreadable(why: str) -> UserError:
    return UserError(
        f"SageMaker's model registry cannot be asked: {why}.",
        "Contracts were not compared with it.",
        "Give boto3 a region and credentials that may list and describe model packages.",
    )
