"""What a preview answers for an object: the API server's dry run where there was one, else the inputs, with UNKNOWN where only the
real operation will tell.

The trap: a nested field that is missing from a preview's outputs reads as None in the program, as if that were known. So every field
that the server computes is named here. Without a dry run, fields that the server merely defaults are not invented.
"""

from typing import Any

from pulumi_embedded.engine.paths import Path, parse
from pulumi_embedded.engine.provider import UNKNOWN, Properties
from pulumi_embedded.providers.kubernetes import paths
from pulumi_embedded.providers.kubernetes.kinds import ObjectKind

_VOLATILE = ("metadata.generation", "metadata.resourceVersion", "status")
_BORN = ("metadata.creationTimestamp", "metadata.uid")
_ALLOCATED: dict[tuple[str, str], tuple[str, ...]] = {
    ("", "PersistentVolumeClaim"): ("spec.volumeName",),
    ("", "Pod"): ("spec.nodeName",),
    ("", "Service"): ("spec.clusterIP", "spec.clusterIPs"),
    ("batch", "Job"): ("spec.selector",),
}


def planned(kind: ObjectKind, inputs: Properties, dry_run: Properties | None, old_outputs: Properties | None) -> Properties:
    """Outputs of a create (`old_outputs` is None) or an update in a preview."""
    outputs = dry_run if dry_run is not None else inputs
    creating = old_outputs is None
    for written in (*_VOLATILE, *(_BORN if creating else ())):
        outputs = _put(outputs, parse(written), UNKNOWN)
    for written in _ALLOCATED.get((kind.group, kind.kind), ()):
        path = parse(written)
        if paths.get(inputs, path) is None:
            outputs = _put(outputs, path, UNKNOWN if creating else paths.get(old_outputs, path))
    if not creating:
        for written in _BORN:
            path = parse(written)
            outputs = _put(outputs, path, paths.get(old_outputs, path))
    if kind.kind == "Secret" and not kind.group and "stringData" in inputs:
        outputs = {**outputs, "data": UNKNOWN}
    return outputs


def has_unknown(value: Any) -> bool:
    """Whether anything in the value is only known after the update."""
    if isinstance(value, dict):
        return any(has_unknown(item) for item in value.values())
    if isinstance(value, list):
        return any(has_unknown(item) for item in value)
    return value == UNKNOWN


def _put(outputs: Properties, path: Path, value: Any) -> Properties:
    if outputs.get(str(path[0])) == UNKNOWN:
        return outputs
    return paths.replaced(outputs, path, value)
