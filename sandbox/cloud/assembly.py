"""Puts the aws double together for one sandbox: account, object store, local cluster, simulated nodes."""

import os
import threading
from collections.abc import Mapping
from typing import Any

from headway.problem import UserError
from pulumi_embedded.engine.provider import ProviderError
from pulumi_embedded.providers.aws import assembly
from pulumi_embedded.providers.aws.provider import AwsProvider
from sandbox.cloud import objectstore
from sandbox.cloud.control_plane import LocalControlPlane
from sandbox.cloud.nodes import nodes
from sandbox.layout import Layout
from sandbox.progress import Silent


def aws_provider(layout: Layout, environment: Mapping[str, str] = os.environ, *, takes_over: bool = False) -> AwsProvider:
    """The provider of package aws in the sandbox of `layout`. Starts nothing until an operation needs it."""
    return assembly.aws_provider(
        layout.cloud,
        plane=LocalControlPlane(layout.kubeconfig),
        make_nodes=nodes,
        clients_of=lambda account: _Clients(layout, account),
        environment=environment,
        takes_over=takes_over,
    )


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
