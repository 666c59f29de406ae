"""Everything a cluster without internet must find in its own registry: add-ons with their charts, versions and images.
Pure.

Printed as JSON by `python -m components.mirror`, which `headway mirror` runs. An image without a digest is what its
tag meant on the day it was copied, so the copy is what pins it: copy once, and let the registry's tags be immutable.
"""

import json
from typing import Any

from components import versions
from components.versions import CHARTS

CHARTS_FOLDER, IMAGES_FOLDER = "charts", "images"
"""Where charts and images stand in a registry of one's own."""


def listing() -> dict[str, Any]:
    """Charts, and images with who pulls them, and their digest where a public source states it.

    All are copied. A pull-through cache of ECR is no way for a network without NAT: the first pull of each image needs a
    route to the internet (ECR user guide, "Amazon ECR interface VPC endpoints").
    """
    users: dict[str, set[str]] = {}
    for chart in CHARTS:
        for image in chart.images:
            users.setdefault(image, set()).add(chart.chart)
    for image, user in versions.OWN_IMAGES.items():
        users.setdefault(image, set()).add(user)
    charts = [
        {
            "chart": chart.chart,
            "repository": chart.repository,
            "version": chart.version,
            "digest": f"sha256:{chart.digest}" if chart.digest else None,
            "target": f"{CHARTS_FOLDER}/{chart.chart}:{chart.version}",
        }
        for chart in sorted(CHARTS, key=lambda chart: chart.chart)
    ]
    return {
        "read": versions.READ,
        "kubernetes": versions.KUBERNETES,
        "addons": dict(sorted(versions.ADDONS.items())),
        "charts": charts,
        "images": [_image(image, sorted(users[image])) for image in sorted(users)],
    }


def _image(image: str, users: list[str]) -> dict[str, Any]:
    named, _, digest = image.partition("@")
    return {"image": named, "digest": digest or None, "usedBy": users, "target": _target(named)}


def mirrored(image: str, mirror: str | None) -> str:
    """Where `image` is pulled from; its tag and digest stay."""
    return f"{mirror}/{_target(image)}" if mirror else image


def _target(image: str) -> str:
    """Below a mirror an image keeps its path and loses its registry; no two of the platform's share a path."""
    return f"{IMAGES_FOLDER}/{image.partition('/')[2]}"


if __name__ == "__main__":
    print(json.dumps(listing(), indent=2))  # noqa: T201
