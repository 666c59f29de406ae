"""The README's promises, kept by the real command: up, again, down, and what happens when things go wrong.

One sandbox for the whole file, in a copy of the checkout, brought up once; each test leaves it whole.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.cluster.processes import Supervisor
from sandbox.cluster.toolchain import ensure_toolchain
from sandbox.layout import Layout
from sandbox.progress import Silent
from sandbox.status import read

PROJECT = Path(__file__).parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]


class Sandbox:
    """A copy of the checkout with a state folder of its own, and the command run in it."""

    def __init__(self, folder: Path) -> None:
        self.project, self.state = folder / "headway", folder / "state"
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=PROJECT, check=True, capture_output=True, text=True).stdout.split("\0")
        for name in filter(None, listed):
            if (PROJECT / name).is_file():
                (self.project / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(PROJECT / name, self.project / name)
        for environment in (".venv", ".venv-servers"):
            (self.project / environment).symlink_to(PROJECT / environment)
        self.environment = {**os.environ, "HEADWAY_SANDBOX_HOME": str(self.state), "NO_COLOR": "1"}
        self.layout = Layout.of(self.project, self.environment)

    def begin(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "headway.cli.main", *words],
            cwd=self.project,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *words: str) -> tuple[int, str]:
        process = self.begin(*words)
        output, _ = process.communicate(timeout=600)
        assert "Traceback" not in output, output
        return process.returncode, output

    def up(self) -> str:
        code, output = self.run("sandbox", "up")
        assert code == 0, output
        return output

    def kill(self, name: str) -> None:
        (found,) = [p for p in Supervisor(self.layout).list() if p.name == name]
        assert found.pid is not None
        os.kill(found.pid, signal.SIGKILL)

    def change(self, file: str, old: str, new: str) -> None:
        path = self.project / file
        text = path.read_text(encoding="utf-8")
        assert old in text, f"{file} no longer holds {old!r}"
        path.write_text(text.replace(old, new, 1), encoding="utf-8")


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Sandbox, str]]:
    ensure_toolchain(Layout.of(PROJECT), Silent())  # minutes on a fresh machine, which are not those of `up`
    sandbox = Sandbox(tmp_path_factory.mktemp("sandbox"))
    try:
        yield sandbox, sandbox.up()
    finally:
        sandbox.run("sandbox", "down")


@pytest.fixture
def sandbox(first: tuple[Sandbox, str]) -> Sandbox:
    return first[0]


def wait_for_line(process: subprocess.Popen[str], pattern: str) -> None:
    assert process.stdout
    for line in process.stdout:
        if re.search(pattern, line):
            return
    raise AssertionError(f"the command ended without a line like {pattern}")


def test_a_first_up_ends_with_every_service_ready_on_a_node_of_its_pool(first: tuple[Sandbox, str]) -> None:
    sandbox, output = first
    assert "Everything is ready" in output
    view = read(str(sandbox.layout.kubeconfig))
    assert view.ready
    assert [(s.tenant, s.model) for s in view.services] == [("assist", "chat"), ("vision", "defects"), ("vision", "embeddings")]
    pools = {p.pool: dict(p.accelerators) for p in view.pools}
    assert pools["h100"]["nvidia.com/gpu"][0] == 1
    assert pools["a100-mig"]["nvidia.com/mig-1g.10gb"] == (1, 56)


def test_a_second_up_changes_nothing_and_says_so(sandbox: Sandbox) -> None:
    assert "nothing changed" in sandbox.up()


def test_status_tells_what_runs_and_where(sandbox: Sandbox) -> None:
    code, output = sandbox.run("sandbox", "status")
    assert code == 0
    assert "kube-apiserver" in output
    assert re.search(r"vision/defects .* 1/1 +l4-", output)


def test_a_contract_with_mistakes_is_refused_with_every_place_and_nothing_is_touched(sandbox: Sandbox) -> None:
    file = "tenants/vision/defects.yaml"
    kept = (sandbox.project / file).read_text(encoding="utf-8")
    before = sandbox.run("sandbox", "status")[1]
    try:
        (sandbox.project / file).write_text(kept + "\nsurprise: 1\n", encoding="utf-8")
        code, output = sandbox.run("sandbox", "up")
    finally:
        (sandbox.project / file).write_text(kept, encoding="utf-8")
    assert code == 1
    assert "surprise" in output and "defects.yaml" in output
    assert "planning" not in output
    assert re.findall(r"\d/\d", sandbox.run("sandbox", "status")[1]) == re.findall(r"\d/\d", before)


def test_a_bad_stack_file_is_refused_with_its_path_and_the_other_layers_stay(sandbox: Sandbox) -> None:
    file = "stacks/Pulumi.sandbox-cluster.yaml"
    kept = (sandbox.project / file).read_text(encoding="utf-8")
    try:
        sandbox.change(file, "nat: single", "nat: sometimes")
        code, output = sandbox.run("sandbox", "up")
    finally:
        (sandbox.project / file).write_text(kept, encoding="utf-8")
    assert code == 1
    assert "network.nat" in output
    assert "Everything is ready" not in output


def test_a_second_command_at_the_same_time_is_refused_with_the_pid_of_the_first(sandbox: Sandbox) -> None:
    one = sandbox.begin("sandbox", "up")
    wait_for_line(one, "planning")
    code, output = sandbox.run("sandbox", "up")
    one.communicate(timeout=600)
    assert code == 4
    assert str(one.pid) in output
    assert one.returncode == 0


@pytest.mark.parametrize("victim", ["kube-apiserver", "etcd", "kube-scheduler"])
def test_a_killed_server_is_repaired_by_the_next_up_and_nothing_is_lost(sandbox: Sandbox, victim: str) -> None:
    sandbox.kill(victim)
    assert "nothing changed" in sandbox.up()


def test_what_somebody_deleted_by_hand_is_made_again(sandbox: Sandbox) -> None:
    from kubernetes import client, config

    core = client.CoreV1Api(config.new_client_from_config(str(sandbox.layout.kubeconfig)))
    names = [s.metadata.name for s in core.list_namespaced_service("vision").items]
    core.delete_namespaced_service("defects", "vision")
    assert "Everything is ready" in sandbox.up()
    assert [s.metadata.name for s in core.list_namespaced_service("vision").items] == names


def test_one_interrupt_stops_where_it_is_safe_and_the_next_up_goes_on(sandbox: Sandbox) -> None:
    process = sandbox.begin("sandbox", "up")
    wait_for_line(process, "planning")
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Traceback" not in output
    assert "Everything is ready" in sandbox.up()


def test_a_killed_command_leaves_nothing_that_the_next_one_cannot_repair(sandbox: Sandbox) -> None:
    process = sandbox.begin("sandbox", "up")
    wait_for_line(process, "planning")
    time.sleep(1.0)
    process.kill()
    process.communicate()
    assert "Everything is ready" in sandbox.up()


def test_down_leaves_no_process_and_up_goes_on_with_the_same_state(sandbox: Sandbox) -> None:
    code, output = sandbox.run("sandbox", "down")
    assert code == 0
    assert not [p for p in Supervisor(sandbox.layout).list() if p.running]
    code, output = sandbox.run("sandbox", "status")
    assert code == 3
    assert "not running" in output
    assert "nothing changed" in sandbox.up()


def test_reset_forgets_everything(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path)
    sandbox.state.mkdir()
    (sandbox.state / "something").write_text("x", encoding="utf-8")
    assert sandbox.run("sandbox", "reset", "--yes")[0] == 0
    assert not sandbox.state.exists()


def test_outside_a_checkout_the_command_says_where_it_belongs(tmp_path: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-m", "headway.cli.main", "sandbox", "up"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert process.returncode == 2
    assert "not inside a checkout" in process.stderr
