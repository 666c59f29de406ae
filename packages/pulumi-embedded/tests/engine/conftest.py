"""The engine as its users meet it: through `pulumi.automation`, with providers that live in memory.

PULUMI_EMBEDDED_ENGINE=pulumi runs the cases that need no in-memory provider against the real binary, where one is installed.
"""

import os
import shutil
import subprocess
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pulumi import automation as auto

from engine.doubles import World
from engine.place import Place
from engine.states import PASSPHRASE as STATE_PASSPHRASE
from pulumi_embedded.engine.command import EmbeddedPulumi
from pulumi_embedded.engine.display import NAME
from pulumi_embedded.engine.state import StackState

REAL = os.environ.get("PULUMI_EMBEDDED_ENGINE") == "pulumi"
PASSPHRASE = "test only"


def pytest_configure() -> None:
    """Asked for the real engine where there is none, or only the embedded one: refused, since passing on another engine would prove nothing."""
    if not REAL:
        return
    pulumi = shutil.which("pulumi")
    if pulumi is None:
        pytest.exit(
            "PULUMI_EMBEDDED_ENGINE=pulumi asks for the real engine, but there is no `pulumi` on the PATH. Install it, or unset it.", 3
        )
    about = subprocess.run([pulumi, "about"], capture_output=True, text=True, timeout=60, check=False)
    if NAME in about.stdout + about.stderr:
        pytest.exit(
            f"PULUMI_EMBEDDED_ENGINE=pulumi asks for the real engine, but {pulumi} is the embedded one. Put the real one first on the PATH.",
            3,
        )


@dataclass
class Workspace:
    """A backend of its own, an empty world, and stacks in them."""

    folder: Path
    world: World
    command: auto.PulumiCommand | None
    environment: dict[str, str] = field(default_factory=dict)

    def stack(self, program: Callable[[], Any], name: str = "dev", project: str = "case") -> auto.Stack:
        folder = self.folder / project
        folder.mkdir(exist_ok=True)
        return auto.create_or_select_stack(
            name,
            project_name=project,
            program=program,
            opts=auto.LocalWorkspaceOptions(
                pulumi_command=self.command,
                work_dir=str(folder),
                env_vars=self.environment,
                project_settings=auto.ProjectSettings(name=project, runtime="python"),
            ),
        )

    def project(self, files: dict[str, str], name: str = "dev", project: str = "plain") -> auto.Stack:
        """A stack whose program lies in a folder."""
        folder = self.folder / project
        for path, text in {"Pulumi.yaml": f"name: {project}\nruntime: python\n", **files}.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
        return auto.create_or_select_stack(
            name, work_dir=str(folder), opts=auto.LocalWorkspaceOptions(pulumi_command=self.command, env_vars=self.environment)
        )

    def pack(self, source: str, about: str = "runtime: python\nversion: 0.1.0\n") -> str:
        folder = self.folder / f"pack-{uuid.uuid4().hex[:6]}"
        folder.mkdir()
        (folder / "PulumiPolicy.yaml").write_text(about)
        (folder / "__main__.py").write_text(source)
        return str(folder)


def _workspace(tmp_path: Path, command: auto.PulumiCommand | None, world: World) -> Workspace:
    backend = tmp_path / "backend"
    backend.mkdir(exist_ok=True)
    return Workspace(
        tmp_path,
        world,
        command,
        {
            "PULUMI_BACKEND_URL": backend.as_uri(),
            "PULUMI_CONFIG_PASSPHRASE": PASSPHRASE,
            "PULUMI_HOME": str(tmp_path / "home"),
            "PYTHONPATH": str(Path(__file__).parents[1]),
        },
    )


@pytest.fixture
def engine_workspace(tmp_path: Path) -> Workspace:
    """With the in-memory providers, which only the embedded engine can be given."""
    if REAL:
        pytest.skip("in-memory providers: the real engine cannot be given any")
    world = World()
    return _workspace(tmp_path, EmbeddedPulumi(world.factories()), world)


@pytest.fixture
def any_workspace(tmp_path: Path) -> Workspace:
    """For cases that need no provider at all: the real binary where PULUMI_EMBEDDED_ENGINE asks for it."""
    world = World()
    return _workspace(tmp_path, None if REAL else EmbeddedPulumi(world.factories()), world)


def names(stack: auto.Stack) -> list[str]:
    """Names of the recorded resources that people see, in recorded order."""
    deployment: Any = stack.export_stack().deployment
    return [
        entry["urn"].rsplit("::", 1)[-1]
        for entry in deployment.get("resources", [])
        if "pulumi:providers:" not in entry["urn"] and "pulumi:pulumi:Stack" not in entry["urn"]
    ]


def entry(stack: auto.Stack, name: str) -> dict[str, Any]:
    deployment: Any = stack.export_stack().deployment
    (found,) = [each for each in deployment["resources"] if each["urn"].endswith(f"::{name}")]
    return found


def operations(events: list[Any]) -> list[tuple[str, str]]:
    """(op, name) of every step that was started."""
    return [
        (e.resource_pre_event.metadata.op.value, e.resource_pre_event.metadata.urn.rsplit("::", 1)[-1])
        for e in events
        if e.resource_pre_event
    ]


def diagnostics(events: list[Any], severity: str = "error") -> list[str]:
    return [e.diagnostic_event.message for e in events if e.diagnostic_event and e.diagnostic_event.severity == severity]


class Changing:
    """A program that is changed between updates."""

    def __init__(self, workspace: Workspace, program: object) -> None:
        self.program = program
        self.stack = workspace.stack(lambda: self.program() and None)  # type: ignore[operator]

    def up(self, program: object = None, **arguments: object) -> dict[str, int]:
        self.program = program or self.program
        return dict(self.stack.up(**arguments).summary.resource_changes or {})  # type: ignore[arg-type]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def stack(place: Place) -> auto.Stack:
    return auto.Stack.create("dev", place.workspace)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file of an empty state."""
    file = tmp_path / "stacks" / "proj" / "dev.json"
    StackState.create(file, "organization/proj/dev", STATE_PASSPHRASE)
    return file
