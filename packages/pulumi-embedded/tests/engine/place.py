"""Where verbs are tried: a project folder with a backend of its own."""

import json
from pathlib import Path
from typing import Any

import pytest
from pulumi import automation as auto
from pulumi.automation.errors import CommandError

from pulumi_embedded.engine.command import EmbeddedPulumi


class Place:
    """A project folder with a backend of its own."""

    def __init__(self, folder: Path) -> None:
        self.project, self.backend = folder / "project", folder / "backend"
        self.command = EmbeddedPulumi({})
        self.environment = {"PULUMI_BACKEND_URL": self.backend.as_uri(), "PULUMI_CONFIG_PASSPHRASE": "pw"}
        (self.project / "stacks").mkdir(parents=True)
        (self.project / "Pulumi.yaml").write_text("name: proj\nruntime: python\nstackConfigDir: stacks\n")

    def run(self, *args: str, **environment: str) -> str:
        return self.command.run(list(args), str(self.project), {**self.environment, **environment}).stdout

    def fails(self, *args: str, **environment: str) -> str:
        with pytest.raises(CommandError) as caught:
            self.run(*args, **environment)
        assert "Traceback" not in str(caught.value)
        return str(caught.value)

    def json(self, *args: str) -> Any:
        return json.loads(self.run(*args))

    @property
    def config_file(self) -> Path:
        return self.project / "stacks" / "Pulumi.dev.yaml"

    @property
    def workspace(self) -> auto.LocalWorkspace:
        return auto.LocalWorkspace(work_dir=str(self.project), pulumi_command=self.command, env_vars=self.environment)

    def files(self) -> dict[str, str]:
        return {str(file): file.read_text() for file in (*self.project.rglob("*"), *self.backend.rglob("*")) if file.is_file()}
