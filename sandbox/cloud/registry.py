"""Which provider answers for which package in the sandbox. A package that is not here is refused by name by the engine."""

from collections.abc import Callable
from pathlib import Path

from pulumi_embedded.engine.model import ProviderFactories
from pulumi_embedded.engine.provider import Step
from pulumi_embedded.providers.eks.provider import EksProvider
from pulumi_embedded.providers.kubernetes.provider import KubernetesProvider
from sandbox.cloud.assembly import aws_provider
from sandbox.cloud.control_plane import LocalControlPlane
from sandbox.cluster.toolchain import ensure_toolchain
from sandbox.layout import Layout


def providers(layout: Layout) -> ProviderFactories:
    """A factory per package; each call of one makes the instance of one provider resource."""
    return {
        "aws": lambda: aws_provider(layout),
        "eks": lambda: EksProvider(LocalControlPlane(layout.kubeconfig)),
        "kubernetes": lambda: KubernetesProvider(layout.kubeconfig, _definitions(layout)),
    }


def _definitions(layout: Layout) -> Callable[[str, Step], tuple[Path, ...]]:
    """Definitions of the toolchain's `crds` set; fetched on first use, and the step says so."""
    return lambda name, step: ensure_toolchain(layout, _Shown(step), ("crds",)).crds(name)


class _Shown:
    """Progress of the toolchain beside the resource that needs it."""

    def __init__(self, step: Step) -> None:
        self._step = step

    def step(self, key: str, text: str) -> None:
        self._step.status(f"{key}: {text}")

    def done(self, key: str, text: str) -> None:
        self._step.status(f"{key}: {text}")

    def failed(self, key: str, text: str) -> None:
        self._step.warn(f"{key}: {text}")
