"""What a system pool holds, by hand: nodes of m7i.xlarge have 3,920m and some 14 GiB for pods."""

from dataclasses import replace
from typing import Any

from headway.contract.accelerators import INSTANCE_TYPES
from headway.contract.arithmetic.system_pool import Workload, daemons, nodes_for, system_room
from headway.contract.pool import SystemPool
from headway.contract.units import Bytes, MilliCpu

GI = 2**30


def pods(name: str, cpu: int, gibibytes: int = 1, **more: Any) -> Workload:
    return Workload(name=name, cpu=MilliCpu(cpu), memory=Bytes(gibibytes * GI), **more)


def pool(low: int, high: int, *, types: tuple[str, ...] = ("m7i.xlarge",), zones: str = "abc") -> SystemPool:
    given = {"name": "system", "instance_types": types, "zones": [f"eu-west-1{zone}" for zone in zones], "release": "1.36.2-20260714"}
    return SystemPool.model_validate({**given, "size": {"min": low, "max": high}})


def rules(found: list[Workload], of: SystemPool) -> list[str]:
    return [problem.rule for problem in system_room(found, of).problems]


def test_a_pool_with_room_for_everything_has_no_problem() -> None:
    assert rules([pods("one", 1000), pods("two", 500, least=2, most=4)], pool(1, 3)) == []


def test_what_runs_on_every_node_is_taken_off_each() -> None:
    every = pods("agent", 400, every_node=True, least=0, most=0)
    room = system_room([every, pods("one", 3600)], pool(1, 2))
    assert daemons([every]) == (400, GI)
    assert (room.node_cpu, room.cpu_least) == (3520, 3600)
    assert [problem.rule for problem in room.problems] == ["system-pool-holds-the-start", "system-pool-holds-the-platform"]


def test_pods_that_may_not_share_a_node_take_a_node_each() -> None:
    (problem,) = system_room([pods("loki", 100, least=3, most=3, apart=True)], pool(2, 4)).problems
    assert (problem.rule, problem.path) == ("system-pool-holds-the-start", ("size", "min"))
    assert problem.fact.endswith("2 nodes of m7i.xlarge have 7.84 and 28Gi for them, and loki find no place")
    assert problem.remedy == "Write min: 3"


def test_the_fewest_nodes_hold_what_starts_before_the_autoscaler() -> None:
    (problem,) = system_room([pods("one", 2000, least=3, most=3)], pool(1, 5)).problems
    assert problem.rule == "system-pool-holds-the-start"
    assert problem.remedy == "Write min: 3 or instance_types: [m7i.2xlarge]"


def test_pieces_that_no_node_can_hold_whole_do_not_fit_by_their_sum() -> None:
    """Three times 2.1 cores are 6.3 of 7.84, and still one of them has no place on two nodes."""
    assert rules([pods("one", 2100, least=3, most=3)], pool(2, 2)) == ["system-pool-holds-the-start", "system-pool-holds-the-platform"]


def test_memory_counts_as_cpu_does() -> None:
    assert rules([pods("one", 100, gibibytes=8, least=2, most=2)], pool(1, 3)) == ["system-pool-holds-the-start"]


def test_at_their_most_pods_fit_even_with_a_node_lost() -> None:
    (problem,) = system_room([pods("gateway", 1900, least=1, most=4)], pool(1, 2)).problems
    assert (problem.rule, problem.remedy) == ("system-pool-survives-a-node", "Write max: 3")


def test_what_its_volume_holds_in_the_lost_zone_is_told_and_not_refused() -> None:
    room = system_room([pods("prometheus", 100, least=3, most=3, volume=Bytes(2**30), by_zone=True)], pool(3, 3))
    assert room.problems == ()
    assert room.loss_most.bound == ("prometheus",)


def test_the_loss_of_a_zone_is_told() -> None:
    assert system_room([pods("one", 3000, least=2, most=2)], pool(2, 3, zones="ab")).waiting_after_zone == ("one",)
    assert system_room([pods("one", 1500, least=2, most=2)], pool(2, 4, zones="ab")).waiting_after_zone == ()


def test_the_weakest_of_several_instance_types_is_reckoned_with() -> None:
    assert system_room([pods("one", 100)], pool(1, 2, types=("m7i.2xlarge", "m7i.large"))).instance.name == "m7i.large"


def test_zones_may_differ_by_one_pod_where_they_must() -> None:
    """Eight of 1.2 cores fit on three nodes, but of two zones the one with a single node holds three, so the other may hold four."""
    found = [pods("istiod", 1200, least=8, most=8)]
    m7i = INSTANCE_TYPES["m7i.xlarge"]
    assert nodes_for(found, m7i, 2, most=True) == 3
    assert nodes_for([replace(each, by_zone=True) for each in found], m7i, 2, most=True) == 4


def test_a_pod_that_no_node_can_hold_is_refused_with_a_larger_type() -> None:
    problems = system_room([pods("one", 5000)], pool(1, 3)).problems
    assert [problem.remedy for problem in problems] == ["Write instance_types: [m7i.2xlarge]"] * 2
