"""Programs written with pulumi_kubernetes, run by the embedded engine against a real API server."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import pulumi
import pytest
import yaml
from pulumi import automation as auto

from components.manifests import Manifest, object_, register
from pulumi_embedded.engine.command import EmbeddedPulumi
from pulumi_embedded.engine.provider import ProviderError
from pulumi_embedded.providers.kubernetes import crds
from pulumi_embedded.providers.kubernetes.provider import KubernetesProvider
from sandbox.cluster.nodes import node_manifest
from sandbox.cluster.toolchain import ensure_toolchain
from sandbox.progress import Silent
from tests.cluster.conftest import ControlPlane, eventually
from tests.cluster.pulumi_embedded.kubernetes_provider_driver import Driver

Program = Callable[[], None]


class Stack:
    """A stack of its own, whose program changes from operation to operation."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self._program: Program = lambda: None
        self.folder = folder
        command = EmbeddedPulumi({"kubernetes": lambda: KubernetesProvider(plane.kubeconfig, lambda name, step: ())})
        settings = auto.ProjectSettings("kube", "python", backend=auto.ProjectBackend(folder.as_uri()))
        workspace = auto.LocalWorkspaceOptions(
            work_dir=str(folder), project_settings=settings, pulumi_command=command, env_vars={"PULUMI_CONFIG_PASSPHRASE": "test"}
        )
        self._stack = auto.create_stack("dev", project_name="kube", program=lambda: self._program(), opts=workspace)

    def preview(self, program: Program) -> dict[str, int]:
        self._program = program
        return {str(getattr(op, "value", op)): count for op, count in self._stack.preview().change_summary.items()}

    def up(self, program: Program) -> Mapping[Any, int]:
        self._program = program
        return dict(self._stack.up().summary.resource_changes or {})

    def refresh(self) -> Mapping[Any, int]:
        return dict(self._stack.refresh().summary.resource_changes or {})

    def destroy(self) -> None:
        self._stack.destroy()

    def output(self, name: str) -> Any:
        return self._stack.outputs()[name].value

    @property
    def state(self) -> str:
        return (self.folder / ".pulumi/stacks/kube/dev.json").read_text()


@pytest.fixture(scope="module")
def node(control_plane: ControlPlane) -> Iterator[None]:
    manifest = node_manifest("engine-node", labels={}, taints=[], capacity={"cpu": "32", "memory": "64Gi", "pods": "110"})
    control_plane.create(manifest)
    yield
    control_plane.resource(manifest).delete(name="engine-node")


@pytest.fixture
def stack(control_plane: ControlPlane, tmp_path: Path, node: None) -> Iterator[Stack]:
    made = Stack(control_plane, tmp_path)
    yield made
    made.destroy()


@pytest.fixture
def team(control_plane: ControlPlane) -> str:
    return Driver.of(control_plane).namespace()


def service(team: str, *, data: str = "1", cpu: str = "100m", **spec: Any) -> Program:
    """A settings map, a secret and a Deployment that reads them."""

    def program() -> None:
        import pulumi_kubernetes as k8s

        here: Any = {"namespace": team}
        settings = k8s.core.v1.ConfigMap("settings", metadata=here, data={"a": data})
        k8s.core.v1.Secret("token", metadata=here, string_data={"token": "hunter2"})
        labels = {"app": "web"}
        container = {
            "name": "c",
            "image": "server",
            "resources": {"requests": {"cpu": cpu}},
            "envFrom": [{"configMapRef": {"name": settings.metadata.name}}],
        }
        pod = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
        web = k8s.apps.v1.Deployment(
            "web",
            metadata=cast(Any, {"name": "web", **here}),
            spec=cast(Any, {"selector": {"matchLabels": labels}, "template": pod, **spec}),
            opts=pulumi.ResourceOptions(ignore_changes=["spec.replicas"], custom_timeouts=pulumi.CustomTimeouts(create="3s", update="20s")),
        )
        pulumi.export("settings", settings.metadata.name)
        pulumi.export("uid", web.metadata.uid)

    return program


def test_a_program_goes_up_once_and_changes_nothing_the_second_time(stack: Stack, team: str) -> None:
    assert stack.preview(service(team)) == {"create": 4}
    assert stack.up(service(team)) == {"create": 4}
    assert stack.up(service(team)) == {"same": 4}
    assert "update" not in stack.refresh()
    assert stack.up(service(team)) == {"same": 4}
    assert len(stack.output("uid")) == 36


def test_changed_settings_are_a_new_object_that_the_deployment_follows(stack: Stack, team: str, control_plane: ControlPlane) -> None:
    stack.up(service(team))
    before = stack.output("settings")
    assert stack.up(service(team, data="2")) == {"replace": 1, "same": 2, "update": 1}
    after = stack.output("settings")
    assert after != before
    assert {item["metadata"]["name"] for item in control_plane.list("ConfigMap", namespace=team)} - {"kube-root-ca.crt"} == {after}


def test_the_cluster_refuses_in_the_preview_and_nothing_is_made(stack: Stack, team: str, control_plane: ControlPlane) -> None:
    with pytest.raises(auto.CommandError, match=r"spec\.minReadySeconds: expected numeric"):
        stack.preview(service(team, minReadySeconds="soon"))
    assert {item["metadata"]["name"] for item in control_plane.list("ConfigMap", namespace=team)} <= {"kube-root-ca.crt"}
    assert control_plane.list("Deployment", api_version="apps/v1", namespace=team) == []


def test_a_secret_is_not_in_the_state_in_any_spelling(stack: Stack, team: str) -> None:
    stack.up(service(team))
    assert "hunter2" not in stack.state
    assert "aHVudGVyMg" not in stack.state


def test_an_unready_deployment_fails_the_update_and_the_next_one_repairs_it(stack: Stack, team: str) -> None:
    with pytest.raises(auto.CommandError, match="Insufficient cpu"):
        stack.up(service(team, cpu="64"))
    assert "Insufficient cpu" in stack.state, "the object exists, and state knows that it is not ready"
    assert stack.up(service(team)).get("update") == 1
    assert "Insufficient cpu" not in stack.state


def test_replicas_that_an_autoscaler_owns_are_left_alone(stack: Stack, team: str, control_plane: ControlPlane) -> None:
    stack.up(service(team, replicas=1))
    scaled = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": team}, "spec": {"replicas": 3}}
    control_plane.client.server_side_apply(
        control_plane.resource(scaled), scaled, "web", team, force_conflicts=True, field_manager="autoscaler"
    )
    assert stack.up(service(team, replicas=1, minReadySeconds=1))["update"] == 1
    assert control_plane.get("Deployment", "web", api_version="apps/v1", namespace=team)["spec"]["replicas"] == 3


@pytest.mark.parametrize("changed", [{"value": 20_000}, {"preemptionPolicy": "Never"}], ids=str)
def test_a_tenants_other_priority_replaces_its_class(stack: Stack, control_plane: ControlPlane, changed: dict[str, Any]) -> None:
    kind, name = "scheduling.k8s.io/v1", f"t-{uuid4().hex[:8]}"

    def program(**said: Any) -> Program:
        def run() -> None:
            body = object_(kind, "PriorityClass", name, **{"value": 10_000, "preemptionPolicy": "PreemptLowerPriority", **said})
            register("team", [Manifest(role="priority", body=body)], lambda _: pulumi.ResourceOptions())

        return run

    stack.up(program())
    assert stack.preview(program(**changed)) == {"replace": 1, "same": 1}
    assert stack.up(program(**changed)) == {"replace": 1, "same": 1}
    live = control_plane.get("PriorityClass", name, api_version=kind, namespace=None)
    assert {key: live[key] for key in changed} == changed


def test_a_destroyed_stack_leaves_nothing(stack: Stack, control_plane: ControlPlane) -> None:
    name = f"t-{uuid4().hex[:8]}"

    def program() -> None:
        import pulumi_kubernetes as k8s

        space = k8s.core.v1.Namespace("space", metadata={"name": name})
        k8s.core.v1.ServiceAccount("account", metadata={"namespace": space.metadata.name})

    stack.up(program)
    stack.destroy()
    assert name not in {item["metadata"]["name"] for item in control_plane.list("Namespace")}


MONITOR = "kubernetes:upgrade.test/v1:PodMonitor"


@dataclass(frozen=True)
class Charted(Driver):
    """A driver whose chart brings the definitions in `folder`, at whatever version."""

    folder: Path = Path()

    def __post_init__(self) -> None:
        provider = KubernetesProvider(self.layout.kubeconfig, lambda _name, _step: tuple(sorted(self.folder.glob("*.yaml"))))
        provider.configure(self.settings)
        object.__setattr__(self, "provider", provider)


def definition(control_plane: ControlPlane, version: str = "v1", *, without: str = "") -> dict[str, Any]:
    """The Prometheus operator's own definition of PodMonitors, in a group where no other test has any; perhaps from before it had a field."""
    files = ensure_toolchain(control_plane.layout, Silent()).crds("prometheus-operator")
    (body,) = [crd for crd in crds.read(files) if crd["metadata"]["name"].startswith("podmonitors.")]
    body["metadata"] = {"name": "podmonitors.upgrade.test"}
    body["spec"]["group"] = "upgrade.test"
    (served,) = body["spec"]["versions"]
    served["name"] = version
    served["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"].pop(without, None)
    return body


def accepted(act: Callable[[], object]) -> bool:
    try:
        act()
    except ProviderError:
        return False
    return True


def test_a_chart_upgrade_moves_its_definitions_and_existing_objects_survive(control_plane: ControlPlane, tmp_path: Path) -> None:
    def chart(version: str, body: dict[str, Any]) -> dict[str, Any]:
        (tmp_path / "podmonitors.yaml").write_text(yaml.safe_dump(body))
        return {"chart": "prometheus-operator-crds", "version": version, "namespace": "default", "name": "definitions"}

    def monitor(**spec: Any) -> dict[str, Any]:
        body = {"selector": {}, "podMetricsEndpoints": [{"port": "metrics"}], **spec}
        return {"metadata": {"name": "m", "namespace": "default"}, "spec": body}

    def stored() -> list[str]:
        api = "apiextensions.k8s.io/v1"
        return control_plane.get("CustomResourceDefinition", "podmonitors.upgrade.test", api_version=api, namespace=None)["status"][
            "storedVersions"
        ]

    driver = Charted(control_plane.layout, folder=tmp_path)
    release = driver.create(
        "kubernetes:helm.sh/v3:Release", "definitions", chart("1.0.0", definition(control_plane, without="sampleLimit"))
    )
    made = driver.create(MONITOR, "m", monitor())
    with pytest.raises(ProviderError, match="sampleLimit"):
        driver.update(made, monitor(sampleLimit=7))

    release = driver.update(release, chart("2.0.0", definition(control_plane)))
    # The API server goes over to a new schema a moment after it has taken it.
    eventually(lambda: accepted(lambda: driver.update(made, monitor(sampleLimit=7))), within=60)
    moved = driver.update(made, monitor(sampleLimit=7))
    assert moved.outputs["spec"]["sampleLimit"] == 7, "what the new definition knows is kept, not pruned"
    assert moved.outputs["metadata"]["uid"] == made.outputs["metadata"]["uid"], "the object is the same one"
    assert (release.outputs["status"]["revision"], stored()) == (2, ["v1"])

    with pytest.raises(ProviderError, match="storedVersions"):
        driver.update(release, chart("3.0.0", definition(control_plane, "v2")))
    assert stored() == ["v1"]
    assert driver.read(moved), "a definition that would orphan stored objects is refused, and they stay"
