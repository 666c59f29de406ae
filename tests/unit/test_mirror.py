"""What must be copied before a cluster without internet can run the platform."""

import hashlib
import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from components import mirror, versions
from headway.cli import mirror as command
from headway.cli.main import app
from headway.problem import Exit, UserError


def test_every_chart_and_every_image_is_listed_once() -> None:
    found = mirror.listing()
    assert [c["chart"] for c in found["charts"]] == sorted(chart.chart for chart in versions.CHARTS)
    images = [i["image"] for i in found["images"]]
    assert len(images) == len(set(images))
    wanted = {image.partition("@")[0] for chart in versions.CHARTS for image in chart.images}
    assert wanted | {image.partition("@")[0] for image in versions.OWN_IMAGES} == set(images)


@pytest.mark.parametrize(
    ("image", "target"),
    [
        ("registry.k8s.io/pause:3.10.1", "images/pause:3.10.1"),
        ("nvcr.io/nvidia/gpu-operator:v26.7.0", "images/nvidia/gpu-operator:v26.7.0"),
    ],
)
def test_an_image_keeps_its_path_and_loses_its_registry(image: str, target: str) -> None:
    (found,) = [i for i in mirror.listing()["images"] if i["image"] == image]
    assert found["target"] == target
    assert mirror.mirrored(f"{image}@sha256:1", "r.example.com/m") == f"r.example.com/m/{target}@sha256:1"
    assert mirror.mirrored(image, None) == image


def test_no_two_images_take_one_place() -> None:
    places = [i["target"].rpartition(":")[0] for i in mirror.listing()["images"]]
    assert len(places) == len(set(places))


def test_a_digest_is_said_or_its_absence_is() -> None:
    for image in mirror.listing()["images"]:
        assert image["digest"] is None or image["digest"].startswith("sha256:")
        assert "@" not in image["image"]


def test_a_chart_has_the_digest_of_its_package_if_its_repository_states_one() -> None:
    digests = {chart["chart"]: chart["digest"] for chart in mirror.listing()["charts"]}
    assert all(digest is None or re.fullmatch("sha256:[0-9a-f]{64}", digest) for digest in digests.values())
    assert {name for name, digest in digests.items() if digest} >= {
        "aws-load-balancer-controller",
        "cert-manager",
        "cluster-autoscaler",
        "gpu-operator",
        "keda",
        "loki",
        "opentelemetry-collector",
        "tempo",
    }
    assert len({digest for digest in digests.values() if digest}) == sum(1 for digest in digests.values() if digest), "one was copied"
    said = CliRunner().invoke(app, ["mirror", "--list"]).output
    assert all(digest in said for digest in digests.values() if digest)


def test_images_without_a_digest_are_those_of_which_none_is_stated_surely() -> None:
    unpinned = {image["image"].partition(":")[0].partition("/")[2] for image in mirror.listing()["images"] if not image["digest"]}
    assert unpinned == {
        "eks/aws-load-balancer-controller",
        "istio/install-cni",
        "istio/pilot",
        "istio/proxyv2",
        "jkroepke/kube-webhook-certgen",
        "nfd/node-feature-discovery",
        "nginxinc/nginx-unprivileged",
        "nvidia/gpu-operator",
        "prometheus/node-exporter",
    }


def test_the_command_prints_what_the_program_installs() -> None:
    ended = CliRunner().invoke(app, ["mirror", "--list", "--output", "json"])
    assert ended.exit_code == 0, ended.output
    assert json.loads(ended.output) == json.loads(json.dumps(mirror.listing()))


def packages(folder: Path, recorded: dict[str, str | None]) -> list[dict[str, str | None]]:
    """Charts as the listing has them, each with a package of its own name beside it."""
    for name in recorded:
        (folder / f"{name}-1.0.0.tgz").write_text(name)
    return [{"chart": name, "version": "1.0.0", "repository": "https://charts.test", "digest": digest} for name, digest in recorded.items()]


@pytest.mark.parametrize(
    ("words", "fact"),
    [
        (("--pin", "--push", "r.example.com/m"), "--pin and --push are two steps."),
        (("--push", "r.example.com/m", "--only", "gpu-opertor"), "--only gpu-opertor is in the name of no chart and of no image."),
    ],
)
def test_a_mirror_of_nothing_and_two_steps_at_once_are_refused(words: tuple[str, ...], fact: str) -> None:
    refused = CliRunner().invoke(app, ["mirror", *words]).exception
    assert isinstance(refused, UserError)
    assert (refused.fact, refused.exit) == (fact, Exit.USAGE)


def test_packages_that_are_what_was_recorded_pass(tmp_path: Path) -> None:
    charts = packages(tmp_path, {"one": f"sha256:{hashlib.sha256(b'one').hexdigest()}"})
    command.compare(charts, tmp_path)


def test_packages_that_differ_or_are_missing_are_refused_all_at_once(tmp_path: Path) -> None:
    charts = packages(tmp_path, {"altered": "sha256:0", "new": None, "gone": "sha256:0"})
    (tmp_path / "gone-1.0.0.tgz").unlink()
    with pytest.raises(UserError) as refused:
        command.compare(charts, tmp_path)
    assert refused.value.exit is Exit.REFUSED
    assert f"altered-1.0.0.tgz is sha256:{hashlib.sha256(b'altered').hexdigest()}, and not sha256:0" in refused.value.fact
    assert "helm pull gone --repo https://charts.test --version 1.0.0" in refused.value.fact
    assert f'new 1.0.0: digest="{hashlib.sha256(b"new").hexdigest()}"' in refused.value.fact


def test_the_command_compares_a_folder_with_what_the_program_installs(tmp_path: Path) -> None:
    ended = CliRunner().invoke(app, ["mirror", "--charts", str(tmp_path)])
    assert isinstance(ended.exception, UserError)
    assert [line.split(" is missing")[0] for line in ended.exception.fact.splitlines()] == [
        f"{chart.chart}-{chart.version}.tgz" for chart in versions.CHARTS
    ]
