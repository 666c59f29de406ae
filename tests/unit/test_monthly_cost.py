"""The month of an environment: every paid thing once, by hand-reckoned prices, and nothing without its date."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from headway.capacity.described import Described, described
from headway.cli.cost import cost as command
from headway.contract.arithmetic.month import USES, cluster_month, disk_month, platform_month, used_month
from headway.contract.arithmetic.system_pool import Workload
from headway.contract.pool import Pool
from headway.contract.pool_parts import Disk
from headway.contract.units import Bytes, MilliCpu, Throughput
from headway.problem import Exit, UserError

ROOT = Path(__file__).parents[2]


def dev(**changes: Any) -> Described:
    return described(ROOT, "dev-cluster")[1].model_copy(update=changes)


def months(found: Described) -> dict[str, tuple[int, int, str]]:
    return {item.what: (item.fewest, item.most, f"{item.month.dollars:.2f}") for item in cluster_month(found.billed).items}


def pool(**changes: Any) -> Pool:
    given: dict[str, Any] = {
        "name": "h100",
        "instance_types": ["p5.48xlarge"],
        "zones": ["us-west-2a", "us-west-2b"],
        "size": {"min": 1, "max": 3},
        "workload_class": "throughput",
        "ami": {"release": "1.36.2-20260714", "driver": "580.159.03"},
    }
    return Pool(**{**given, **changes})


def test_an_environment_is_reckoned_from_its_stack_file() -> None:
    assert months(dev()) == {
        "system nodes": (3, 6, "155.17"),  # 0.2016 x 730 h + 100 GiB x 0.08
        "l4 nodes": (0, 2, "763.65"),  # 0.9776 x 730 h + 200 GiB x 0.08 + 3,000 x 0.005 + 475 x 0.04
        "l4-batch nodes": (0, 4, "335.46"),  # two zones, at 40 % of the price
        "control plane": (1, 1, "73.00"),
        "NAT gateways": (1, 1, "32.85"),
        "public addresses": (1, 1, "3.65"),
        "endpoint interfaces": (8, 8, "7.30"),  # four services in two zones; s3 is free
        "keys": (4, 4, "1.00"),
    }


def test_together_is_every_line_at_its_fewest_and_at_its_most() -> None:
    found = cluster_month(dev().billed)
    around = 73 + 32.85 + 3.65 + 8 * 7.3 + 4
    assert float(found.least.dollars) == pytest.approx(3 * 155.168 + around)
    assert float(found.greatest.dollars) == pytest.approx(6 * 155.168 + 2 * 1015.936 + 4 * 436.3744 + around), (
        "at most every node is a g6.4xlarge"
    )


@pytest.mark.parametrize(("nat", "gateways"), [("none", None), ("single", 1), ("per-zone", 2), ("regional", 2)])
def test_each_way_out_is_paid_by_zone(nat: str, gateways: int | None) -> None:
    found = months(dev(nat=nat))
    assert found.get("NAT gateways", (None,))[0] == gateways == found.get("public addresses", (None,))[0]


def test_extended_support_costs_six_times_the_control_plane() -> None:
    assert months(dev(support="EXTENDED"))["control plane"][2] == "438.00"


@pytest.mark.parametrize(
    ("warm", "each"), [({"size": 1}, "50.00"), ({"size": 1, "state": "running"}, "40229.20")], ids=["stopped", "running"]
)
def test_a_warm_node_costs_its_disk_and_if_it_runs_its_instance(warm: dict[str, Any], each: str) -> None:
    assert months(dev(pools=(pool(warm=warm, model_cache="disk"),)))["h100 warm nodes"] == (2, 2, each)


def test_a_reservation_says_that_it_is_paid_though_it_stands_idle() -> None:
    reserved = pool(zones=["us-west-2a"], capacity={"kind": "reservation", "id": "cr-0123456789abcdef0"})
    (line,) = [item.how for item in cluster_month(dev(pools=(reserved,)).billed).items if item.what == "h100 nodes"]
    assert "paid though it stands idle" in line


def test_a_disk_costs_what_it_holds_and_what_it_does_beyond_what_comes_with_it() -> None:
    plain = Disk(size=Bytes(100 * 2**30), iops=3_000, throughput=Throughput.parse("125Mi/s"))
    assert str(disk_month(plain)) == "8 USD"
    fast = Disk(size=Bytes(100 * 2**30), iops=4_000, throughput=Throughput.parse("225Mi/s"))
    assert str(disk_month(fast)) == "17 USD"


def kept(**changes: Any) -> Workload:
    given: dict[str, Any] = {
        "name": "store",
        "cpu": MilliCpu(100),
        "memory": Bytes(2**30),
        "least": 2,
        "most": 3,
        "volume": Bytes(10 * 2**30),
    }
    return Workload(**{**given, **changes})


def test_each_replica_with_a_volume_pays_for_its_own() -> None:
    (volumes, _) = platform_month([kept(), kept(name="plain", volume=Bytes(0))], zones=2, public=False).items
    assert (volumes.what, volumes.fewest, volumes.most, str(volumes.month)) == ("store volumes", 2, 3, "0.8 USD")


@pytest.mark.parametrize(("public", "sum_"), [(False, "16.425 USD"), (True, "27.375 USD")], ids=["inside", "public"])
def test_a_public_load_balancer_pays_for_an_address_in_each_zone_too(public: bool, sum_: str) -> None:
    assert str(platform_month([], zones=3, public=public).least) == sum_


@pytest.mark.parametrize(("use", "dollars"), [("nat", "92.16"), ("logs", "1024"), ("objects", "47.104"), ("internet", "184.32")])
def test_what_is_paid_by_use_costs_its_price_for_each_gibibyte(use: str, dollars: str) -> None:
    assert str(used_month({use: Bytes(2 * 2**40)}).greatest) == f"{dollars} USD"


def test_the_sums_of_a_stack_say_dollars_and_the_date_of_the_prices() -> None:
    assert cluster_month(dev().billed).said == {
        "at_least": "637 USD",
        "at_most": "4,880 USD",
        "prices": "list, us-east-1, 2026-01-19",
    }


def run(*words: str) -> Any:
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, ["--project", str(ROOT), *words])


def test_the_command_says_that_prices_are_list_prices_and_of_when() -> None:
    text = run("--stack", "prod-cluster").output
    assert "List prices of us-east-1 as of 2026-01-19" in " ".join(text.split())
    record = json.loads(run("--stack", "prod-cluster", "--output", "json").output)
    assert (record["prices"]["kind"], record["prices"]["as_of"], record["region"]) == ("list", "2026-01-19", "us-west-2")
    assert record["month"]["least"] == pytest.approx(sum(item["month"]["least"] for item in record["items"]), abs=0.1)
    assert record["not_included"]


def test_an_environment_is_the_sum_of_its_layers() -> None:
    least = [
        json.loads(run(*asked, "--output", "json").output)["month"]["least"]
        for asked in (["-s", "prod-cluster"], ["-s", "prod-platform"], ["-e", "prod"])
    ]
    assert least[0] + least[1] == pytest.approx(least[2], abs=0.02)


def test_an_environment_says_how_many_system_nodes_the_platform_needs() -> None:
    system = json.loads(run("-e", "dev", "--output", "json").output)["items"][0]
    assert re.fullmatch(r"m7i.xlarge; the platform's pods need \d( to \d)?", system["how"])


def test_an_amount_that_is_named_is_counted_and_no_longer_listed_as_left_out() -> None:
    record = json.loads(run("-s", "dev-cluster", "--use", "nat=100Gi", "--output", "json").output)
    assert record["items"][-1] == {
        "what": "nat",
        "fewest": 1,
        "most": 1,
        "month_each": 4.5,
        "month": {"least": 4.5, "greatest": 4.5},
        "how": "100Gi through NAT gateways",
    }
    assert sorted(record["by_use"]) == sorted(set(USES) - {"nat"})


@pytest.mark.parametrize(
    "words",
    [["--use", "water=2Ti"], ["--use", "nat"], ["--use", "nat=some"], ["--use", "nat=1Gi", "--use", "nat=2Gi"]],
    ids=["unknown", "no amount", "no number", "twice"],
)
def test_an_amount_that_says_nothing_is_refused_with_what_there_is(words: list[str]) -> None:
    refused = run("-s", "dev-cluster", *words)
    assert isinstance(refused.exception, UserError)
    assert refused.exception.exit is Exit.USAGE
    assert "objects, zones" in refused.exception.remedy


@pytest.mark.parametrize("words", [[], ["-s", "dev-cluster", "-e", "dev"]], ids=["nothing", "both"])
def test_either_a_layer_or_an_environment_is_asked_for(words: list[str]) -> None:
    refused = run(*words)
    assert isinstance(refused.exception, UserError)
    assert refused.exception.exit is Exit.USAGE


@pytest.mark.parametrize(
    ("stack", "told"),
    [("prod-platform", "dev-cluster, prod-cluster"), ("nowhere-cluster", "Name one of dev, prod"), ("prod", "dev-cluster, prod-cluster")],
)
def test_another_stack_is_refused_with_those_there_are(stack: str, told: str) -> None:
    with pytest.raises(UserError, match=told) as raised:
        described(ROOT, stack)
    assert raised.value.exit is Exit.USAGE


def test_a_description_that_cannot_stand_is_refused_with_every_place(tmp_path: Path) -> None:
    (tmp_path / "stacks").mkdir()
    text = (ROOT / "stacks" / "Pulumi.dev-cluster.yaml").read_text()
    (tmp_path / "stacks" / "Pulumi.dev-cluster.yaml").write_text(
        text.replace("nat: single", "nat: double").replace("instance_types: [m7i.xlarge]", "instance_types: [z9.huge]")
    )
    with pytest.raises(UserError) as raised:
        described(tmp_path, "dev-cluster")
    assert "Pulumi.dev-cluster.yaml:9:5 nat" in raised.value.fact
    assert "system_pool.instance_types[0]" in raised.value.fact
