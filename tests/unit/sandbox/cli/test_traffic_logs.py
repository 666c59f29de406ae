"""`headway sandbox logs` and `token`: what served pods said, and who may ask them, by names that people type."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from headway.cli.main import app
from headway.problem import Exit, UserError


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADWAY_SANDBOX_HOME", str(tmp_path))
    for pod in ("quality/classifier-r1-a", "quality/classifier-r2-b", "search/encoder-r1-c"):
        folder = tmp_path / "logs" / "pods" / pod
        folder.mkdir(parents=True)
        for container in ("server", "fetch"):
            (folder / f"{container}.log").write_text(f"1 of {container}\n2 of {pod}\n")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "pods"),
    [
        (["quality"], ["quality/classifier-r1-a", "quality/classifier-r2-b"]),
        (["quality/classifier-r2"], ["quality/classifier-r2-b"]),
        (["search/", "-c", "fetch"], ["search/encoder-r1-c"]),
    ],
)
def test_a_tenants_pods_are_told_apart_by_the_beginning_of_their_names(state: Path, arguments: list[str], pods: list[str]) -> None:
    said = CliRunner().invoke(app, ["sandbox", "logs", "-n", "1", *arguments]).output.splitlines()
    container = "fetch" if "fetch" in arguments else "server"
    assert said == [line for pod in pods for line in (f"==> {pod} {container}", f"2 of {pod}")]


@pytest.mark.parametrize("name", ["nobody", "quality/gone", "quality/**", "quality/[", "../pods", "/", "qual"])
def test_a_name_that_no_served_pod_has_is_answered_with_those_that_there_are(state: Path, name: str) -> None:
    found = CliRunner().invoke(app, ["sandbox", "logs", name])
    assert isinstance(found.exception, UserError)
    assert found.exception.fact == f"No served pod {name} has a log of server."
    assert "quality/classifier-r1-a, quality/classifier-r2-b, search/encoder-r1-c" in found.exception.remedy


@pytest.mark.parametrize("tenant", ["nobody", "../vision"])
def test_a_token_for_a_tenant_that_there_is_not_names_those_that_there_are(state: Path, tenant: str) -> None:
    found = CliRunner().invoke(app, ["sandbox", "token", tenant])
    assert isinstance(found.exception, UserError)
    assert found.exception.remedy == "Name one of assist, vision."


def test_a_time_that_is_no_number_of_seconds_is_a_fault_of_the_command_line(state: Path) -> None:
    assert CliRunner().invoke(app, ["sandbox", "token", "vision", "--seconds", "nan"]).exit_code == Exit.USAGE
