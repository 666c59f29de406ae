"""Puts the aws double together for one sandbox: account, object store, local cluster."""

import os
import threading
from collections.abc import Mapping
from typing import Any

from headway.problem import UserError
from pulumi_embedded.engine.provider import ProviderError
from pulumi_embedded.providers.aws import stores
from pulumi_embedded.providers.aws.account import Account
from pulumi_embedded.providers.aws.backend import Backend
from pulumi_embedded.providers.aws.clusters import Clusters, LaunchTemplates, NodeGroups
from pulumi_embedded.providers.aws.provider import AwsProvider, Site
from sandbox.cloud import objectstore
from sandbox.cloud.control_plane import ControlPlane, LocalControlPlane
from sandbox.layout import Layout
from sandbox.progress import Silent


def aws_provider(layout: Layout, environment: Mapping[str, str] = os.environ) -> AwsProvider:
    """The provider of package aws in the sandbox of `layout`. Starts nothing until an operation needs it."""
    plane = LocalControlPlane(layout.kubeconfig)

    def connect(id: str) -> Site:
        account = Account(layout.cloud / f"account-{id}.sqlite")
        return Site(account, backends(account, plane, _Clients(layout, id)))

    return AwsProvider(connect, environment=environment)


def backends(account: Account, plane: ControlPlane, clients: stores.Clients) -> Mapping[str, Backend]:
    """What stands behind the types that are more than a record."""
    return {
        "aws:ec2/launchTemplate:LaunchTemplate": LaunchTemplates(),
        "aws:eks/cluster:Cluster": Clusters(account, plane),
        "aws:eks/nodeGroup:NodeGroup": NodeGroups(account, plane),
        **stores.backends(clients),
    }


class _Clients:
    """Clients of the object store, which is started when the first one is asked for."""

    def __init__(self, layout: Layout, account: str) -> None:
        self._layout = layout
        self._account = account
        self._lock = threading.Lock()
        self._url = ""
        self._made: dict[tuple[str, str], Any] = {}

    def __call__(self, service: str, region: str) -> Any:
        with self._lock:
            if not self._url:
                try:
                    self._url = objectstore.ensure_running(self._layout, Silent())
                except UserError as error:
                    raise ProviderError(str(error)) from None
            if (service, region) not in self._made:
                self._made[service, region] = objectstore.client(service, region, self._url, self._account)
            return self._made[service, region]
