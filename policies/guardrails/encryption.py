"""Encryption and keeping: data at rest is encrypted with keys of ours, and what must not vanish cannot."""

from collections.abc import Mapping
from typing import Any

from policies.guardrails.identity import everyone, statements
from policies.guardrails.rule import Breaches, Domain, PolicyRule, PolicySeverity, breach
from policies.guardrails.view import ResourceView


def _volumes(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    mappings = list(r["blockDeviceMappings"].each())
    if not mappings:
        yield breach("blockDeviceMappings", "the AMI decides about the root volume, which is not encrypted by default")
    for m in mappings:
        if str(m.at("ebs", "encrypted").value).lower() != "true":
            yield breach(f"{m.path}.ebs.encrypted", "the volume is not encrypted")


def _secrets(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    if r.type == "eks:index:Cluster":
        if not r["encryptionConfigKeyArn"].present:
            yield breach("encryptionConfigKeyArn", "Kubernetes secrets are not encrypted with the platform's own key")
    elif not r.at("encryptionConfig", "provider", "keyArn").present:
        yield breach("encryptionConfig", "Kubernetes secrets are not encrypted with the platform's own key")


def _rotation(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    if r["enableKeyRotation"].value is not True and r["keyUsage"].value in (None, "ENCRYPT_DECRYPT"):
        yield breach("enableKeyRotation", "the key is never rotated")


def _queue(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    if not r["kmsMasterKeyId"].present and r["sqsManagedSseEnabled"].value is not True:
        yield breach("kmsMasterKeyId", "messages are not encrypted")


def _bucket(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    for rule in r["rules"].each():
        algorithm = rule.at("applyServerSideEncryptionByDefault", "sseAlgorithm")
        if algorithm.value not in ("aws:kms", "aws:kms:dsse"):
            yield breach(algorithm.path, f"objects are encrypted with {algorithm.value}, not with the platform's own key")


def _tls(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    denies = [
        s
        for s in statements(r["policy"].value)
        if s.get("Effect") == "Deny"
        and everyone(s.get("Principal"))
        and s.get("Action") in ("*", "s3:*", ["*"], ["s3:*"])
        and str(s.get("Condition", {}).get("Bool", {}).get("aws:SecureTransport")).lower() == "false"
    ]
    if not denies:
        yield breach("policy", "the bucket answers plain HTTP")


def _deletion(r: ResourceView, c: Mapping[str, Any]) -> Breaches:
    if c["required"] and r["deletionProtection"].value is not True:
        yield breach("deletionProtection", "the cluster can be deleted by one call")


def _force_destroy(r: ResourceView, c: Mapping[str, Any]) -> Breaches:
    if not c["allowed"] and (r["forceDestroy"].value is True or r["forceDelete"].value is True):
        yield breach("forceDestroy", "a destroy deletes what is stored without asking")


def _protected(r: ResourceView, c: Mapping[str, Any]) -> Breaches:
    if c["required"] and not r.protect:
        yield breach("(options).protect", "a destroy, or a change that replaces it, deletes it")


def _logs_key(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    if not r["kmsKeyId"].present:
        yield breach("kmsKeyId", "the log is not encrypted with the platform's own key")


def _images_key(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    kinds = [configuration["encryptionType"].value for configuration in r["encryptionConfigurations"].each()]
    if not any(str(kind).startswith("KMS") for kind in kinds):
        yield breach("encryptionConfigurations", "images are not encrypted with the platform's own key")


def _log_retention(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    if not r["retentionInDays"].value:
        yield breach("retentionInDays", "the log group has no retention period")


def _audit_logs(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    types = {x.value for x in r["enabledClusterLogTypes"].each()}
    for needed in ("audit", "authenticator"):
        if needed not in types:
            yield breach("enabledClusterLogTypes", f"{needed} logs are off")


_CLUSTERS = ("aws:eks/cluster:Cluster", "eks:index:Cluster")

RULES = (
    PolicyRule(
        id="node-volumes-encrypted",
        domain=Domain.ENCRYPTION,
        title="Volumes of nodes are encrypted.",
        rationale="A snapshot would carry away cached weights, and prompts in swap or logs.",
        remedy="Set blockDeviceMappings[].ebs.encrypted: true.",
        applies=("aws:ec2/launchTemplate:LaunchTemplate",),
        check=_volumes,
    ),
    PolicyRule(
        id="cluster-secrets-encrypted",
        domain=Domain.ENCRYPTION,
        title="Kubernetes secrets are encrypted with the platform's own key.",
        rationale="Whoever can read the control plane's storage could read every credential.",
        remedy="Give the cluster an encryption key (encryptionConfigKeyArn).",
        applies=_CLUSTERS,
        check=_secrets,
    ),
    PolicyRule(
        id="key-rotates",
        domain=Domain.ENCRYPTION,
        title="KMS keys rotate.",
        rationale="A leaked key would decrypt everything for ever.",
        remedy="Set enableKeyRotation: true.",
        applies=("aws:kms/key:Key",),
        check=_rotation,
        severity=PolicySeverity.MEDIUM,
    ),
    PolicyRule(
        id="queue-encrypted",
        domain=Domain.ENCRYPTION,
        title="Queues are encrypted.",
        rationale="Whoever can read the queue's storage could read the prompts in batch requests.",
        remedy="Set kmsMasterKeyId.",
        applies=("aws:sqs/queue:Queue",),
        check=_queue,
    ),
    PolicyRule(
        id="bucket-encrypted-by-key",
        domain=Domain.ENCRYPTION,
        title="Buckets are encrypted with the platform's own key.",
        rationale="Nobody could cut off access to the weights by disabling the key.",
        remedy="Set sseAlgorithm: aws:kms and the key.",
        applies=(
            "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration",
            "aws:s3/bucketServerSideEncryptionConfigurationV2:BucketServerSideEncryptionConfigurationV2",
        ),
        check=_bucket,
    ),
    PolicyRule(
        id="bucket-tls-only",
        domain=Domain.ENCRYPTION,
        title="Buckets answer requests over TLS only.",
        rationale="Anyone on the network path could read or change weights and evidence.",
        remedy="Deny s3:* to everyone where aws:SecureTransport is false, in the bucket policy.",
        applies=("aws:s3/bucketPolicy:BucketPolicy",),
        check=_tls,
    ),
    PolicyRule(
        id="cluster-deletion-protected",
        domain=Domain.ENCRYPTION,
        title="An important cluster cannot be deleted by a single call.",
        rationale="A mistyped destroy would end every tenant's service.",
        remedy="Set deletionProtection: true; switch the rule's `required` off for disposable environments.",
        applies=_CLUSTERS,
        check=_deletion,
        settings={"required": {"type": "boolean", "default": True}},
    ),
    PolicyRule(
        id="no-forced-destroy",
        domain=Domain.ENCRYPTION,
        title="Storage is not emptied by a destroy.",
        rationale="Destroying a stack would delete weights, images and release evidence.",
        remedy="Leave forceDestroy and forceDelete off; allow them for disposable environments.",
        applies=("aws:s3/bucket:Bucket", "aws:s3/bucketV2:BucketV2", "aws:ecr/repository:Repository"),
        check=_force_destroy,
        settings={"allowed": {"type": "boolean", "default": False}},
    ),
    PolicyRule(
        id="bucket-protected",
        domain=Domain.ENCRYPTION,
        title="Important buckets, and the keys that decrypt them, are protected in the program's own state.",
        rationale="A mistyped destroy, or a renamed bucket or key, would delete weights and release evidence.",
        remedy="Set protect: true on it; switch the rule's `required` off for disposable environments.",
        applies=("aws:kms/key:Key", "aws:s3/bucket:Bucket", "aws:s3/bucketV2:BucketV2"),
        check=_protected,
        settings={"required": {"type": "boolean", "default": True}},
    ),
    PolicyRule(
        id="logs-encrypted-by-key",
        domain=Domain.ENCRYPTION,
        title="Log groups are encrypted with the platform's own key.",
        rationale="Audit and flow logs show who talks to whom; nobody could cut off access to them by disabling the key.",
        remedy="Set kmsKeyId.",
        applies=("aws:cloudwatch/logGroup:LogGroup",),
        check=_logs_key,
        severity=PolicySeverity.MEDIUM,
    ),
    PolicyRule(
        id="repository-encrypted-by-key",
        domain=Domain.ENCRYPTION,
        title="Image repositories are encrypted with the platform's own key.",
        rationale="Images may hold weights and code; nobody could cut off access to them by disabling the key.",
        remedy="Set encryptionConfigurations: [{encryptionType: KMS, kmsKey: ...}].",
        applies=("aws:ecr/repository:Repository",),
        check=_images_key,
        severity=PolicySeverity.MEDIUM,
    ),
    PolicyRule(
        id="logs-have-retention",
        domain=Domain.OBSERVABILITY,
        title="Log groups have a retention period.",
        rationale="Logs would be kept and paid for without end, including personal data that must be deleted.",
        remedy="Set retentionInDays.",
        applies=("aws:cloudwatch/logGroup:LogGroup",),
        check=_log_retention,
        severity=PolicySeverity.MEDIUM,
    ),
    PolicyRule(
        id="cluster-audited",
        domain=Domain.OBSERVABILITY,
        title="The control plane writes audit and authenticator logs.",
        rationale="Nobody could find out who changed what.",
        remedy="List audit and authenticator in enabledClusterLogTypes.",
        applies=_CLUSTERS,
        check=_audit_logs,
    ),
)
