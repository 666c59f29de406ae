"""Pulumi type tokens and the Kubernetes kinds they mean.

Owns the mapping `kubernetes:apps/v1:Deployment` <-> apiVersion/kind, the scope of built-in kinds, and the refusal by name of the
tokens that this provider does not model. The trap: the core group is `core/v1` in a token and plain `v1` in an apiVersion.
"""

from dataclasses import dataclass

from pulumi_embedded.engine.provider import ProviderError

PACKAGE = "kubernetes"
RELEASE_TYPE = "kubernetes:helm.sh/v3:Release"

BUILT_IN_GROUPS = frozenset(
    {
        "",
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "apiregistration.k8s.io",
        "apps",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "autoscaling",
        "batch",
        "certificates.k8s.io",
        "coordination.k8s.io",
        "discovery.k8s.io",
        "events.k8s.io",
        "flowcontrol.apiserver.k8s.io",
        "networking.k8s.io",
        "node.k8s.io",
        "policy",
        "rbac.authorization.k8s.io",
        "resource.k8s.io",
        "scheduling.k8s.io",
        "storage.k8s.io",
        "storagemigration.k8s.io",
    }
)

# https://kubernetes.io/docs/reference/kubectl/generated/kubectl_api-resources/ : kinds of the built-in groups that have no namespace.
_CLUSTER_SCOPED = frozenset(
    {
        "APIService",
        "CertificateSigningRequest",
        "ClusterRole",
        "ClusterRoleBinding",
        "ClusterTrustBundle",
        "CSIDriver",
        "CSINode",
        "CustomResourceDefinition",
        "DeviceClass",
        "FlowSchema",
        "IngressClass",
        "IPAddress",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "MutatingWebhookConfiguration",
        "Namespace",
        "Node",
        "PersistentVolume",
        "PriorityClass",
        "PriorityLevelConfiguration",
        "ResourceSlice",
        "RuntimeClass",
        "ServiceCIDR",
        "StorageClass",
        "StorageVersionMigration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration",
        "VolumeAttachment",
        "VolumeAttributesClass",
    }
)

_NATIVE_OBJECTS = "declare the objects as native typed resources of pulumi_kubernetes, which policies can see"
_REFUSED_TYPES = {
    "kubernetes:yaml:ConfigFile": _NATIVE_OBJECTS,
    "kubernetes:yaml:ConfigGroup": _NATIVE_OBJECTS,
    "kubernetes:yaml/v2:ConfigFile": _NATIVE_OBJECTS,
    "kubernetes:yaml/v2:ConfigGroup": _NATIVE_OBJECTS,
    "kubernetes:kustomize:Directory": _NATIVE_OBJECTS,
    "kubernetes:kustomize/v2:Directory": _NATIVE_OBJECTS,
    "kubernetes:helm.sh/v2:Chart": "use kubernetes.helm.v3.Release, which is recorded here and run by a real cluster",
    "kubernetes:helm.sh/v3:Chart": "use kubernetes.helm.v3.Release, which is recorded here and run by a real cluster",
    "kubernetes:helm.sh/v4:Chart": "use kubernetes.helm.v3.Release, which is recorded here and run by a real cluster",
}
_REFUSED_FUNCTIONS = {
    "kubernetes:yaml:decode": _NATIVE_OBJECTS,
    "kubernetes:helm:template": "use kubernetes.helm.v3.Release, which is recorded here and run by a real cluster",
    "kubernetes:kustomize:directory": _NATIVE_OBJECTS,
}


@dataclass(frozen=True, slots=True, order=True)
class ObjectKind:
    """Group, version and kind of an object; the group of core objects is empty."""

    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        """As in a manifest: `v1`, `apps/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def token(self) -> str:
        """Pulumi's type token."""
        return f"{PACKAGE}:{self.group or 'core'}/{self.version}:{self.kind}"

    @property
    def built_in(self) -> bool:
        return self.group in BUILT_IN_GROUPS

    @property
    def namespaced(self) -> bool | None:
        """None for a custom kind: only its definition knows."""
        return self.kind not in _CLUSTER_SCOPED if self.built_in else None

    def __str__(self) -> str:
        return f"{self.api_version} {self.kind}"


def parse(api_version: str, kind: str) -> ObjectKind:
    """The kind that a manifest names."""
    group, _, version = api_version.rpartition("/")
    return ObjectKind("" if group == "core" else group, version, kind)


def kind_of(type: str) -> ObjectKind:
    """The kind that a Pulumi type token means. Raises ProviderError for a token that is not modelled, with what to use instead."""
    package, _, rest = type.partition(":")
    api_version, _, kind = rest.rpartition(":")
    if type in _REFUSED_TYPES:
        raise refusal("component", type, _REFUSED_TYPES[type])
    if package != PACKAGE or not api_version.rpartition("/")[2] or not kind:
        raise ProviderError(
            f"{type} is no Kubernetes type: it cannot be created; a type reads kubernetes:<apiVersion>:<kind>, "
            "for instance kubernetes:apps/v1:Deployment"
        )
    found = parse(api_version, kind)
    if found.built_in and kind.endswith("Patch"):
        raise refusal("patch resource", type, f"own the whole object as {type.removesuffix('Patch')}, or patch it with kubectl")
    if found.built_in and kind.endswith("List"):
        raise refusal("list", type, f"create each object as {type.removesuffix('List')}")
    return found


def refuse_function(token: str) -> ProviderError:
    """Why a function of the package cannot be called."""
    return refusal("function", token, _REFUSED_FUNCTIONS.get(token, "read the object with <Kind>.get(name, id)"))


def refuse_component(type: str) -> ProviderError:
    """Why a component of the package cannot be made."""
    return refusal("component", type, _REFUSED_TYPES.get(type, _NATIVE_OBJECTS))


def refusal(what: str, token: str, remedy: str) -> ProviderError:
    return ProviderError(f"{token}: the embedded kubernetes provider does not model this {what}, so nothing was done; {remedy}")
