"""The Cluster Autoscaler's own rules, applied to our nodes and pods: no serving node seems empty, none counts twice."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from components.addons import cluster_autoscaler
from components.nodes import gpu_node
from components.platform import capacity
from headway.contract.pool import Pool
from sandbox.cloud.autoscaler import SAFE_TO_EVICT, is_ready, is_underused, node_to_come, utilisation
from sandbox.cloud.nodes import nodes
from tests.components.contracts import MODELS, POOLS, bodies, pool_of, service
from tests.unit.sandbox.scaling.scaling_world import described

ARGUMENTS = cluster_autoscaler.values("c", "us-west-2", POOLS)["extraArgs"]
SHARED = {pool.name: pool for pool in POOLS if pool.sharing.mode != "whole"}
WHOLE = {pool.name: pool for pool in POOLS if pool.sharing.mode == "whole"}


def node(pool: Pool) -> dict[str, Any]:
    """A node of the pool as the simulated cloud makes it."""
    (made,) = nodes(described(pool), 1)
    return {"metadata": {"labels": made.labels}, "spec": {"taints": made.taints}, "status": {"allocatable": made.allocatable}}


def served(name: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The node on which a replica of the model runs, and the replica."""
    template = bodies(service(name), "Deployment")[0]["spec"]["template"]
    return node(pool_of(MODELS[name])), [template]


def may_go(found: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]) -> bool:
    """Whether it would evict `pods` to remove the node, if they found a place elsewhere."""
    marked = [(pod["metadata"].get("annotations") or {}).get(SAFE_TO_EVICT) == "false" for pod in pods]
    return is_underused(found, pods, ARGUMENTS) and not any(marked)


def without_plugin(found: Mapping[str, Any]) -> dict[str, Any]:
    """The node before its device plugin answers."""
    left = {key: value for key, value in found["status"]["allocatable"].items() if not key.startswith("nvidia.com/")}
    return {**found, "status": {"allocatable": left}}


@pytest.mark.parametrize("name", sorted(pool.name for pool in POOLS))
def test_every_node_whose_gpus_are_there_counts_as_ready(name: str) -> None:
    assert is_ready(node({**SHARED, **WHOLE}[name])), "the autoscaler would make a second one, and remove this one as broken"


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_a_node_of_whole_gpus_counts_as_unready_before_its_plugin_answers(name: str) -> None:
    assert not is_ready(without_plugin(node(WHOLE[name]))), "the autoscaler would make a second one for the same pod"


@pytest.mark.parametrize("name", sorted(SHARED))
def test_the_label_of_whole_gpus_would_make_a_divided_node_broken_and_empty(name: str) -> None:
    found = node(SHARED[name])
    found["metadata"] = {"labels": {**found["metadata"]["labels"], gpu_node.AUTOSCALER_ACCELERATOR: "l4"}}
    busy = [{"metadata": {}, "spec": {"containers": [{"resources": {"requests": {"cpu": "40"}}}]}}]
    assert not is_ready(found)
    assert utilisation(found, busy) == 0


@pytest.mark.parametrize("name", sorted(MODELS))
def test_no_node_with_a_serving_replica_may_go(name: str) -> None:
    assert not may_go(*served(name)), "the autoscaler would evict a replica that answers"


def test_a_divided_node_is_judged_by_its_cpu_and_seems_empty() -> None:
    found, (replica,) = served("embeddings")
    unmarked = {**replica, "metadata": {"annotations": {}}}
    assert may_go(found, [unmarked]), "what the annotation is for"


@pytest.mark.parametrize("name", sorted(SHARED))
def test_room_kept_on_divided_gpus_keeps_its_node(name: str) -> None:
    warm = next(m.body for m in capacity.manifests([capacity.Warm(pool=SHARED[name], units=1)]) if m.role == f"warm-{name}")
    assert not may_go(node(SHARED[name]), [warm["spec"]["template"]]), "it would remove and make nodes in turns"


@pytest.mark.parametrize("name", sorted(pool.name for pool in POOLS))
def test_a_node_to_come_is_planned_with_what_it_will_offer(name: str) -> None:
    pool = {**SHARED, **WHOLE}[name]
    facts = pool.instance_type
    planned = node_to_come(facts.gpus, facts.vcpus, str(int(facts.memory)), gpu_node.scale_from_zero(pool))
    real = node(pool)["status"]["allocatable"]
    offered = {key: value for key, value in planned["status"]["allocatable"].items() if key.startswith("nvidia.com/") and value != "0"}
    assert offered == {key: value for key, value in real.items() if key.startswith("nvidia.com/")}
    assert {key: planned["metadata"]["labels"][key] for key in gpu_node.labels(pool)} == gpu_node.labels(pool)


def test_an_empty_node_of_either_kind_may_go() -> None:
    assert all(may_go(node(pool), []) for pool in POOLS)
