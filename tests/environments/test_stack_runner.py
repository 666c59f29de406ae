"""The runner of stacks on the embedded engine: what it refuses to make, and what it takes over."""

import json
from pathlib import Path
from typing import Any

import pytest
from pulumi.automation import CommandResult
from pulumi.automation.errors import CommandError

from headway.environment.stacks import StackRunner
from headway.problem import UserError
from pulumi_embedded.engine.command import EmbeddedPulumi
from pulumi_embedded.engine.provider import CheckResult, DiffResult, LiveResource, Properties, Provider, ProviderError, ProviderStep
from tests.environments.environments import Environment

PROGRAM = """
import pulumi
import pulumi_kubernetes as kubernetes
cluster = pulumi.ResourceOptions(provider=kubernetes.Provider("cluster"))
kubernetes.core.v1.ConfigMap("settings", metadata={"name": "settings"}, opts=cluster)
"""


class Cluster(Provider):
    """Creates as the real Kubernetes provider does: what exists is refused, unless it is told to take it over."""

    package, version = "kubernetes", "4.34.2"

    def __init__(self, there: set[str]) -> None:
        self._there, self._inputs = there, dict[str, Any]()

    def configure(self, inputs: Properties) -> None:
        self._inputs = inputs

    def check(self, urn: str, type: str, name: str, old: Properties | None, new: Properties) -> CheckResult:
        return CheckResult(new)

    def diff(
        self, urn: str, type: str, id: str, old_inputs: Properties, old_outputs: Properties, new: Properties, ignore_changes: Any
    ) -> DiffResult:
        return DiffResult()

    def create(self, urn: str, type: str, name: str, inputs: Properties, step: ProviderStep) -> tuple[str, Properties]:
        if name in self._there and str(self._inputs.get("upsertExistingObjects")).lower() != "true" and not step.preview:
            raise ProviderError(f'configmaps "{name}" already exists')
        if not step.preview:
            self._there.add(name)
        return "" if step.preview else name, inputs

    def read(self, urn: str, type: str, id: str, inputs: Properties, outputs: Properties) -> LiveResource | None:
        return LiveResource(id, inputs, outputs)

    def update(
        self, urn: str, type: str, id: str, old_inputs: Properties, old_outputs: Properties, new: Properties, step: ProviderStep
    ) -> Properties:
        return new

    def delete(self, urn: str, type: str, id: str, inputs: Properties, outputs: Properties, step: ProviderStep) -> None:
        self._there.discard(id)


@pytest.fixture
def dev(tmp_path: Path) -> Environment:
    return Environment(tmp_path, "dev-cluster")


@pytest.fixture
def killed(tmp_path: Path) -> StackRunner:
    """Of a stack whose update was killed while it was making a ConfigMap, which is there."""
    (tmp_path / "backend").mkdir()
    (tmp_path / "Pulumi.yaml").write_text("name: killed\nruntime: python\n")
    (tmp_path / "__main__.py").write_text(PROGRAM)
    environment = {
        "PULUMI_BACKEND_URL": (tmp_path / "backend").as_uri(),
        "PULUMI_CONFIG_PASSPHRASE": "test only",
        "PULUMI_HOME": str(tmp_path / "home"),
    }
    there = set[str]()
    runner = StackRunner(tmp_path, command=EmbeddedPulumi({"kubernetes": lambda: Cluster(there)}), environment=environment)
    runner.initialise("dev-hello")
    assert runner.up("dev-hello").ok
    saved = json.loads(state_file(tmp_path).read_text())
    latest = saved["checkpoint"]["latest"]
    (made,) = [each for each in latest["resources"] if each["urn"].endswith("::settings")]
    latest["resources"].remove(made)
    latest["pending_operations"] = [{"resource": {key: made[key] for key in made if key not in ("id", "outputs")}, "type": "creating"}]
    state_file(tmp_path).write_text(json.dumps(saved))
    return runner


def state_file(folder: Path) -> Path:
    (found,) = folder.glob("backend/.pulumi/stacks/*/dev-hello.json")
    return found


def test_what_a_killed_update_was_making_in_kubernetes_is_taken_over(killed: StackRunner, tmp_path: Path) -> None:
    assert killed.preview("dev-hello").ok, "the real provider's preview passes over what exists"
    done = killed.up("dev-hello")
    assert (done.ok, done.errors) == (True, ())
    assert done.changes["create"] == 1
    latest = json.loads(state_file(tmp_path).read_text())["checkpoint"]["latest"]
    (cluster,) = [each for each in latest["resources"] if each["type"] == "pulumi:providers:kubernetes"]
    assert "upsertExistingObjects" not in cluster.get("inputs", {}), "the next update would change the provider"
    assert set(killed.up("dev-hello").changes) == {"same"}


def test_what_nobody_was_making_is_not_taken_over(killed: StackRunner, tmp_path: Path) -> None:
    saved = json.loads(state_file(tmp_path).read_text())
    saved["checkpoint"]["latest"]["pending_operations"] = []
    state_file(tmp_path).write_text(json.dumps(saved))
    done = killed.up("dev-hello")
    assert not done.ok
    assert "already exists" in done.errors[0]


def test_a_stack_named_by_a_typing_mistake_is_refused_and_not_made(dev: Environment) -> None:
    done = dev.runner.preview("dev-clutser")
    assert not done.ok
    assert done.errors == (
        "There is no stack dev-clutser, so nothing was changed. Create it with `pulumi stack init dev-clutser`, or correct its name.",
    )
    assert [path.stem for path in dev.folder.glob("backend/.pulumi/stacks/*/*.json")] == ["dev-cluster"]


def test_outputs_of_a_stack_that_does_not_exist_are_no_empty_answer(dev: Environment) -> None:
    with pytest.raises(UserError, match="There is no stack dev-clutser"):
        dev.runner.outputs("dev-clutser")


def test_an_engine_that_does_not_read_a_stack_is_told_with_its_own_words(dev: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    def locked(*_: object, **__: object) -> None:
        raise CommandError(CommandResult(stdout="", stderr="error: incorrect passphrase", code=255))

    monkeypatch.setattr("pulumi.automation.Stack.outputs", locked)
    with pytest.raises(UserError, match="does not read stack dev-cluster: error: incorrect passphrase"):
        dev.runner.outputs("dev-cluster")


def test_a_machine_without_an_engine_is_told_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="There is no `pulumi` on the PATH"):
        StackRunner(tmp_path).preview("dev-cluster")
