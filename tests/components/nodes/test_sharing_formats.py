"""What pools become for the device plugin and for mig-parted: each key one that they read, each value one that they
take.

The shapes are those of the Go types: NVIDIA/k8s-device-plugin, api/config/v1 (v0.19.3), and NVIDIA/mig-parted,
api/spec/v1 (v0.14), which refuses unknown fields; the device plugin ignores them, so that a misspelt one would leave
GPUs whole.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from components.addons import gpu_operator
from components.nodes.sharing import mig_configs, plugin_configs
from tests.components.contracts import POOLS
from tests.components.platform.test_platform import pool

REPLICATED = {"renameByDefault": bool, "failRequestsGreaterThanOne": bool, "resources": [{"name": str, "replicas": int}]}
PLUGIN = {"version": str, "flags": {"migStrategy": str}, "sharing": {"timeSlicing": REPLICATED, "mps": REPLICATED}}
LAYOUT = {"devices": str, "mig-enabled": bool, "mig-devices": Mapping}
SHARED = [
    pool("mps-4", sharing={"mode": "mps", "replicas": 4}),
    pool("slices-2", sharing={"mode": "slice", "replicas": 2}, workload_class="batch"),
]


def wrong(given: Any, shape: Any, path: str = "") -> Iterator[str]:
    """Paths of `given` that the type does not have, or has with another type."""
    if isinstance(shape, Mapping):
        for key, value in given.items():
            if key in shape:
                yield from wrong(value, shape[key], f"{path}.{key}")
            else:
                yield f"{path}.{key}"
    elif isinstance(shape, list):
        for number, value in enumerate(given):
            yield from wrong(value, shape[0], f"{path}[{number}]")
    elif not isinstance(given, shape) or (shape is int and isinstance(given, bool)):
        yield path


@pytest.mark.parametrize("pools", [POOLS, SHARED], ids=["contracts", "shared"])
def test_the_device_plugin_knows_every_key_that_it_is_given(pools: Any) -> None:
    for name, text in plugin_configs(pools).items():
        config = json.loads(text)
        assert list(wrong(config, PLUGIN)) == [], name
        assert config["version"] == "v1"
        assert config.get("flags", {"migStrategy": "mixed"}) == {"migStrategy": "mixed"}
        for replicated in config.get("sharing", {}).values():
            assert all(resource["replicas"] >= 2 for resource in replicated["resources"]), "the plugin takes no fewer"
        assert len(config.get("sharing", {})) <= 1, "MPS and time slicing exclude each other"


def test_mig_parted_knows_every_key_that_it_is_given() -> None:
    (text,) = gpu_operator.values(POOLS)["migManager"]["config"]["data"].values()
    spec = json.loads(text)
    assert set(spec) == {"version", "mig-configs"} and spec["version"] == "v1"
    assert spec["mig-configs"] == mig_configs(POOLS)
    for name, layouts in spec["mig-configs"].items():
        assert layouts, f"{name}: at least one entry is required"
        for layout in layouts:
            assert list(wrong(layout, LAYOUT)) == []
            assert {"devices", "mig-enabled"} <= layout.keys() and layout["devices"] == "all"
            devices = layout.get("mig-devices", {})
            assert bool(devices) is layout["mig-enabled"], "one without the other is refused"
            assert all(re.fullmatch(r"([1-7]c\.)?[1-7]g\.[0-9]+gb(\+[a-z.]+)*", device) and count > 0 for device, count in devices.items())


def test_the_check_itself_sees_a_misspelt_key() -> None:
    assert list(wrong({"version": "v1", "sharing": {"timeslicing": {}}}, PLUGIN)) == [".sharing.timeslicing"]
    assert list(wrong({"version": "v1", "sharing": {"mps": {"resources": [{"name": "a", "replicas": "4"}]}}}, PLUGIN)) == [
        ".sharing.mps.resources[0].replicas"
    ]
