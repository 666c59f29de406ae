"""Environments of production: what the layers in an account have handed over, and the Pulumi CLI of this machine."""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.environment.checkout import region_of
from headway.private_folder import state_folder
from headway.problem import UserError
from headway.wire import (
    ALERTMANAGER_PROXIED,
    ARTIFACT_BUCKET_OUTPUT,
    KUBECONFIG_OUTPUT,
    LEDGER_BUCKET_OUTPUT,
    LEDGER_VARIABLE,
    LOKI_PROXIED,
    PROMETHEUS_ADDRESS_OUTPUT,
    PROMETHEUS_PROXIED,
    TELEMETRY_BUCKET_OUTPUT,
)

if TYPE_CHECKING:
    from headway.contract.units import Duration
    from headway.environment.container_logs import LogQuery, LogReader
    from headway.environment.kubernetes import KubernetesApi
    from headway.environment.port import Facility
    from headway.environment.request_samples import RequestSamples
    from headway.environment.service_proxy import ServiceProxy
    from headway.environment.stacks import StackRunner
    from headway.ledger.witness import LedgerWitness

SCRAPE_SECONDS = 15.0
"""What the platform's monitors ask for."""


class Production:
    """An environment of which the checkout describes the cluster, in an account of its own."""

    time_can_be_compressed = False
    nodes_can_be_added = True
    scrape_seconds = SCRAPE_SECONDS
    restart_hint = "Check the network and try again."
    metrics_hint = ""
    requests_hint = ""

    def __init__(self, name: str, project: Path) -> None:
        self.name, self._project = name, project
        self._proxies: dict[str, ServiceProxy] = {}

    @property
    def ledger_address(self) -> str:
        return self._ledger_address

    @cached_property
    def _ledger_address(self) -> str:
        from headway.ledger.location import place

        address = place(None) or place(self._outputs("cluster").get(LEDGER_BUCKET_OUTPUT))
        if address is None:
            raise UserError(
                f"Environment {self.name} has no release ledger.",
                "Without it nobody knows which release has which traffic.",
                f"Deploy its cluster layer: `pulumi up -s {self.name}-cluster`; or set HEADWAY_LEDGER.",
            )
        return address

    @property
    def ledger_witness(self) -> "LedgerWitness":
        return self._ledger_witness

    @cached_property
    def _ledger_witness(self) -> "LedgerWitness":
        from headway.ledger.location import witness

        return witness(self.ledger_address, self.name, lambda: self._region)

    @cached_property
    def _region(self) -> str:
        return region_of(self._project, self.name)

    @property
    def artifact_bucket(self) -> str:
        bucket = self._outputs("cluster").get(ARTIFACT_BUCKET_OUTPUT)
        if not bucket:
            raise UserError(
                f"Environment {self.name} has no bucket for artifacts.",
                "Nothing was uploaded.",
                f"Deploy its cluster layer: `pulumi up -s {self.name}-cluster`.",
            )
        return str(bucket)

    def object_store(self) -> Any:
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError

        config = Config(connect_timeout=10, read_timeout=60, retries={"total_max_attempts": 6, "mode": "standard"}, max_pool_connections=20)
        try:
            session: Any = boto3.Session()
            return session.client("s3", config=config)
        except BotoCoreError as failure:
            raise UserError(
                f"There is no client of S3 ({failure}).", "Nothing was uploaded.", "Name region and profile: AWS_REGION, AWS_PROFILE."
            ) from None

    @property
    def stacks(self) -> "StackRunner":
        return self._stacks

    @cached_property
    def _stacks(self) -> "StackRunner":
        from headway.environment.stacks import StackRunner

        return StackRunner(self._project, environment={LEDGER_VARIABLE: self.ledger_address} if LEDGER_VARIABLE in os.environ else {})

    @property
    def kubernetes(self) -> "KubernetesApi":
        return self._kubernetes

    @cached_property
    def _kubernetes(self) -> "KubernetesApi":
        from headway.environment.kubernetes import KubernetesApi

        kubeconfig = self._outputs("platform").get(KUBECONFIG_OUTPUT)
        if not kubeconfig:
            raise UserError(
                f"Environment {self.name} has no cluster with a platform.",
                "Nothing was done.",
                f"Deploy its platform layer: `pulumi up -s {self.name}-platform`.",
            )
        return KubernetesApi(dict(kubeconfig))

    @property
    def metrics_address(self) -> str | None:
        """Through the API server, wherever this runs: the exported name is the cluster's own, and elsewhere it may be
        another cluster's. HEADWAY_PROMETHEUS is for who reaches it otherwise."""
        return self._proxied(PROMETHEUS_PROXIED)

    @property
    def alertmanager_address(self) -> str | None:
        return self._proxied(ALERTMANAGER_PROXIED)

    def _proxied(self, services: Sequence[str]) -> str | None:
        if not self._outputs("platform").get(PROMETHEUS_ADDRESS_OUTPUT):
            return None
        from headway.environment.service_proxy import ServiceProxy

        if services[0] not in self._proxies:
            self._proxies[services[0]] = ServiceProxy(lambda: self.kubernetes, services)
        return self._proxies[services[0]].addresses

    @property
    def logs(self) -> Path:
        return state_folder() / "logs"

    def execute(self, pod: Mapping[str, Any], container: str, arguments: Sequence[str], seconds: float) -> str:
        head = pod["metadata"]
        return self.kubernetes.execute(str(head["namespace"]), str(head["name"]), container, ("python3", *arguments), seconds)

    def simulated(self, pods: Sequence[Mapping[str, Any]]) -> bool:
        return False

    def cannot_show(self, facility: "Facility") -> str | None:
        return None

    def request_samples(self, tenant: str, model: str, retention: "Duration") -> "RequestSamples | None":
        from headway.contract.sampling import prefix
        from headway.environment.request_samples import SampleBucket
        from headway.ledger.s3_store import client

        bucket = self._outputs("cluster").get(TELEMETRY_BUCKET_OUTPUT)
        return SampleBucket(client(), str(bucket), prefix(tenant, model, retention)) if bucket else None

    def container_logs(self, query: "LogQuery") -> "LogReader":
        from headway.environment.loki import LokiReader

        address = self._proxied(LOKI_PROXIED)
        if address is None:
            raise UserError(
                f"Environment {self.name} has no platform that keeps logs.",
                "Nothing was read.",
                f"Deploy its platform layer: `pulumi up -s {self.name}-platform`.",
            )
        return LokiReader(address, query)

    def start_release_guard(self, tenant: str, watching: Callable[[], bool]) -> bool:
        """A guard beside the runner would die with it: one must be started on another machine."""
        return False

    def _outputs(self, layer: str) -> Mapping[str, Any]:
        return self._handed_over.get(layer, {})

    @cached_property
    def _handed_over(self) -> Mapping[str, Mapping[str, Any]]:
        from headway.environment.aws import clients
        from headway.environment.handover import handed_over

        return handed_over(self.name, clients(self._region, connect_timeout=5, read_timeout=20))
