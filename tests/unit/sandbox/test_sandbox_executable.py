"""The script that answers as `pulumi` in a sandbox."""

import os
import subprocess
from pathlib import Path

import pytest

from sandbox.cloud.executable import install_executable
from sandbox.layout import Layout

ROOT = Path(__file__).parents[3]


class Place:
    """A project in a folder, and an environment that names a backend of its own."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "project"
        self.project.mkdir()
        (self.project / "Pulumi.yaml").write_text("name: proj\nruntime: python\n")
        kept = {key: value for key, value in os.environ.items() if not key.startswith("PULUMI_")}
        self.environment = {**kept, "PULUMI_BACKEND_URL": (folder / "backend").as_uri(), "PULUMI_CONFIG_PASSPHRASE": "pw"}
        self.state = folder / "backend/.pulumi/stacks/proj/dev.json"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.slow
def test_the_installed_script_answers_the_sdk_as_pulumi_does(place: Place, tmp_path: Path) -> None:
    home = tmp_path / "home of 'quotes' $HOME"
    layout = Layout.of(ROOT, {"HEADWAY_SANDBOX_HOME": str(home)})
    script = install_executable(layout)
    assert script == layout.bin / "pulumi"
    layout.passphrase_file.write_text("from the file\n")
    environment = {key: value for key, value in place.environment.items() if not key.startswith("PULUMI_")}
    run = [str(script), "stack", "init", "dev"]
    assert (
        subprocess.run(run, cwd=place.project, env=environment, capture_output=True, text=True, check=True).stdout
        == "Created stack 'dev'\n"
    )
    assert (layout.backend / ".pulumi/stacks/proj/dev.json").exists()
    version = subprocess.run([str(script), "version"], env=environment, capture_output=True, text=True, check=True).stdout
    assert version == "v3.272.0\n"


@pytest.mark.slow
def test_the_callers_environment_goes_before_the_defaults_of_the_script(place: Place, tmp_path: Path) -> None:
    script = install_executable(Layout.of(ROOT, {"HEADWAY_SANDBOX_HOME": str(tmp_path / "home")}))
    subprocess.run([str(script), "stack", "init", "dev"], cwd=place.project, env=place.environment, check=True, stdout=subprocess.DEVNULL)
    assert place.state.exists()
