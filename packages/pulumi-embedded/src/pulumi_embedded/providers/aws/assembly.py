"""Puts an aws double together: the accounts in a folder, and whatever the host has behind them."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from pulumi_embedded.providers.aws.account import SimulatedAccount
from pulumi_embedded.providers.aws.backend import ObjectBackend
from pulumi_embedded.providers.aws.clusters import AccessEntries, CapacityReservations, Clusters, LaunchTemplates, NodeGroups
from pulumi_embedded.providers.aws.gateways import NAT_GATEWAY, NatGateways
from pulumi_embedded.providers.aws.key_policies import KeyPolicies
from pulumi_embedded.providers.aws.nodes import NodeMaker, no_nodes
from pulumi_embedded.providers.aws.provider import AccountSite, AwsProvider
from pulumi_embedded.providers.aws.schedules import Schedules
from pulumi_embedded.providers.control_plane import EksControlPlane, NoControlPlane

ClientsOf = Callable[[str], Callable[[str, str], object]]
"""(account id) -> (service, region) -> a boto3 client of an object store."""


def aws_provider(
    folder: Path,
    *,
    plane: EksControlPlane | None = None,
    make_nodes: NodeMaker = no_nodes,
    clients_of: ClientsOf | None = None,
    environment: Mapping[str, str] = os.environ,
    takes_over: bool = False,
) -> AwsProvider:
    """The provider of package aws over the accounts in `folder`. Starts nothing until an operation needs it.

    `plane` is the cluster behind every EKS cluster, `make_nodes` decides what a node group's nodes are, and `clients_of` reaches an object
    store. Without an object store, buckets, objects and queues are records alone. `takes_over`: a creation that was cut off finds what it made.
    """

    def connect(id: str) -> AccountSite:
        account = SimulatedAccount(folder / f"account-{id}.sqlite")
        return AccountSite(account, backends(account, plane or NoControlPlane(), make_nodes, clients_of(id) if clients_of else None))

    return AwsProvider(connect, environment=environment, takes_over=takes_over)


def backends(
    account: SimulatedAccount, plane: EksControlPlane, make_nodes: NodeMaker, clients: Callable[[str, str], object] | None
) -> Mapping[str, ObjectBackend]:
    """What stands behind the types that are more than a record."""
    behind: dict[str, ObjectBackend] = {
        "aws:autoscaling/schedule:Schedule": Schedules(),
        "aws:ec2/capacityReservation:CapacityReservation": CapacityReservations(),
        "aws:ec2/launchTemplate:LaunchTemplate": LaunchTemplates(),
        NAT_GATEWAY: NatGateways(account),
        "aws:kms/key:Key": KeyPolicies(account),
        "aws:kms/keyPolicy:KeyPolicy": KeyPolicies(account),
        "aws:eks/accessEntry:AccessEntry": AccessEntries(account),
        "aws:eks/cluster:Cluster": Clusters(account, plane),
        "aws:eks/nodeGroup:NodeGroup": NodeGroups(account, plane, make_nodes),
    }
    if clients is not None:
        from pulumi_embedded.providers.aws import stores

        behind |= stores.backends(clients)
    return behind
