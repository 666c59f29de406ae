"""The sums of the system pool are those of what the program registers, in every environment; and they are refused where
they do not fit.
"""

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.addons import chart_pods
from components.addons.placement import ON_SYSTEM_NODES
from components.cluster.addons import BEFORE_NODES, ON_NODES
from components.manifests import Manifest
from components.platform import artifact_cache, capacity, footprint
from headway.contract.arithmetic.node import DAEMONS_CPU, DAEMONS_MEMORY
from headway.contract.arithmetic.system_pool import Workload, daemons
from headway.contract.units import Bytes, MilliCpu
from policies.guardrails.registry import RULES
from stacks import footprint as sums
from stacks.settings import ClusterSettings, PlatformSettings, load
from stacks.settings_error import SettingsError
from tests.components.contracts import POOLS
from tests.components.program import PROJECT, config_of, run

ENVIRONMENTS = ("dev", "prod", "sandbox", "staging")
LOOPS = json.dumps({"image": f"registry.example.com/headway@sha256:{'a' * 64}"})
RELEASE = "kubernetes:helm.sh/v3:Release"
DEPLOYMENT = "kubernetes:apps/v1:Deployment"


def settings(environment: str) -> PlatformSettings:
    found = load(f"{environment}-platform", config_of(f"{environment}-platform"))
    assert isinstance(found, PlatformSettings)
    return found


def summed(environment: str) -> tuple[Workload, ...]:
    found = settings(environment)
    return sums.workloads(found)


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_the_sums_count_what_the_program_registers(environment: str) -> None:
    stack = f"{environment}-platform"
    found = run(stack, config={**config_of(stack), "headway:loops": LOOPS})
    registered = [each for r in found.of_type(RELEASE) for each in chart_pods.workloads(r.inputs["chart"], r.inputs["values"])]
    registered += footprint.own_workloads(Manifest(role=r.name, body={**r.inputs, "kind": "Deployment"}) for r in found.of_type(DEPLOYMENT))
    given = settings(environment)
    addons = footprint.eks_addons(given.system_pool, given.pools)
    assert sorted(registered, key=str) == sorted(set(summed(environment)) - set(addons), key=str)


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_every_environment_has_room_for_all_of_it(environment: str) -> None:
    found = settings(environment)
    assert sums.room(found).problems == ()


def test_every_eks_addon_is_counted() -> None:
    found = settings("prod")
    names = {each.name for each in footprint.eks_addons(found.system_pool, found.pools)}
    pods = {"aws-ebs-csi-driver": {"ebs-csi-controller", "ebs-csi-node"}, "vpc-cni": {"aws-node"}}
    assert names == {name for addon in (*BEFORE_NODES, *ON_NODES) for name in pods.get(addon, {addon})}


def test_an_eks_addon_requests_what_its_public_chart_says() -> None:
    found = settings("dev")
    assert {each.name: (int(each.cpu), each.memory // 2**20) for each in footprint.eks_addons(found.system_pool, found.pools)} == {
        "aws-node": (50, 0),
        "coredns": (100, 70),
        "ebs-csi-controller": (50, 192),
        "ebs-csi-node": (30, 104),
        "eks-node-monitoring-agent": (10, 30),
        "eks-pod-identity-agent": (0, 0),
        "kube-proxy": (100, 0),
        "metrics-server": (100, 200),
    }


def test_nothing_that_is_counted_may_run_elsewhere() -> None:
    """Each GPU pool is tainted, so what names no node can only run on the system pool."""
    names = {
        body["metadata"]["name"] for body in own_deployments() if body["spec"]["template"]["spec"]["nodeSelector"] != dict(ON_SYSTEM_NODES)
    }
    assert all(name.startswith("warm-") for name in names)


def own_deployments() -> list[dict[str, Any]]:
    return [dict(r.inputs) for r in run("prod-platform").of_type(DEPLOYMENT)]


def test_dns_grows_with_the_nodes() -> None:
    prod, dev = settings("prod"), settings("dev")
    counted = [
        next(each for each in footprint.eks_addons(found.system_pool, found.pools) if each.name == "coredns") for found in (dev, prod)
    ]
    assert [(each.least, each.most) for each in counted] == [(2, 2), (2, 10)]


def test_what_a_gpu_node_is_charged_for_daemons_covers_them() -> None:
    cpu, memory = daemons(summed("prod"))
    latency = next(pool for pool in POOLS if artifact_cache.kept_on(pool))
    cache = artifact_cache.manifests("image", "region", [artifact_cache.NodeCache(pool=latency, room=Bytes(2**30))])
    prefetch = capacity.manifests([capacity.Warm(pool=latency, units=0, images=("image",))])
    for manifest in (*cache, *prefetch):
        if manifest.kind == "DaemonSet":
            for container in manifest.body["spec"]["template"]["spec"]["containers"]:
                asked = container["resources"]["requests"]
                cpu, memory = MilliCpu(cpu + MilliCpu.parse(asked["cpu"])), Bytes(memory + Bytes.parse(asked["memory"]))
    assert cpu <= DAEMONS_CPU <= cpu + 50
    assert memory <= DAEMONS_MEMORY <= memory + 50 * 2**20


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_the_policy_asks_for_what_the_sums_say(environment: str) -> None:
    rule = next(rule for rule in RULES if rule.id == "system-nodes-hold-the-platform")
    configured: dict[str, Any] = json.loads((PROJECT / "policies/config" / f"{environment}.json").read_text())
    asked = {**rule.defaults, **configured.get(rule.id, {})}
    found = settings(environment)
    room = sums.room(found)
    node_cpu, node_memory = daemons(summed(environment))
    needed = {
        "fewestMebibytes": room.memory_least // 2**20,
        "fewestMillicores": int(room.cpu_least),
        "mostMebibytes": room.memory_most // 2**20,
        "mostMillicores": int(room.cpu_most),
        "nodeMebibytes": node_memory // 2**20,
        "nodeMillicores": int(node_cpu),
        "nodes": 3,
    }
    assert {name: value for name, value in needed.items() if asked[name] < value} == {}


SMALL = {"instance_types": ["m7i.large"], "size": {"min": 2, "max": 4}}


def small(environment: str) -> dict[str, str]:
    """The cluster layer's configuration with the system pool that dev once had."""
    given = config_of(f"{environment}-cluster")
    return {**given, "headway:system_pool": json.dumps({**json.loads(given["headway:system_pool"]), **SMALL})}


def test_a_cluster_layer_whose_platform_does_not_fit_is_not_planned() -> None:
    with pytest.raises(SettingsError) as refused:
        load("dev-cluster", small("dev"))
    assert [problem.dotted for problem in refused.value.problems] == ["headway:system_pool.size.max", "headway:system_pool.size.min"]
    assert "which take" not in str(refused.value)
    assert "m7i.xlarge" in refused.value.problems[0].remedy


def test_a_platform_layer_that_does_not_fit_is_not_planned(tmp_path: Any) -> None:
    cluster = {key: json.loads(text) if text[:1] in "[{" else text for key, text in small("dev").items()}
    (tmp_path / "Pulumi.dev-cluster.yaml").write_text(yaml.safe_dump({"config": cluster}))
    with pytest.raises(SettingsError) as refused:
        load("dev-platform", config_of("dev-platform"), tmp_path)
    assert {problem.rule for problem in refused.value.problems} == {"system-pool-holds-the-platform", "system-pool-holds-the-start"}


def test_a_cluster_layer_without_a_platform_is_planned(tmp_path: Any) -> None:
    assert isinstance(load("dev-cluster", small("dev"), tmp_path), ClusterSettings)


def test_a_chart_whose_values_say_no_request_is_not_counted_as_nothing() -> None:
    with pytest.raises(KeyError):
        chart_pods.workloads("keda", {"resources": {}})


@pytest.mark.parametrize(
    ("words", "instead", "rule", "path"),
    [
        ("zones: [us-east-1a, us-east-1b]", "zones: [us-east-1x]", "pool-in-network", ["headway:pools", 0, "zones"]),
        ("name: h100", "name: l4", "pool-named-once", ["headway:pools"]),
        ('id: "000000000000"', "id: 000000000001", "", ["headway:account", "id"]),
    ],
)
def test_what_the_cluster_layer_would_refuse_is_told_once_and_of_its_own_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str, instead: str, rule: str, path: list[str | int]
) -> None:
    for layer in ("cluster", "platform"):
        name = f"Pulumi.sandbox-{layer}.yaml"
        text = (PROJECT / "stacks" / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(text.replace(words, instead, 1), encoding="utf-8")
    sums._main("sandbox", tmp_path, date(2026, 11, 29))  # pyright: ignore[reportPrivateUsage]
    (found,) = [each for each in json.loads(capsys.readouterr().out)["problems"] if each["level"] == "error"]
    assert (found["file"], found["rule"], found["path"]) == ("Pulumi.sandbox-cluster.yaml", rule, path)
    assert rule or found["fact"] == "it is no text"
