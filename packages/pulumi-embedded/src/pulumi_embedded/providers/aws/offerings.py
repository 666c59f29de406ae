"""What AWS offers: regions and zones, instance types, managed policies, cluster access policies, add-ons. Data, each with its source."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from pulumi_embedded.providers.aws.limits import service
from pulumi_embedded.providers.derived import derived

# AWS "Regions and Availability Zones" (zone letters that every account has, and zone id prefixes), 2026-06.
_ZONES: Mapping[str, tuple[str, str]] = {
    "ap-northeast-1": ("apne1", "acd"),
    "ap-northeast-2": ("apne2", "abcd"),
    "ap-south-1": ("aps1", "abc"),
    "ap-southeast-1": ("apse1", "abc"),
    "ap-southeast-2": ("apse2", "abc"),
    "ca-central-1": ("cac1", "abd"),
    "eu-central-1": ("euc1", "abc"),
    "eu-north-1": ("eun1", "abc"),
    "eu-south-1": ("eus1", "abc"),
    "eu-west-1": ("euw1", "abc"),
    "eu-west-2": ("euw2", "abc"),
    "eu-west-3": ("euw3", "abc"),
    "sa-east-1": ("sae1", "abc"),
    "us-east-1": ("use1", "abcdef"),
    "us-east-2": ("use2", "abc"),
    "us-west-1": ("usw1", "ac"),
    "us-west-2": ("usw2", "abcd"),
}

CLUSTER_ACCESS_POLICIES = tuple(
    f"arn:aws:eks::aws:cluster-access-policy/{name}"
    for name in (
        "AmazonEKSAdminPolicy",
        "AmazonEKSAdminViewPolicy",
        "AmazonEKSAutoNodePolicy",
        "AmazonEKSClusterAdminPolicy",
        "AmazonEKSEditPolicy",
        "AmazonEKSViewPolicy",
    )
)
"""EKS user guide, "Review access policy permissions", 2026-06."""

ADDONS = (
    "adot",
    "amazon-cloudwatch-observability",
    "aws-ebs-csi-driver",
    "aws-efs-csi-driver",
    "aws-fsx-csi-driver",
    "aws-guardduty-agent",
    "aws-mountpoint-s3-csi-driver",
    "aws-network-flow-monitoring-agent",
    "aws-secrets-store-csi-driver-provider",
    "cert-manager",
    "coredns",
    "eks-node-monitoring-agent",
    "eks-pod-identity-agent",
    "external-dns",
    "kube-proxy",
    "kube-state-metrics",
    "metrics-server",
    "prometheus-node-exporter",
    "snapshot-controller",
    "vpc-cni",
)
"""EKS user guide, "AWS add-ons" and "Community add-ons", 2026-06."""

KUBERNETES_VERSIONS = ("1.31", "1.32", "1.33", "1.34", "1.35", "1.36")
"""EKS release calendar, standard and extended support, 2026-11."""


def regions() -> tuple[str, ...]:
    """Regions whose zones are known here."""
    return tuple(_ZONES)


def zones(region: str) -> tuple[str, ...]:
    """Zone names of a region; empty if the region is not known here."""
    _, letters = _ZONES.get(region, ("", ""))
    return tuple(f"{region}{letter}" for letter in letters)


def zone_id(zone: str) -> str:
    """The zone id; AWS shuffles ids between accounts, the double numbers them in order."""
    prefix, letters = _ZONES.get(zone[:-1], ("", ""))
    return f"{prefix}-az{letters.index(zone[-1]) + 1}" if zone[-1:] in letters and prefix else ""


@cache
def instance_types() -> frozenset[str]:
    """Every EC2 instance type that botocore's EC2 model names."""
    return derived("instance types", lambda: sorted(service("ec2").shape_for("InstanceType").metadata["enum"]), frozenset)


@cache
def managed_policies() -> frozenset[str]:
    """ARNs of AWS's managed policies."""
    names = (Path(__file__).parent / "managed_policies.txt").read_text(encoding="utf-8").splitlines()
    return frozenset(f"arn:aws:iam::aws:policy/{name}" for name in names if not name.startswith("#"))
