"""Drives the kubernetes provider as the engine would, one resource at a time, against a real API server."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from pulumi_embedded.engine.provider import CheckFailure, DiffResult, LiveResource, PartialFailureError, Properties
from pulumi_embedded.providers.kubernetes.provider import KubernetesProvider
from sandbox.cloud.registry import RECORD_MARKS
from sandbox.cluster.toolchain import ensure_toolchain
from sandbox.layout import Layout
from sandbox.progress import Silent
from tests.cluster.conftest import ControlPlane

GPU_TAINT = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}


@dataclass
class Watched:
    """A step that records what it is told."""

    preview: bool = False
    timeout: float = 30
    repeated: bool = False
    shown: list[str] = field(default_factory=list[str])
    warnings: list[str] = field(default_factory=list[str])
    stop: bool = False

    def status(self, message: str) -> None:
        self.shown.append(message)

    def warn(self, message: str) -> None:
        self.warnings.append(message)

    def cancelled(self) -> bool:
        return self.stop


class RefusedError(Exception):
    """Check failures."""

    def __init__(self, failures: tuple[CheckFailure, ...]) -> None:
        super().__init__("; ".join(f"{failure.property}: {failure.reason}" for failure in failures))


@dataclass(frozen=True)
class Resource:
    """A resource as state keeps it."""

    type: str
    name: str
    id: str
    inputs: Properties
    outputs: Properties

    @property
    def urn(self) -> str:
        return urn(self.type, self.name)


def urn(type: str, name: str) -> str:
    return f"urn:pulumi:dev::test::{type}::{name}"


@dataclass(frozen=True)
class Driver:
    """One provider instance: `again()` is the next operation of the engine, with an instance of its own."""

    layout: Layout
    settings: Properties = field(default_factory=dict[str, Any])
    provider: KubernetesProvider = field(init=False)

    def __post_init__(self) -> None:
        def definitions(name: str, _: object) -> tuple[Path, ...]:
            return ensure_toolchain(self.layout, Silent(), ("crds",)).crds(name)

        provider = KubernetesProvider(self.layout.kubeconfig, definitions, marks=RECORD_MARKS)
        provider.configure(self.settings)
        object.__setattr__(self, "provider", provider)

    @classmethod
    def of(cls, plane: ControlPlane, **settings: Any) -> "Driver":
        return cls(plane.layout, settings)

    def again(self, **settings: Any) -> "Driver":
        return Driver(self.layout, {**self.settings, **settings})

    def checked(self, type: str, name: str, inputs: Properties, old: Properties | None = None) -> Properties:
        result = self.provider.check(urn(type, name), type, name, old, inputs)
        if result.failures:
            raise RefusedError(result.failures)
        return result.inputs

    def create(self, type: str, name: str, inputs: Properties, step: Watched | None = None) -> Resource:
        """Raises what the provider raises; a partial failure too."""
        checked = self.checked(type, name, inputs)
        id, outputs = self.provider.create(urn(type, name), type, name, checked, step or Watched())
        return Resource(type, name, id, checked, outputs)

    def plan(self, type: str, name: str, inputs: Properties, step: Watched | None = None) -> Properties:
        """Outputs of the create in a preview."""
        seen = step or Watched()
        seen.preview = True
        return self.provider.create(urn(type, name), type, name, self.checked(type, name, inputs), seen)[1]

    def diff(self, old: Resource, inputs: Properties, ignored: tuple[str, ...] = ()) -> DiffResult:
        checked = self.checked(old.type, old.name, inputs, old.inputs)
        return self.provider.diff(old.urn, old.type, old.id, old.inputs, old.outputs, checked, ignored)

    def update(self, old: Resource, inputs: Properties, step: Watched | None = None, ignored: tuple[str, ...] = ()) -> Resource:
        checked = self.checked(old.type, old.name, inputs, old.inputs)
        self.provider.diff(old.urn, old.type, old.id, old.inputs, old.outputs, checked, ignored)
        outputs = self.provider.update(old.urn, old.type, old.id, old.inputs, old.outputs, checked, step or Watched())
        return replace(old, inputs=checked, outputs=outputs)

    def read(self, old: Resource) -> LiveResource | None:
        return self.provider.read(old.urn, old.type, old.id, old.inputs, old.outputs)

    def drift(self, old: Resource) -> Mapping[str, str]:
        """What a refresh followed by an update with the recorded inputs would change."""
        live = self.read(old)
        assert live is not None, f"{old.id} is gone"
        return self.provider.diff(old.urn, old.type, old.id, live.inputs, live.outputs, old.inputs, ()).details

    def delete(self, old: Resource, step: Watched | None = None) -> None:
        self.provider.delete(old.urn, old.type, old.id, old.inputs, old.outputs, step or Watched())

    def namespace(self) -> str:
        """A fresh one; whoever runs the session's control plane throws it away."""
        name = f"t-{uuid4().hex[:8]}"
        self.create("kubernetes:core/v1:Namespace", name, {"metadata": {"name": name}})
        return name


def partial(driver: Driver, type: str, name: str, inputs: Properties, step: Watched) -> tuple[Resource, str]:
    """A create that ends with an object that is not ready: the resource, and why."""
    checked = driver.checked(type, name, inputs)
    try:
        driver.provider.create(urn(type, name), type, name, checked, step)
    except PartialFailureError as error:
        return Resource(type, name, error.id, checked, error.outputs), str(error)
    raise AssertionError(f"{name} became ready")


def workload(name: str, namespace: str, *, gpus: int = 0, replicas: int = 1, **container: Any) -> Properties:
    """A Deployment that tolerates GPU nodes."""
    amounts = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    resources = {"requests": {"cpu": "1000m", "memory": "1024Mi", **amounts}, "limits": {"cpu": 2, **amounts}}
    pod = {
        "tolerations": [{**GPU_TAINT, "operator": "Exists"}],
        "containers": [{"name": "c", "image": "server", "resources": resources, **container}],
    }
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod}
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }
