"""The environment port of the sandbox: everything on this machine, below one state folder."""

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.environment.port import Facility, OutOfReachError
from headway.problem import UserError
from headway.wire import ARTIFACT_BUCKET_OUTPUT
from sandbox.layout import Layout
from sandbox.monitoring.configuration import SCRAPE_SECONDS

if TYPE_CHECKING:
    from headway.contract.units import Duration
    from headway.environment.container_logs import LogQuery, LogReader
    from headway.environment.kubernetes import KubernetesApi
    from headway.environment.port import Environment
    from headway.environment.request_samples import RequestSamples
    from headway.environment.stacks import StackRunner
    from headway.ledger.witness import LedgerWitness

NAME = "sandbox"
REGION = "us-east-1"
"""In which its stack file says that it is; its object store takes any."""


_LACKS = {
    Facility.PACKETS: "pods are simulated or are processes of this machine, and nothing drops packets between them",
    Facility.NAMES: "pods are simulated or are processes of this machine, and nothing runs CoreDNS",
    Facility.ENCRYPTION: "only pods that run as processes have a proxy, and none is put into another pod",
    Facility.DEVICES: "nodes are simulated, and have no GPU and no driver",
    Facility.IDENTITIES: "the object store on this machine knows no roles, and lets everybody read",
    Facility.SCRAPES: "only pods that run as processes are scraped, by PodMonitors alone",
}


class Sandbox:
    """The sandbox of a checkout. It has its own ledger, whatever the shell was set up for."""

    name = NAME
    time_can_be_compressed = True
    scrape_seconds = SCRAPE_SECONDS
    restart_hint = "Try again; in the sandbox, `make up` repairs it."
    metrics_hint = "; `headway sandbox up --with monitoring` starts one"
    requests_hint = "Simulated pods get no requests; `make demo-traffic` serves real ones (docs/guide/own-release.md)."

    def __init__(self, project: Path) -> None:
        self._project, self.layout = project, Layout.of(project)

    @property
    def nodes_can_be_added(self) -> bool:
        """Whether the model of the Cluster Autoscaler runs (`up --with cluster-autoscaler`)."""
        from sandbox.extras import EXTRAS

        return all(self._runs(name) for name in EXTRAS["cluster-autoscaler"].processes)

    @property
    def ledger_address(self) -> str:
        return self.layout.ledger_address

    @property
    def ledger_witness(self) -> "LedgerWitness | None":
        from headway.ledger.witness_place import FolderWitness

        return FolderWitness(self.layout.ledger_witness)

    @property
    def artifact_bucket(self) -> str:
        from headway.environment.stacks import MissingStackError

        try:
            bucket = self.stacks.outputs(f"{NAME}-cluster").get(ARTIFACT_BUCKET_OUTPUT)
        except MissingStackError:
            bucket = None
        if not bucket:
            raise UserError("The sandbox has no bucket for artifacts.", "Nothing was uploaded.", "Bring it up first: `make up`.")
        return str(bucket)

    def object_store(self) -> Any:
        from sandbox.cloud import objectstore

        return objectstore.client("s3", REGION, objectstore.endpoint(self.layout))

    @property
    def stacks(self) -> "StackRunner":
        return self._stacks

    @cached_property
    def _stacks(self) -> "StackRunner":
        from headway.environment.stacks import StackRunner
        from pulumi_embedded.engine.command import EmbeddedPulumi
        from sandbox.cloud.registry import providers

        return StackRunner(self._project, command=EmbeddedPulumi(providers(self.layout)), environment=self.layout.engine_environment())

    @property
    def kubernetes(self) -> "KubernetesApi":
        return self._kubernetes

    @cached_property
    def _kubernetes(self) -> "KubernetesApi":
        from headway.environment.kubernetes import KubernetesApi

        return KubernetesApi(str(self.layout.kubeconfig))

    @property
    def metrics_address(self) -> str | None:
        return self._served("prometheus")

    @property
    def alertmanager_address(self) -> str | None:
        return self._served("alertmanager")

    def _served(self, name: str) -> str | None:
        from sandbox.cluster.processes import Supervisor

        return f"http://127.0.0.1:{Supervisor(self.layout).port(name)}" if self._runs(name) else None

    def _runs(self, name: str) -> bool:
        from sandbox.cluster.processes import Supervisor

        return any(process.name == name and process.running for process in Supervisor(self.layout).list())

    @property
    def logs(self) -> Path:
        return self.layout.logs

    def execute(self, pod: Mapping[str, Any], container: str, arguments: Sequence[str], seconds: float) -> str:
        from sandbox.traffic.pod_exec import NotRunError, executed

        try:
            return executed(self.layout, pod, arguments, seconds)
        except NotRunError as failure:
            raise OutOfReachError(str(failure)) from None

    def simulated(self, pods: Sequence[Mapping[str, Any]]) -> bool:
        """A pod that is served here is a real process, although its node is simulated like all others."""
        from sandbox.cluster.nodes import MANAGED
        from sandbox.traffic.pod_addresses import ADDRESS

        others = [pod for pod in pods if ADDRESS not in (pod["metadata"].get("annotations") or {})]
        names = sorted({str(pod["spec"]["nodeName"]) for pod in others if pod["spec"].get("nodeName")})
        nodes = [self.kubernetes.get(f"/api/v1/nodes/{name}") for name in names]
        return any(MANAGED.keys() & (node or {}).get("metadata", {}).get("annotations", {}).keys() for node in nodes)

    def cannot_show(self, facility: Facility) -> str | None:
        return _LACKS.get(facility)

    def request_samples(self, tenant: str, model: str, retention: "Duration") -> "RequestSamples | None":
        from sandbox.traffic.request_samples import SampleFile

        return SampleFile(self.layout.logs / "samples" / f"{tenant}.{model}.jsonl")

    def container_logs(self, query: "LogQuery") -> "LogReader":
        from sandbox.traffic.pod_logs import FileReader, kept

        folder = self.layout.logs / "pods"
        if not any(True for _ in kept(folder)):
            raise UserError(
                "No pod has printed anything in this sandbox.", "Pods that are only simulated say nothing.", "`make demo` serves real ones."
            )
        return FileReader(folder, query)

    def start_release_guard(self, tenant: str, watching: Callable[[], bool]) -> bool:
        """Start one as a process of its own: enough for a runner that dies, not for a machine that does."""
        from sandbox.cluster.processes import Process, Supervisor
        from sandbox.plan import ENVIRONMENT
        from sandbox.progress import Silent

        words = ("-m", "headway.cli.main", "release", "guard", tenant, "--environment", ENVIRONMENT, "--project", str(self._project))
        process = Process(
            name=f"release-guard-{tenant}",
            argv=(sys.executable, *words),
            ready=lambda: None if watching() else "it has not looked yet",
            environment={"HEADWAY_SANDBOX_HOME": str(self.layout.state), "PYTHONPATH": str(self._project)},
        )
        Supervisor(self.layout).ensure(process, Silent())
        return True


if TYPE_CHECKING:
    _implements: Callable[[Path], Environment] = Sandbox
