"""What kwok plays, composed of its own stages and ours. Pure but for reading the files it is given.

Two changes to kwok's own `pod-ready`: a pod may ask for a delay (the warm-up of a model) and may opt out (its status is kept by others).
"""

import copy
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from sandbox.cluster.nodes import READY_DELAY, STATUS_BY_OTHERS

OURS = Path(__file__).parent / "stages"

_MAKES_READY = {"pod-ready", "pod-recover", "pod-complete"}
_NOT_IF_CUSTOM = [
    {"key": f'.metadata.annotations["{name}"]', "operator": "NotIn", "values": [value]} for name, value in STATUS_BY_OTHERS.items()
]


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
            spec["selector"]["matchExpressions"] += _NOT_IF_CUSTOM
        if name == "pod-ready":
            spec["delay"] = {"durationMilliseconds": 0, "durationFrom": {"expressionFrom": f'.metadata.annotations["{READY_DELAY}"]'}}
    return sorted(stages, key=lambda stage: stage["metadata"]["name"])


def read(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """Every YAML document of the files."""
    return [document for path in paths for document in yaml.load_all(path.read_text(), Loader=yaml.CSafeLoader) if document]


def render(stages: Iterable[dict[str, Any]]) -> str:
    """The stages as one file for kwok's --config."""
    return yaml.dump_all(list(stages), Dumper=yaml.CSafeDumper, sort_keys=True, width=1000)
