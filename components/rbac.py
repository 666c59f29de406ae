"""Rights in the cluster: rules, the roles that have them, and who has a role. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from components.manifests import object_

GROUP = "rbac.authorization.k8s.io"

Right = tuple[str, Sequence[str], Sequence[str]]
"""An API group, resources of it, and verbs."""


def rules(*rights: Right, names: Iterable[str] = ()) -> list[dict[str, Any]]:
    """`names`: only objects that have one of them."""
    only = {"resourceNames": list(names)}
    bound = only if only["resourceNames"] else {}
    return [{"apiGroups": [group], "resources": list(resources), "verbs": list(verbs), **bound} for group, resources, verbs in rights]


def role(name: str, rules: Sequence[Mapping[str, Any]], labels: Mapping[str, str], namespace: str | None = None) -> dict[str, Any]:
    """A Role, or a ClusterRole where there is no namespace."""
    return object_(f"{GROUP}/v1", "Role" if namespace else "ClusterRole", name, namespace=namespace, labels=labels, rules=list(rules))


def binding(bound: Mapping[str, Any], subjects: Sequence[Mapping[str, str]], name: str = "") -> dict[str, Any]:
    """Gives `subjects` the role `bound`, whose name and labels it has if no other name is given."""
    metadata, kind = bound["metadata"], bound["kind"]
    return object_(
        f"{GROUP}/v1",
        f"{kind}Binding",
        name or metadata["name"],
        namespace=metadata.get("namespace"),
        labels=metadata["labels"],
        roleRef={"apiGroup": GROUP, "kind": kind, "name": metadata["name"]},
        subjects=list(subjects),
    )


def groups(names: Iterable[str]) -> list[dict[str, str]]:
    """Subjects: people and pipelines."""
    return [{"kind": "Group", "name": name, "apiGroup": GROUP} for name in sorted(names)]


def account(name: str, namespace: str) -> dict[str, str]:
    """Subject: a service account."""
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}
