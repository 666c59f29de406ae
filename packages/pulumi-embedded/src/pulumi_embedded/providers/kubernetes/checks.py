"""Validation and completion of the inputs of one object, without a cluster.

Owns what `check` answers for plain objects. It never adds the label `app.kubernetes.io/managed-by`: like the real provider under
server-side apply, it leaves that to the field managers.
"""

from collections.abc import Iterator
from typing import Any

from pulumi_embedded.engine.provider import UNKNOWN, CheckFailure, CheckResult, Properties
from pulumi_embedded.providers.kubernetes import mesh, names
from pulumi_embedded.providers.kubernetes.kinds import ObjectKind, parse

_PROPAGATION = ("background", "foreground", "orphan")
_NOT_MODELLED = {
    "pulumi.com/patchFieldManager": "it belongs to patch resources; leave it out",
    "pulumi.com/replaceUnready": "replace the Job by hand with --replace",
    "pulumi.com/waitFor": "leave it out: readiness is awaited per kind",
}
# The annotations whose value the provider itself reads; the second is what it may be.
_BOOLEANS = (names.SKIP_AWAIT, names.PATCH_FORCE)


def complete(kind: ObjectKind, name: str, old: Properties | None, new: Properties, suffix: names.Suffix, namespace: str) -> CheckResult:
    """Inputs with apiVersion, kind, name and, where the kind has one and the provider sets a default, namespace; all failures at once."""
    failures = [*_identity(kind, new), *_metadata(new), *_annotations(new), *mesh.failures(kind, new)]
    inputs = names.named(name, old, {**new, "apiVersion": kind.api_version, "kind": kind.kind}, suffix)
    head = inputs.get("metadata")
    if isinstance(head, dict) and namespace and kind.namespaced is not False and not head.get("namespace"):
        inputs = {**inputs, "metadata": {**head, "namespace": namespace}}
    return CheckResult(inputs, tuple(failures))


def _identity(kind: ObjectKind, new: Properties) -> Iterator[CheckFailure]:
    said = parse(str(new.get("apiVersion", kind.api_version)), str(new.get("kind", kind.kind)))
    if said.api_version != kind.api_version:
        yield CheckFailure(
            "apiVersion", f"is {said.api_version}, but the resource type is {kind}; write {kind.api_version} or leave it out"
        )
    if said.kind != kind.kind:
        yield CheckFailure("kind", f"is {said.kind}, but the resource type is {kind}; write {kind.kind} or leave it out")


def _metadata(new: Properties) -> Iterator[CheckFailure]:
    head = new.get("metadata")
    if head not in (None, UNKNOWN) and not isinstance(head, dict):
        yield CheckFailure("metadata", "is no object; it holds name, namespace, labels and annotations")
    if names.metadata(new).get("generateName") and not names.metadata(new).get("name"):
        yield CheckFailure(
            "metadata.generateName", "is not supported with server-side apply; leave it out, a name with a random suffix is made up anyway"
        )


def _annotations(new: Properties) -> Iterator[CheckFailure]:
    annotations = names.metadata(new).get("annotations")
    if not isinstance(annotations, dict):
        return
    for key, remedy in sorted(_NOT_MODELLED.items()):
        if key in annotations:
            yield _annotation(key, f"is not modelled by the embedded kubernetes provider; {remedy}")
    for key in _BOOLEANS:
        if _known(value := annotations.get(key)) and str(value).lower() not in ("true", "false"):
            yield _annotation(key, f'is {value!r}; it is "true" or "false"')
    if _known(value := annotations.get(names.TIMEOUT_SECONDS)) and not (str(value).isdecimal() and int(str(value)) > 0):
        yield _annotation(names.TIMEOUT_SECONDS, f'is {value!r}; it is a number of seconds such as "600"')
    if _known(value := annotations.get(names.DELETION_PROPAGATION)) and str(value).lower() not in _PROPAGATION:
        yield _annotation(names.DELETION_PROPAGATION, f"is {value!r}; it is one of {', '.join(_PROPAGATION)}")


def _known(value: Any) -> bool:
    return value not in (None, UNKNOWN)


def _annotation(key: str, reason: str) -> CheckFailure:
    return CheckFailure(f'metadata.annotations["{key}"]', reason)
