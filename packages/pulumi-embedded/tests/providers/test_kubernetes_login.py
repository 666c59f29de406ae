"""How the kubernetes double stands in for `aws eks get-token`: for the cluster of this machine alone."""

import json
from pathlib import Path
from typing import Any

import pytest

from pulumi_embedded.engine.provider import ProviderError
from pulumi_embedded.providers.kubernetes.settings import parse


def kubeconfig(user: dict[str, Any], server: str = "https://127.0.0.1:6443", authority: str = "Q0E=") -> dict[str, Any]:
    return {
        "clusters": [{"name": "c", "cluster": {"server": server, "certificate-authority-data": authority}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }


def login(*words: str) -> dict[str, Any]:
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "aws", "args": list(words)}}


OURS = {"client-certificate-data": "Q0VSVA==", "client-key-data": "S0VZ"}
BY_NAME = login("--region", "us-west-2", "eks", "get-token", "--cluster-name", "headway-prod", "--output", "json")


def user_of(tmp_path: Path, given: dict[str, Any]) -> Any:
    (tmp_path / "kubeconfig").write_text(json.dumps(kubeconfig(OURS)))
    return parse({"kubeconfig": json.dumps(given)}, tmp_path / "kubeconfig").kubeconfig["users"][0]["user"]


def test_a_token_of_eks_is_stood_in_for_by_this_machines_own_login(tmp_path: Path) -> None:
    assert user_of(tmp_path, kubeconfig(BY_NAME)) == OURS


def test_no_token_opens_another_cluster_than_this_machines(tmp_path: Path) -> None:
    with pytest.raises(ProviderError, match="is not the one of this machine"):
        user_of(tmp_path, kubeconfig(BY_NAME, authority="b3RoZXI="))


def test_this_machines_cluster_is_reached_where_it_listens_now(tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").write_text(json.dumps(kubeconfig(OURS)))
    given = json.dumps(kubeconfig(BY_NAME, server="https://127.0.0.1:7000"))
    found = parse({"kubeconfig": given}, tmp_path / "kubeconfig").kubeconfig["clusters"]
    assert [each["cluster"]["server"] for each in found] == ["https://127.0.0.1:6443"]


def test_a_token_of_eks_is_for_a_cluster_that_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProviderError, match="required: --cluster-name"):
        user_of(tmp_path, kubeconfig(login("eks", "get-token")))


def test_any_other_login_stays_as_it_is(tmp_path: Path) -> None:
    assert user_of(tmp_path, kubeconfig(login("sts", "get-caller-identity"))) == login("sts", "get-caller-identity")
    assert user_of(tmp_path, kubeconfig({"token": "t"})) == {"token": "t"}
