"""Names that Pulumi gives: of unnamed objects, of the field manager of a resource, and of the annotations that steer the provider.

The trap: a name that was made up once is state. It is taken over from the old inputs, or the object would be replaced by every update.
"""

import hashlib
import secrets
from collections.abc import Callable
from typing import Any

from pulumi_embedded.engine.provider import UNKNOWN, Properties

AUTONAMED = "pulumi.com/autonamed"
SKIP_AWAIT = "pulumi.com/skipAwait"
TIMEOUT_SECONDS = "pulumi.com/timeoutSeconds"
PATCH_FORCE = "pulumi.com/patchForce"
DELETION_PROPAGATION = "pulumi.com/deletionPropagationPolicy"

FIELD_MANAGER = "__fieldManager"
"""Output that records who applies the object; the name of a renamed resource's manager must not change."""
INITIAL_API_VERSION = "__initialApiVersion"

Suffix = Callable[[], str]
"""Makes eight random hexadecimal characters."""


def random_suffix() -> str:
    return secrets.token_hex(4)


def field_manager(urn: str) -> str:
    """`pulumi-kubernetes-` and eight hexadecimal characters, the same for every run: a create that was cut off finds its own object."""
    return "pulumi-kubernetes-" + hashlib.sha256(urn.encode()).hexdigest()[:8]


def metadata(inputs: Properties | None) -> Properties:
    """`metadata` of an object; empty when there is none, or when it is not known yet."""
    found = (inputs or {}).get("metadata")
    return found if isinstance(found, dict) else {}


def annotation(inputs: Properties | None, key: str) -> Any:
    """The annotation's value, or None."""
    annotations = metadata(inputs).get("annotations")
    return annotations.get(key) if isinstance(annotations, dict) else None


def is_true(inputs: Properties | None, key: str) -> bool:
    return str(annotation(inputs, key)).lower() == "true"


def autonamed(inputs: Properties | None) -> bool:
    return is_true(inputs, AUTONAMED)


def named(resource: str, old: Properties | None, new: Properties, suffix: Suffix) -> Properties:
    """`new` with a name: its own, else the one made up earlier, else `resource` with a random suffix. Unknown metadata stays as it is."""
    if new.get("metadata") == UNKNOWN or metadata(new).get("name"):
        return new
    old_name = metadata(old).get("name")
    name = old_name if autonamed(old) and old_name else f"{resource}-{suffix()}"
    head = metadata(new)
    annotations = head.get("annotations")
    if annotations != UNKNOWN:
        annotations = {**(annotations or {}), AUTONAMED: "true"}
    return {**new, "metadata": {**head, "name": name, "annotations": annotations}}


def object_id(namespace: str, name: str) -> str:
    """Pulumi's id of an object: `namespace/name`, or the name alone without a namespace."""
    return f"{namespace}/{name}" if namespace else name


def split_id(id: str) -> tuple[str, str]:
    """(namespace, name) of an id; the namespace may be empty."""
    namespace, _, name = id.rpartition("/")
    return namespace, name
