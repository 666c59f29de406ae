"""What kwok plays, composed of its own stages and ours. Pure.

A stage for Pods or Nodes must select by jq (`key`). kwok 0.8 compiles CEL against typed objects there and fails on any
nested field, and the pod it was looking at is then never played.

Changes to kwok's own: a pod may ask for a delay before it is ready (the warm-up of a model), may opt out (its status is
kept by others), and one that is run as a process is deleted by who runs it.
"""

import copy
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sandbox.cluster.nodes import READY_DELAY, RUN_BY_AGENT, STATUS_BY_OTHERS

OURS = Path(__file__).parent / "stages"

_MAKES_READY = {"pod-ready", "pod-recover", "pod-complete"}


def _unless(annotations: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"key": f'.metadata.annotations["{name}"]', "operator": "NotIn", "values": [value]} for name, value in annotations.items()]


def compose(kwoks: Iterable[dict[str, Any]], ours: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """All stages, by name. ValueError when two have one name: kwok would play either."""
    stages = [copy.deepcopy(stage) for stage in (*kwoks, *ours)]
    names = [stage["metadata"]["name"] for stage in stages]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise ValueError(f"stages share a name: {', '.join(doubled)}")
    for stage in stages:
        name, spec = stage["metadata"]["name"], stage["spec"]
        if name in _MAKES_READY:
            spec["selector"]["matchExpressions"] += _unless(STATUS_BY_OTHERS)
        if name == "pod-delete":
            spec["selector"]["matchExpressions"] += _unless(RUN_BY_AGENT)
        if name == "pod-ready":
            spec["delay"] = {"durationMilliseconds": 0, "durationFrom": {"expressionFrom": f'.metadata.annotations["{READY_DELAY}"]'}}
    return sorted(stages, key=lambda stage: stage["metadata"]["name"])
