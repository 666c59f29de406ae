"""Replicas that span nodes: what a node holds, what the group is charged, and when it can never be complete."""

from typing import Any

import pytest

from headway.contract.arithmetic.fit import fit
from headway.contract.arithmetic.quota import quota_use, scarcest_of_quota
from headway.contract.arithmetic.surge import Room, replicas_held, spare_for, surge
from headway.contract.crosscheck import TenantContracts, check_pools, check_without_pools
from headway.contract.model import Model
from headway.problem import Problem, ProblemLevel
from tests.contract_samples import ASSIST, CHAT, H100_POOL, SPANNING, model, pool, tenant

WIDE = {"quota/gpus": {"h100": 99}, "quota/cpu": "5000", "quota/memory": "90Ti", "quota/gpu_memory": "90Ti"}


def group(nodes: int = 2, **changes: Any) -> Model:
    return model(CHAT, **{**SPANNING, "pipeline": {"nodes": nodes}}, **changes)


def on(each: Model, size: int, zones: str = "a") -> dict[str, Problem]:
    nodes = pool(H100_POOL, size={"max": size}, zones=[f"us-west-2{zone}" for zone in zones])
    return {problem.rule: problem for problem in check_pools([TenantContracts(tenant(ASSIST, **WIDE), (each,))], [nodes])}


def test_a_node_holds_its_layers_and_the_embedding_or_the_logits() -> None:
    weights = 4_976_698_672 + 4_999_802_720 + 4_915_916_176 + 1_168_138_808
    embedding = 128_256 * 4096 * 2
    for nodes, layers in ((2, 16), (3, 11), (5, 7)):
        of_a_node = embedding + (weights - embedding) * layers // 32
        assert fit(group(nodes)).lines[0].amount == of_a_node // 8


def test_more_nodes_hold_more_requests_at_once() -> None:
    one, two = fit(model(CHAT, envelope__gpu__count=8, optimisation={})), fit(group())
    assert one.sequences
    assert two.sequences
    assert two.sequences > 2 * one.sequences, "half of the layers, and room that weights no longer take"


def test_windowed_layers_are_divided_too() -> None:
    windowed = group(4, runtime__architecture__sliding_window={"tokens": 512, "layers": 24})
    cache = next(line.why for line in fit(windowed).lines if line.what == "KV cache, one request")
    assert "2 layers x 16384 tokens + 6 layers x " in cache


def test_a_replica_is_charged_for_all_of_its_nodes() -> None:
    owner, spanning = tenant(ASSIST, **WIDE), group()
    uses = {".".join(use.path[1:]): (use.used, use.lines[0].why) for use in quota_use(owner, [spanning]) if use.used}
    assert uses["gpus.h100"] == (3 * 2 * 8, "8 x 3 replicas x 2 nodes")
    assert scarcest_of_quota(owner, [spanning], spanning) == (48, "quota.gpus.h100"), "51 are left, and a group takes 16"
    assert surge(spanning, 48).room is Room.SURGE
    assert surge(spanning, 47).room is Room.BORROW


@pytest.mark.parametrize(("zones", "size", "held"), [("a", 1, 0), ("a", 2, 1), ("a", 5, 2), ("ab", 5, 4), ("ab", 1, 0)])
def test_nodes_of_a_group_are_all_in_one_zone(zones: str, size: int, held: int) -> None:
    nodes = pool(H100_POOL, size={"max": size}, zones=[f"us-west-2{zone}" for zone in zones])
    assert replicas_held(group(), nodes) == held
    assert spare_for(group(scaling__max_replicas=1), nodes, [group(scaling__max_replicas=1)]) == (held - 1) * 16


def test_a_group_that_no_zone_can_hold_is_refused_before_an_apply() -> None:
    refused = on(group(), 1, "ab")["replica-fits-into-a-zone"]
    assert (refused.dotted, refused.level) == ("pipeline.nodes", ProblemLevel.ERROR)
    assert "replica-fits-into-a-zone" not in on(group(), 2)


def test_a_peak_that_zones_cannot_hold_in_whole_groups_is_told() -> None:
    assert "2 of this model's replicas" in on(group(), 3)["pool-holds-the-maximum"].fact, "three groups of two, on three nodes"
    assert "pool-holds-the-maximum" not in on(group(), 6)


def test_a_group_takes_all_gpus_of_its_nodes() -> None:
    assert on(group(envelope__gpu__count=4), 8)["pipeline-takes-whole-nodes"].dotted == "envelope.gpu.count"
    assert "pipeline-takes-whole-nodes" not in on(group(), 8)


def test_no_environment_takes_a_group_and_a_plain_check_says_so() -> None:
    plain = check_without_pools([TenantContracts(tenant(ASSIST), (group(),))])
    assert [(each.rule, each.level) for each in plain] == [("pipeline-is-judged-only", ProblemLevel.WARNING)]
    assert on(group(), 8)["pipeline-is-judged-only"].level is ProblemLevel.ERROR
