"""What `status` says of a cluster, from objects as the API server answers them."""

import io
from typing import Any

from rich.console import Console

from headway.contract.gpu_resources import is_gpu
from headway.wire import MODEL, POOL, QUARANTINE, RELEASE, TENANT
from sandbox.cli import show
from sandbox.status import ClusterView, add_ons, pools, services


def node(name: str, pool: str = "h100", gpus: str = "8", ready: bool = True) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "labels": {POOL: pool, "node.kubernetes.io/instance-type": "p5.48xlarge", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
        },
        "status": {
            "allocatable": {"cpu": "96", "nvidia.com/gpu": gpus},
            "conditions": [{"type": "Ready", "status": "True" if ready else "Unknown"}],
        },
    }


def pod(
    name: str, on: str = "", gpus: int = 2, phase: str = "Running", ready: bool = True, conditions: list[Any] | None = None
) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "assist", "labels": {TENANT: "assist", MODEL: "chat", RELEASE: "r1"}},
        "spec": {"nodeName": on or None, "containers": [{"name": "server", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}]},
        "status": {"phase": phase, "conditions": [{"type": "Ready", "status": "True" if ready else "False"}, *(conditions or [])]},
    }


def deployment(replicas: int = 2, ready: int = 2, conditions: list[Any] | None = None) -> dict[str, Any]:
    labels = {TENANT: "assist", MODEL: "chat", RELEASE: "r1"}
    return {
        "metadata": {"name": "chat-r1", "namespace": "assist", "labels": labels},
        "spec": {"replicas": replicas, "template": {"metadata": {"labels": labels}}},
        "status": {"readyReplicas": ready, "conditions": conditions or []},
    }


def test_allocation_adds_up_what_pods_on_ready_nodes_were_given() -> None:
    (pool,) = pools([node("n1"), node("n2")], [pod("a", "n1"), pod("b", "n1", gpus=4), pod("c", "n2")])
    assert (pool.nodes, pool.ready, dict(pool.accelerators)) == (2, 2, {"nvidia.com/gpu": (8, 16)})


def test_a_finished_pod_holds_no_gpu() -> None:
    (pool,) = pools([node("n1")], [pod("a", "n1", phase="Succeeded"), pod("b", "n1", phase="Failed")])
    assert pool.accelerators["nvidia.com/gpu"] == (0, 8)


def test_a_node_that_is_not_ready_offers_nothing() -> None:
    (pool,) = pools([node("n1"), node("n2", ready=False)], [])
    assert (pool.ready, pool.accelerators["nvidia.com/gpu"]) == (1, (0, 8))


def test_gpus_of_a_node_in_quarantine_are_not_free() -> None:
    apart = {**node("n2"), "spec": {"taints": [{"key": QUARANTINE, "value": "true", "effect": "NoSchedule"}]}}
    (pool,) = pools([node("n1"), apart], [pod("a", "n1"), pod("b", "n2")])
    assert (pool.quarantined, dict(pool.accelerators)) == (1, {"nvidia.com/gpu": (4, 10)})
    console = Console(width=200, file=io.StringIO())
    show.view(console, ClusterView(version="v1", pools=(pool,), services=(), recorded=()))
    assert "2, 1 in quarantine" in console.file.getvalue()  # type: ignore[attr-defined]


def test_pools_are_told_apart_and_sorted() -> None:
    assert [p.pool for p in pools([node("b", "l4"), node("a", "a100")], [])] == ["a100", "l4"]


def test_a_service_with_all_pods_ready_has_no_reason() -> None:
    (service,) = services([deployment()], [pod("a", "n1"), pod("b", "n1")])
    assert (service.ready, service.wanted, service.reason) == (2, 2, "")


def test_an_unschedulable_pod_says_in_the_schedulers_words_why() -> None:
    words = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
    waiting = pod("b", phase="Pending", ready=False, conditions=[{"type": "PodScheduled", "status": "False", "message": words}])
    (service,) = services([deployment(ready=1)], [pod("a", "n1"), waiting])
    assert service.reason == words


def test_a_service_whose_pods_are_refused_by_quota_says_so() -> None:
    refused = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: gpus"}
    (service,) = services([deployment(ready=0, conditions=[refused])], [])
    assert service.reason == "exceeded quota: gpus"


def test_a_deployment_without_a_model_is_no_service() -> None:
    other = deployment()
    other["metadata"]["labels"] = other["spec"]["template"]["metadata"]["labels"] = {"app": "x"}
    assert services([other], []) == ()


def test_slices_and_shares_count_as_gpus_and_features_do_not() -> None:
    assert is_gpu("nvidia.com/gpu") and is_gpu("nvidia.com/mig-1g.10gb") and is_gpu("nvidia.com/gpu.shared")
    assert not is_gpu("nvidia.com/gpu.product") and not is_gpu("cpu")


def test_a_chart_that_is_installed_twice_is_one_add_on() -> None:
    collector = {"data": {"chart": "opentelemetry-collector", "version": "0.170.0"}}
    assert add_ons([collector, {"data": {"chart": "loki", "version": "18.11.0"}}, collector]) == (
        ("loki", "18.11.0"),
        ("opentelemetry-collector", "0.170.0"),
    )
