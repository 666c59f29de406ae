"""Everything a cluster without internet must find in its own registry: add-ons with their charts, versions and images.
Pure.

Printed as JSON by `python -m components.mirror`, which `headway mirror` runs. Where no public source states a digest,
the first answer of the maker counts, if somebody has asked (`headway mirror --pin`); else the copy is what pins it: copy
once, and let the registry's tags be immutable.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from components import versions
from components.versions import CHARTS
from headway.bounded_json import bounded_json
from headway.wire import PINS_FILE

CHARTS_FOLDER, IMAGES_FOLDER = "charts", "images"
"""Where charts and images stand in a registry of one's own."""


def first_answers(project: Path = Path(__file__).parents[1]) -> Mapping[str, str]:
    """Digests that were pinned by their first use, by name and version. Raises ValueError for a file that holds none."""
    file = project / PINS_FILE
    found: Any = bounded_json(file.read_bytes()) if file.exists() else {}
    if not isinstance(found, dict):
        raise ValueError(f"{file} holds no digests by name")
    return {str(name): str(digest) for name, digest in cast(dict[str, Any], found).items()}


def listing(pins: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Charts, and images with who pulls them, and their digest where a public source states it, or where `pins` has the
    first answer of their maker (`firstUse`).

    All are copied. A pull-through cache of ECR is no way for a network without NAT: the first pull of each image needs a
    route to the internet (ECR user guide, "Amazon ECR interface VPC endpoints").
    """
    users: dict[str, set[str]] = {}
    for chart in CHARTS:
        for image in chart.images:
            users.setdefault(image, set()).add(chart.chart)
    for image, user in versions.OWN_IMAGES.items():
        users.setdefault(image, set()).add(user)
    pins = first_answers() if pins is None else pins
    charts = [
        {
            "chart": chart.chart,
            "repository": chart.repository,
            "version": chart.version,
            **_digest(f"{chart.chart} {chart.version}", f"sha256:{chart.digest}" if chart.digest else None, pins),
            "target": f"{CHARTS_FOLDER}/{chart.chart}:{chart.version}",
        }
        for chart in sorted(CHARTS, key=lambda chart: chart.chart)
    ]
    return {
        "read": versions.READ,
        "kubernetes": versions.KUBERNETES,
        "addons": dict(sorted(versions.ADDONS.items())),
        "charts": charts,
        "images": [_image(image, sorted(users[image]), pins) for image in sorted(users)],
    }


def _image(image: str, users: list[str], pins: Mapping[str, str]) -> dict[str, Any]:
    named, _, digest = image.partition("@")
    return {"image": named, **_digest(named, digest or None, pins), "usedBy": users, "target": _target(named)}


def _digest(name: str, stated: str | None, pins: Mapping[str, str]) -> dict[str, Any]:
    return {"digest": stated or pins.get(name), "firstUse": stated is None and name in pins}


def mirrored(image: str, mirror: str | None) -> str:
    """Where `image` is pulled from; its tag and digest stay."""
    return f"{mirror}/{_target(image)}" if mirror else image


def _target(image: str) -> str:
    """Below a mirror an image keeps its path and loses its registry; no two of the platform's share a path."""
    return f"{IMAGES_FOLDER}/{image.partition('/')[2]}"


if __name__ == "__main__":
    print(json.dumps(listing(), indent=2))  # noqa: T201
