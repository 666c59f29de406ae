"""The AWS Load Balancer Controller: makes the gateway's network load balancer and puts the pods' own addresses behind
it. Pure.

The balancer of EKS's own cloud provider sends to nodes, and a caller in the cluster that is sent back to its own node
waits until it gives up (kubernetes/cloud-provider-aws#1160). What is off here belongs to Ingresses, to the Gateway
API and to services of AWS that have no endpoint in a VPC without NAT. The traps: its webhook for Services would stop
every new Service of the cluster while it is away; its chart makes a certificate at each rendering unless told to keep
the first; and pods reach no instance metadata, so the VPC is told. Sources: kubernetes-sigs/
aws-load-balancer-controller v3.5.0, its chart and its page "Controller configuration options".
"""

from collections.abc import Mapping
from typing import Any

import pulumi

from components.addons.placement import ON_SYSTEM_NODES, RESTRICTED_CONTAINER, RESTRICTED_POD, requests
from components.addons.service_account import Annotations, service_account
from components.permissions import Statement

NAMESPACE = "aws-load-balancer-controller"
SERVICE_ACCOUNT = "aws-load-balancer-controller"
LOAD_BALANCER_CLASS = "service.k8s.aws/nlb"
"""Services of this class are its own; nobody can change the class of a Service."""
READINESS_GATES = {"elbv2.k8s.aws/pod-readiness-gate-inject": "enabled"}
"""Labels of a namespace whose pods are ready only when the balancer has found them healthy: else a roll-out would
end the last pod that it knows.
"""
CLUSTER_TAG = "elbv2.k8s.aws/cluster"
"""On everything that it makes, with the cluster's name."""

_ALB_ALONE = ("ALBGatewayAPI", "GatewayListenerSet", "NLBGatewayAPI")


def values(
    cluster_name: str, region: str, vpc_id: pulumi.Input[str], tags: Mapping[str, str], annotations: Annotations = None
) -> dict[str, Any]:
    """Chart values; `tags` are given to every resource of AWS that it makes."""
    return {
        "clusterName": cluster_name,
        "region": region,
        "vpcId": vpc_id,
        "replicaCount": 2,
        "controllerConfig": {"featureGates": {"ServiceTypeLoadBalancerOnly": True, **dict.fromkeys(_ALB_ALONE, False)}},
        "createIngressClassResource": False,
        "defaultTags": dict(tags),
        "defaultTargetType": "ip",
        "enableServiceMutatorWebhook": False,
        "enableShield": False,
        "enableWaf": False,
        "enableWafv2": False,
        "ingressClassParams": {"create": False},
        "keepTLSSecret": True,
        "nodeSelector": dict(ON_SYSTEM_NODES),
        "podDisruptionBudget": {"maxUnavailable": 1},
        # While it is away, a gateway that comes back late is worse than one that is ready too early.
        "podMutatorWebhookConfig": {"failurePolicy": "Ignore"},
        "podSecurityContext": dict(RESTRICTED_POD),
        "priorityClassName": "system-cluster-critical",
        "resources": requests("100m", "200Mi"),
        "securityContext": dict(RESTRICTED_CONTAINER),
        "serviceAccount": service_account(SERVICE_ACCOUNT, annotations),
        "serviceMonitor": {"enabled": True},
        "webhookConfig": {"disableIngressValidation": True},
    }


def permissions(cluster_name: str, account_id: str, region: str) -> tuple[Statement, ...]:
    """What a network load balancer needs of the controller's own policy (docs/install/iam_policy.json), in this
    account and region, and by tag on this cluster's wherever that policy asks for a tag.
    """
    return (*_sees(account_id, region), *_security_groups(cluster_name, account_id, region), *_balancers(cluster_name, account_id, region))


def _sees(account_id: str, region: str) -> tuple[Statement, ...]:
    role = "aws-service-role/elasticloadbalancing.amazonaws.com/AWSServiceRoleForElasticLoadBalancing"
    return (
        Statement(
            sid="SeeBalancers",
            actions=[
                "ec2:DescribeAccountAttributes",
                "ec2:DescribeAddresses",
                "ec2:DescribeAvailabilityZones",
                "ec2:DescribeInstances",
                "ec2:DescribeInternetGateways",
                "ec2:DescribeNetworkInterfaces",
                "ec2:DescribeRouteTables",
                "ec2:DescribeSecurityGroups",
                "ec2:DescribeSubnets",
                "ec2:DescribeTags",
                "ec2:DescribeVpcPeeringConnections",
                "ec2:DescribeVpcs",
                "elasticloadbalancing:DescribeCapacityReservation",
                "elasticloadbalancing:DescribeListenerAttributes",
                "elasticloadbalancing:DescribeListenerCertificates",
                "elasticloadbalancing:DescribeListeners",
                "elasticloadbalancing:DescribeLoadBalancerAttributes",
                "elasticloadbalancing:DescribeLoadBalancers",
                "elasticloadbalancing:DescribeRules",
                "elasticloadbalancing:DescribeTags",
                "elasticloadbalancing:DescribeTargetGroupAttributes",
                "elasticloadbalancing:DescribeTargetGroups",
                "elasticloadbalancing:DescribeTargetHealth",
            ],
            resources=["*"],
            reason="These actions know no resource: they list",
        ),
        Statement(
            sid="SeeSecurityGroups",
            actions=["ec2:GetSecurityGroupsForVpc"],
            resources=["*"],
            conditions={"StringEquals": {"aws:RequestedRegion": region}},
            reason="It lists groups of this account only, and which kinds of resource it knows differs by source",
        ),
        Statement(
            sid="FirstBalancer",
            actions=["iam:CreateServiceLinkedRole"],
            resources=[f"arn:aws:iam::{account_id}:role/{role}"],
            conditions={"StringEquals": {"iam:AWSServiceName": "elasticloadbalancing.amazonaws.com"}},
        ),
    )


def _security_groups(cluster_name: str, account_id: str, region: str) -> tuple[Statement, ...]:
    there = f"arn:aws:ec2:{region}:{account_id}"
    groups, own = f"{there}:security-group/*", {f"aws:ResourceTag/{CLUSTER_TAG}": cluster_name}
    rules = ["ec2:AuthorizeSecurityGroupIngress", "ec2:RevokeSecurityGroupIngress"]
    return (
        Statement(sid="MakeGroups", actions=["ec2:CreateSecurityGroup"], resources=[groups, f"{there}:vpc/*"]),
        Statement(
            sid="NameNewGroups",
            actions=["ec2:CreateTags"],
            resources=[groups],
            conditions={"StringEquals": {"ec2:CreateAction": "CreateSecurityGroup", f"aws:RequestTag/{CLUSTER_TAG}": cluster_name}},
        ),
        Statement(
            sid="NameGroups",
            actions=["ec2:CreateTags", "ec2:DeleteTags"],
            resources=[groups],
            conditions={"Null": {f"aws:RequestTag/{CLUSTER_TAG}": "true"}, "StringEquals": own},
        ),
        Statement(
            sid="ChangeGroups",
            actions=[*rules, "ec2:DeleteSecurityGroup"],
            resources=[groups],
            conditions={"StringEquals": own},
        ),
        Statement(
            sid="OpenNodes",
            # The group that EKS makes for nodes and control plane carries this tag.
            actions=rules,
            resources=[groups],
            conditions={"StringEquals": {f"aws:ResourceTag/kubernetes.io/cluster/{cluster_name}": "owned"}},
        ),
    )


def _balancers(cluster_name: str, account_id: str, region: str) -> tuple[Statement, ...]:
    there = f"arn:aws:elasticloadbalancing:{region}:{account_id}"
    balancers, targets, listeners = f"{there}:loadbalancer/net/*", f"{there}:targetgroup/*/*", f"{there}:listener/net/*"
    own, asked = {f"aws:ResourceTag/{CLUSTER_TAG}": cluster_name}, {f"aws:RequestTag/{CLUSTER_TAG}": cluster_name}
    return (
        Statement(
            sid="MakeBalancers",
            actions=["elasticloadbalancing:CreateLoadBalancer", "elasticloadbalancing:CreateTargetGroup"],
            resources=[balancers, targets],
            conditions={"StringEquals": asked},
        ),
        Statement(
            sid="NameNewBalancers",
            actions=["elasticloadbalancing:AddTags"],
            resources=[balancers, targets],
            conditions={"StringEquals": {"elasticloadbalancing:CreateAction": ["CreateLoadBalancer", "CreateTargetGroup"], **asked}},
        ),
        Statement(
            sid="NameBalancers",
            actions=["elasticloadbalancing:AddTags", "elasticloadbalancing:RemoveTags"],
            resources=[balancers, targets],
            conditions={"Null": {f"aws:RequestTag/{CLUSTER_TAG}": "true"}, "StringEquals": own},
        ),
        Statement(
            sid="Listeners",
            actions=[
                "elasticloadbalancing:AddTags",
                "elasticloadbalancing:CreateListener",
                "elasticloadbalancing:DeleteListener",
                "elasticloadbalancing:ModifyListener",
                "elasticloadbalancing:RemoveTags",
            ],
            resources=[listeners],
        ),
        # A listener is made on its balancer, and the published policy asks for no tag there.
        Statement(sid="ListenersOfBalancers", actions=["elasticloadbalancing:CreateListener"], resources=[balancers]),
        Statement(
            sid="ChangeBalancers",
            actions=[
                "elasticloadbalancing:DeleteLoadBalancer",
                "elasticloadbalancing:DeleteTargetGroup",
                "elasticloadbalancing:ModifyCapacityReservation",
                "elasticloadbalancing:ModifyListenerAttributes",
                "elasticloadbalancing:ModifyLoadBalancerAttributes",
                "elasticloadbalancing:ModifyTargetGroup",
                "elasticloadbalancing:ModifyTargetGroupAttributes",
                "elasticloadbalancing:SetIpAddressType",
                "elasticloadbalancing:SetSecurityGroups",
                "elasticloadbalancing:SetSubnets",
            ],
            resources=[balancers, listeners, targets],
            conditions={"StringEquals": own},
        ),
        Statement(
            sid="Targets",
            actions=["elasticloadbalancing:DeregisterTargets", "elasticloadbalancing:RegisterTargets"],
            resources=[targets],
        ),
    )
