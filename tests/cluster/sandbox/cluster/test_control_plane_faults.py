"""What the control plane does after accidents: every one is followed by a plain `start`, which must repair it and lose nothing.

One control plane for the module: each test breaks it and leaves it whole, so that the next also proves the repair.
"""

import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from secrets import token_hex

import pytest
import yaml

from headway.problem import Exit, UserError
from sandbox.cluster import control_plane_programs
from sandbox.cluster.control_plane import SandboxCluster
from sandbox.cluster.nodes import node_manifest
from sandbox.layout import CACHE_VARIABLE, HOME_VARIABLE, Layout
from sandbox.progress import Silent
from tests.cluster.command import servers_of
from tests.cluster.conftest import PROJECT, ControlPlane, eventually

START = """
import sys
from pathlib import Path
from sandbox.cluster.control_plane import SandboxCluster
from sandbox.layout import Layout

class Told:
    def step(self, key, text): print(key, text, flush=True)
    done = failed = step

SandboxCluster(Layout.of(Path(sys.argv[1]))).start(Told())
"""


def pids(plane: ControlPlane) -> dict[str, int]:
    return {process.name: process.pid for process in plane.cluster.status().processes if process.pid is not None}


def kill(plane: ControlPlane, *names: str) -> None:
    for name in names:
        os.kill(pids(plane)[name], signal.SIGKILL)
    eventually(lambda: not set(names) & set(pids(plane)))


def remember(plane: ControlPlane, name: str) -> None:
    plane.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": {"said": name}})


def remembers(plane: ControlPlane, name: str) -> bool:
    return plane.get("ConfigMap", name)["data"] == {"said": name}


def separate_start(layout: Layout) -> "subprocess.Popen[str]":
    environment = {**os.environ, HOME_VARIABLE: str(layout.state), CACHE_VARIABLE: str(layout.cache)}
    command = [sys.executable, "-c", START, str(layout.project)]
    return subprocess.Popen(command, cwd=PROJECT, env=environment, stdout=subprocess.PIPE, text=True)


def test_what_was_stored_survives_a_stop_and_nothing_is_left_running(breakable: ControlPlane) -> None:
    remember(breakable, "before-stop")
    ports = {process.name: process.ports for process in breakable.cluster.status().processes}
    stopped = breakable.cluster.stop(Silent())
    assert set(stopped) == set(control_plane_programs.NAMES)
    assert servers_of(breakable.layout.state) == {}
    assert not breakable.cluster.status().ready
    breakable.cluster.start(Silent())
    assert remembers(breakable, "before-stop"), "the kubeconfig handed out before still works, and the object is there"
    assert {process.name: process.ports for process in breakable.cluster.status().processes} == ports


@pytest.mark.parametrize("name", control_plane_programs.NAMES)
def test_a_killed_program_is_named_and_the_next_start_repairs_it_alone(breakable: ControlPlane, name: str) -> None:
    kept = f"before-{name}-{token_hex(3)}"  # a second try finds that of the first
    remember(breakable, kept)
    before = pids(breakable)
    kill(breakable, name)
    status = breakable.cluster.status()
    assert not status.ready
    assert name in status.reason
    assert breakable.cluster.start(Silent()).started == (name,)
    after = pids(breakable)
    assert {each for each in control_plane_programs.NAMES if after[each] != before[each]} == {name}
    assert remembers(breakable, kept)


def test_all_killed_at_once_loses_nothing_that_was_acknowledged(breakable: ControlPlane) -> None:
    for number in range(50):
        remember(breakable, f"written-{number}")
    for pid in pids(breakable).values():
        os.kill(pid, signal.SIGKILL)
    breakable.cluster.start(Silent())
    names = {each["metadata"]["name"] for each in breakable.list("ConfigMap", namespace="default")}
    assert {f"written-{number}" for number in range(50)} <= names


def test_pods_are_ready_and_new_ones_run_after_a_restart(breakable: ControlPlane) -> None:
    breakable.create(
        node_manifest("cpu-a", labels={}, taints=[], capacity={"cpu": "8", "memory": "32Gi", "pods": "110"}),
        """
apiVersion: apps/v1
kind: Deployment
metadata: {name: served, namespace: default}
spec:
  replicas: 3
  selector: {matchLabels: {app: served}}
  template:
    metadata: {labels: {app: served}}
    spec: {containers: [{name: main, image: example.invalid/served}]}
""",
    )

    def ready() -> int:
        return breakable.get("Deployment", "served", api_version="apps/v1")["status"].get("readyReplicas") or 0

    eventually(lambda: ready() == 3)
    breakable.cluster.stop(Silent())
    breakable.cluster.start(Silent())
    resource = breakable.client.resources.get(api_version="apps/v1", kind="Deployment")
    resource.patch(name="served", namespace="default", body={"spec": {"replicas": 5}}, content_type="application/merge-patch+json")
    eventually(lambda: ready() == 5, within=10)  # long before a lease of the stopped kwok would have run out
    resource.delete(name="served", namespace="default")
    breakable.client.resources.get(api_version="v1", kind="Node").delete(name="cpu-a")


@pytest.mark.parametrize("told", ["etcd starting", "kube-apiserver starting", "kwok starting"])
def test_a_command_killed_in_the_middle_of_its_start_leaves_nothing_unknown(breakable: ControlPlane, told: str) -> None:
    breakable.cluster.stop(Silent())
    command = separate_start(breakable.layout)
    assert command.stdout is not None
    for line in command.stdout:
        if line.strip() == told:
            break
    command.kill()
    command.communicate()
    command.stdout.close()
    breakable.cluster.start(Silent())
    running = servers_of(breakable.layout.state)
    assert sorted(running.values()) == sorted(control_plane_programs.NAMES), "each program once: what was running was adopted"
    assert set(running) == set(pids(breakable).values()), "and the records name them all"


def test_two_starts_at_once_make_one_control_plane(breakable: ControlPlane) -> None:
    breakable.cluster.stop(Silent())
    commands = [separate_start(breakable.layout) for _ in range(2)]
    said = [command.communicate(timeout=60)[0] for command in commands]
    assert [command.returncode for command in commands] == [0, 0], said
    assert sorted(servers_of(breakable.layout.state).values()) == sorted(control_plane_programs.NAMES)
    assert sum("waiting for process" in text for text in said) == 1, "the second says whom it waits for"


def test_starts_from_several_threads_make_one_control_plane(breakable: ControlPlane) -> None:
    breakable.cluster.stop(Silent())
    with ThreadPoolExecutor(4) as pool:
        infos = list(pool.map(lambda _: breakable.cluster.start(Silent()), range(4)))
    assert sorted(name for info in infos for name in info.started) == sorted(control_plane_programs.NAMES), "each was started once"


def test_a_port_that_somebody_took_is_named_with_its_holder_and_nothing_is_lost(breakable: ControlPlane) -> None:
    remember(breakable, "before-port")
    (port,) = next(process.ports for process in breakable.cluster.status().processes if process.name == control_plane_programs.API_SERVER)
    breakable.cluster.stop(Silent())
    with socket.socket() as squatter:
        squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        squatter.bind(("127.0.0.1", port))
        squatter.listen()
        with pytest.raises(UserError) as refusal:
            breakable.cluster.start(Silent())
    assert f"127.0.0.1:{port} of kube-apiserver" in refusal.value.fact
    assert f"pid {os.getpid()}" in refusal.value.fact
    assert refusal.value.exit == Exit.ENVIRONMENT
    breakable.cluster.start(Silent())
    assert remembers(breakable, "before-port")


def test_a_configuration_that_has_changed_restarts_the_program_that_reads_it(breakable: ControlPlane) -> None:
    before = pids(breakable)
    stages = breakable.layout.cluster / "config" / "stages.yaml"
    stages.write_text("# an older release wrote something else here\n" + stages.read_text())
    assert breakable.cluster.start(Silent()).started == ()  # put right on disk, and what runs had read it so
    assert pids(breakable) == before
    documents = list(yaml.safe_load_all(stages.read_text()))
    assert len(documents) >= 14


def test_reset_forgets_the_objects_and_the_keys(breakable: ControlPlane, tmp_path: Path) -> None:
    layout = Layout(project=PROJECT, state=tmp_path / "other", cache=breakable.layout.cache)
    cluster = SandboxCluster(layout)
    plane = ControlPlane(layout, cluster)
    try:
        cluster.start(Silent())
        remember(plane, "forgotten")
        key = (layout.cluster / "pki" / "cluster.key").read_text()
        cluster.reset(Silent())
        assert servers_of(layout.state) == {}
        assert not layout.kubeconfig.exists()
        cluster.start(Silent())
        fresh = ControlPlane(layout, cluster)
        assert "forgotten" not in {each["metadata"]["name"] for each in fresh.list("ConfigMap", namespace="default")}
        assert (layout.cluster / "pki" / "cluster.key").read_text() != key
    finally:
        cluster.supervisor.stop_all(Silent())
