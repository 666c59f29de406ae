"""With a mirror, nothing of the platform layer comes from anybody else's registry; without NAT, there must be one."""

import json
import re
from typing import Any

import pytest
import yaml

from components import versions
from stacks.settings import load
from stacks.settings_error import SettingsError
from tests.components.program import config_of, run

MIRROR = "333333333333.dkr.ecr.eu-west-1.amazonaws.com/headway/mirror"
HOSTS = {image.partition("/")[0] for chart in versions.CHARTS for image in chart.images} | {
    image.partition("/")[0] for image in versions.OWN_IMAGES
}
FOREIGN = re.compile(
    "|".join(sorted([*map(re.escape, HOSTS), r"helm\.ngc\.nvidia\.com", r"[a-z.-]+\.github\.io", "googleapis.com/charts"]))
)
WITH_NAT_NONE: dict[str, Any] = {
    "nat": "none",
    "endpoints": ["autoscaling", "ec2", "ecr.api", "ecr.dkr", "eks", "eks-auth", "elasticloadbalancing", "kms", "logs", "s3", "ssm", "sts"],
}


def platform(mirror: str | None, image: str | None = None) -> dict[str, str]:
    """Prod with everything that it may install: an authority of its own brings cert-manager. The loops' image is in the mirror where no
    other is given."""
    given = config_of("prod-platform")
    changed = {
        "headway:gateway": {**json.loads(given["headway:gateway"]), "authority": {"kind": "own", "secret": "authority"}},
        "headway:loops": {"image": image or f"{mirror or 'registry.example.com'}/headway@sha256:{'a' * 64}"},
        "headway:registry": {"mirror": mirror},
    }
    return {**given, **{key: json.dumps(value) for key, value in changed.items()}}


def test_nothing_foreign_is_registered_with_a_mirror() -> None:
    found = run("prod-platform", config=platform(MIRROR))
    texts = {r.name: json.dumps(dict(r.inputs), default=str) for r in found.registrations}
    # What is prefetched is what contracts of models name: their images are their teams', and named by digest there.
    foreign = {
        name: match[0] for name, text in texts.items() if (match := FOREIGN.search(text)) and not name.startswith("capacity-prefetch")
    }
    assert foreign == {}


def test_the_meshs_proxies_may_come_from_the_mirror_and_from_nowhere_else() -> None:
    """Their image has a tag, because istiod writes it; admission knows it by its place."""
    found = run("prod-platform", config=platform(MIRROR)).registrations
    (rule,) = [r for r in found if r.name == "admission-images-by-digest"]
    assert f"c.image.startsWith('{MIRROR}/images/istio/proxyv2:')" in json.dumps(dict(rule.inputs))


def test_charts_come_from_the_mirror_as_artifacts_and_without_a_repository() -> None:
    releases = run("prod-platform", config=platform(MIRROR)).of_type("kubernetes:helm.sh/v3:Release")
    assert {r.inputs["chart"] for r in releases} == {f"oci://{MIRROR}/charts/{chart.chart}" for chart in versions.CHARTS}
    assert not [r.name for r in releases if r.inputs.get("repositoryOpts")]


@pytest.mark.parametrize("maker", ["https://helm.ngc.nvidia.com", "docker.io/envoyproxy", "registry.k8s.io/pause", "nvcr.io/nvidia/"])
def test_without_a_mirror_the_same_search_finds_the_makers(maker: str) -> None:
    found = json.dumps([dict(r.inputs) for r in run("prod-platform", config=platform(None)).registrations], default=str)
    assert maker in found
    assert FOREIGN.search(maker)


def without_nat(tmp_path: Any, mirror: str | None) -> None:
    """The stack files of prod without NAT, read as both layers."""
    for layer in ("cluster", "platform"):
        config: dict[str, Any] = {key: json.loads(text) if text[:1] in "[{" else text for key, text in config_of(f"prod-{layer}").items()}
        if layer == "cluster":
            config["headway:network"] = {**config["headway:network"], **WITH_NAT_NONE}
        else:
            config["headway:registry"] = {"mirror": mirror}
            config["headway:loops"] = {"image": f"{mirror or 'registry.example.com'}/headway@sha256:{'a' * 64}"}
            # A public authority is out of reach then, and refused.
            config["headway:gateway"] = {**config["headway:gateway"], "authority": {"kind": "own", "secret": "authority"}}
        (tmp_path / f"Pulumi.prod-{layer}.yaml").write_text(yaml.safe_dump({"config": config}))
    for layer in ("cluster", "platform"):
        load(f"prod-{layer}", config_of(f"prod-{layer}", tmp_path), tmp_path)


def test_a_network_without_nat_is_accepted_with_a_mirror_in_its_region(tmp_path: Any) -> None:
    without_nat(tmp_path, config_region(MIRROR))


def test_without_nat_loops_need_a_way_to_the_witness_of_the_ledger(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(WITH_NAT_NONE, "endpoints", [each for each in WITH_NAT_NONE["endpoints"] if each != "ssm"])
    with pytest.raises(SettingsError) as refused:
        without_nat(tmp_path, config_region(MIRROR))
    (problem,) = refused.value.problems
    assert (problem.rule, problem.dotted) == ("loops-reach-their-witness", "headway:network.endpoints")


def config_region(mirror: str) -> str:
    region = json.loads(config_of("prod-cluster")["headway:account"])["region"]
    return mirror.replace("eu-west-1", region)


@pytest.mark.parametrize(
    "mirror", [None, "registry.example.com/mirror", "333333333333.dkr.ecr.ap-south-2.amazonaws.com/mirror"], ids=["none", "public", "far"]
)
def test_a_network_without_nat_is_refused_where_no_node_reaches_a_mirror(tmp_path: Any, mirror: str | None) -> None:
    with pytest.raises(SettingsError) as refused:
        without_nat(tmp_path, mirror)
    (problem,) = refused.value.problems
    assert (problem.rule, problem.dotted) == ("no-nat-needs-a-mirror", "headway:registry.mirror")


def test_an_image_of_the_loops_from_elsewhere_is_refused_beside_a_mirror() -> None:
    with pytest.raises(SettingsError) as refused:
        load("prod-platform", platform(MIRROR, f"ghcr.io/someone/headway@sha256:{'a' * 64}"))
    assert [problem.rule for problem in refused.value.problems] == ["loops-from-the-mirror"]
