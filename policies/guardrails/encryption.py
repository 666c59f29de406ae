"""Encryption and keeping: data at rest is encrypted with keys of ours, and what must not vanish cannot."""

from collections.abc import Iterator, Mapping
from typing import Any

from headway.problem import Problem
from policies.guardrails.identity import everyone, statements
from policies.guardrails.rule import Domain, Rule, Severity, breach
from policies.guardrails.view import View

Breaches = Iterator[Problem]


def _volumes(r: View, _: Mapping[str, Any]) -> Breaches:
    mappings = list(r["blockDeviceMappings"].each())
    if not mappings:
        yield breach("blockDeviceMappings", "the root volume is whatever the AMI says, unencrypted by default")
    for m in mappings:
        if str(m.at("ebs", "encrypted").value).lower() != "true":
            yield breach(f"{m.path}.ebs.encrypted", "the volume is not encrypted")


def _secrets(r: View, _: Mapping[str, Any]) -> Breaches:
    if r.type == "eks:index:Cluster":
        if not r["encryptionConfigKeyArn"].present:
            yield breach("encryptionConfigKeyArn", "Kubernetes secrets are not encrypted with a key of ours")
    elif not r.at("encryptionConfig", "provider", "keyArn").present:
        yield breach("encryptionConfig", "Kubernetes secrets are not encrypted with a key of ours")


def _rotation(r: View, _: Mapping[str, Any]) -> Breaches:
    if r["enableKeyRotation"].value is not True and r["keyUsage"].value in (None, "ENCRYPT_DECRYPT"):
        yield breach("enableKeyRotation", "the key is never rotated")


def _queue(r: View, _: Mapping[str, Any]) -> Breaches:
    if not r["kmsMasterKeyId"].present and r["sqsManagedSseEnabled"].value is not True:
        yield breach("kmsMasterKeyId", "messages are not encrypted")


def _bucket(r: View, _: Mapping[str, Any]) -> Breaches:
    for rule in r["rules"].each():
        algorithm = rule.at("applyServerSideEncryptionByDefault", "sseAlgorithm")
        if algorithm.value not in ("aws:kms", "aws:kms:dsse"):
            yield breach(algorithm.path, f"objects are encrypted with {algorithm.value}, not with a key of ours")


def _tls(r: View, _: Mapping[str, Any]) -> Breaches:
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


def _deletion(r: View, c: Mapping[str, Any]) -> Breaches:
    if c["required"] and r["deletionProtection"].value is not True:
        yield breach("deletionProtection", "the cluster can be deleted by one call")


def _force_destroy(r: View, c: Mapping[str, Any]) -> Breaches:
    if not c["allowed"] and (r["forceDestroy"].value is True or r["forceDelete"].value is True):
        yield breach("forceDestroy", "destroy deletes what is stored, unasked")


def _protected(r: View, c: Mapping[str, Any]) -> Breaches:
    if c["required"] and not r.protect:
        yield breach("(options).protect", "a destroy, or a change that replaces it, deletes it")


def _logs_key(r: View, _: Mapping[str, Any]) -> Breaches:
    if not r["kmsKeyId"].present:
        yield breach("kmsKeyId", "the log is not encrypted with a key of ours")


def _images_key(r: View, _: Mapping[str, Any]) -> Breaches:
    kinds = [configuration["encryptionType"].value for configuration in r["encryptionConfigurations"].each()]
    if not any(str(kind).startswith("KMS") for kind in kinds):
        yield breach("encryptionConfigurations", "images are not encrypted with a key of ours")


def _log_retention(r: View, _: Mapping[str, Any]) -> Breaches:
    if not r["retentionInDays"].value:
        yield breach("retentionInDays", "logs are kept, and paid, for ever")


def _audit_logs(r: View, _: Mapping[str, Any]) -> Breaches:
    types = {x.value for x in r["enabledClusterLogTypes"].each()}
    for needed in ("audit", "authenticator"):
        if needed not in types:
            yield breach("enabledClusterLogTypes", f"{needed} logs are off")


_CLUSTERS = ("aws:eks/cluster:Cluster", "eks:index:Cluster")

RULES = (
    Rule(
        id="node-volumes-encrypted",
        domain=Domain.ENCRYPTION,
        title="Volumes of nodes are encrypted.",
        rationale="Cached weights and prompts in swap or logs would leave with a snapshot.",
        remedy="set blockDeviceMappings[].ebs.encrypted: true.",
        applies=("aws:ec2/launchTemplate:LaunchTemplate",),
        check=_volumes,
        requirements=("A4.6",),
    ),
    Rule(
        id="cluster-secrets-encrypted",
        domain=Domain.ENCRYPTION,
        title="Kubernetes secrets are encrypted with a key of ours.",
        rationale="Whoever reads the control plane's storage reads every credential.",
        remedy="give the cluster an encryption key (encryptionConfigKeyArn).",
        applies=_CLUSTERS,
        check=_secrets,
        requirements=("A4.6",),
    ),
    Rule(
        id="key-rotates",
        domain=Domain.ENCRYPTION,
        title="KMS keys rotate.",
        rationale="A key that leaks once decrypts for ever.",
        remedy="set enableKeyRotation: true.",
        applies=("aws:kms/key:Key",),
        check=_rotation,
        severity=Severity.MEDIUM,
        requirements=("A4.6",),
    ),
    Rule(
        id="queue-encrypted",
        domain=Domain.ENCRYPTION,
        title="Queues are encrypted.",
        rationale="Batch requests hold prompts.",
        remedy="set kmsMasterKeyId.",
        applies=("aws:sqs/queue:Queue",),
        check=_queue,
        requirements=("A4.6",),
    ),
    Rule(
        id="bucket-encrypted-by-key",
        domain=Domain.ENCRYPTION,
        title="Buckets are encrypted with a key of ours.",
        rationale="Access to weights could not be cut by the key.",
        remedy="set sseAlgorithm: aws:kms and the key.",
        applies=(
            "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration",
            "aws:s3/bucketServerSideEncryptionConfigurationV2:BucketServerSideEncryptionConfigurationV2",
        ),
        check=_bucket,
        requirements=("A4.6",),
    ),
    Rule(
        id="bucket-tls-only",
        domain=Domain.ENCRYPTION,
        title="Buckets answer TLS only.",
        rationale="Weights and evidence could be read or altered on the way.",
        remedy="deny s3:* to everyone where aws:SecureTransport is false, in the bucket policy.",
        applies=("aws:s3/bucketPolicy:BucketPolicy",),
        check=_tls,
        requirements=("A4.6",),
    ),
    Rule(
        id="cluster-deletion-protected",
        domain=Domain.ENCRYPTION,
        title="A cluster that matters cannot be deleted by one call.",
        rationale="A mistyped destroy would end every tenant's service.",
        remedy="set deletionProtection: true; switch the rule's `required` off for environments that are thrown away.",
        applies=_CLUSTERS,
        check=_deletion,
        settings={"required": {"type": "boolean", "default": True}},
        requirements=("A4.7",),
    ),
    Rule(
        id="no-forced-destroy",
        domain=Domain.ENCRYPTION,
        title="Storage is not emptied by a destroy.",
        rationale="Weights, images and release evidence would be gone with a stack.",
        remedy="leave forceDestroy and forceDelete off; allow them for environments that are thrown away.",
        applies=("aws:s3/bucket:Bucket", "aws:s3/bucketV2:BucketV2", "aws:ecr/repository:Repository"),
        check=_force_destroy,
        settings={"allowed": {"type": "boolean", "default": False}},
        requirements=("A4.7",),
    ),
    Rule(
        id="bucket-protected",
        domain=Domain.ENCRYPTION,
        title="Buckets that matter, and the keys that read them, are protected in the program's own state.",
        rationale="Weights and release evidence would go with a mistyped destroy, or with a renamed bucket or key.",
        remedy="set protect: true on it; switch the rule's `required` off for environments that are thrown away.",
        applies=("aws:kms/key:Key", "aws:s3/bucket:Bucket", "aws:s3/bucketV2:BucketV2"),
        check=_protected,
        settings={"required": {"type": "boolean", "default": True}},
        requirements=("A4.7",),
    ),
    Rule(
        id="logs-encrypted-by-key",
        domain=Domain.ENCRYPTION,
        title="Log groups are encrypted with a key of ours.",
        rationale="Audit and flow logs say who talks to whom; access to them could not be cut by the key.",
        remedy="set kmsKeyId.",
        applies=("aws:cloudwatch/logGroup:LogGroup",),
        check=_logs_key,
        severity=Severity.MEDIUM,
        requirements=("A4.6",),
    ),
    Rule(
        id="repository-encrypted-by-key",
        domain=Domain.ENCRYPTION,
        title="Image repositories are encrypted with a key of ours.",
        rationale="Images may hold weights and code; access to them could not be cut by the key.",
        remedy="set encryptionConfigurations: [{encryptionType: KMS, kmsKey: ...}].",
        applies=("aws:ecr/repository:Repository",),
        check=_images_key,
        severity=Severity.MEDIUM,
        requirements=("A4.6",),
    ),
    Rule(
        id="logs-have-retention",
        domain=Domain.OBSERVABILITY,
        title="Log groups have a retention.",
        rationale="Logs are kept and paid for ever, also those with personal data that had to go.",
        remedy="set retentionInDays.",
        applies=("aws:cloudwatch/logGroup:LogGroup",),
        check=_log_retention,
        severity=Severity.MEDIUM,
        requirements=("A4.6",),
    ),
    Rule(
        id="cluster-audited",
        domain=Domain.OBSERVABILITY,
        title="The control plane writes audit and authenticator logs.",
        rationale="Nobody could say who changed what (A4.7).",
        remedy="list audit and authenticator in enabledClusterLogTypes.",
        applies=_CLUSTERS,
        check=_audit_logs,
        requirements=("A4.7",),
    ),
)
