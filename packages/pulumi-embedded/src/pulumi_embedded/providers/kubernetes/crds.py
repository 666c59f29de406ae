"""Installs CustomResourceDefinitions from files: read fast, applied in parallel, awaited until the API server serves them."""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from pulumi_embedded.engine.provider import Properties, ProviderStep
from pulumi_embedded.providers.kubernetes import manifests
from pulumi_embedded.providers.kubernetes.await_.waiting import until_ready
from pulumi_embedded.providers.kubernetes.client import ClusterConnection
from pulumi_embedded.providers.kubernetes.clock import AwaitClock
from pulumi_embedded.providers.kubernetes.kinds import ObjectKind

DEFINITION = ObjectKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
MANAGER = "helm"
"""Field manager, as Helm's own."""

_WORKERS = 4
_SECONDS = 120.0


@dataclass
class _Silently:
    """A step whose waits are not shown one by one."""

    step: ProviderStep
    preview: bool = False
    timeout: float = _SECONDS
    repeated: bool = False

    def status(self, message: str) -> None: ...

    def warn(self, message: str) -> None:
        self.step.warn(message)

    def cancelled(self) -> bool:
        return self.step.cancelled()


def read(files: Iterable[Path]) -> list[Properties]:
    """The definitions in the files, sorted by name; other documents are left out."""
    found = [document for document in manifests.read(files) if document.get("kind") == DEFINITION.kind]
    return sorted(found, key=lambda definition: definition["metadata"]["name"])


def install(definitions: Sequence[Properties], cluster: ClusterConnection, step: ProviderStep, clock: AwaitClock) -> None:
    """Apply all, then wait until all are served. Raises Refusal, UnreachableError, NotReadyError."""
    silent = _Silently(step)

    def apply(definition: Properties) -> Properties:
        manifest = {key: value for key, value in definition.items() if key != "status"}
        return cluster.apply(DEFINITION, manifest, MANAGER, force=True)

    def wait(live: Properties) -> None:
        until_ready(DEFINITION, live, cluster, silent, _SECONDS, clock)

    with ThreadPoolExecutor(max_workers=_WORKERS) as workers:
        applied = list(workers.map(apply, definitions))
        step.status(f"waiting until {len(applied)} definitions are served")
        list(workers.map(wait, applied))
    cluster.forget_kinds()
