"""Prompts read by replicas of their own: what the role is charged, what it asks of a network, and where its faults are told."""

import copy
from collections.abc import Callable

import pytest

from headway.contract.arithmetic.apart import FLOW, apart
from headway.contract.arithmetic.fit import fit
from headway.contract.arithmetic.quota import quota_use
from headway.contract.crosscheck import TenantContracts, check_model, check_pools, check_without_pools
from headway.contract.model import Model
from headway.contract.roles import prefill_of, roles_of
from headway.contract.units import Bytes, Throughput
from headway.problem import Problem, ProblemLevel
from tests.contract_samples import ASSIST, CHAT, DEFECTS, H100_POOL, PREFILL, model, pool, tenant

MI, GI = 2**20, 2**30
L40S = {"share": "whole", "accelerator": "l40s", "memory": "40Gi"}
WIDE = {"quota/gpus": {"h100": 9, "l40s": 9}, "quota/cpu": "500", "quota/memory": "9Ti", "quota/gpu_memory": "9Ti"}
L40S_POOL = {**H100_POOL, "name": "l40s", "instance_types": ["g6e.4xlarge"], "size": {"max": 9}}


def together(**changes: object) -> Model:
    return model(CHAT, prefill=copy.deepcopy(PREFILL), **changes)


def on(pools: list[dict[str, object]], each: Model) -> dict[str, Problem]:
    found = check_pools([TenantContracts(tenant(ASSIST, **WIDE), (each,))], [pool(one) for one in pools])
    return {problem.rule: problem for problem in found}


def test_a_model_whose_replicas_are_alike_has_one_role() -> None:
    assert prefill_of(model(DEFECTS)) is None
    assert roles_of(model(CHAT)) == (model(CHAT),)
    assert apart(model(CHAT)) is None


def test_replicas_that_read_prompts_are_charged_beside_the_others() -> None:
    contracts = TenantContracts(tenant(ASSIST), (together(),))
    used = {".".join(use.path[1:]): use.used for use in quota_use(contracts.tenant, contracts.roles)}
    assert used["gpus.h100"] == 3 + 2
    assert used["memory"] == 5 * (96 * GI + 128 * MI + 64 * MI)


def test_memory_of_prefill_is_that_of_its_own_batches_and_gpus() -> None:
    prefill = prefill_of(together(prefill__gpu__count=2))
    assert prefill
    activations = next(line.amount for line in fit(prefill).lines if line.what == "activations")
    assert activations == Bytes(16_384 * 4096 * 2 * (3 * 2 + 9) // 2)


@pytest.mark.parametrize(("gpus", "kv_heads", "times"), [(1, 8, 1), (4, 8, 1), (4, 2, 0.5), (8, 4, 1)])
def test_each_gpu_of_decode_reads_the_heads_that_it_keeps(gpus: int, kv_heads: int, times: float) -> None:
    found = apart(together(envelope__gpu__count=gpus, runtime__architecture__kv_heads=kv_heads))
    assert found
    blocks_of_3000 = 188 * 16
    assert found.lines[3].amount == Bytes(int(2 * 8 * 128 * 32 * blocks_of_3000 * times))


def test_a_transfer_is_no_faster_than_a_flow_for_each_pair_of_gpus() -> None:
    one, four = apart(together()), apart(together(prefill__gpu__count=4))
    assert one
    assert four
    assert int(one.mean) == 188 * MI * 1_000_000 // int(FLOW)
    assert int(four.mean) == pytest.approx(int(one.mean) / 4, abs=1)


@pytest.mark.parametrize(
    ("node", "rate"),
    [("p5.48xlarge", 12_500_000_000), ("p5en.48xlarge", 25_000_000_000), ("g6e.48xlarge", 12_500_000_000), ("g6.xlarge", 312_500_000)],
)
def test_pods_have_one_network_card_of_a_node(node: str, rate: int) -> None:
    from headway.contract.accelerators import INSTANCE_TYPES

    assert INSTANCE_TYPES[node].pods_network == Throughput(rate)


def test_a_node_that_cannot_carry_the_caches_of_its_prompts_is_refused() -> None:
    small = together(envelope__gpu=L40S, prefill__gpu=L40S, optimisation={}, scaling__capacity="8/s", prefill__prompt_tokens=8000)
    found = on([L40S_POOL], small)["kv-caches-have-a-network"]
    assert found.dotted == "envelope.gpu"
    assert "read by decode (1 replicas on g6e.4xlarge" in found.fact
    assert "kv-caches-have-a-network" not in on([H100_POOL], together())


def test_no_environment_takes_the_form_and_a_plain_check_says_so() -> None:
    contracts = [TenantContracts(tenant(ASSIST), (together(),))]
    assert [(each.rule, each.level) for each in check_without_pools(contracts)] == [("prefill-is-judged-only", ProblemLevel.WARNING)]
    assert on([H100_POOL], together())["prefill-is-judged-only"].level is ProblemLevel.ERROR
    assert list(check_without_pools([TenantContracts(tenant(ASSIST), (model(CHAT),))])) == []


@pytest.mark.parametrize(
    ("rule", "path", "of"),
    [
        ("fits-into-gpu-memory", "prefill.gpu.memory", lambda: check_model("assist", together(prefill__gpu__memory="10Gi"))),
        ("fits-into-ram", "prefill.memory", lambda: check_model("assist", together(prefill__memory="6Gi", prefill__shared_memory="0B"))),
        ("gpus-of-a-replica-share-memory", "prefill.shared_memory", lambda: check_model("assist", _pair())),
        ("pool-offers-the-envelope", "prefill.gpu", lambda: on([H100_POOL], _elsewhere()).values()),
        ("pool-offers-the-envelope", "prefill.pool", lambda: on([H100_POOL], together(prefill__pool="other")).values()),
        ("replica-fits-on-a-node", "prefill.cpu", lambda: on([H100_POOL], together(prefill__cpu="192")).values()),
        ("pool-holds-the-maximum", "prefill.max_replicas", lambda: on([H100_POOL], together(prefill__max_replicas=9)).values()),
    ],
)
def test_what_is_wrong_with_prefill_is_told_in_its_section(rule: str, path: str, of: Callable[[], list[Problem]]) -> None:
    assert path in [each.dotted for each in of() if each.rule == rule]


def _pair() -> Model:
    return together(prefill__gpu__count=2, prefill__shared_memory="0B")


def _elsewhere() -> Model:
    return together(prefill__gpu={"share": "whole", "accelerator": "h200", "memory": "72Gi"})
