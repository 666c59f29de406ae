"""Which Kubernetes kind a Pulumi type token means, and which tokens are refused."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from pulumi_embedded.engine.provider import ProviderError
from pulumi_embedded.providers.kubernetes.kinds import ObjectKind, kind_of, parse, refuse_component, refuse_function

# Read as text: importing the SDK takes seconds.
_SPEC = find_spec("pulumi_kubernetes")
assert _SPEC is not None
assert _SPEC.origin is not None
SDK_TOKENS = sorted(set(re.findall(r'"(kubernetes:[^"]+)": "', Path(_SPEC.origin).read_text())))


def is_object(token: str) -> bool:
    return "helm.sh" not in token and "yaml" not in token and "kustomize" not in token and not token.endswith(("List", "Patch"))


def test_every_object_type_of_the_sdk_is_a_kind_and_back() -> None:
    tokens = [token for token in SDK_TOKENS if is_object(token)]
    assert len(tokens) > 100, "the SDK's table of types was not found"
    assert [kind_of(token).token for token in tokens] == tokens


@pytest.mark.parametrize("token", [token for token in SDK_TOKENS if token.endswith(("List", "Patch"))][:40])
def test_lists_and_patches_of_the_sdk_are_refused_with_what_to_use_instead(token: str) -> None:
    with pytest.raises(ProviderError, match=re.escape(token)) as refused:
        kind_of(token)
    assert "does not model" in str(refused.value)


def test_the_core_group_is_v1_in_a_manifest() -> None:
    assert kind_of("kubernetes:core/v1:ConfigMap") == ObjectKind("", "v1", "ConfigMap")
    assert kind_of("kubernetes:core/v1:ConfigMap").api_version == "v1"


def test_a_custom_resource_is_named_by_its_own_version_and_kind() -> None:
    kind = kind_of("kubernetes:networking.istio.io/v1:VirtualService")
    assert (kind.api_version, kind.kind, kind.built_in, kind.namespaced) == ("networking.istio.io/v1", "VirtualService", False, None)


def test_a_custom_kind_may_end_like_a_list() -> None:
    assert kind_of("kubernetes:example.com/v1:AllowList").kind == "AllowList"


@pytest.mark.parametrize(
    ("kind", "namespaced"),
    [
        ("core/v1:Namespace", False),
        ("core/v1:Pod", True),
        ("scheduling.k8s.io/v1:PriorityClass", False),
        ("rbac.authorization.k8s.io/v1:Role", True),
        ("rbac.authorization.k8s.io/v1:ClusterRole", False),
        ("admissionregistration.k8s.io/v1:ValidatingAdmissionPolicy", False),
    ],
)
def test_built_in_kinds_know_whether_they_have_a_namespace(kind: str, namespaced: bool) -> None:
    assert kind_of(f"kubernetes:{kind}").namespaced is namespaced


@pytest.mark.parametrize("token", ["aws:s3/bucket:Bucket", "kubernetes:Pod", "kubernetes:core/v1:", "kubernetes::Pod"])
def test_what_is_no_kubernetes_type_is_refused(token: str) -> None:
    with pytest.raises(ProviderError, match="no Kubernetes type"):
        kind_of(token)


@pytest.mark.parametrize("token", ["kubernetes:yaml/v2:ConfigGroup", "kubernetes:helm.sh/v4:Chart", "kubernetes:kustomize/v2:Directory"])
def test_components_are_refused_by_name_with_a_remedy(token: str) -> None:
    with pytest.raises(ProviderError, match=re.escape(token)):
        kind_of(token)
    assert token in str(refuse_component(token))


def test_functions_are_refused_by_name_with_a_remedy() -> None:
    assert "kubernetes:helm:template" in str(refuse_function("kubernetes:helm:template"))
    assert "helm.v3.Release" in str(refuse_function("kubernetes:helm:template"))


def test_a_manifest_that_says_core_v1_means_v1() -> None:
    assert parse("core/v1", "Pod") == parse("v1", "Pod")
