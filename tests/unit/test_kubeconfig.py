"""A kubeconfig read by several threads at once."""

import base64
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from kubernetes.config import kube_config

from headway.kubeconfig import settings

AUTHORITY = base64.b64encode(b"-----BEGIN CERTIFICATE-----").decode()
KUBECONFIG = {
    "current-context": "here",
    "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
    "clusters": [{"name": "here", "cluster": {"server": "https://127.0.0.1:1", "certificate-authority-data": AUTHORITY}}],
    "users": [{"name": "me", "user": {}}],
}


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
