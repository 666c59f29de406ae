"""A kubeconfig read by several threads at once."""

import base64
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from kubernetes.config import ConfigException, kube_config

from headway.environment.kubernetes import KubernetesApi, settings

AUTHORITY = base64.b64encode(b"-----BEGIN CERTIFICATE-----").decode()
KUBECONFIG = {
    "current-context": "here",
    "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
    "clusters": [{"name": "here", "cluster": {"server": "https://127.0.0.1:1", "certificate-authority-data": AUTHORITY}}],
    "users": [{"name": "me", "user": {}}],
}


@pytest.mark.parametrize(
    "content", [b"# a page: with: colons", b"- a list", b"text", b"\xff\xfe", b"contexts: 3", b"current-context: here", b""]
)
def test_a_file_that_is_no_kubeconfig_is_refused_without_quoting_it(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "secret.txt"
    file.write_bytes(content)
    with pytest.raises(ConfigException) as refused:
        settings(str(file))
    assert content.decode("latin-1") not in str(refused.value) or not content


def test_a_cluster_is_told_by_the_address_of_its_api_server() -> None:
    assert KubernetesApi(KUBECONFIG).address == "https://127.0.0.1:1"


def test_no_thread_trusts_a_certificate_that_another_has_not_written_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*arguments: Any, **options: Any) -> Any:
        time.sleep(0.05)
        return open(*arguments, **options)  # noqa: PTH123  as the client itself calls it

    monkeypatch.setattr(kube_config, "open", slow, raising=False)
    monkeypatch.setattr(kube_config, "_temp_files", {})

    def trusted(_: int) -> bytes:
        return Path(settings(KUBECONFIG).ssl_ca_cert).read_bytes()

    with ThreadPoolExecutor(4) as threads:
        assert set(threads.map(trusted, range(4))) == {b"-----BEGIN CERTIFICATE-----"}
