"""What a pod in a GPU pool must have seen, and how divided nodes must look: each fault by what the API server then shows."""

from typing import Any

import pytest

from headway.contract.pool import Pool
from headway.verify.gpus import judge_mig, judge_place, judge_pod, probes
from headway.verify.outcome import VerifyState
from headway.verify.probe import Probe, ProbeSeen, pod, seen
from headway.verify.scaling import ScaleTimes
from headway.verify.scaling import judge as judge_scale
from tests.contract_samples import AMI, L4_POOL

L4 = Pool.model_validate(L4_POOL)
SLICED = Pool.model_validate(
    {
        "name": "h100-mig",
        "instance_types": ["p5.48xlarge"],
        "zones": ["us-east-1a"],
        "size": {"min": 1, "max": 2},
        "workload_class": "latency",
        "sharing": {"mode": "mig", "layout": {"1g.10gb": 7}},
        "ami": AMI,
    }
)
SLICE = "nvidia.com/mig-1g.10gb"
WHOLE = "GPU 0: NVIDIA L4 (UUID: GPU-7a2f)"
CUT = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-7a2f)\n  MIG 1g.10gb     Device  0: (UUID: MIG-b1c2)"


def ended(listed: str = "", wrong: str = "") -> ProbeSeen:
    return ProbeSeen(node="ip-10-0-1-1", phase="Succeeded", word={"listed": listed, "wrong": wrong})


@pytest.mark.parametrize(
    ("pool", "resource", "saw", "state", "fact"),
    [
        (L4, "nvidia.com/gpu", ended(WHOLE), VerifyState.PASSED, ""),
        (
            L4,
            "nvidia.com/gpu",
            ended(f"{WHOLE}\nGPU 1: NVIDIA L4 (UUID: GPU-9)"),
            VerifyState.FAILED,
            "asked for one nvidia.com/gpu sees 2 GPUs",
        ),
        (
            L4,
            "nvidia.com/gpu",
            ended(wrong="NVML: Driver/library version mismatch"),
            VerifyState.FAILED,
            "sees no GPU (NVML: Driver/library",
        ),
        (L4, "nvidia.com/gpu", ProbeSeen(pending="Unschedulable: 0/3 nodes"), VerifyState.FAILED, "got no node (Unschedulable: 0/3 nodes)"),
        (
            L4,
            "nvidia.com/gpu",
            ProbeSeen(node="n", phase="Pending", pending="ErrImagePull"),
            VerifyState.FAILED,
            "to its end (ErrImagePull)",
        ),
        (SLICED, SLICE, ended(CUT), VerifyState.PASSED, ""),
        (SLICED, SLICE, ended(CUT.replace("1g.10gb", "3g.40gb")), VerifyState.FAILED, "sees 1 GPUs, slices 3g.40gb"),
        (SLICED, SLICE, ended(WHOLE), VerifyState.FAILED, "sees 1 GPUs on"),
    ],
)
def test_a_pod_sees_just_the_gpu_that_it_asked_for(pool: Pool, resource: str, saw: ProbeSeen, state: VerifyState, fact: str) -> None:
    found = judge_pod(pool, resource, saw)
    assert found.state is state
    assert fact in "".join(problem.fact for problem in found.problems)
    assert all(problem.consequence and problem.remedy for problem in found.problems)


def test_a_place_alone_does_not_show_a_gpu() -> None:
    found = judge_place(L4, "nvidia.com/gpu", ProbeSeen(node="simulated"), "nodes are simulated")
    assert found.state is VerifyState.NOT_SHOWN
    assert found.not_shown == ("No pod saw a GPU: nodes are simulated.",)
    assert judge_place(L4, "nvidia.com/gpu", ProbeSeen(), "nodes are simulated").state is VerifyState.FAILED


def node(config: str = SLICED.sharing.config, state: str | None = "success", offered: int = 56) -> dict[str, Any]:  # type: ignore[union-attr]
    labels = {"nvidia.com/mig.config": config, **({"nvidia.com/mig.config.state": state} if state else {})}
    return {"metadata": {"name": "n1", "labels": labels}, "status": {"allocatable": {SLICE: str(offered), "cpu": "190"}}}


@pytest.mark.parametrize(
    ("body", "lacks", "state", "fact"),
    [
        (node(), None, VerifyState.PASSED, ""),
        (node(config="all-disabled"), None, VerifyState.FAILED, "asks for MIG layout all-disabled, and the pool says"),
        (node(state="failed"), None, VerifyState.FAILED, "The MIG manager on n1 says failed"),
        (node(state=None), None, VerifyState.FAILED, "says nothing, not success"),
        (node(state=None), "nodes are simulated", VerifyState.PASSED, ""),
        (node(offered=48), None, VerifyState.FAILED, f"offers 48 {SLICE}, and the layout gives 56 {SLICE}"),
    ],
)
def test_a_divided_node_has_the_layout_of_its_pool(body: dict[str, Any], lacks: str | None, state: VerifyState, fact: str) -> None:
    found = judge_mig(SLICED, [body], lacks)
    assert found.state is state
    assert fact in "".join(problem.fact for problem in found.problems)


def test_a_divided_pool_without_nodes_has_not_passed() -> None:
    assert judge_mig(SLICED, []).state is VerifyState.NOT_SHOWN


def test_a_probe_takes_no_models_place_and_has_no_rights() -> None:
    (probe,) = probes(SLICED)
    body = pod(probe, "registry.test/headway@sha256:0")
    spec, (container,) = body["spec"], body["spec"]["containers"]
    assert (spec["priorityClassName"], spec["automountServiceAccountToken"], spec["restartPolicy"]) == (
        "headway-placeholder",
        False,
        "Never",
    )
    assert container["resources"]["limits"][SLICE] == "1"
    assert spec["nodeSelector"] == {"platform.io/pool": "h100-mig"}
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    plain = pod(Probe(name="plain", task="ask"), "i")
    assert plain["spec"]["nodeSelector"] == {"workload": "system"} and plain["spec"]["tolerations"] == []


def test_a_probes_last_word_is_read_from_its_pod() -> None:
    state = {"terminated": {"message": '{"listed": "x"}', "reason": "Completed"}}
    body = {"spec": {"nodeName": "n"}, "status": {"phase": "Succeeded", "containerStatuses": [{"name": "probe", "state": state}]}}
    assert seen(body).word == {"listed": "x"}
    waiting = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
    assert seen({"spec": {}, "status": {"conditions": [waiting]}}).pending == "Unschedulable: 0/3 nodes"
    assert seen(None).pending == "it was removed by somebody else"


@pytest.mark.parametrize(
    ("times", "state", "fact"),
    [
        (ScaleTimes(up=140, down=660), VerifyState.PASSED, ""),
        (ScaleTimes(waits="Unschedulable: no match"), VerifyState.FAILED, "got no node within 20 minutes (Unschedulable: no match)"),
        (ScaleTimes(up=140), VerifyState.FAILED, "is still there 25 minutes after its pod ended"),
    ],
)
def test_an_empty_pool_grows_and_shrinks_again(times: ScaleTimes, state: VerifyState, fact: str) -> None:
    found = judge_scale(L4, times)
    assert found.state is state
    assert fact in "".join(problem.fact for problem in found.problems)
