"""The whole program in a project folder of its own, run by the embedded engine over an account and a control plane in memory.

The stack files are copies, so that a test may change one line; what stands in Python data (versions) is changed by a few lines that run
before the program. The packs are the real ones, with the environment's own configuration.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from aws_world import Plane
from moto import mock_aws
from pulumi.automation import CommandError

from headway.environment.stacks import PackSource, StackResult, StackRunner
from pulumi_embedded.engine.command import EmbeddedPulumi
from pulumi_embedded.providers.aws.account import AccountObject, SimulatedAccount
from pulumi_embedded.providers.aws.assembly import backends
from pulumi_embedded.providers.aws.provider import AccountSite, AwsProvider
from pulumi_embedded.providers.eks.provider import EksProvider
from sandbox.cloud import objectstore
from sandbox.cloud.nodes import nodes
from tests.account_clients import held_in

REAL = os.environ.get("PULUMI_EMBEDDED_ENGINE") == "pulumi"
ROOT = Path(__file__).parents[2]
ABOUT = "name: headway\nruntime: python\nstackConfigDir: stacks\n"
MAIN = "import runpy\nrunpy.run_path({program!r}, run_name='__main__')\n"


@dataclass
class Step:
    """One step that the engine began: `op` as its events say it, and how the inputs changed."""

    op: str
    type: str
    name: str
    changed: tuple[str, ...]


@dataclass
class Environment:
    """One stack of the program. `before` are lines of Python that run before it."""

    folder: Path
    stack: str
    steps: list[Step] = field(default_factory=list)
    plane: Plane = field(default_factory=Plane)

    def __post_init__(self) -> None:
        (self.folder / "backend").mkdir()
        (self.folder / "Pulumi.yaml").write_text(ABOUT)
        shutil.copytree(ROOT / "stacks", self.folder / "stacks", ignore=lambda _, names: [n for n in names if not n.endswith(".yaml")])
        self.program()
        self.engine = EmbeddedPulumi({"aws": self._aws, "eks": lambda: EksProvider(self.plane, printed=lambda: "aws-cli/2.31.2")})
        self.runner_environment = {
            "PULUMI_BACKEND_URL": (self.folder / "backend").as_uri(),
            "PULUMI_CONFIG_PASSPHRASE": "test only",
            "PULUMI_HOME": str(self.folder / "home"),
            "PYTHONPATH": str(ROOT),
        }
        self.runner = StackRunner(self.folder, command=self.engine, environment=self.runner_environment)
        self.runner.initialise(self.stack)

    @property
    def packs(self) -> list[PackSource]:
        environment, _, layer = self.stack.partition("-")
        return [PackSource(path=ROOT / "policies" / layer, config=ROOT / "policies" / "config" / f"{environment}.json")]

    def program(self, before: str = "") -> None:
        """Let `before` run ahead of the real program from now on."""
        (self.folder / "__main__.py").write_text(before + MAIN.format(program=str(ROOT / "__main__.py")))

    def settings(self, old: str, new: str) -> None:
        """Change the stack file's text wherever it says `old`."""
        file = self.folder / "stacks" / f"Pulumi.{self.stack}.yaml"
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new))

    def rewrite(self, change: Callable[[dict[str, Any]], None], stack: str = "") -> None:
        """Change the sections (`network`, `pools`) of the stack's file, or of another stack's, as data."""
        file = self.folder / "stacks" / f"Pulumi.{stack or self.stack}.yaml"
        document = yaml.safe_load(file.read_text())
        sections = {key.removeprefix("headway:"): value for key, value in document["config"].items()}
        change(sections)
        file.write_text(yaml.safe_dump({"config": {f"headway:{key}": value for key, value in sections.items()}}))

    def preview(self) -> StackResult:
        return self.runner.preview(self.stack, self.packs, on_event=self._watch())

    def up(self) -> StackResult:
        return self.runner.up(self.stack, self.packs, on_event=self._watch())

    def destroy(self) -> StackResult:
        return self.runner.destroy(self.stack, on_event=self._watch())

    def command(self, line: str) -> tuple[int, str]:
        """A `pulumi` command line as a guide has it: exit code and all that was said."""
        words = shlex.split(line.partition(" #")[0])
        program = words.index("pulumi")
        variables = dict(word.split("=", 1) for word in words[:program])
        try:
            done = self.engine.run(words[program + 1 :], str(self.folder), {**self.runner_environment, **variables})
        except CommandError as failed:
            return 1, str(failed)
        return done.code, done.stdout + done.stderr

    @property
    def state_file(self) -> Path:
        return self.folder / "backend" / ".pulumi" / "stacks" / "headway" / f"{self.stack}.json"

    def shell(self, line: str) -> tuple[int, str]:
        """A line for a shell in which `pulumi` is the engine as an executable, without providers: exit code and all that was said."""
        bin = self.folder / "bin"
        bin.mkdir(exist_ok=True)
        (bin / "pulumi").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pulumi_embedded "$@"\n')
        (bin / "pulumi").chmod(0o755)
        environment = {**os.environ, **self.runner_environment, "PATH": f"{bin}:{os.environ['PATH']}"}
        environment["PULUMI_EMBEDDED_HOME"] = str(self.folder / "embedded")
        done = subprocess.run(
            ["sh", "-c", line], cwd=self.folder, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        return done.returncode, done.stdout + done.stderr

    def held(self) -> list[AccountObject]:
        """Every object of the account, in the order in which they were made."""
        return held_in(self.account_file)

    @property
    def account_file(self) -> Path:
        (file,) = self.folder.glob("account-*.sqlite")
        return file

    def changes(self) -> list[Step]:
        """The steps of the last operation that change something, in the order in which the engine began them."""
        return [step for step in self.steps if step.op not in ("same", "read", "refresh")]

    def began(self, resource: str) -> int:
        """When the step of the resource (by kind and name: `Addon joining-vpc-cni`) began; fails if it did not, or more than once."""
        (place,) = [place for place, step in enumerate(self.changes()) if f"{step.type.rsplit(':', 1)[-1]} {step.name}" == resource]
        return place

    def _watch(self) -> Any:
        self.steps.clear()

        def watch(event: Any) -> None:
            if event.resource_pre_event:
                about = event.resource_pre_event.metadata
                changed = tuple(sorted(about.detailed_diff or about.diffs or ()))
                self.steps.append(Step(about.op.value, about.type, about.urn.rsplit("::", 1)[-1], changed))

        return watch

    def _aws(self) -> AwsProvider:
        def connect(id: str) -> AccountSite:
            account = SimulatedAccount(self.folder / f"account-{id}.sqlite")
            return AccountSite(
                account, backends(account, self.plane, nodes, lambda service, region: objectstore.client(service, region, None, id))
            )

        return AwsProvider(connect, environment={}, clock=lambda: datetime(2026, 11, 21, tzinfo=UTC))


@contextmanager
def environment(folder: Path, stack: str) -> Iterator[Environment]:
    """`stack` with nothing deployed; buckets and queues are moto's, in this process."""
    with mock_aws():
        yield Environment(folder, stack)


def spoiling(mutations: dict[str, dict[str, Any]]) -> str:
    """Lines that change inputs of resources, by kind and name (`Subnet network-private-a`); None takes an input away, a nested map changes part of one."""
    return f"""
import json
import pulumi
MUTATIONS = json.loads({json.dumps(mutations)!r})

def changed(old, new):
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return new
    merged = {{**old, **{{key: changed(old.get(key), value) for key, value in new.items()}}}}
    return {{key: value for key, value in merged.items() if value is not None}}

def spoil(args):
    key = args.type_.rsplit(":", 1)[-1] + " " + args.name
    if key in MUTATIONS:
        return pulumi.ResourceTransformResult(changed(dict(args.props), MUTATIONS[key]), args.opts)

pulumi.runtime.register_resource_transform(spoil)
"""
