"""Installs CustomResourceDefinitions from files: read fast, applied in parallel, awaited until the API server serves them.

The trap: parsing is the slow part. PyYAML's loader in C is about ten times as fast as the one in Python.
"""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import yaml

from sandbox.cloud.kubernetes.await_.waiting import until_ready
from sandbox.cloud.kubernetes.client import Cluster
from sandbox.cloud.kubernetes.clock import Clock
from sandbox.cloud.kubernetes.kinds import Kind
from sandbox.engine.provider import Properties, Step

DEFINITION = Kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
MANAGER = "helm"
"""Field manager, as Helm's own."""

_WORKERS = 4
_SECONDS = 120.0


def read(files: Iterable[Path]) -> list[Properties]:
    """The definitions in the files, sorted by name; other documents are left out."""
    documents = (document for file in files for document in yaml.load_all(file.read_bytes(), yaml.CSafeLoader))
    found = [document for document in documents if isinstance(document, dict) and document.get("kind") == DEFINITION.kind]
    return sorted(found, key=lambda definition: definition["metadata"]["name"])


def install(definitions: Sequence[Properties], cluster: Cluster, step: Step, clock: Clock) -> None:
    """Apply all, then wait until all are served. Raises Refusal, UnreachableError, NotReadyError."""

    def one(definition: Properties) -> None:
        manifest = {key: value for key, value in definition.items() if key != "status"}
        live = cluster.apply(DEFINITION, manifest, MANAGER, force=True)
        until_ready(DEFINITION, live, cluster, step, _SECONDS, clock)

    with ThreadPoolExecutor(max_workers=_WORKERS) as workers:
        # Results are asked for so that the first error is raised.
        list(workers.map(one, definitions))
    cluster.forget_kinds()
