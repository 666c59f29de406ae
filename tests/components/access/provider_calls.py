"""Which operations of AWS the provider calls for each type that a layer registers, as its source says.

Source: hashicorp/terraform-provider-aws, `internal/service/` and the file that each row names: create, read, update
and delete of the arguments that our program sets, with the waits between. Files were read in stored copies of
different ages, not at the version that pulumi-aws pins. What the provider does only where somebody sets an argument
that we never set (IPAM) or has what we never make (Lambda's interfaces) is left out. So is what it tries once EC2
refuses a subnet's end: to take the subnet from GuardDuty's endpoint (`ec2/vpc_subnet.go`), which a deployer may not,
or it could blind whoever watches it; the guide says who ends that.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Calls:
    """Operations by their names in the API; `file` lies below `internal/service/`, and its folder names the service."""

    file: str
    create: str
    read: str
    update: str
    delete: str
    asked: Mapping[str, str] | None = None
    """Actions that are asked for beside these, and by whom."""

    @property
    def service(self) -> str:
        return self.file.partition("/")[0]

    @property
    def operations(self) -> frozenset[str]:
        return frozenset(" ".join((self.create, self.read, self.update, self.delete)).split())


_EC2_TAGS, _EKS_TAGS = "CreateTags DeleteTags", "TagResource UntagResource"
_PASSED = {"iam:GetRole": "EKS asks it of who names a role", "iam:PassRole": "the service takes the role on"}
_LINKED = {"iam:CreateServiceLinkedRole": "the first use in an account makes the service's own role"}

CALLS: Mapping[str, Calls] = {
    "aws:autoscaling/schedule:Schedule": Calls(
        "autoscaling/schedule.go",
        "PutScheduledUpdateGroupAction",
        "DescribeScheduledActions",
        "PutScheduledUpdateGroupAction",
        "DeleteScheduledAction",
    ),
    "aws:autoscaling/tag:Tag": Calls("autoscaling/group_tag.go", "CreateOrUpdateTags", "DescribeTags", "CreateOrUpdateTags", "DeleteTags"),
    "aws:cloudwatch/logGroup:LogGroup": Calls(
        "logs/group.go",
        "CreateLogGroup PutRetentionPolicy",
        "DescribeLogGroups ListTagsForResource",
        "PutRetentionPolicy AssociateKmsKey TagResource UntagResource",
        "DeleteLogGroup",
    ),
    "aws:cloudwatch/metricAlarm:MetricAlarm": Calls(
        "cloudwatch/metric_alarm.go",
        "PutMetricAlarm",
        "DescribeAlarms ListTagsForResource",
        "PutMetricAlarm TagResource UntagResource",
        "DeleteAlarms",
    ),
    "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup": Calls(
        "ec2/vpc_default_security_group.go",
        "DescribeSecurityGroups DescribeSecurityGroupRules RevokeSecurityGroupIngress RevokeSecurityGroupEgress CreateTags",
        "DescribeSecurityGroups",
        _EC2_TAGS,
        "",
    ),
    "aws:ec2/eip:Eip": Calls(
        "ec2/ec2_eip.go",
        "AllocateAddress",
        "DescribeAddresses DescribeAddressesAttribute",
        _EC2_TAGS,
        "DisassociateAddress ReleaseAddress",
    ),
    "aws:ec2/flowLog:FlowLog": Calls(
        "ec2/vpc_flow_log.go",
        "CreateFlowLogs",
        "DescribeFlowLogs",
        _EC2_TAGS,
        "DeleteFlowLogs",
        {"iam:PassRole": "EC2 takes the role on"},
    ),
    "aws:ec2/internetGateway:InternetGateway": Calls(
        "ec2/vpc_internet_gateway.go",
        "CreateInternetGateway AttachInternetGateway",
        "DescribeInternetGateways",
        f"DetachInternetGateway AttachInternetGateway {_EC2_TAGS}",
        "DetachInternetGateway DeleteInternetGateway",
    ),
    "aws:ec2/launchTemplate:LaunchTemplate": Calls(
        "ec2/ec2_launch_template.go",
        "CreateLaunchTemplate",
        "DescribeLaunchTemplates DescribeLaunchTemplateVersions",
        f"CreateLaunchTemplateVersion ModifyLaunchTemplate {_EC2_TAGS}",
        "DeleteLaunchTemplate",
    ),
    "aws:ec2/natGateway:NatGateway": Calls(
        "ec2/vpc_nat_gateway.go", "CreateNatGateway", "DescribeNatGateways", _EC2_TAGS, "DeleteNatGateway", _LINKED
    ),
    "aws:ec2/route:Route": Calls("ec2/vpc_route.go", "CreateRoute", "DescribeRouteTables", "ReplaceRoute", "DeleteRoute"),
    "aws:ec2/routeTable:RouteTable": Calls(
        "ec2/vpc_route_table.go", "CreateRouteTable", "DescribeRouteTables", _EC2_TAGS, "DisassociateRouteTable DeleteRouteTable"
    ),
    "aws:ec2/routeTableAssociation:RouteTableAssociation": Calls(
        "ec2/vpc_route_table_association.go",
        "AssociateRouteTable",
        "DescribeRouteTables",
        "ReplaceRouteTableAssociation",
        "DisassociateRouteTable",
    ),
    "aws:ec2/securityGroup:SecurityGroup": Calls(
        "ec2/vpc_security_group.go",
        "CreateSecurityGroup RevokeSecurityGroupEgress",
        "DescribeSecurityGroups",
        _EC2_TAGS,
        "DescribeNetworkInterfaces DeleteSecurityGroup",
    ),
    "aws:ec2/subnet:Subnet": Calls(
        "ec2/vpc_subnet.go",
        "CreateSubnet ModifySubnetAttribute",
        "DescribeSubnets",
        f"ModifySubnetAttribute {_EC2_TAGS}",
        "DescribeNetworkInterfaces DeleteSubnet",
    ),
    "aws:ec2/vpc:Vpc": Calls(
        "ec2/vpc_.go",
        "CreateVpc ModifyVpcAttribute",
        "DescribeVpcs DescribeVpcAttribute DescribeNetworkAcls DescribeRouteTables DescribeSecurityGroups",
        f"ModifyVpcAttribute {_EC2_TAGS}",
        "DeleteVpc",
    ),
    "aws:ec2/vpcEndpoint:VpcEndpoint": Calls(
        "ec2/vpc_endpoint.go",
        "CreateVpcEndpoint",
        "DescribeVpcEndpoints DescribePrefixLists DescribeNetworkInterfaces",
        f"ModifyVpcEndpoint {_EC2_TAGS}",
        "DeleteVpcEndpoints",
        {"route53:AssociateVPCWithHostedZone": "EC2 gives a private name to an interface endpoint"},
    ),
    "aws:ecr/lifecyclePolicy:LifecyclePolicy": Calls(
        "ecr/lifecycle_policy.go", "PutLifecyclePolicy", "GetLifecyclePolicy", "PutLifecyclePolicy", "DeleteLifecyclePolicy"
    ),
    "aws:ecr/pullThroughCacheRule:PullThroughCacheRule": Calls(
        "ecr/pull_through_cache_rule.go",
        "CreatePullThroughCacheRule",
        "DescribePullThroughCacheRules",
        "UpdatePullThroughCacheRule",
        "DeletePullThroughCacheRule",
        _LINKED,
    ),
    "aws:ecr/repository:Repository": Calls(
        "ecr/repository.go",
        "CreateRepository",
        "DescribeRepositories ListTagsForResource",
        "PutImageTagMutability PutImageScanningConfiguration TagResource UntagResource",
        "DeleteRepository",
        {
            "kms:CreateGrant": "ECR encrypts with a key of ours",
            "kms:DescribeKey": "ECR encrypts with a key of ours",
            "kms:RetireGrant": "ECR gives the key back",
        },
    ),
    "aws:ecr/repositoryCreationTemplate:RepositoryCreationTemplate": Calls(
        "ecr/repository_creation_template.go",
        "CreateRepositoryCreationTemplate",
        "DescribeRepositoryCreationTemplates",
        "UpdateRepositoryCreationTemplate",
        "DeleteRepositoryCreationTemplate",
        _LINKED,
    ),
    "aws:eks/accessEntry:AccessEntry": Calls(
        "eks/access_entry.go", "CreateAccessEntry", "DescribeAccessEntry", f"UpdateAccessEntry {_EKS_TAGS}", "DeleteAccessEntry"
    ),
    "aws:eks/accessPolicyAssociation:AccessPolicyAssociation": Calls(
        "eks/access_policy_association.go", "AssociateAccessPolicy", "ListAssociatedAccessPolicies", "", "DisassociateAccessPolicy"
    ),
    "aws:eks/addon:Addon": Calls("eks/addon.go", "CreateAddon", "DescribeAddon", f"UpdateAddon DescribeUpdate {_EKS_TAGS}", "DeleteAddon"),
    "aws:eks/cluster:Cluster": Calls(
        "eks/cluster.go",
        "CreateCluster",
        "DescribeCluster",
        f"UpdateClusterVersion UpdateClusterConfig AssociateEncryptionConfig DescribeUpdate {_EKS_TAGS}",
        "DeleteCluster",
        {
            **_PASSED,
            **_LINKED,
            "eks:ListClusters": "the program asks whether there is a cluster (stacks/live_cluster.py)",
            "kms:CreateGrant": "EKS encrypts with a key of ours",
            "kms:DescribeKey": "EKS encrypts with a key of ours",
        },
    ),
    "aws:eks/nodeGroup:NodeGroup": Calls(
        "eks/node_group.go",
        "CreateNodegroup",
        "DescribeNodegroup",
        f"UpdateNodegroupVersion UpdateNodegroupConfig DescribeUpdate {_EKS_TAGS}",
        "DeleteNodegroup",
        {
            **_PASSED,
            **_LINKED,
            "eks:ListNodegroups": "the program asks for the live sizes (stacks/live_cluster.py)",
            "ec2:CreateTags": "EKS launches from a template of ours, which tags",
            "ec2:DeleteTags": "EKS launches from a template of ours, which tags",
            "ec2:DescribeLaunchTemplateVersions": "EKS launches from a template of ours",
            "ec2:DescribeSubnets": "EKS launches into subnets of ours",
            "ec2:RunInstances": "EKS launches from a template of ours",
        },
    ),
    "aws:eks/podIdentityAssociation:PodIdentityAssociation": Calls(
        "eks/pod_identity_association.go",
        "CreatePodIdentityAssociation",
        "DescribePodIdentityAssociation",
        f"UpdatePodIdentityAssociation {_EKS_TAGS}",
        "DeletePodIdentityAssociation",
        {**_PASSED, "eks:ListPodIdentityAssociations": "whoever adopts a lost one looks its id up (docs/guide/day-two.md)"},
    ),
    "aws:iam/openIdConnectProvider:OpenIdConnectProvider": Calls(
        "iam/openid_connect_provider.go",
        "CreateOpenIDConnectProvider",
        "GetOpenIDConnectProvider",
        "UpdateOpenIDConnectProviderThumbprint AddClientIDToOpenIDConnectProvider RemoveClientIDFromOpenIDConnectProvider "
        "TagOpenIDConnectProvider UntagOpenIDConnectProvider",
        "DeleteOpenIDConnectProvider",
    ),
    "aws:iam/policy:Policy": Calls(
        "iam/policy.go",
        "CreatePolicy",
        "GetPolicy GetPolicyVersion",
        "ListPolicyVersions DeletePolicyVersion CreatePolicyVersion SetDefaultPolicyVersion TagPolicy UntagPolicy",
        "ListPolicyVersions DeletePolicyVersion DeletePolicy",
    ),
    "aws:iam/role:Role": Calls(
        "iam/role.go",
        "CreateRole",
        "GetRole ListRolePolicies GetRolePolicy ListAttachedRolePolicies",
        "UpdateAssumeRolePolicy UpdateRoleDescription UpdateRole PutRolePermissionsBoundary TagRole UntagRole",
        "ListInstanceProfilesForRole DeleteRole",
    ),
    "aws:iam/rolePolicy:RolePolicy": Calls("iam/role_policy.go", "PutRolePolicy", "GetRolePolicy", "PutRolePolicy", "DeleteRolePolicy"),
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment": Calls(
        "iam/role_policy_attachment.go", "AttachRolePolicy", "ListAttachedRolePolicies", "", "DetachRolePolicy"
    ),
    "aws:kms/alias:Alias": Calls("kms/alias.go", "CreateAlias", "ListAliases", "UpdateAlias", "DeleteAlias"),
    "aws:kms/key:Key": Calls(
        "kms/key.go",
        "CreateKey EnableKeyRotation",
        "DescribeKey GetKeyPolicy GetKeyRotationStatus ListResourceTags",
        "UpdateKeyDescription PutKeyPolicy EnableKeyRotation TagResource UntagResource",
        "ScheduleKeyDeletion",
    ),
    "aws:s3/bucket:Bucket": Calls(
        "s3/bucket.go",
        "CreateBucket",
        "HeadBucket GetBucketPolicy GetBucketAcl GetBucketCors GetBucketWebsite GetBucketVersioning GetBucketAccelerateConfiguration "
        "GetBucketRequestPayment GetBucketLogging GetBucketLifecycleConfiguration GetBucketReplication GetBucketEncryption "
        "GetObjectLockConfiguration GetBucketTagging ListTagsForResource",
        "PutBucketTagging TagResource UntagResource",
        "DeleteBucket",
        {
            "s3:PutBucketObjectLockConfiguration": "S3 makes a bucket with Object Lock",
            "s3:PutBucketVersioning": "S3 makes a bucket with Object Lock",
        },
    ),
    "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration": Calls(
        "s3/bucket_lifecycle_configuration.go",
        "PutBucketLifecycleConfiguration",
        "GetBucketLifecycleConfiguration",
        "PutBucketLifecycleConfiguration",
        "DeleteBucketLifecycle",
    ),
    "aws:s3/bucketLogging:BucketLogging": Calls(
        "s3/bucket_logging.go", "PutBucketLogging", "GetBucketLogging", "PutBucketLogging", "PutBucketLogging"
    ),
    "aws:s3/bucketObjectLockConfiguration:BucketObjectLockConfiguration": Calls(
        "s3/bucket_object_lock_configuration.go",
        "PutObjectLockConfiguration",
        "GetObjectLockConfiguration",
        "PutObjectLockConfiguration",
        "PutObjectLockConfiguration",
    ),
    "aws:s3/bucketOwnershipControls:BucketOwnershipControls": Calls(
        "s3/bucket_ownership_controls.go",
        "PutBucketOwnershipControls",
        "GetBucketOwnershipControls",
        "PutBucketOwnershipControls",
        "DeleteBucketOwnershipControls",
    ),
    "aws:s3/bucketPolicy:BucketPolicy": Calls(
        "s3/bucket_policy.go", "PutBucketPolicy", "GetBucketPolicy", "PutBucketPolicy", "DeleteBucketPolicy"
    ),
    "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock": Calls(
        "s3/bucket_public_access_block.go",
        "PutPublicAccessBlock",
        "GetPublicAccessBlock",
        "PutPublicAccessBlock",
        "DeletePublicAccessBlock",
    ),
    "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration": Calls(
        "s3/bucket_server_side_encryption_configuration.go",
        "PutBucketEncryption",
        "GetBucketEncryption",
        "PutBucketEncryption",
        "DeleteBucketEncryption",
    ),
    "aws:s3/bucketVersioning:BucketVersioning": Calls(
        "s3/bucket_versioning.go", "PutBucketVersioning", "GetBucketVersioning", "PutBucketVersioning", "PutBucketVersioning"
    ),
    "aws:sns/topic:Topic": Calls(
        "sns/topic.go",
        "CreateTopic SetTopicAttributes",
        "GetTopicAttributes ListTagsForResource",
        "SetTopicAttributes TagResource UntagResource",
        "DeleteTopic",
    ),
    "aws:sns/topicSubscription:TopicSubscription": Calls(
        "sns/topic_subscription.go", "Subscribe", "GetSubscriptionAttributes", "", "Unsubscribe"
    ),
    "aws:sqs/queue:Queue": Calls(
        "sqs/queue.go",
        "CreateQueue",
        "GetQueueAttributes ListQueueTags",
        "SetQueueAttributes TagQueue UntagQueue",
        "DeleteQueue",
    ),
    "aws:sqs/queuePolicy:QueuePolicy": Calls(
        "sqs/queue_policy.go", "SetQueueAttributes", "GetQueueAttributes", "SetQueueAttributes", "SetQueueAttributes"
    ),
    "aws:ssm/parameter:Parameter": Calls(
        "ssm/parameter.go",
        "PutParameter",
        "GetParameter DescribeParameters ListTagsForResource",
        "PutParameter AddTagsToResource RemoveTagsFromResource",
        "DeleteParameter",
    ),
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": Calls(
        "ec2/vpc_security_group_ingress_rule.go",
        "AuthorizeSecurityGroupIngress",
        "DescribeSecurityGroupRules",
        f"ModifySecurityGroupRules {_EC2_TAGS}",
        "RevokeSecurityGroupIngress",
    ),
}

EMPTYING = Calls("s3/delete.go", "", "ListObjectVersions", "", "DeleteObjects DeleteObject PutObjectLegalHold")
"""What `force_destroy` calls before the bucket itself goes; it names versions, and passes governance locks."""

_OTHER_NAMES: Mapping[str, str] = {
    "s3:DeleteBucketEncryption": "s3:PutEncryptionConfiguration",
    "s3:DeleteBucketLifecycle": "s3:PutLifecycleConfiguration",
    "s3:DeleteBucketOwnershipControls": "s3:PutBucketOwnershipControls",
    "s3:DeleteObject": "s3:DeleteObjectVersion",
    "s3:DeleteObjects": "s3:DeleteObjectVersion",
    "s3:DeletePublicAccessBlock": "s3:PutBucketPublicAccessBlock",
    "s3:GetBucketAccelerateConfiguration": "s3:GetAccelerateConfiguration",
    "s3:GetBucketCors": "s3:GetBucketCORS",
    "s3:GetBucketEncryption": "s3:GetEncryptionConfiguration",
    "s3:GetBucketLifecycleConfiguration": "s3:GetLifecycleConfiguration",
    "s3:GetBucketReplication": "s3:GetReplicationConfiguration",
    "s3:GetObjectLockConfiguration": "s3:GetBucketObjectLockConfiguration",
    "s3:GetPublicAccessBlock": "s3:GetBucketPublicAccessBlock",
    "s3:HeadBucket": "s3:ListBucket",
    "s3:ListObjectVersions": "s3:ListBucketVersions",
    "s3:PutBucketEncryption": "s3:PutEncryptionConfiguration",
    "s3:PutBucketLifecycleConfiguration": "s3:PutLifecycleConfiguration",
    "s3:PutObjectLockConfiguration": "s3:PutBucketObjectLockConfiguration",
    "s3:PutPublicAccessBlock": "s3:PutBucketPublicAccessBlock",
}
"""Operations whose action has another name: Service Authorization Reference, S3."""


def actions_called(calls: Calls) -> frozenset[str]:
    """The actions that IAM is asked about for a row's operations."""
    called = [f"{calls.service}:{operation}" for operation in calls.operations]
    return frozenset(_OTHER_NAMES.get(each, each) for each in called)
