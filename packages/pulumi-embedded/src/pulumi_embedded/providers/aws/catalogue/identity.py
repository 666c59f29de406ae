"""Identity: roles, policies and their attachments, OIDC providers, keys, secrets, access analysis."""

import re

from pulumi_embedded.engine.provider import UNKNOWN, CheckFailure, Properties
from pulumi_embedded.providers.aws import offerings
from pulumi_embedded.providers.aws.catalogue.references import EXTERNAL_KEY, EXTERNAL_ROLE, OTHER_ACCOUNT
from pulumi_embedded.providers.aws.kind import FALSE, TRUE, AwsKind, Facts, Naming, Ref, Rule, const, each, made
from pulumi_embedded.providers.aws.rules import Failures, between, exclusive, json_text, policy, required
from pulumi_embedded.providers.conform import closest, describe

_IAM = "arn:aws:iam::{account}:"
_ROLE_LIMIT, _POLICY_LIMIT, _INLINE_LIMIT = 2048 * 2, 6144, 10_240
"""Characters without white space: trust policy (at its raised quota), managed policy, all inline policies of a role (IAM quotas)."""
_AWS_POLICY = r"arn:aws:iam::aws:policy/.*"
_POLICY = Ref("policy ARN", "blocks", "NoSuchEntity", f"{_AWS_POLICY}|" + OTHER_ACCOUNT)


def _aws_policies(path: str) -> Rule:
    """AWS's own policies exist by name; a misspelt one would fail only when it is attached."""

    def check(inputs: Properties, _: str) -> Failures:
        for here, value in each(inputs, path):
            if isinstance(value, str) and re.fullmatch(_AWS_POLICY, value) and value not in offerings.managed_policies():
                yield CheckFailure(
                    here, f"NoSuchEntity: {describe(value)} is no AWS managed policy{closest(value, offerings.managed_policies())}"
                )

    return check


def _account_root(facts: Facts) -> str:
    """The key policy that AWS writes when none is given."""
    return (
        '{"Version":"2012-10-17","Id":"key-default-1","Statement":[{"Sid":"Enable IAM User Permissions","Effect":"Allow",'
        f'"Principal":{{"AWS":"arn:aws:iam::{facts.account}:root"}},"Action":"kms:*","Resource":"*"}}]}}'
    )


def _uuid(facts: Facts) -> str:
    text = facts.digest("uuid")
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:32]}"


def _issuer(inputs: Properties, _: str) -> Failures:
    url = inputs.get("url")
    if isinstance(url, str) and url != UNKNOWN and not url.startswith("https://"):
        yield CheckFailure("url", f"ValidationError: {describe(url)} must begin with https://")


def _rotation(inputs: Properties, _: str) -> Failures:
    if inputs.get("rotationPeriodInDays") is not None and not inputs.get("enableKeyRotation"):
        yield CheckFailure("rotationPeriodInDays", "has an effect only with enableKeyRotation true")
    symmetric = inputs.get("customerMasterKeySpec", "SYMMETRIC_DEFAULT") in ("SYMMETRIC_DEFAULT", UNKNOWN)
    if inputs.get("enableKeyRotation") and not symmetric:
        yield CheckFailure("enableKeyRotation", "UnsupportedOperationException: only symmetric keys rotate")


def _alias(inputs: Properties, _: str) -> Failures:
    name = inputs.get("name")
    if isinstance(name, str) and name != UNKNOWN and not re.fullmatch(r"alias/[a-zA-Z0-9:/_-]+", name):
        yield CheckFailure("name", f"{describe(name)} must be alias/ and then letters, digits, slash, underscore or hyphen")
    elif isinstance(name, str) and name.startswith("alias/aws/"):
        yield CheckFailure("name", "alias/aws/ is reserved for AWS")


def _key_arn(facts: Facts) -> str:
    key = facts.inputs.get("targetKeyId", "")
    if not facts.known or key == UNKNOWN:
        return UNKNOWN
    return key if key.startswith("arn:") else f"arn:aws:kms:{facts.region}:{facts.account}:key/{key}"


KINDS = (
    AwsKind(
        type="aws:iam/role:Role",
        operation="iam.CreateRole",
        api={"name": "RoleName", "assumeRolePolicy": "AssumeRolePolicyDocument", "inlinePolicies": "", "managedPolicyArns": ""},
        id="{name}",
        arn=_IAM + "role{path}{name}",
        named=Naming(longest=64),
        references={"managedPolicyArns[]": _POLICY, "permissionsBoundary": Ref("policy ARN", "blocks", "NoSuchEntity", _AWS_POLICY)},
        handles={"role name": ("name",), "role ARN": ("arn",)},
        outputs={
            "path": const("/"),
            "maxSessionDuration": const(3600),
            "forceDetachPolicies": FALSE,
            "createDate": "{created}",
            "uniqueId": made("AROA"),
        },
        replaces=("name", "namePrefix", "path"),
        rules=(
            policy("assumeRolePolicy", "trust", _ROLE_LIMIT),
            policy("inlinePolicies[].policy", "identity", _INLINE_LIMIT),
            _aws_policies("managedPolicyArns[]"),
        ),
    ),
    AwsKind(
        type="aws:iam/policy:Policy",
        operation="iam.CreatePolicy",
        api={"name": "PolicyName", "policy": "PolicyDocument"},
        id="{arn}",
        arn=_IAM + "policy{path}{name}",
        named=Naming(longest=128),
        handles={"policy name": ("name",), "policy ARN": ("arn",)},
        outputs={"path": const("/"), "policyId": made("ANPA"), "attachmentCount": const(0)},
        replaces=("name", "namePrefix", "path", "description"),
        rules=(policy("policy", "identity", _POLICY_LIMIT),),
    ),
    AwsKind(
        type="aws:iam/rolePolicy:RolePolicy",
        operation="iam.PutRolePolicy",
        api={"name": "PolicyName", "policy": "PolicyDocument", "role": "RoleName"},
        id="{role}:{name}",
        named=Naming(longest=128),
        references={"role": Ref("role name", "blocks", "NoSuchEntity")},
        replaces=("name", "namePrefix", "role"),
        rules=(policy("policy", "identity", _INLINE_LIMIT),),
    ),
    AwsKind(
        type="aws:iam/rolePolicyAttachment:RolePolicyAttachment",
        operation="iam.AttachRolePolicy",
        api={"role": "RoleName"},
        id="{role}-{hex}",
        references={"role": Ref("role name", "blocks", "NoSuchEntity"), "policyArn": _POLICY},
        updatable=False,
        rules=(_aws_policies("policyArn"),),
    ),
    AwsKind(
        type="aws:iam/rolePolicyAttachmentsExclusive:RolePolicyAttachmentsExclusive",
        id="{roleName}",
        references={
            "roleName": Ref("role name", "falls", "NoSuchEntity"),
            "policyArns[]": Ref("policy ARN", "free", "NoSuchEntity", _AWS_POLICY),
        },
        replaces=("roleName",),
        rules=(_aws_policies("policyArns[]"),),
    ),
    AwsKind(
        type="aws:iam/rolePoliciesExclusive:RolePoliciesExclusive",
        id="{roleName}",
        references={"roleName": Ref("role name", "falls", "NoSuchEntity")},
        replaces=("roleName",),
    ),
    AwsKind(
        type="aws:iam/instanceProfile:InstanceProfile",
        operation="iam.CreateInstanceProfile",
        api={"name": "InstanceProfileName", "role": "iam.AddRoleToInstanceProfile:RoleName"},
        id="{name}",
        arn=_IAM + "instance-profile{path}{name}",
        named=Naming(longest=128),
        references={"role": Ref("role name", "blocks", "NoSuchEntity")},
        handles={"instance profile": ("name",), "instance profile ARN": ("arn",)},
        outputs={"path": const("/"), "createDate": "{created}", "uniqueId": made("AIPA")},
        replaces=("name", "namePrefix", "path"),
    ),
    AwsKind(
        type="aws:iam/openIdConnectProvider:OpenIdConnectProvider",
        operation="iam.CreateOpenIDConnectProvider",
        id="{arn}",
        arn=lambda f: f.text("arn:aws:iam::{account}:oidc-provider/{url}").replace("https://", ""),
        handles={"OIDC provider ARN": ("arn",)},
        outputs={"thumbprintLists": lambda f: [f.digest("thumbprint")[:40]] if f.known else UNKNOWN},
        replaces=("url",),
        rules=(_issuer,),
    ),
    AwsKind(
        type="aws:iam/serviceLinkedRole:ServiceLinkedRole",
        operation="iam.CreateServiceLinkedRole",
        id="{arn}",
        arn=_IAM + "role/aws-service-role/{awsServiceName}/AWSServiceRoleFor{hex}",
        handles={"role ARN": ("arn",)},
        outputs={
            "createDate": "{created}",
            "name": "AWSServiceRoleFor{hex}",
            "path": "/aws-service-role/{awsServiceName}/",
            "uniqueId": made("AROA"),
        },
        replaces=("awsServiceName", "customSuffix"),
    ),
    AwsKind(
        type="aws:kms/key:Key",
        operation="kms.CreateKey",
        api={
            "deletionWindowInDays": "kms.ScheduleKeyDeletion:PendingWindowInDays",
            "rotationPeriodInDays": "kms.EnableKeyRotation:RotationPeriodInDays",
            "customerMasterKeySpec": "KeySpec",
        },
        id=lambda f: _uuid(f) if f.known else UNKNOWN,
        arn="arn:aws:kms:{region}:{account}:key/{id}",
        handles={"KMS key": ("id", "arn")},
        outputs={
            "keyId": "{id}",
            "customerMasterKeySpec": const("SYMMETRIC_DEFAULT"),
            "keyUsage": const("ENCRYPT_DECRYPT"),
            "isEnabled": TRUE,
            "enableKeyRotation": FALSE,
            "multiRegion": FALSE,
            "policy": _account_root,
        },
        replaces=("customerMasterKeySpec", "keyUsage", "multiRegion", "customKeyStoreId"),
        rules=(
            policy("policy", "resource", 32_768),
            between("deletionWindowInDays", 7, 30, "KMS API reference"),
            between("rotationPeriodInDays", 90, 2560, "KMS API reference"),
            _rotation,
        ),
    ),
    AwsKind(
        type="aws:kms/alias:Alias",
        operation="kms.CreateAlias",
        api={"name": "AliasName"},
        id="{name}",
        arn="arn:aws:kms:{region}:{account}:{name}",
        named=Naming(longest=256, lead="alias/"),
        references={"targetKeyId": Ref("KMS key", "falls", "NotFoundException")},
        handles={"KMS key": ("name", "arn")},
        outputs={"targetKeyArn": _key_arn},
        replaces=("name", "namePrefix"),
        rules=(_alias,),
    ),
    AwsKind(
        type="aws:kms/keyPolicy:KeyPolicy",
        operation="kms.PutKeyPolicy",
        id="{keyId}",
        references={"keyId": Ref("KMS key", "falls", "NotFoundException")},
        replaces=("keyId",),
        rules=(policy("policy", "resource", 32_768),),
    ),
    AwsKind(
        type="aws:kms/grant:Grant",
        operation="kms.CreateGrant",
        id="{keyId}:{hex}",
        references={
            "keyId": Ref("KMS key", "falls", "NotFoundException"),
            "granteePrincipal": Ref("role ARN", "free", "InvalidArnException", EXTERNAL_ROLE + r"|arn:aws:iam::{account}:(root|user/.*)"),
        },
        outputs={"grantId": "{hex}", "grantToken": lambda f: f.digest("token") if f.known else UNKNOWN},
        updatable=False,
    ),
    AwsKind(
        type="aws:secretsmanager/secret:Secret",
        operation="secretsmanager.CreateSecret",
        api={
            "policy": "secretsmanager.PutResourcePolicy:ResourcePolicy",
            "recoveryWindowInDays": "secretsmanager.DeleteSecret:RecoveryWindowInDays",
        },
        id="{arn}",
        arn="arn:aws:secretsmanager:{region}:{account}:secret:{name}-{hex}",
        named=Naming(longest=512),
        references={"kmsKeyId": Ref("KMS key", "free", "InvalidParameterException", EXTERNAL_KEY)},
        handles={"secret": ("id", "name")},
        outputs={
            "recoveryWindowInDays": const(30),
            "forceOverwriteReplicaSecret": FALSE,
            "replicas": const([]),
            "policy": const(""),
            "type": const(""),
        },
        replaces=("name", "namePrefix"),
        rules=(policy("policy", "resource"), between("recoveryWindowInDays", 0, 30, "Secrets Manager API reference")),
    ),
    AwsKind(
        type="aws:secretsmanager/secretVersion:SecretVersion",
        operation="secretsmanager.PutSecretValue",
        id="{secretId}|{hex}",
        references={"secretId": Ref("secret", "falls", "ResourceNotFoundException")},
        outputs={
            "versionId": "{hex}",
            "arn": "{secretId}",
            "secretArn": "{secretId}",
            "hasSecretStringWo": FALSE,
            "versionStages": const(["AWSCURRENT"]),
        },
        concealed=("secretString", "secretBinary", "secretStringWo"),
        replaces=("secretId", "secretString", "secretBinary"),
        rules=(exclusive("secretString", "secretBinary", "secretStringWo"),),
    ),
    AwsKind(
        type="aws:secretsmanager/secretPolicy:SecretPolicy",
        operation="secretsmanager.PutResourcePolicy",
        api={"policy": "ResourcePolicy"},
        id="{secretArn}",
        references={"secretArn": Ref("secret", "falls", "ResourceNotFoundException")},
        replaces=("secretArn",),
        rules=(json_text("policy"), policy("policy", "resource"), required("policy", "a secret policy without a policy has no effect")),
    ),
    AwsKind(
        type="aws:accessanalyzer/analyzer:Analyzer",
        operation="accessanalyzer.CreateAnalyzer",
        id="{analyzerName}",
        arn="arn:aws:access-analyzer:{region}:{account}:analyzer/{analyzerName}",
        outputs={"type": const("ACCOUNT")},
        replaces=("analyzerName", "type"),
    ),
)
