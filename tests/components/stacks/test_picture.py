"""The pictures in the guide are drawn from the registrations, and are those of today.

After a wanted change: `HEADWAY_UPDATE_GOLDEN=1 pytest tests/components/stacks/test_picture.py`.
"""

import os
from xml.etree import ElementTree

import pytest

from tests.components.picture import picture
from tests.components.program import PROJECT, layer

IMAGES = PROJECT / "docs" / "images"
UPDATE = "HEADWAY_UPDATE_GOLDEN"


@pytest.mark.parametrize("environment", ["dev", "prod"])
def test_the_picture_of_an_environment_is_current(environment: str) -> None:
    drawn, file = picture(layer(f"{environment}-cluster")), IMAGES / f"{environment}-cluster.svg"
    if os.environ.get(UPDATE):
        IMAGES.mkdir(exist_ok=True)
        file.write_text(drawn)
    assert file.read_text() == drawn, f"what {environment}-cluster registers changed; set {UPDATE}=1 and look at the picture"


def test_the_picture_shows_every_node_group_add_on_bucket_and_subnet() -> None:
    found = layer("prod-cluster")
    drawn = ElementTree.fromstring(picture(found))
    text = "\n".join("".join(node.itertext()) for node in drawn.iter() if node.tag.endswith("text"))
    groups = found.of_type("aws:eks/nodeGroup:NodeGroup")
    assert text.count("pool ") == sum(len(r.inputs["subnetIds"]) for r in groups)
    wanted = [r.inputs["cidrBlock"] for r in found.of_type("aws:ec2/subnet:Subnet")]
    wanted += [r.inputs["addonVersion"] for r in found.of_type("aws:eks/addon:Addon")]
    wanted += [r.name.split("-", 1)[1].removesuffix("-bucket") for r in found.of_type("aws:s3/bucket:Bucket")]
    assert [each for each in wanted if each not in text] == []
