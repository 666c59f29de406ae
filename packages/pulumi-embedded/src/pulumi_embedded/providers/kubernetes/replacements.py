"""Which changed fields replace an object: data, as pulumi-kubernetes has it, and no more.

Source: github.com/pulumi/pulumi-kubernetes provider/pkg/provider/diff.go (`forceNew`), read at 94977969 (2026-07, after 4.32). The trap: that
table does not know all that the API server calls immutable (pulumi/pulumi-kubernetes#1830: PriorityClass). Such a change is patched, and
refused; a program says `replaceOnChanges` of it, and `deleteBeforeReplace`, which the provider asks for only where its own table replaces.
"""

from pulumi_embedded.engine.paths import Path, parse
from pulumi_embedded.providers.kubernetes.kinds import ObjectKind
from pulumi_embedded.providers.kubernetes.paths import covers

_IDENTITY = ("apiVersion", "kind", "metadata.name", "metadata.namespace")
_SELECTOR = ("spec.selector",)
_ROLE_BINDING = ("roleRef",)
_POD_MUTABLE = ("spec.activeDeadlineSeconds", "spec.schedulingGates", "spec.tolerations")
_STATEFUL_SET = ("spec.podManagementPolicy", "spec.revisionHistoryLimit", "spec.serviceName", "spec.volumeClaimTemplates")
_VOLUME_SOURCES = ("csi", "fc", "hostPath", "iscsi", "local", "nfs")

# (group, kind) -> fields; every version of a kind is alike.
_IMMUTABLE: dict[tuple[str, str], tuple[str, ...]] = {
    ("apps", "DaemonSet"): _SELECTOR,
    ("apps", "Deployment"): _SELECTOR,
    ("apps", "StatefulSet"): (*_SELECTOR, *_STATEFUL_SET),
    ("batch", "Job"): (*_SELECTOR, "spec.completions", "spec.parallelism", "spec.template"),
    ("", "PersistentVolume"): tuple(f"spec.{source}" for source in _VOLUME_SOURCES),
    ("", "PersistentVolumeClaim"): ("spec.accessModes", "spec.selector", "spec.storageClassName", "spec.volumeName"),
    ("", "Pod"): ("spec",),
    ("", "ResourceQuota"): ("spec.scopes",),
    ("", "Secret"): ("type",),
    ("", "Service"): ("spec.clusterIP",),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _ROLE_BINDING,
    ("rbac.authorization.k8s.io", "RoleBinding"): _ROLE_BINDING,
    ("storage.k8s.io", "StorageClass"): ("parameters", "provisioner"),
}
# What may change below a field that otherwise may not.
_MUTABLE: dict[tuple[str, str], tuple[str, ...]] = {("", "Pod"): _POD_MUTABLE}
_PAYLOAD = ("binaryData", "data", "stringData")

_PARSED = {key: tuple(parse(field) for field in fields) for key, fields in _IMMUTABLE.items()}
_PARSED_MUTABLE = {key: tuple(parse(field) for field in fields) for key, fields in _MUTABLE.items()}
_PARSED_IDENTITY = tuple(parse(field) for field in _IDENTITY)
_PARSED_PAYLOAD = tuple(parse(field) for field in _PAYLOAD)


def must_replace(kind: ObjectKind, path: Path, *, payload_mutable: bool) -> bool:
    """Whether a change at the path replaces the object.

    `payload_mutable` says whether the data of this ConfigMap or Secret may change in place. As in the real provider it may not unless
    enableConfigMapMutable or enableSecretMutable is set (and the object is not `immutable`): what reads it would not notice.
    """
    if any(covers(field, path) for field in _PARSED_IDENTITY):
        return True
    key = (kind.group, kind.kind)
    if key in (("", "ConfigMap"), ("", "Secret")) and not payload_mutable and any(covers(field, path) for field in _PARSED_PAYLOAD):
        return True
    if any(covers(field, path) for field in _PARSED_MUTABLE.get(key, ())):
        return False
    return any(covers(field, path) for field in _PARSED.get(key, ()))
