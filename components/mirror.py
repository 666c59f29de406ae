"""Everything a cluster without internet must find in its own registry: add-ons with their charts, versions and images.
Pure.

Printed as JSON by `python -m components.mirror`, which `headway mirror` runs. An image without a digest is what its
tag meant on the day it was copied, so the copy is what pins it: copy once, and let the registry's tags be immutable.
"""

import json
from typing import Any

from components import versions
from components.versions import CACHED_REGISTRIES, CHARTS

CHARTS_FOLDER, IMAGES_FOLDER = "charts", "images"
"""Where charts and images stand in a registry of one's own."""


def listing() -> dict[str, Any]:
    """Charts, and images with who pulls them, how they get into ECR, and their digest where a public source states
    it.
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
    registry, _, path = named.partition("/")
    caches = {host: name for name, host in CACHED_REGISTRIES.items()}
    cached = caches.get(registry)
    return {
        "image": named,
        "digest": digest or None,
        "usedBy": users,
        "how": "pull-through" if cached else "copy",
        "target": f"{cached}/{path}" if cached else f"{IMAGES_FOLDER}/{path}",
    }


if __name__ == "__main__":
    print(json.dumps(listing(), indent=2))  # noqa: T201
