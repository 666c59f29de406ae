"""Which actions of AWS the Pulumi provider calls for each type that a layer registers. Pure data.

Held by `tests/components/access/provider_calls.py` to the calls in the provider's source (hashicorp/terraform-provider-aws,
`internal/service/<service>/`), and to what AWS asks of whoever makes them: none is missing, none too many. Tags of a new
object need the action that tags.
"""

from collections.abc import Mapping

_BUCKET = (
    "s3:GetBucketTagging s3:GetBucketAcl s3:GetBucketCORS s3:GetBucketWebsite s3:GetBucketVersioning s3:GetBucketLogging s3:GetBucketPolicy "
    "s3:GetLifecycleConfiguration s3:GetReplicationConfiguration s3:GetEncryptionConfiguration s3:GetBucketObjectLockConfiguration "
    "s3:GetAccelerateConfiguration s3:GetBucketRequestPayment s3:ListBucket s3:CreateBucket s3:PutBucketTagging s3:DeleteBucket "
    "s3:ListTagsForResource s3:TagResource s3:UntagResource s3:PutBucketObjectLockConfiguration s3:PutBucketVersioning"
)
_EKS_TAGS = "eks:TagResource eks:UntagResource"
_EC2_TAGS = "ec2:CreateTags ec2:DeleteTags"
_ROLE = (
    "iam:GetRole iam:ListRolePolicies iam:ListAttachedRolePolicies iam:ListInstanceProfilesForRole iam:GetRolePolicy iam:CreateRole "
    "iam:DeleteRole iam:UpdateRole iam:UpdateRoleDescription iam:UpdateAssumeRolePolicy iam:PutRolePermissionsBoundary iam:TagRole iam:UntagRole"
)
_QUEUE = "sqs:GetQueueAttributes sqs:ListQueueTags sqs:CreateQueue sqs:SetQueueAttributes sqs:DeleteQueue sqs:TagQueue sqs:UntagQueue"
_IDENTITY = f"iam:GetRole iam:PassRole {_EKS_TAGS}"

_TABLE: Mapping[str, str] = {
    "aws:autoscaling/schedule:Schedule": "autoscaling:DescribeScheduledActions autoscaling:PutScheduledUpdateGroupAction "
    "autoscaling:DeleteScheduledAction",
    "aws:autoscaling/tag:Tag": "autoscaling:DescribeTags autoscaling:CreateOrUpdateTags autoscaling:DeleteTags",
    "aws:cloudwatch/logGroup:LogGroup": "logs:DescribeLogGroups logs:ListTagsForResource logs:CreateLogGroup logs:PutRetentionPolicy "
    "logs:AssociateKmsKey logs:DeleteLogGroup logs:TagResource logs:UntagResource",
    "aws:cloudwatch/metricAlarm:MetricAlarm": "cloudwatch:DescribeAlarms cloudwatch:ListTagsForResource cloudwatch:PutMetricAlarm "
    "cloudwatch:DeleteAlarms cloudwatch:TagResource cloudwatch:UntagResource",
    "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup": "ec2:DescribeSecurityGroups ec2:DescribeSecurityGroupRules "
    f"ec2:RevokeSecurityGroupIngress ec2:RevokeSecurityGroupEgress {_EC2_TAGS}",
    "aws:ec2/eip:Eip": f"ec2:DescribeAddresses ec2:DescribeAddressesAttribute ec2:AllocateAddress ec2:ReleaseAddress ec2:DisassociateAddress {_EC2_TAGS}",
    "aws:ec2/flowLog:FlowLog": f"ec2:DescribeFlowLogs ec2:CreateFlowLogs ec2:DeleteFlowLogs iam:PassRole {_EC2_TAGS}",
    "aws:ec2/internetGateway:InternetGateway": "ec2:DescribeInternetGateways ec2:CreateInternetGateway ec2:AttachInternetGateway "
    f"ec2:DetachInternetGateway ec2:DeleteInternetGateway {_EC2_TAGS}",
    "aws:ec2/launchTemplate:LaunchTemplate": "ec2:DescribeLaunchTemplates ec2:DescribeLaunchTemplateVersions ec2:CreateLaunchTemplate "
    f"ec2:CreateLaunchTemplateVersion ec2:ModifyLaunchTemplate ec2:DeleteLaunchTemplate {_EC2_TAGS}",
    "aws:ec2/natGateway:NatGateway": f"ec2:DescribeNatGateways ec2:CreateNatGateway ec2:DeleteNatGateway "
    f"iam:CreateServiceLinkedRole {_EC2_TAGS}",
    "aws:ec2/route:Route": "ec2:DescribeRouteTables ec2:CreateRoute ec2:ReplaceRoute ec2:DeleteRoute",
    "aws:ec2/routeTable:RouteTable": "ec2:DescribeRouteTables ec2:CreateRouteTable ec2:DeleteRouteTable "
    f"ec2:DisassociateRouteTable {_EC2_TAGS}",
    "aws:ec2/routeTableAssociation:RouteTableAssociation": "ec2:DescribeRouteTables ec2:AssociateRouteTable ec2:DisassociateRouteTable "
    "ec2:ReplaceRouteTableAssociation",
    "aws:ec2/securityGroup:SecurityGroup": "ec2:DescribeSecurityGroups ec2:DescribeNetworkInterfaces "
    f"ec2:CreateSecurityGroup ec2:DeleteSecurityGroup ec2:RevokeSecurityGroupEgress {_EC2_TAGS}",
    "aws:ec2/subnet:Subnet": f"ec2:DescribeSubnets ec2:DescribeNetworkInterfaces ec2:CreateSubnet ec2:ModifySubnetAttribute ec2:DeleteSubnet {_EC2_TAGS}",
    "aws:ec2/vpc:Vpc": "ec2:DescribeVpcs ec2:DescribeVpcAttribute ec2:DescribeNetworkAcls ec2:DescribeRouteTables ec2:DescribeSecurityGroups "
    f"ec2:CreateVpc ec2:ModifyVpcAttribute ec2:DeleteVpc {_EC2_TAGS}",
    "aws:ec2/vpcEndpoint:VpcEndpoint": "ec2:DescribeVpcEndpoints ec2:DescribeNetworkInterfaces ec2:DescribePrefixLists ec2:CreateVpcEndpoint "
    f"ec2:ModifyVpcEndpoint ec2:DeleteVpcEndpoints route53:AssociateVPCWithHostedZone {_EC2_TAGS}",
    "aws:ecr/lifecyclePolicy:LifecyclePolicy": "ecr:GetLifecyclePolicy ecr:PutLifecyclePolicy ecr:DeleteLifecyclePolicy",
    "aws:ecr/pullThroughCacheRule:PullThroughCacheRule": "ecr:DescribePullThroughCacheRules ecr:CreatePullThroughCacheRule "
    "ecr:UpdatePullThroughCacheRule ecr:DeletePullThroughCacheRule iam:CreateServiceLinkedRole",
    "aws:ecr/repository:Repository": "ecr:DescribeRepositories ecr:ListTagsForResource ecr:CreateRepository ecr:DeleteRepository "
    "ecr:PutImageTagMutability ecr:PutImageScanningConfiguration ecr:TagResource ecr:UntagResource kms:CreateGrant kms:DescribeKey kms:RetireGrant",
    "aws:ecr/repositoryCreationTemplate:RepositoryCreationTemplate": "ecr:DescribeRepositoryCreationTemplates "
    "ecr:CreateRepositoryCreationTemplate ecr:UpdateRepositoryCreationTemplate ecr:DeleteRepositoryCreationTemplate iam:CreateServiceLinkedRole",
    "aws:eks/accessEntry:AccessEntry": f"eks:DescribeAccessEntry eks:CreateAccessEntry eks:UpdateAccessEntry eks:DeleteAccessEntry {_EKS_TAGS}",
    "aws:eks/accessPolicyAssociation:AccessPolicyAssociation": "eks:ListAssociatedAccessPolicies eks:AssociateAccessPolicy "
    "eks:DisassociateAccessPolicy",
    "aws:eks/addon:Addon": f"eks:DescribeAddon eks:DescribeUpdate eks:CreateAddon eks:UpdateAddon eks:DeleteAddon {_EKS_TAGS}",
    "aws:eks/cluster:Cluster": "eks:DescribeCluster eks:DescribeUpdate eks:ListClusters eks:CreateCluster eks:UpdateClusterConfig eks:UpdateClusterVersion "
    f"eks:AssociateEncryptionConfig eks:DeleteCluster iam:PassRole iam:GetRole kms:DescribeKey kms:CreateGrant "
    f"iam:CreateServiceLinkedRole {_EKS_TAGS}",
    "aws:eks/nodeGroup:NodeGroup": "eks:DescribeNodegroup eks:DescribeUpdate eks:ListNodegroups eks:CreateNodegroup eks:UpdateNodegroupConfig "
    "eks:UpdateNodegroupVersion eks:DeleteNodegroup iam:PassRole iam:GetRole iam:CreateServiceLinkedRole ec2:RunInstances "
    f"ec2:DescribeLaunchTemplateVersions ec2:DescribeSubnets {_EC2_TAGS} {_EKS_TAGS}",
    "aws:eks/podIdentityAssociation:PodIdentityAssociation": "eks:DescribePodIdentityAssociation eks:ListPodIdentityAssociations "
    f"eks:CreatePodIdentityAssociation eks:UpdatePodIdentityAssociation eks:DeletePodIdentityAssociation {_IDENTITY}",
    "aws:iam/openIdConnectProvider:OpenIdConnectProvider": "iam:GetOpenIDConnectProvider iam:CreateOpenIDConnectProvider "
    "iam:UpdateOpenIDConnectProviderThumbprint iam:AddClientIDToOpenIDConnectProvider iam:RemoveClientIDFromOpenIDConnectProvider "
    "iam:DeleteOpenIDConnectProvider iam:TagOpenIDConnectProvider iam:UntagOpenIDConnectProvider",
    "aws:iam/role:Role": _ROLE,
    "aws:iam/rolePolicy:RolePolicy": "iam:GetRolePolicy iam:PutRolePolicy iam:DeleteRolePolicy",
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment": "iam:ListAttachedRolePolicies iam:AttachRolePolicy iam:DetachRolePolicy",
    "aws:kms/alias:Alias": "kms:ListAliases kms:CreateAlias kms:UpdateAlias kms:DeleteAlias",
    "aws:kms/key:Key": "kms:DescribeKey kms:GetKeyPolicy kms:GetKeyRotationStatus kms:ListResourceTags kms:CreateKey kms:PutKeyPolicy "
    "kms:EnableKeyRotation kms:UpdateKeyDescription kms:ScheduleKeyDeletion kms:TagResource kms:UntagResource",
    "aws:s3/bucket:Bucket": _BUCKET,
    "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration": "s3:GetLifecycleConfiguration s3:PutLifecycleConfiguration",
    "aws:s3/bucketLogging:BucketLogging": "s3:GetBucketLogging s3:PutBucketLogging",
    "aws:s3/bucketObjectLockConfiguration:BucketObjectLockConfiguration": "s3:GetBucketObjectLockConfiguration s3:PutBucketObjectLockConfiguration",
    "aws:s3/bucketOwnershipControls:BucketOwnershipControls": "s3:GetBucketOwnershipControls s3:PutBucketOwnershipControls",
    "aws:s3/bucketPolicy:BucketPolicy": "s3:GetBucketPolicy s3:PutBucketPolicy s3:DeleteBucketPolicy",
    "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock": "s3:GetBucketPublicAccessBlock s3:PutBucketPublicAccessBlock",
    "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration": "s3:GetEncryptionConfiguration "
    "s3:PutEncryptionConfiguration",
    "aws:s3/bucketVersioning:BucketVersioning": "s3:GetBucketVersioning s3:PutBucketVersioning",
    "aws:sns/topic:Topic": "sns:GetTopicAttributes sns:ListTagsForResource sns:CreateTopic sns:SetTopicAttributes sns:DeleteTopic "
    "sns:TagResource sns:UntagResource",
    "aws:sns/topicSubscription:TopicSubscription": "sns:GetSubscriptionAttributes sns:Subscribe sns:Unsubscribe",
    "aws:sqs/queue:Queue": _QUEUE,
    "aws:sqs/queuePolicy:QueuePolicy": "sqs:GetQueueAttributes sqs:SetQueueAttributes",
    "aws:ssm/parameter:Parameter": "ssm:DescribeParameters ssm:GetParameter ssm:ListTagsForResource ssm:PutParameter "
    "ssm:DeleteParameter ssm:AddTagsToResource ssm:RemoveTagsFromResource",
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": "ec2:DescribeSecurityGroupRules ec2:AuthorizeSecurityGroupIngress "
    f"ec2:ModifySecurityGroupRules ec2:RevokeSecurityGroupIngress {_EC2_TAGS}",
}

ACTIONS: Mapping[str, frozenset[str]] = {type: frozenset(actions.split()) for type, actions in _TABLE.items()}
"""Pulumi's type token -> actions to create, read, update and delete it."""

_ROLES = ("aws:iam/role:Role", "aws:iam/rolePolicy:RolePolicy")
OF_LAYER: Mapping[str, frozenset[str]] = {
    "cluster": frozenset(type for type in ACTIONS if type.split("/")[0] != "aws:sns" and "metricAlarm" not in type),
    "platform": frozenset({*_ROLES, "aws:eks/podIdentityAssociation:PodIdentityAssociation", "aws:ssm/parameter:Parameter"}),
    "tenant": frozenset({
        *_ROLES,
        "aws:cloudwatch/metricAlarm:MetricAlarm",
        "aws:eks/podIdentityAssociation:PodIdentityAssociation",
        "aws:sns/topic:Topic",
        "aws:sns/topicSubscription:TopicSubscription",
        "aws:sqs/queue:Queue",
    }),
}  # fmt: skip
"""The types that each layer registers."""

_READS = ("Describe", "Get", "List", "View")


def actions_of(layer: str) -> frozenset[str]:
    """Everything that deploying a layer calls."""
    return frozenset(action for type in OF_LAYER[layer] for action in ACTIONS[type])


def reads(action: str) -> bool:
    return action.partition(":")[2].startswith(_READS)
