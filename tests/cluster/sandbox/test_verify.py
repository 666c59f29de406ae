"""`headway verify` in a sandbox with monitoring and the Cluster Autoscaler, whose stack file has one pool more, at zero."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from sandbox.cluster.toolchain import ensure_toolchain
from sandbox.environment import Sandbox as Port
from sandbox.extras import EXTRAS
from sandbox.layout import Layout
from sandbox.progress import Silent
from tests.cluster.command import PROJECT, Sandbox
from tests.cluster.conftest import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]

WATCHED = ("cluster-autoscaler", "monitoring")
STACK = "stacks/Pulumi.sandbox-cluster.yaml"
IDLE = """    - name: l4-batch
      instance_types: [g6.2xlarge]
      zones: [us-east-1a]
      capacity: {kind: spot}
      size: {min: 0, max: 1}
      workload_class: batch
"""
EVERY = ("scrapes", "mig", "identity", "dns", "packets", "alerts", "scale", "gpu-pods")
"""Without `mesh`, which the traffic's processes show, and `release`: nobody has released anything."""


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    ensure_toolchain(Layout.of(PROJECT), Silent(), [tool_set for name in WATCHED for tool_set in EXTRAS[name].tool_sets])
    found = Sandbox(tmp_path_factory.mktemp("verified"))
    file = found.project / STACK
    text = file.read_text(encoding="utf-8")
    (image,) = set(re.findall(r"^      ami: .*\n", text, re.MULTILINE))
    file.write_text(text.replace("    - name: a100-mig\n", f"{IDLE}{image}    - name: a100-mig\n", 1), encoding="utf-8")
    try:
        code, output = found.run("sandbox", "up", "--with", ",".join(WATCHED), HEADWAY_SANDBOX_SCALING_SPEED="60")
        assert code == 0, output
        yield found
    finally:
        found.run("sandbox", "down")


@pytest.fixture(scope="module")
def verified(sandbox: Sandbox) -> tuple[int, dict[str, Any]]:
    """Exit code, and the attestation."""
    kept = sandbox.state / "verification.json"
    only = [word for name in EVERY for word in ("--only", name)]
    code, output = sandbox.run("verify", "--environment", "sandbox", "--keep", str(kept), *only)
    assert kept.exists(), output
    return code, json.loads(kept.read_text(encoding="utf-8"))


def check(verified: tuple[int, dict[str, Any]], name: str) -> dict[str, Any]:
    (found,) = [each for each in verified[1]["checks"] if each["check"] == name]
    return found


def test_a_verification_of_a_sandbox_that_is_whole_ends_well(verified: tuple[int, dict[str, Any]]) -> None:
    assert verified[0] == 0, [each for each in verified[1]["checks"] if each["problems"] or each["unanswered"]]
    assert {each["check"] for each in verified[1]["checks"]} == set(EVERY)


def test_a_pool_at_zero_gets_a_node_and_gives_it_back(verified: tuple[int, dict[str, Any]]) -> None:
    scale = check(verified, "scale")
    assert scale["state"] == "passed"
    assert re.fullmatch(r"Pool l4-batch had no node, and one \d+ s after a pod asked\.", scale["evidence"][0])
    assert re.fullmatch(r"It was gone \d+ s after the pod had ended\.", scale["evidence"][1])


def test_every_receiver_takes_an_alert_that_says_it_is_a_test(verified: tuple[int, dict[str, Any]], sandbox: Sandbox) -> None:
    assert check(verified, "alerts")["state"] == "passed"
    told = (sandbox.layout.state / "monitoring/notifications.jsonl").read_text(encoding="utf-8")
    assert "HeadwayVerify" in told


@pytest.mark.parametrize("name", ["dns", "packets", "identity", "gpu-pods"])
def test_what_no_sandbox_can_show_is_not_called_passed(verified: tuple[int, dict[str, Any]], name: str) -> None:
    assert check(verified, name)["state"] == "not shown here"


def test_without_its_autoscaler_a_sandbox_says_that_no_node_comes(verified: tuple[int, dict[str, Any]], sandbox: Sandbox) -> None:
    port = Port(sandbox.project)
    port.layout = sandbox.layout
    assert port.nodes_can_be_added
    sandbox.kill("cluster-autoscaler")
    eventually(lambda: not port.nodes_can_be_added)
