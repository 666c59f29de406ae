"""Which provider answers for which package in the sandbox. A package that is not here is refused by name by the engine."""

from collections.abc import Callable
from pathlib import Path

from headway.environment.kubernetes import settings
from headway.wire import PREFIX
from pulumi_embedded.engine.model import ProviderFactories
from pulumi_embedded.engine.provider import ProviderStep
from pulumi_embedded.providers.derived import keep_in
from pulumi_embedded.providers.eks.provider import EksProvider
from pulumi_embedded.providers.kubernetes.client import ClusterConnection
from pulumi_embedded.providers.kubernetes.clock import AwaitClock
from pulumi_embedded.providers.kubernetes.provider import KubernetesProvider
from pulumi_embedded.providers.kubernetes.releases import RecordMarks
from pulumi_embedded.providers.kubernetes.settings import ProviderSettings
from sandbox.cloud.assembly import aws_provider
from sandbox.cloud.control_plane import LocalControlPlane
from sandbox.cluster.toolchain import ensure_toolchain
from sandbox.layout import Layout

RECORD_MARKS = RecordMarks(label_prefix=PREFIX, field_manager="headway-sandbox-helm")
"""How the records of Helm releases are labelled, which `status.RECORD_SELECTOR` looks for."""


def providers(layout: Layout, *, takes_over: bool = False) -> ProviderFactories:
    """A factory per package; each call of one makes the instance of one provider resource. `takes_over`: what a killed update was making in the
    account is its own, where AWS would refuse it or make a second one."""
    keep_in(layout.cache)
    # The cluster on this machine is entered with a certificate, so `make up` needs no AWS CLI; what pulumi-eks would say is said.
    return {
        "aws": lambda: aws_provider(layout, takes_over=takes_over),
        "eks": lambda: EksProvider(LocalControlPlane(layout.kubeconfig), needs_aws_cli=False),
        "kubernetes": lambda: KubernetesProvider(layout.kubeconfig, _definitions(layout), connect=_connected, marks=RECORD_MARKS),
    }


def _connected(chosen: ProviderSettings, clock: AwaitClock) -> ClusterConnection:
    """Kubeconfigs are loaded by one loader a process, for the sake of its lock."""
    return ClusterConnection(chosen.kubeconfig, chosen.context, clock, load=settings)


def _definitions(layout: Layout) -> Callable[[str, ProviderStep], tuple[Path, ...]]:
    """Definitions of the toolchain's `crds` set; fetched on first use, and the step says so."""
    return lambda name, step: ensure_toolchain(layout, _Shown(step), ("crds",)).crds(name)


class _Shown:
    """Progress of the toolchain beside the resource that needs it."""

    def __init__(self, step: ProviderStep) -> None:
        self._step = step

    def step(self, key: str, text: str) -> None:
        self._step.status(f"{key}: {text}")

    def done(self, key: str, text: str) -> None:
        self._step.status(f"{key}: {text}")

    def failed(self, key: str, text: str) -> None:
        self._step.warn(f"{key}: {text}")
