"""What a pod of vLLM becomes on a machine without a GPU: its command line, its refusals, its sidecar. No process is started."""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.model_service import vllm
from headway.contract.model import Model
from headway.contract.runtime import Vllm
from sandbox.traffic import profile
from sandbox.traffic.node import cpu_vllm, spec
from sandbox.traffic.node.cpu import NotServedError
from sandbox.traffic.node.own_address import __file__ as own_address
from sandbox.traffic.node.status import ContainerRunning, ContainerView, ContainerWaiting, pod_status
from sandbox.traffic.profile import ModelArtifacts
from tests.components.contracts import service
from tests.unit.sandbox.traffic.test_traffic_node import NOW

PYTHON, ADDRESS = Path("/llm/bin/python3"), "127.130.1.2"
FILE = {"sha256": "1" * 64, "size": 700_000}
ARTIFACTS = ModelArtifacts(
    folder=Path("/none"),
    manifest={
        "sorter": {
            "golden": [
                {"name": "g", "request": {"prompt": "sort: nut ="}, "answer": "/a", "expect": {"compare": "contains", "parts": ["nut"]}}
            ],
            "releases": {"stable": {"files": [{"path": name, **FILE} for name in ("config.json", "model.safetensors")]}},
        }
    },
)


def sorter() -> Sequence[str]:
    model = Model.model_validate(profile.contract(profile.LANGUAGE, ARTIFACTS))
    assert isinstance(model.runtime, Vllm)
    return vllm.arguments(model, model.runtime, 60)


def pod() -> dict[str, Any]:
    (body,) = (m.body for m in service("chat").manifests() if m.body["kind"] == "Deployment")
    template = body["spec"]["template"]
    return {"metadata": {"name": "p", "namespace": "assist", "uid": "0" * 36, **template["metadata"]}, "spec": template["spec"]}


def test_the_command_line_is_the_contracts_less_what_a_table_names() -> None:
    given = sorter()
    found = cpu_vllm.arguments(given, PYTHON, ADDRESS, 2 * 2**30)
    assert found[:3] == [str(PYTHON), "-m", cpu_vllm.MODULE]
    replaced = {each.flag for each in cpu_vllm.ARGUMENTS if each.replaced_by}
    assert {argument for argument in given[3:] if argument not in found} == {a for a in given if a.partition("=")[0] in replaced}
    added = [argument for argument in found[3:] if argument not in given]
    assert added == [f"--model={vllm.WEIGHTS}", f"--host={ADDRESS}", f"--kv-cache-memory-bytes={2**29}", "--enforce-eager"]


def test_the_cache_has_what_weights_and_cuda_leave_of_the_envelope(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(bytes(1000))
    found = cpu_vllm.arguments(["vllm", "serve", str(tmp_path)], PYTHON, ADDRESS, 2 * 2**30)
    assert f"--kv-cache-memory-bytes={2**29 - 1000}" in found
    assert cpu_vllm.cache_bytes(2**30, 0) == cpu_vllm.LEAST_CACHE


def test_one_slot_for_adapters_stays_empty_for_the_base_model_to_be_itself() -> None:
    found = cpu_vllm.arguments([*sorter(), "--enable-lora", "--max-loras=2", "--lora-modules", "a=/models/a"], PYTHON, ADDRESS, 2**31)
    assert "--max-loras=3" in found
    assert found[found.index("--lora-modules") + 1] == "a=/models/a"


@pytest.mark.parametrize(
    "argument",
    ["--tensor-parallel-size=2", "--quantization=fp8", "--kv-cache-dtype=fp8", '--speculative-config={"method":"ngram"}'],
)
def test_an_argument_whose_loss_would_change_the_meaning_is_refused(argument: str) -> None:
    with pytest.raises(NotServedError, match=argument.partition("=")[0]):
        cpu_vllm.arguments([*sorter(), argument], PYTHON, ADDRESS, 2**31)


def test_everything_of_a_pod_that_a_cpu_cannot_do_is_refused_in_one_message() -> None:
    with pytest.raises(NotServedError) as refused:
        spec.read(pod())
    said = str(refused.value)
    assert all(flag in said for flag in ("--quantization=fp8", "--kv-cache-dtype=fp8", "--speculative-config="))
    assert "--tensor-parallel-size" not in said
    assert "Give the contract optimisation.kv_cache auto in the sandbox" in said


def test_a_node_without_the_environment_of_vllm_says_how_to_get_it() -> None:
    with pytest.raises(NotServedError, match=r"make \.venv-llm/\.ready"):
        cpu_vllm.arguments(sorter(), None, ADDRESS, 2**31)


def test_a_pod_is_read_with_its_sidecar_and_its_share_of_a_gpu() -> None:
    body = pod()
    body["spec"]["containers"][0]["command"] = list(sorter())
    found = spec.read(body)
    assert [(each.name, each.sidecar) for each in found.inits] == [("metrics", True), ("fetch", False)]
    assert found.gpu_memory_bytes == 72 * 2**30


def test_a_sidecar_that_is_no_script_is_refused() -> None:
    body = pod()
    body["spec"]["initContainers"][0] |= {"command": ["/relay"], "startupProbe": {}}
    with pytest.raises(NotServedError, match=r"is a sidecar: only scripts.*startupProbe of sidecar"):
        spec.read(body)


def test_a_pod_is_initialised_once_its_sidecar_runs_and_the_others_are_done() -> None:
    sidecar = ContainerView(name="metrics", image="i", state=ContainerWaiting(reason="PodInitializing"), sidecar=True)
    running = replace(sidecar, state=ContainerRunning(since=NOW), started=True)
    assert [_initialised(each) for each in (sidecar, running, replace(running, sidecar=False))] == ["False", "True", "False"]


def _initialised(init: ContainerView) -> str:
    server = ContainerView(name="server", image="i", state=ContainerWaiting(reason="PodInitializing"))
    found = pod_status(inits=[init], containers=[server], pod_ip="10.130.1.2", node_ip="127.0.0.1", began=NOW, now=NOW, before=())
    return next(each["status"] for each in found["conditions"] if each["type"] == "Initialized")


def test_a_script_that_listens_everywhere_listens_on_the_pods_own_address(tmp_path: Path) -> None:
    script = tmp_path / "listens.py"
    script.write_text(
        "import json, socket, sys\ns = socket.socket()\ns.bind(('', 0))\nprint(json.dumps([s.getsockname()[0], sys.argv[1:]]))\n"
    )
    done = subprocess.run([sys.executable, "-I", own_address, ADDRESS, str(script), "8002"], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [ADDRESS, ["8002"]]


def test_the_contract_of_the_language_model_is_one_that_a_team_could_hand_in() -> None:
    raw = yaml.safe_load((profile.CONTRACTS / "writing" / "sorter.yaml").read_text())
    assert {"artifact", "golden"} & {*raw, *raw["health"]} == set()
    assert Model.model_validate(profile.contract(profile.LANGUAGE, ARTIFACTS)).name == "sorter"


def test_shared_memory_of_a_pod_is_named_after_it_so_that_none_is_left() -> None:
    code = "from multiprocessing.shared_memory import SharedMemory as S; s = S(create=True, size=8); print(s.name); s.close(); s.unlink()"
    environment = cpu_vllm.environment(PYTHON, ADDRESS, "headway-0123-", "/usr/bin")
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("headway-0123-")
