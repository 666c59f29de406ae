"""How a pool's sharing mode is spelled on its nodes: labels, and the device plugin's configuration. Pure.

The trap: the label that names a MIG layout must be on the node when it joins, not put there later, so that the GPUs
are cut before the first pod lands.
"""

import json
from collections.abc import Iterable, Mapping

from headway.contract.pool import Pool
from headway.contract.pool_parts import MigSharing, Sharing, SplitSharing
from headway.wire import MIG_CONFIG

EXCLUSIVE = "exclusive"
DEVICE_PLUGIN_LABEL = "nvidia.com/device-plugin.config"
GPU = "nvidia.com/gpu"


def plugin_config(sharing: Sharing) -> str:
    """The device plugin configuration that nodes of this sharing mode select."""
    return f"{sharing.mode}-{sharing.replicas}" if isinstance(sharing, SplitSharing) else EXCLUSIVE


def node_labels(pool: Pool) -> dict[str, str]:
    """The labels by which the device plugin and the MIG manager know what to do on a node."""
    labels = {DEVICE_PLUGIN_LABEL: plugin_config(pool.sharing)}
    return labels | ({MIG_CONFIG: pool.sharing.config} if isinstance(pool.sharing, MigSharing) else {})


def shared_otherwise(pool: Pool, live: Mapping[str, str]) -> bool:
    """Whether nodes with the labels `live` share their GPUs in another way than `pool` says."""
    return DEVICE_PLUGIN_LABEL in live and {key: live[key] for key in (DEVICE_PLUGIN_LABEL, MIG_CONFIG) if key in live} != node_labels(pool)


def plugin_configs(pools: Iterable[Pool]) -> dict[str, str]:
    """Every device plugin configuration that `pools` select, by name, in the plugin's own format (JSON is YAML)."""
    configs = {EXCLUSIVE: json.dumps({"version": "v1", "flags": {"migStrategy": "mixed"}})}
    for pool in pools:
        if isinstance(pool.sharing, SplitSharing):
            configs[plugin_config(pool.sharing)] = json.dumps(_split(pool.sharing))
    return dict(sorted(configs.items()))


def _split(sharing: SplitSharing) -> dict[str, object]:
    resource = {"name": GPU, "replicas": sharing.replicas}
    if sharing.mode == "mps":
        # MPS refuses requests for more than one share by itself, and knows no such flag.
        return {"version": "v1", "sharing": {"mps": {"renameByDefault": True, "resources": [resource]}}}
    shared = {"renameByDefault": True, "failRequestsGreaterThanOne": True, "resources": [resource]}
    return {"version": "v1", "sharing": {"timeSlicing": shared}}


def mig_configs(pools: Iterable[Pool]) -> dict[str, object]:
    """Every MIG layout that `pools` select, by name, in mig-parted's format. Raises ValueError when one name means
    two layouts.
    """
    by_name: dict[str, object] = {"all-disabled": [{"devices": "all", "mig-enabled": False}]}
    for pool in pools:
        if isinstance(pool.sharing, MigSharing):
            name = pool.sharing.config
            config = [{"devices": "all", "mig-enabled": True, "mig-devices": dict(sorted(pool.sharing.layout.items()))}]
            if by_name.setdefault(name, config) != config:
                raise ValueError(f"pool {pool.name} calls its MIG layout {name}, and so does another pool with another layout")
    return dict(sorted(by_name.items()))
