"""docs/guide/aws.md, command by command, in a sandbox that has servers and no stack yet."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox import session
from sandbox.progress import Silent
from tests.cluster.command import PROJECT, SECONDS, Sandbox
from tests.guide_page import commands, hold, starting

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]

GIVEN = {"ENV": "sandbox", "TENANT": "hello", "SECRETS": "passphrase"}
OTHER_TENANTS = ("assist", "vision")
"""Of the sandbox's own; the page has none of them."""
STAND_IN = b"a model of which nothing but its digest is looked at: no pod of this sandbox reads it"
"""In place of the public model, to which a test has no way."""
NOT_RUN = {
    "TOKEN=": "it asks kubectl; tests/traffic/test_guide_request.py asks with a token",
    "aws ": "there is no account; tests/unit/docs/test_guide_account.py asks one in memory",
    "curl ": "there is no way to the public model; tests/traffic/test_guide_request.py asks a model",
    "headway loops push ": "tests/cluster/test_loops_image.py pushes to a real registry",
    "kubectl ": "it is not among what this checkout installs",
    "make ": "it has been run, or there were no test",
    "pulumi login ": "the sandbox's state lies in its own folder",
}
ENDS = {
    "headway doctor ": {1},
    # No Prometheus and no Alertmanager were brought up: two checks are unanswered, and that is said.
    "headway verify --environment ": {3},
}
"""Exit codes where 0 would be too good for a sandbox."""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[int, str]]]:
    """What each command that can be run here answered: exit code and output."""
    sandbox = Sandbox(tmp_path_factory.mktemp("guide"))
    stacks = sandbox.project / "stacks"
    (stacks / "Pulumi.sandbox-hello.yaml").write_text("config: {}\n")
    for tenant in OTHER_TENANTS:
        (stacks / f"Pulumi.sandbox-{tenant}.yaml").unlink()
    model = sandbox.project / "mnist-12/digits/1/model.onnx"
    model.parent.mkdir(parents=True)
    model.write_bytes(STAND_IN)
    try:
        session.prepare(sandbox.layout)
        session.Session(sandbox.layout, Silent()).start()
        shell = shell_of(sandbox)
        yield {line: asked(line, sandbox.project, shell) for line in commands() if not starting(line, NOT_RUN) and not given(line)}
    finally:
        sandbox.run("sandbox", "down")


def given(line: str) -> bool:
    """Whether it only writes down what the shell of this test has, by `GIVEN`, or what a line that is not run asks for."""
    return re.fullmatch(r"\w+=\S*", line) is not None


def shell_of(sandbox: Sandbox) -> dict[str, str]:
    """The environment of a shell that has evaluated `headway sandbox env`."""
    _, exports = sandbox.run("sandbox", "env")
    said = subprocess.run(["bash", "-c", f"{exports}\nenv -0"], env=sandbox.environment, capture_output=True, text=True, check=True)
    found = {name: value for name, _, value in (entry.partition("=") for entry in said.stdout.split("\0") if entry)}
    return {**found, **GIVEN, "PATH": f"{found['PATH'].partition(':')[0]}:{PROJECT / '.venv/bin'}:{os.environ['PATH']}"}


def asked(line: str, project: Path, shell: dict[str, str]) -> tuple[int, str]:
    done = subprocess.run(["bash", "-c", line], cwd=project, env=shell, capture_output=True, text=True, timeout=SECONDS, check=False)
    return done.returncode, done.stdout + done.stderr


def test_every_command_of_the_page_ends_as_the_page_says(answers: dict[str, tuple[int, str]]) -> None:
    wrong = {}
    for line, (code, output) in answers.items():
        expected = ENDS.get(starting(line, ENDS) or "", {0})
        if code not in expected or "Traceback" in output:
            wrong[line] = f"{code}: {output[-2000:]}"
    assert wrong == {}


def test_the_three_layers_stand_at_the_end_of_the_page(answers: dict[str, tuple[int, str]]) -> None:
    ups = [output for line, (_, output) in answers.items() if line.startswith("pulumi up ")]
    assert [bool(re.search(r"\d+ created|\+ \d+ create", output)) for output in ups] == [True, True, True]


def test_the_platform_says_the_name_of_its_load_balancer(answers: dict[str, tuple[int, str]]) -> None:
    (said,) = [output for line, (_, output) in answers.items() if "gateway_address" in line]
    assert re.fullmatch(r"[a-z0-9.-]+\.elb\.[a-z.]+\n", said)


def test_a_verification_passes_nothing_that_a_sandbox_cannot_show(answers: dict[str, tuple[int, str]]) -> None:
    (said,) = [output for line, (_, output) in answers.items() if line.startswith("headway verify --environment")]
    assert "packets: not shown here" in said
    assert "gpu-pods: not shown here" in said


def test_the_page_shows_what_each_step_says(answers: dict[str, tuple[int, str]]) -> None:
    hold({line: output for line, (_, output) in answers.items()})


def test_a_value_before_a_command_is_no_reason_to_leave_it_out() -> None:
    assert given("ENV=dev") and not given("ENV=dev headway check")
    assert {line.partition("=")[0] for line in commands() if given(line)} == {*GIVEN, "GATEWAY", "HOST"}


@pytest.mark.parametrize("start", sorted(NOT_RUN))
def test_a_command_that_is_not_run_stands_on_the_page(start: str) -> None:
    assert [line for line in commands() if line.startswith(start)]
