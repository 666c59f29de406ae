"""Image repositories: immutable tags, scanned on push, encrypted, tidied; and caches of public registries.

The trap: a pull-through cache exists for a fixed list of upstream registries, and NVIDIA's is not among them; the
GPU Operator's, DCGM's and Triton's images are pushed here by CI instead.
"""

import json
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from components.versions import CACHED_REGISTRIES

CACHE_LIMIT = 30
"""Characters of a pull-through cache's prefix (ECR API reference, CreatePullThroughCacheRule)."""

UNTAGGED_DAYS = 14
"""An untagged image is what a replaced tag or a failed multi-architecture push leaves behind."""


@dataclass(frozen=True, kw_only=True)
class ImageRegistryArgs:
    """Repositories are called `<cluster_name>/<repository>`."""

    cluster_name: str
    key_arn: pulumi.Input[str]
    repositories: tuple[str, ...]
    disposable: bool


class ImageRegistry(pulumi.ComponentResource):
    """Creates ECR repositories and pull-through caches of public registries. `urls` has the repositories by their
    short name.
    """

    urls: dict[str, pulumi.Output[str]]

    def __init__(self, name: str, args: ImageRegistryArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("headway:storage:Registry", name, {}, opts)
        child = pulumi.ResourceOptions(parent=self)
        self.urls = {}
        for short in sorted(args.repositories):
            role = short.replace("/", "-")
            repository = aws.ecr.Repository(
                f"{name}-{role}",
                name=f"{args.cluster_name}/{short}",
                image_tag_mutability="IMMUTABLE",
                image_scanning_configuration={"scan_on_push": True},
                encryption_configurations=[{"encryption_type": "KMS", "kms_key": args.key_arn}],
                force_delete=args.disposable,
                opts=child,
            )
            aws.ecr.LifecyclePolicy(f"{name}-{role}-tidy", repository=repository.name, policy=json.dumps(tidy()), opts=child)
            self.urls[short] = repository.repository_url
        for upstream, url in sorted(CACHED_REGISTRIES.items()):
            prefix = cache_prefix(args.cluster_name, upstream)
            template = aws.ecr.RepositoryCreationTemplate(
                f"{name}-{upstream}-template",
                prefix=prefix,
                description=f"Repositories that cache {url}",
                applied_fors=["PULL_THROUGH_CACHE"],
                # A cache follows its upstream's tags; what runs is pinned by digest.
                image_tag_mutability="MUTABLE",
                encryption_configurations=[{"encryption_type": "AES256"}],
                lifecycle_policy=json.dumps(tidy()),
                opts=child,
            )
            aws.ecr.PullThroughCacheRule(
                f"{name}-{upstream}",
                ecr_repository_prefix=prefix,
                upstream_registry_url=url,
                opts=pulumi.ResourceOptions(parent=self, depends_on=[template]),
            )
        self.register_outputs({"urls": self.urls})


def cache_prefix(cluster_name: str, upstream: str) -> str:
    """Below which repositories lie that cache `upstream`, by its short name. Never cut: nodes may fill what begins with
    their cluster's name.
    """
    return f"{cluster_name}-{upstream}"


def tidy() -> dict[str, object]:
    """The lifecycle policy: untagged images go, tagged ones stay, for a rollback may need any of them."""
    return {
        "rules": [
            {
                "rulePriority": 1,
                "description": "Untagged images",
                "selection": {"tagStatus": "untagged", "countType": "sinceImagePushed", "countUnit": "days", "countNumber": UNTAGGED_DAYS},
                "action": {"type": "expire"},
            }
        ]
    }
