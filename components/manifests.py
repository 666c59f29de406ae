"""Kubernetes objects as plain data, and the one place that turns them into Pulumi resources.

Builders return `Manifest`s, so that what reaches the API server can be read, compared and validated without an
engine. Objects of Kubernetes itself become typed resources; those of add-ons become CustomResources: both are native
objects that policies see. A Manifest's `role` is half of a state key; renaming one replaces the object.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pulumi
import pulumi_kubernetes as k8s


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """One object. `role` names its part in the component, unique there; `after` lists roles that must exist before
    it.
    """

    role: str
    body: Mapping[str, Any]
    after: tuple[str, ...] = field(default=())

    @property
    def kind(self) -> str:
        return str(self.body["kind"])

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])


def object_(
    api_version: str,
    kind: str,
    name: str,
    *,
    namespace: str | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, pulumi.Input[str]] | None = None,
    **rest: Any,
) -> dict[str, Any]:
    """The body of an object; what is not given does not appear."""
    metadata: dict[str, Any] = {"name": name}
    if namespace is not None:
        metadata["namespace"] = namespace
    if labels:
        metadata["labels"] = dict(labels)
    if annotations:
        metadata["annotations"] = dict(annotations)
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}


Constructor = Callable[..., pulumi.Resource]


def _typed(api_version: str, kind: str) -> Constructor | None:
    """The typed class of an object of Kubernetes itself, whose groups have no domain or `k8s.io`; looked up at use, because the SDK's
    modules load slowly.
    """
    group, _, version = api_version.rpartition("/")
    if "." in group and not group.endswith(".k8s.io"):
        return None
    versions = getattr(k8s, group.split(".")[0] or "core", None)
    return getattr(getattr(versions, version, None), kind, None)


_IMMUTABLE: Mapping[tuple[str, str], tuple[str, ...]] = {("scheduling.k8s.io/v1", "PriorityClass"): ("preemptionPolicy", "value")}
"""Fields that the API server changes in no object (kubernetes pkg/apis/scheduling/validation) and that pulumi-kubernetes patches all the
same (pulumi/pulumi-kubernetes#1830). It then takes no object away before its successor either, so both are said of the resource.
"""


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def register(name: str, manifests: Iterable[Manifest], options: Callable[[list[pulumi.Resource]], pulumi.ResourceOptions]):
    """Register each manifest as `{name}-{role}`; `options` makes its options from what it depends on. Answers resources
    by role.

    Raises ValueError when a role is used twice or comes before one that it names in `after`.
    """
    made: dict[str, pulumi.Resource] = {}
    for manifest in manifests:
        if manifest.role in made:
            raise ValueError(f"two objects of {name} play the role {manifest.role!r}")
        missing = [role for role in manifest.after if role not in made]
        if missing:
            raise ValueError(f"{manifest.role!r} of {name} comes before {', '.join(missing)}, which it depends on")
        opts = options([made[role] for role in manifest.after])
        made[manifest.role] = _make(f"{name}-{manifest.role}", manifest.body, opts)
    return made


def _make(logical: str, body: Mapping[str, Any], opts: pulumi.ResourceOptions) -> pulumi.Resource:
    rest = {key: value for key, value in body.items() if key not in ("apiVersion", "kind")}
    if fields := _IMMUTABLE.get((body["apiVersion"], body["kind"])):
        anew = pulumi.ResourceOptions(delete_before_replace=True, replace_on_changes=list(fields))
        opts = pulumi.ResourceOptions.merge(opts, anew)
    typed = _typed(body["apiVersion"], body["kind"])
    if typed is not None:
        return typed(logical, opts=opts, **{_snake(key): value for key, value in rest.items()})
    return k8s.apiextensions.CustomResource(logical, api_version=body["apiVersion"], kind=body["kind"], opts=opts, **rest)
