"""What a served pod becomes on this machine: paths, configuration, command line, status, restarts. No process is started."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.cluster.nodes import RUN_BY_AGENT, STATUS_BY_OTHERS
from sandbox.traffic import admission, pod_addresses
from sandbox.traffic.node import cpu, images, spec
from sandbox.traffic.node.backoff import BackOff, ProbeSpec, Streak
from sandbox.traffic.node.cpu import NotServedError
from sandbox.traffic.node.mounts import Mounts
from sandbox.traffic.node.pod import NodeSettings, ServedPod
from sandbox.traffic.node.status import ContainerRunning, ContainerTerminated, ContainerView, ContainerWaiting, pod_status
from sandbox.traffic.profile import ServedModel
from sandbox.traffic.programs import Programs
from tests.components.contracts import service

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
PROGRAMS = Programs(python=Path("/python"), tritonserver=Path("/t"), backend=(), envoy=Path("/envoy"), libraries=())
MOUNTS = Mounts(
    folders={"/models": Path("/pod/artifact"), "/etc/headway": Path("/pod/config"), "/tmp": Path("/pod/t")}, address="127.130.1.2"
)


@given(st.uuids())
def test_a_served_pods_two_addresses_follow_from_each_other(uid: Any) -> None:
    ip = pod_addresses.pod_ip(str(uid))
    assert pod_addresses.is_served(ip)
    assert pod_addresses.loopback(ip).removeprefix("127.") == ip.removeprefix("10.")


@pytest.mark.parametrize("ip", ["10.244.0.7", "10.0.0.1", ""])
def test_a_simulated_pod_has_no_process_behind_its_address(ip: str) -> None:
    assert not pod_addresses.is_served(ip)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("/models", "/pod/artifact"),
        ("--model-repository=/models", "--model-repository=/pod/artifact"),
        ("/etc/headway/probe.py", "/pod/config/probe.py"),
        ("/modelset", "/modelset"),
        ("--flag=true", "--flag=true"),
        ("http://127.0.0.1:8000", "http://127.130.1.2:8000"),
        ("http://127.0.0.10:8000", "http://127.0.0.10:8000"),
    ],
)
def test_paths_of_mounts_and_the_pods_own_host_are_rewritten_and_nothing_else(before: str, after: str) -> None:
    assert MOUNTS.text(before) == after


def test_every_text_of_a_document_is_rewritten() -> None:
    found = MOUNTS.document({"target": "/models", "places": [{"to": "/models/a/config.pbtxt"}], "size": 3})
    assert found == {"target": "/pod/artifact", "places": [{"to": "/pod/artifact/a/config.pbtxt"}], "size": 3}


def rendered(name: str) -> str:
    maps = [m.body["data"] for m in service(name).manifests() if m.body["kind"] == "ConfigMap"]
    return next(text for data in maps for file, text in data.items() if file.endswith(".pbtxt"))


def test_what_differs_from_a_gpus_configuration_is_what_is_stated() -> None:
    before = rendered("defects")
    found = cpu.configuration(before)
    changed = set(before.splitlines()) ^ set(found.text.splitlines())
    assert found.needs_runner
    assert {line.strip().split(":")[0] for line in changed if ":" in line} >= {"backend", "platform", "kind"}
    assert "KIND_GPU" not in found.text
    assert "tensorrt" not in found.text
    assert "default_queue_policy" not in found.text
    kept = ('name: "defects', "max_batch_size:", "preferred_batch_size:", "data_type:", "versions:")
    assert [line for line in before.splitlines() if line.strip().startswith(kept)] == [
        line for line in found.text.splitlines() if line.strip().startswith(kept)
    ]
    assert found.text.count("{") == found.text.count("}")


def test_a_python_model_brings_its_own_code() -> None:
    assert not cpu.configuration(rendered("defects").replace('"onnxruntime"', '"python"')).needs_runner


@pytest.mark.parametrize("backend", ["tensorrt", "pytorch", "fil"])
def test_a_backend_without_a_cpu_build_is_refused_by_name(backend: str) -> None:
    with pytest.raises(NotServedError, match=backend):
        cpu.configuration(f'name: "m"\nbackend: "{backend}"\n')


def test_the_command_line_is_the_contracts_on_the_pods_own_address() -> None:
    command = ["tritonserver", "--model-repository=/x", "--http-max-input-size=5", "--strict-readiness=true"]
    found = cpu.arguments(command, PROGRAMS, "127.1.2.3", Path("/b"), "p-")
    assert found[0] == "/t"
    assert {"--model-repository=/x", "--strict-readiness=true", "--http-address=127.1.2.3", "--metrics-address=127.1.2.3"} <= set(found)
    assert not any(flag.startswith(cpu.DROPPED_FLAGS) for flag in found)


def test_a_server_ends_with_its_model_process_as_the_contract_or_a_gpu_would() -> None:
    started = ("/python", "-I", "/etc/headway/fate.py", "/scratch/headway/proven")
    bound = [*started, "tritonserver", "--strict-readiness=true"]
    for proven in (None, "/scratch/headway/proven"):
        assert cpu.arguments(bound, PROGRAMS, "127.1.2.3", Path("/b"), "p-", proven=proven)[:5] == [*started, "/t"]
    python, isolated, script, *rest = cpu.arguments(bound[4:], PROGRAMS, "127.1.2.3", Path("/b"), "p-", proven=started[3])
    assert (python, isolated, *rest[:2]) == ("/python", "-I", started[3], "/t")
    assert Path(script).is_file()
    with pytest.raises(NotServedError, match="only tritonserver"):
        cpu.arguments(["/bin/sh", "-c", *bound[4:]], PROGRAMS, "127.1.2.3", Path("/b"), "p-")


def pod(**changes: Any) -> dict[str, Any]:
    (body,) = (m.body for m in service("defects").manifests() if m.body["kind"] == "Deployment")
    template = body["spec"]["template"]
    return {"metadata": {"name": "p", "namespace": "vision", "uid": "0" * 36}, "spec": {**template["spec"], **changes}}


def test_a_pod_of_a_contract_is_read_with_its_probes_and_its_grace() -> None:
    found = spec.read(pod())
    assert set(found.server.probes) == {"startupProbe", "readinessProbe", "livenessProbe"}
    assert (found.grace_seconds, found.server.pre_stop_seconds) == (50.0, 15.0)
    assert found.server.memory_bytes == 10 * 2**30
    assert found.server.mounts["/models"] == "artifact"


def test_everything_that_is_not_run_is_refused_in_one_message() -> None:
    server = pod()["spec"]["containers"][0]
    wrong = pod(
        containers=[{**server, "command": ["/server"], "livenessProbe": {"grpc": {"port": 1}}}],
        volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "x"}}],
        initContainers=[{"name": "metrics", "image": "i", "restartPolicy": "Always"}],
    )
    with pytest.raises(NotServedError) as refused:
        spec.read(wrong)
    for part in ("only tritonserver", "livenessProbe of server", "volume data is of kind persistentVolumeClaim", "metrics is a sidecar"):
        assert part in str(refused.value)


def view(**changes: Any) -> ContainerView:
    return ContainerView(name="server", image="i", state=changes.pop("state", ContainerRunning(since=NOW)), **changes)


def status(server: ContainerView, *, fetched: bool = True, before: Any = ()) -> dict[str, Any]:
    done = ContainerTerminated(reason="Completed", exit_code=0, began=NOW, ended=NOW)
    fetch = ContainerView(name="fetch", image="i", state=done if fetched else ContainerRunning(since=NOW))
    return pod_status(
        inits=[fetch],
        containers=[server],
        pod_ip="10.130.0.1",
        node_ip="127.0.0.1",
        began=NOW,
        now=NOW + timedelta(minutes=1),
        before=before,
    )


def conditions(found: dict[str, Any]) -> dict[str, str]:
    return {each["type"]: each["status"] for each in found["conditions"]}


def test_a_pod_is_ready_when_its_server_is() -> None:
    assert conditions(status(view(ready=True)))["Ready"] == "True"
    assert conditions(status(view(ready=False)))["Ready"] == "False"


def test_a_pod_that_still_fetches_is_pending_and_not_initialised() -> None:
    found = status(view(state=ContainerWaiting(reason="PodInitializing")), fetched=False)
    assert found["phase"] == "Pending"
    assert conditions(found)["Initialized"] == "False"


def test_an_unchanged_condition_keeps_its_time_and_foreign_ones_are_left_alone() -> None:
    first = status(view(ready=True))["conditions"]
    old = [{**each, "lastTransitionTime": "then"} for each in first] + [{"type": "PodScheduled", "status": "True"}]
    found = {each["type"]: each for each in status(view(ready=False), before=old)["conditions"]}
    assert found["Initialized"]["lastTransitionTime"] == "then"
    assert found["Ready"]["lastTransitionTime"] == "2026-11-21T12:01:00Z"
    assert found["PodScheduled"] == {"type": "PodScheduled", "status": "True"}


def test_a_container_that_was_killed_shows_why_and_how_often() -> None:
    last = ContainerTerminated(reason="OOMKilled", exit_code=137, began=NOW, ended=NOW, message="last words")
    found = status(view(last=last, restarts=2, state=ContainerWaiting(reason="CrashLoopBackOff")))
    (server,) = found["containerStatuses"]
    assert server["restartCount"] == 2
    assert server["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert server["lastState"]["terminated"]["reason"] == "OOMKilled"
    assert found["phase"] == "Running"


def test_waiting_doubles_up_to_five_minutes_and_is_forgiven_after_ten_good_ones() -> None:
    back_off, waited = BackOff(), []
    for _ in range(8):
        back_off = back_off.after(1.0)
        waited.append(back_off.seconds)
    assert waited == [0, 10, 20, 40, 80, 160, 300, 300]
    assert back_off.after(600.0).seconds == 0


def test_one_success_forgives_all_failures_of_a_probe() -> None:
    probe = ProbeSpec(command=("x",), period_seconds=1, timeout_seconds=1, failures=3)
    streak = Streak().after(succeeded=False).after(succeeded=False)
    assert not streak.exhausted(probe)
    assert streak.after(succeeded=False).exhausted(probe)
    assert streak.after(succeeded=True) == Streak(0)


def test_pods_of_served_services_are_marked_for_the_agent_and_against_kwok() -> None:
    policy, binding = admission.policy([ServedModel("quality", "classifier"), ServedModel("search", "encoder")])
    (mutation,) = policy["spec"]["mutations"]
    for key, value in {**RUN_BY_AGENT, **STATUS_BY_OTHERS}.items():
        assert f'escapeKey("{key}"), value: "{value}"' in mutation["jsonPatch"]["expression"]
    assert "['quality/classifier', 'search/encoder']" in policy["spec"]["matchConditions"][0]["expression"]
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]


def test_an_image_that_nobody_has_pushed_is_waited_for_as_a_kubelet_does(tmp_path: Path) -> None:
    said: list[str] = []

    async def nothing(_namespace: str, _name: str) -> dict[str, str]:
        return {}

    async def waits() -> Any:
        node = NodeSettings(
            programs=PROGRAMS,
            backends=tmp_path,
            pods=tmp_path / "pods",
            logs=tmp_path,
            records=tmp_path,
            environment={},
            config_maps=nothing,
            first_backoff_seconds=60.0,
        )
        absent = replace(found, inits=tuple(replace(each, image=f"r.example/t@sha256:{'0' * 64}") for each in found.inits))
        served = ServedPod(absent, node, lambda: None, lambda _kind, reason, _message: said.append(reason))
        running = asyncio.create_task(served.run())
        while "BackOff" not in said:
            await asyncio.sleep(0)
        running.cancel()
        return served.view(())

    found = spec.read(pod())
    (fetch,) = asyncio.run(asyncio.wait_for(waits(), 10))["initContainerStatuses"]
    assert fetch["state"]["waiting"]["reason"] == "ImagePullBackOff"
    assert fetch["state"]["waiting"]["message"].endswith(f"r.example/t@sha256:{'0' * 64}: not found")
    assert said == ["Pulling", "Failed", "BackOff"]


def test_any_image_but_the_one_of_zeros_counts_as_pushed() -> None:
    assert images.refused(f"registry.example.com/triton:1@sha256:{'0' * 63}1") == ""
