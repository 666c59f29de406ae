"""What is built: sets of programs and files from pinned Go modules, as data. Nothing here runs.

A set is the unit of caching: it is built when it is first asked for, and again when anything that `fingerprint` covers
has changed. The local Go's own version is left out on purpose: every Go that satisfies the module's `go` line builds
the same programs, and a person who upgrades Go should not wait minutes for them.
"""

import hashlib
import platform
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

MODULES = Path(__file__).parent / "toolchain"

RECIPE = 1
"""Raise when `toolchain.py` builds differently from the same inputs."""

Versions = Mapping[str, str]
"""Module path to version, as required by a go.mod."""


@dataclass(frozen=True, kw_only=True)
class Binary:
    """One executable. With `programs`, it answers to each of those names by a symbolic link, else to `name` alone."""

    name: str
    package: str
    programs: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    stamps: Callable[[Versions], Mapping[str, str]] = lambda _: {}
    """Variables to set at link time (`-X`), given the versions in go.mod."""


@dataclass(frozen=True, kw_only=True)
class ModuleFiles:
    """Files copied out of a module's source; only those whose text contains `containing`."""

    folder: str
    """Where they go, below the set's folder."""
    module: str
    patterns: tuple[str, ...]
    containing: str = ""


@dataclass(frozen=True, kw_only=True)
class ToolSet:
    """One Go module of ours, `<source>/<name>`, and what comes of it."""

    name: str
    source: Path = MODULES
    binaries: tuple[Binary, ...] = ()
    files: tuple[ModuleFiles, ...] = ()
    disk_bytes: int
    """Free space that downloads, build cache and result need at their peak, with a margin."""

    @property
    def folder(self) -> Path:
        return self.source / self.name


def _kubernetes_stamps(versions: Versions) -> Mapping[str, str]:
    """Unstamped, /version says v0.0.0-master and confuses clients."""
    version = versions["k8s.io/kubernetes"]
    major, minor, _ = version.removeprefix("v").split(".", 2)
    base = "k8s.io/component-base/version"
    return {
        f"{base}.buildDate": "1970-01-01T00:00:00Z",
        f"{base}.gitMajor": major,
        f"{base}.gitMinor": minor,
        f"{base}.gitTreeState": "archive",
        f"{base}.gitVersion": version,
        "k8s.io/client-go/pkg/version.gitVersion": version,
    }


_GIB = 1 << 30
_CRD = "kind: CustomResourceDefinition"

CONTROL_PLANE = ToolSet(
    name="control-plane",
    binaries=(
        Binary(
            name="control-plane",
            package=".",
            programs=("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"),
            stamps=_kubernetes_stamps,
        ),
    ),
    files=(
        ModuleFiles(
            folder="stages",
            module="sigs.k8s.io/kwok",
            patterns=(
                "kustomize/stage/node/fast/node-initialize.yaml",
                "kustomize/stage/node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
                "kustomize/stage/pod/fast/pod-*.yaml",
            ),
        ),
    ),
    disk_bytes=8 * _GIB,  # measured at the peak: 6.6, of modules, compiled packages, the linker's work and, where Go had to be fetched, Go
)

CRDS = ToolSet(
    name="crds",
    files=(
        ModuleFiles(
            folder="cert-manager",
            module="github.com/cert-manager/cert-manager",
            patterns=("deploy/crds/*cert-manager.io_*.yaml",),
            containing=_CRD,
        ),
        ModuleFiles(
            folder="istio",
            module="istio.io/api",
            patterns=("kubernetes/customresourcedefinitions.gen.yaml",),
            containing=_CRD,
        ),
        ModuleFiles(
            folder="keda",
            module="github.com/kedacore/keda/v2",
            patterns=("config/crd/bases/*keda.sh_*.yaml",),
            containing=_CRD,
        ),
        ModuleFiles(
            folder="prometheus-operator",
            module="github.com/prometheus-operator/prometheus-operator",
            patterns=("example/prometheus-operator-crd/monitoring.coreos.com_*.yaml",),
            containing=_CRD,
        ),
        ModuleFiles(
            folder="gateway-api",
            module="sigs.k8s.io/gateway-api",
            patterns=("config/crd/standard/gateway.networking.k8s.io_*.yaml",),
            containing=_CRD,
        ),
        ModuleFiles(
            folder="inference-extension",
            module="sigs.k8s.io/gateway-api-inference-extension",
            patterns=("config/crd/bases/inference.networking.k8s.io_inferencepools.yaml",),
            containing=_CRD,
        ),
    ),
    disk_bytes=_GIB // 2,
)


def _prometheus_stamps(versions: Versions) -> Mapping[str, str]:
    """Unstamped, build information is empty. Module v0.314.0 is release 3.14.0."""
    major, minor, patch = re.findall(r"^v0\.(\d)(\d\d)\.(\d+)$", versions["github.com/prometheus/prometheus"])[0]
    return {"github.com/prometheus/common/version.Version": f"{major}.{int(minor)}.{patch}"}


def _alertmanager_stamps(versions: Versions) -> Mapping[str, str]:
    return {"github.com/prometheus/common/version.Version": versions["github.com/prometheus/alertmanager"].removeprefix("v")}


def _keda_stamps(versions: Versions) -> Mapping[str, str]:
    return {"github.com/kedacore/keda/v2/version.Version": versions["github.com/kedacore/keda/v2"].removeprefix("v")}


# Of all the ways to discover what is to be scraped only Kubernetes' own: those of the clouds are two thirds of the program.
_DISCOVERY = ("remove_all_sd", "enable_kubernetes_sd")

PROMETHEUS = ToolSet(
    name="prometheus",
    binaries=tuple(
        Binary(name=name, package=f"github.com/prometheus/prometheus/cmd/{name}", tags=_DISCOVERY, stamps=_prometheus_stamps)
        for name in ("prometheus", "promtool")
    ),
    disk_bytes=6 * _GIB,
)

ALERTMANAGER = ToolSet(
    name="alertmanager",
    binaries=tuple(
        Binary(name=name, package=f"github.com/prometheus/alertmanager/cmd/{name}", stamps=_alertmanager_stamps)
        for name in ("alertmanager", "amtool")
    ),
    disk_bytes=2 * _GIB,
)

KEDA = ToolSet(
    name="keda",
    binaries=tuple(
        Binary(name=f"keda-{part}", package=f"github.com/kedacore/keda/v2/cmd/{part}", stamps=_keda_stamps)
        for part in ("operator", "adapter", "webhooks")
    ),
    files=(ModuleFiles(folder="webhooks", module="github.com/kedacore/keda/v2", patterns=("config/webhooks/validation_webhooks.yaml",)),),
    disk_bytes=10 * _GIB,
)

COLLECTOR = ToolSet(name="collector", binaries=(Binary(name="otelcol", package="."),), disk_bytes=4 * _GIB)
"""For its tests alone; the sandbox starts none."""

CERT_MANAGER = ToolSet(name="cert-manager", binaries=(Binary(name="cert-manager", package="."),), disk_bytes=4 * _GIB)
"""For its test alone; the sandbox starts none."""

REGISTRY = ToolSet(name="registry", binaries=(Binary(name="registry", package="."),), disk_bytes=2 * _GIB)
"""A registry of images, for the tests of the mirror; the sandbox starts none."""

HELM = ToolSet(name="helm", binaries=(Binary(name="helm", package="helm.sh/helm/v3/cmd/helm"),), disk_bytes=3 * _GIB)
"""For the tests that render charts, where somebody has them."""

NETWORK_POLICIES = ToolSet(name="network-policies", binaries=(Binary(name="network-policies", package="."),), disk_bytes=3 * _GIB)
"""The reference implementation's judgement of packets, for the test of our own; the sandbox starts none."""

PROMETHEUS_OPERATOR = ToolSet(
    name="prometheus-operator",
    binaries=(Binary(name="prometheus-operator", package="github.com/prometheus-operator/prometheus-operator/cmd/operator"),),
    disk_bytes=6 * _GIB,
)
"""For its test alone; the sandbox starts none."""

KUBE_STATE_METRICS = ToolSet(
    name="kube-state-metrics",
    binaries=(Binary(name="kube-state-metrics", package="k8s.io/kube-state-metrics/v2"),),
    disk_bytes=4 * _GIB,
)

NODE_EXPORTER = ToolSet(
    name="node-exporter",
    binaries=(Binary(name="node_exporter", package="github.com/prometheus/node_exporter"),),
    disk_bytes=2 * _GIB,
)

RATELIMIT = ToolSet(
    name="ratelimit",
    binaries=(Binary(name="ratelimit", package="github.com/envoyproxy/ratelimit/src/service_cmd"),),
    disk_bytes=2 * _GIB,
)
"""Envoy's rate limit service, for its tests alone; the sandbox starts none."""

SETS: Mapping[str, ToolSet] = {
    each.name: each
    for each in (
        CONTROL_PLANE,
        CRDS,
        PROMETHEUS,
        ALERTMANAGER,
        KEDA,
        COLLECTOR,
        CERT_MANAGER,
        REGISTRY,
        HELM,
        NETWORK_POLICIES,
        PROMETHEUS_OPERATOR,
        KUBE_STATE_METRICS,
        NODE_EXPORTER,
        RATELIMIT,
    )
}


def fingerprint(tool_set: ToolSet) -> str:
    """Digest of everything that decides the result: module files, sources of ours, link stamps, recipe and platform."""
    digest = hashlib.sha256()

    def add(*parts: str | bytes) -> None:
        for part in parts:
            data = part.encode() if isinstance(part, str) else part
            digest.update(len(data).to_bytes(8, "big") + data)

    add(str(RECIPE), platform.system(), platform.machine())
    for path in sorted(p for p in tool_set.folder.iterdir() if p.name in {"go.mod", "go.sum"} or p.suffix == ".go"):
        add(path.name, path.read_bytes())
    versions = required_versions((tool_set.folder / "go.mod").read_text())
    for binary in tool_set.binaries:
        add(binary.name, binary.package, *binary.programs, *binary.tags, link_flags(binary, versions))
    for files in tool_set.files:
        add(files.folder, files.module, *files.patterns, files.containing)
    return digest.hexdigest()[:16]


def required_versions(go_mod: str) -> dict[str, str]:
    """Module path to version for every `require` line of a go.mod."""
    return dict(re.findall(r"^(?:require\s+|\t)([\w./~-]+) (v\S+)(?:\s*//.*)?$", go_mod, re.MULTILINE))


def go_directive(go_mod: str) -> tuple[int, ...]:
    """The oldest Go that may build the module: `go 1.26.0` is (1, 26, 0)."""
    found = re.search(r"^go (\d+(?:\.\d+)*)$", go_mod, re.MULTILINE)
    if found is None:
        raise ValueError("go.mod has no go directive")
    return tuple(int(part) for part in found[1].split("."))


def link_flags(binary: Binary, versions: Versions) -> str:
    """The value of -ldflags: no symbol tables, and the stamps."""
    return " ".join(["-s", "-w", *(f"-X {variable}={value}" for variable, value in sorted(binary.stamps(versions).items()))])
