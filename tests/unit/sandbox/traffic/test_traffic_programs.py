"""What is said of a traffic environment that is missing, half installed, or damaged since."""

import re
import sys
from pathlib import Path

import pytest

from headway.problem import UserError
from sandbox.traffic.programs import programs

PROJECT = Path(__file__).parents[4]
VERSION = "3.11"
TRITON = f"lib/python{VERSION}/site-packages/pytriton/tritonserver"
FILES = (
    "bin/python3",
    f"{TRITON}/bin/tritonserver",
    f"{TRITON}/backends/python/libtriton_python.so",
    f"{TRITON}/python_backend_stubs/{VERSION}/triton_python_backend_stub",
    f"lib/python{VERSION}/site-packages/envoy/_bin/envoy",
    ".ready",
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in FILES:
        path = tmp_path / ".venv-traffic" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / ".venv-traffic" / "pyvenv.cfg").write_text(f"home = {Path(sys.executable).parent}\n")
    (tmp_path / "system").mkdir()
    (tmp_path / "system" / f"libpython{VERSION}.so.1.0").touch()
    return tmp_path


def refusal(project: Path) -> UserError:
    with pytest.raises(UserError) as caught:
        programs(project, (project / "system",))
    return caught.value


def test_a_whole_one_is_taken(project: Path) -> None:
    assert programs(project, (project / "system",)).envoy.name == "envoy"


@pytest.mark.parametrize("name", [".ready", "bin/python3"])
def test_one_whose_installation_was_cut_off_is_installed_by_the_same_command(project: Path, name: str) -> None:
    (project / ".venv-traffic" / name).unlink()
    assert "does not exist or is not complete" in refusal(project).fact


@pytest.mark.parametrize("name", [name for name in FILES if "/_bin/" in name or name.endswith("tritonserver")])
def test_one_that_has_lost_a_program_must_be_made_anew(project: Path, name: str) -> None:
    (project / ".venv-traffic" / name).unlink()
    found = refusal(project)
    assert name in found.fact
    assert found.remedy.startswith("Delete ")


def test_another_python_is_told_which_ones_there_are(project: Path) -> None:
    stubs = project / ".venv-traffic" / TRITON / "python_backend_stubs"
    (stubs / VERSION).rename(stubs / "3.12")
    assert "Python 3.12" in refusal(project).remedy


def test_every_target_of_make_that_an_error_names_is_there() -> None:
    targets = set(re.findall(r"^([\w./-]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE))
    named = {
        (path.relative_to(PROJECT).as_posix(), found)
        for room in ("headway", "sandbox", "components", "stacks")
        for path in (PROJECT / room).rglob("*.py")
        for found in re.findall(r"`make ([a-z./-]+)[ `]", path.read_text())
    }
    assert len(named) > 10
    assert {each for each in named if each[1] not in targets} == set()
