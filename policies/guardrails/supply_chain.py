"""Supply chain: what runs is exactly what was reviewed. Images by digest, from known registries; charts by version; add-ons pinned."""

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from headway.wire import RUNTIME
from policies.guardrails import workloads as w
from policies.guardrails.rule import Breaches, Domain, PolicyRule, PolicySeverity, breach
from policies.guardrails.view import ResourceView

_PLACEHOLDER = "@sha256:" + "0" * 64
_DIGEST = re.compile(r"@sha256:[0-9a-f]{64}\Z")


def _digest(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    for node in w.images(r):
        image = str(node.value or "")
        if not _DIGEST.search(image):
            yield breach(node, f"{image or 'no image'} is not named by a digest")
        elif image.endswith(_PLACEHOLDER):
            yield breach(node, f"{image.partition('@')[0]} has the placeholder of a starter for its digest")


def registry(image: str) -> str:
    """Registry host of an image reference; a name without one is Docker Hub's (distribution/reference)."""
    first, slash, _ = image.partition("/")
    return first if slash and ("." in first or ":" in first or first == "localhost") else "docker.io"


def _registry(r: ResourceView, c: Mapping[str, Any]) -> Breaches:
    allowed = tuple(c["registries"])
    if not allowed:
        return
    for node in w.images(r):
        host = registry(str(node.value or ""))
        if not any(host == a or (a.startswith("*.") and host.endswith(a[1:])) for a in allowed):
            yield breach(node, f"{host} is not among the allowed registries {', '.join(allowed)}")


def _runtime(r: ResourceView, c: Mapping[str, Any]) -> Breaches:
    labels = w.template(r).at("metadata", "labels")
    if w.namespace(r) in c["placeholderNamespaces"]:
        return
    if not any(name for container in w.containers(r) for name, _ in w.gpus(container)):
        return
    runtime = labels[c["label"]]
    if not runtime.present:
        yield breach(f"{labels.path}.{c['label']}", "the pod uses a GPU and does not say which runtime it is")
    elif runtime.value not in c["runtimes"]:
        yield breach(runtime, f"runtime {runtime.value!r} is not among the allowed {', '.join(c['runtimes'])}")


def _pull_latest(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    for c in w.containers(r):
        if c["imagePullPolicy"].value == "Always":
            yield breach(c["imagePullPolicy"], f"container {c['name'].value} pulls its image at every start")


def _chart_version(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    version = r["version"].value
    if not version or not re.fullmatch(r"v?\d+\.\d+\.\d+([-+][0-9A-Za-z.-]+)?", str(version)):
        yield breach("version", f"chart {r['chart'].value} has version {version!r}, which is no exact version")


def _addon_version(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    if not r["addonVersion"].present:
        yield breach("addonVersion", f"add-on {r['addonName'].value} takes whatever version is newest")


def _release_version(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    if str(r["amiType"].value or "") != "CUSTOM" and not r["releaseVersion"].present:
        yield breach("releaseVersion", "the node group takes whatever AMI release is newest")
    template = r.at("launchTemplate", "version")
    # A version that is not known yet is the number of a template to be made.
    if template.known and str(template.value).startswith("$"):
        yield breach(template, "the node group takes whatever version of its launch template is current")


def _cluster_version(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    if not r["version"].present:
        yield breach("version", "the cluster takes whatever Kubernetes version is newest")


def _immutable_tags(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    if not str(r["imageTagMutability"].value or "MUTABLE").startswith("IMMUTABLE"):
        yield breach("imageTagMutability", "tags of this repository can be moved to another image")


def _scan(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    if r.at("imageScanningConfiguration", "scanOnPush").value is not True:
        yield breach("imageScanningConfiguration.scanOnPush", "images are not scanned when they are pushed")


_rule = partial(PolicyRule, domain=Domain.SUPPLY_CHAIN)

RULES = (
    _rule(
        id="image-by-digest",
        title="Every image is named by its digest.",
        rationale="A tag can be moved: what runs would no longer be what was validated, and a rollback would not bring it back.",
        remedy="Write image: repository@sha256:<64 hex digits>; in a contract, runtime.image.",
        applies=w.WORKLOADS,
        check=_digest,
        severity=PolicySeverity.CRITICAL,
    ),
    _rule(
        id="image-registry-allowed",
        title="Images come from registries that the environment allows.",
        rationale="An image from another registry is neither mirrored nor scanned, and may be missing when a node starts.",
        remedy="Mirror the image and name the mirror, or add its registry to `registries` with a reason.",
        applies=w.WORKLOADS,
        check=_registry,
        settings={"registries": {"type": "array", "items": {"type": "string"}, "default": []}},
    ),
    _rule(
        id="runtime-allowed",
        title="A GPU pod runs an allowed runtime.",
        rationale="The platform would not understand the server's probes, metrics or limits.",
        remedy="Use a runtime of the contract (triton, vllm, container) or extend `runtimes` in policies/config/<environment>.json.",
        applies=w.WORKLOADS,
        check=_runtime,
        settings={
            "runtimes": {"type": "array", "items": {"type": "string"}, "default": ["container", "triton", "vllm"]},
            "label": {"type": "string", "default": RUNTIME},
            **w.PLACEHOLDERS,
        },
    ),
    _rule(
        id="image-not-pulled-always",
        title="An image named by digest is not pulled at every start.",
        rationale="The content of a digest never changes; pulling it again only makes every start depend on the registry.",
        remedy="Set imagePullPolicy: IfNotPresent.",
        applies=w.WORKLOADS,
        check=_pull_latest,
        severity=PolicySeverity.LOW,
    ),
    _rule(
        id="chart-version-exact",
        title="A Helm release names an exact chart version.",
        rationale="The next `pulumi up` could install a version that nobody has reviewed.",
        remedy="Take the version from components/versions.py.",
        applies=(w.HELM_RELEASE,),
        check=_chart_version,
    ),
    _rule(
        id="addon-version-pinned",
        title="An EKS add-on names its version.",
        rationale="Any unrelated `pulumi up` would upgrade an unpinned add-on.",
        remedy="Set addonVersion from components/versions.py.",
        applies=("aws:eks/addon:Addon",),
        check=_addon_version,
    ),
    _rule(
        id="node-release-pinned",
        title="A node group pins its AMI release.",
        rationale="The driver comes with the AMI, so an unpinned release would move the GPU fleet to an untested driver.",
        remedy="Set releaseVersion from components/versions.py.",
        applies=("aws:eks/nodeGroup:NodeGroup",),
        check=_release_version,
    ),
    _rule(
        id="cluster-version-pinned",
        title="A cluster pins its Kubernetes version.",
        rationale="Two environments that were built a month apart would serve different versions of the Kubernetes API.",
        remedy="Set version from components/versions.py.",
        applies=("aws:eks/cluster:Cluster", "eks:index:Cluster"),
        check=_cluster_version,
    ),
    _rule(
        id="repository-tags-immutable",
        title="Tags of an image repository cannot be moved.",
        rationale="With a moved tag, the audit trail would no longer say what was pushed.",
        remedy="Set imageTagMutability: IMMUTABLE.",
        applies=("aws:ecr/repository:Repository",),
        check=_immutable_tags,
    ),
    _rule(
        id="repository-scans-on-push",
        title="An image repository scans what is pushed.",
        rationale="A known vulnerability would reach a GPU node unnoticed.",
        remedy="Set imageScanningConfiguration.scanOnPush: true.",
        applies=("aws:ecr/repository:Repository",),
        check=_scan,
        severity=PolicySeverity.MEDIUM,
    ),
)
