"""References that many kinds make, so that each is worded once."""

from pulumi_embedded.providers.aws.kind import Ref

OTHER_ACCOUNT = r"arn:aws:[a-z0-9-]+:[a-z0-9-]*:(?!{account}:)[0-9]{12}:.*"
EXTERNAL_ROLE = OTHER_ACCOUNT + r"|arn:aws:iam::{account}:role/aws-(reserved|service-role)/.*"
"""Roles of other accounts, of the identity centre and of services exist without a program."""
EXTERNAL_KEY = OTHER_ACCOUNT + r"|(arn:aws:kms:[a-z0-9-]+:{account}:)?alias/aws/.*"

VPC = Ref("VPC", "blocks", "InvalidVpcID.NotFound")
SUBNET = Ref("subnet", "blocks", "InvalidSubnetID.NotFound")
ROUTE_TABLE = Ref("route table", "blocks", "InvalidRouteTableID.NotFound")
SECURITY_GROUP = Ref("security group", "blocks", "InvalidGroup.NotFound")
ALLOCATION = Ref("Elastic IP allocation", "blocks", "InvalidAllocationID.NotFound")
ROLE_ARN = Ref("role ARN", "free", "InvalidParameterException", EXTERNAL_ROLE)
CLUSTER = Ref("EKS cluster", "falls", "ResourceNotFoundException")
BUCKET = Ref("bucket", "falls", "NoSuchBucket")
