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

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]

PAGE = PROJECT / "docs/guide/aws.md"
GIVEN = {"ENV": "sandbox", "TENANT": "hello", "SECRETS": "passphrase"}
OTHER_TENANTS = ("assist", "vision")
"""Of the sandbox's own; the page has none of them."""
STAND_IN = b"a model of which nothing but its digest is looked at: no pod of this sandbox reads it"
"""In place of the public model, to which a test has no way."""
STEP = re.compile(r"^```\n(.*?)^```\n(?:\n```text\n.*?^```\n)?", re.MULTILINE | re.DOTALL)
"""Commands, and what the sandbox said, if that is shown."""
NOT_RUN = {
    "aws ": "there is no account",
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
_ACTION = r"no violations|could not be evaluated|^ +\+ \d+ (to create|created)$"
KEPT = {
    "headway cost ": r"^(\w+, in |USD a month|control plane|NAT gateways|together)",
    "headway artifact push ": r" uploaded|  uri: |- \{path: ",
    "headway doctor ": r"^\S (sample-values|reservations|certificate): ",
    "headway verify --environment ": r"^\S [\w-]+: ",
    "headway verify show ": r"^sandbox, ",
    "pulumi preview ": _ACTION,
    "pulumi up ": _ACTION,
}
"""Lines that the page shows of commands that say much, or what depends on the machine."""
ANEW = (
    (r"/id/[0-9A-F]{32}", "/id/0123..."),
    (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "2026-..."),
    (r"sha256:[0-9a-f]{64}", "sha256:0123..."),
    (r", \d+ s$", ""),
)
"""What each run makes up anew, and what the page shows in its place."""
UPDATE = "HEADWAY_UPDATE_GOLDEN"


def commands() -> list[str]:
    """The page's commands, in order."""
    blocks = [step[1] for step in STEP.finditer(PAGE.read_text(encoding="utf-8"))]
    return [line for block in blocks for line in block.splitlines() if line.strip()]


def kept(line: str, output: str) -> list[str]:
    """What the page shows of an output: no times, no ids, and of a long one the lines that matter, each once."""
    start = starting(line, dict(KEPT))
    lines = [each.rstrip() for each in output.splitlines()]
    chosen = [each for each in lines if start is None or re.search(KEPT[start], each)]
    for made, shown_as in ANEW:
        chosen = [re.sub(made, shown_as, each) for each in chosen]
    return list(dict.fromkeys(chosen))


def titled(line: str, output: str) -> list[str]:
    """The output below its command, as far as its first option."""
    lines = kept(line, output)
    return [f"$ {re.split(' -', line)[0]}", *lines] if lines else []


def shown(page: str, answers: dict[str, tuple[int, str]]) -> str:
    """The page with what was said in this run by each step below which it shows an output."""

    def step(found: re.Match[str]) -> str:
        if "```text" not in found[0]:
            return found[0]
        said = [each for line in found[1].splitlines() if line in answers for each in titled(line, answers[line][1])]
        return f"```\n{found[1]}```\n\n```text\n" + "".join(f"{each}\n" for each in said) + "```\n"

    return STEP.sub(step, page)


def starting(line: str, table: dict[str, object]) -> str | None:
    return next((start for start in table if line.startswith(start)), None)


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
        yield {
            line: asked(line, sandbox.project, shell) for line in commands() if not starting(line, dict(NOT_RUN)) and "=" not in line[:8]
        }
    finally:
        sandbox.run("sandbox", "down")


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
        expected = ENDS.get(starting(line, dict(ENDS)) or "", {0})
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
    page = PAGE.read_text(encoding="utf-8")
    now = shown(page, answers)
    if os.environ.get(UPDATE):
        PAGE.write_text(now, encoding="utf-8")
    else:
        assert page == now, f"run it again with {UPDATE}=1, and look at the diff"


@pytest.mark.parametrize("start", sorted(NOT_RUN))
def test_a_command_that_is_not_run_stands_on_the_page(start: str) -> None:
    assert [line for line in commands() if line.startswith(start)]
