"""What the gateway's proxies do before their memory is full: callers may stall the bodies of requests, which proxies hold. Pure.

Istio's own bootstrap bounds connections, and those hardly (`max_active_downstream_connections` of 2^31 - 1). What a proxy adds to it is a file
that its agent hands to Envoy as `--config-yaml` (`pkg/envoy/proxy.go`, `ISTIO_BOOTSTRAP_OVERRIDE`); lists in it are appended. The file is the
pod's annotation, so that a change of it starts the pods anew.
"""

import json
from typing import Any

from headway.wire import PREFIX

ANNOTATION = f"{PREFIX}/gateway-bootstrap"
_FOLDER, _FILE = "/etc/headway/bootstrap", "memory.json"

HEAP = 640 * 2**20
"""Bytes. The chart's limit of 1 GiB is the agent's too; and a proxy looks four times a second, between which it took in 180 MiB
(`tests/traffic/test_stalled_bodies.py`)."""


def bootstrap(heap: int = HEAP) -> dict[str, Any]:
    """For Envoy. First the requests that hold most are ended, by HTTP/2, then no new ones are taken, then no connections."""
    monitor = {
        "name": "envoy.resource_monitors.fixed_heap",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.resource_monitors.fixed_heap.v3.FixedHeapConfig",
            "max_heap_size_bytes": heap,
        },
    }
    return {
        "overload_manager": {
            "refresh_interval": "0.25s",
            "buffer_factory_config": {"minimum_account_to_track_power_of_two": 20},
            "resource_monitors": [monitor],
            "actions": [
                _action("shrink_heap", threshold={"value": 0.80}),
                _action("reset_high_memory_stream", scaled={"scaling_threshold": 0.80, "saturation_threshold": 0.95}),
                _action("stop_accepting_requests", threshold={"value": 0.90}),
                _action("stop_accepting_connections", threshold={"value": 0.95}),
            ],
        }
    }


def _action(name: str, **trigger: Any) -> dict[str, Any]:
    return {"name": f"envoy.overload_actions.{name}", "triggers": [{"name": "envoy.resource_monitors.fixed_heap", **trigger}]}


def annotations() -> dict[str, str]:
    """Of the pods."""
    return {ANNOTATION: json.dumps(bootstrap(), separators=(",", ":"))}


def values() -> dict[str, Any]:
    """Of the chart: where the pods' annotation becomes a file, and who reads it."""
    item = {"path": _FILE, "fieldRef": {"fieldPath": f"metadata.annotations['{ANNOTATION}']"}}
    return {
        "env": {"ISTIO_BOOTSTRAP_OVERRIDE": f"{_FOLDER}/{_FILE}"},
        "volumes": [{"name": "bootstrap", "downwardAPI": {"items": [item]}}],
        "volumeMounts": [{"name": "bootstrap", "mountPath": _FOLDER, "readOnly": True}],
    }
