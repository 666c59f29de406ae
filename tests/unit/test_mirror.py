"""What must be copied before a cluster without internet can run the platform."""

import json
import re

import pytest
from typer.testing import CliRunner

from components import mirror, versions
from headway.cli.main import app


def test_every_chart_and_every_image_is_listed_once() -> None:
    found = mirror.listing()
    assert [c["chart"] for c in found["charts"]] == sorted(chart.chart for chart in versions.CHARTS)
    images = [i["image"] for i in found["images"]]
    assert len(images) == len(set(images))
    wanted = {image.partition("@")[0] for chart in versions.CHARTS for image in chart.images}
    assert wanted | {image.partition("@")[0] for image in versions.OWN_IMAGES} == set(images)


@pytest.mark.parametrize(
    ("image", "how", "target"),
    [
        ("registry.k8s.io/pause:3.10.1", "pull-through", "k8s/pause:3.10.1"),
        ("nvcr.io/nvidia/gpu-operator:v26.3.3", "copy", "images/nvidia/gpu-operator:v26.3.3"),
    ],
)
def test_an_image_comes_by_a_cache_where_ecr_has_one_and_by_a_copy_elsewhere(image: str, how: str, target: str) -> None:
    (found,) = [i for i in mirror.listing()["images"] if i["image"] == image]
    assert (found["how"], found["target"]) == (how, target)


def test_a_digest_is_said_or_its_absence_is() -> None:
    for image in mirror.listing()["images"]:
        assert image["digest"] is None or image["digest"].startswith("sha256:")
        assert "@" not in image["image"]


def test_a_chart_is_named_by_the_digest_of_its_package_where_its_repository_states_one() -> None:
    digests = {chart["chart"]: chart["digest"] for chart in mirror.listing()["charts"]}
    assert all(digest is None or re.fullmatch("sha256:[0-9a-f]{64}", digest) for digest in digests.values())
    assert {name for name, digest in digests.items() if digest} >= {
        "cluster-autoscaler",
        "keda",
        "loki",
        "opentelemetry-collector",
        "tempo",
    }
    assert len({digest for digest in digests.values() if digest}) == sum(1 for digest in digests.values() if digest), "one was copied"
    said = CliRunner().invoke(app, ["mirror", "--list"]).output
    assert all(digest in said for digest in digests.values() if digest)


def test_the_command_prints_what_the_program_installs() -> None:
    ended = CliRunner().invoke(app, ["mirror", "--list", "--output", "json"])
    assert ended.exit_code == 0, ended.output
    assert json.loads(ended.output) == json.loads(json.dumps(mirror.listing()))
