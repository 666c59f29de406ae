"""What a probe says of its own network, devices and credentials, as its container runs it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headway.verify import inside
from headway.verify.probe import SCRIPT
from tests.loopback import Handler, served


class Answering(Handler):
    def do_GET(self) -> None:
        self.reply(200 if self.path == "/" else 404)


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inside, "PAUSE_SECONDS", 0.0)


def test_a_connection_is_taken_or_not() -> None:
    with served(Answering) as address:
        port = int(address.rpartition(":")[2])
        assert inside.connect({"targets": {"it": ["127.0.0.1", port]}}) == {"it": "taken"}
        assert inside.ask({"url": f"{address}/"}) == {"answer": "200"}
        assert inside.ask({"url": f"{address}/no"}) == {"answer": "404"}
    assert inside.connect({"targets": {"it": ["127.0.0.1", port]}}) == {"it": "refused"}
    assert inside.ask({"url": f"{address}/", "tries": 1}) == {"answer": "ConnectionRefusedError"}


def test_a_container_without_a_driver_sees_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert inside.devices({})["listed"] == "" and "nvidia-smi" in inside.devices({})["wrong"]


def test_a_pod_without_credentials_says_so_and_not_that_s3_refused(tmp_path: Path) -> None:
    """As STS answers where the role does not trust the service account, and the agent where there is no association."""
    fetcher = "import urllib.error\nclass Refused(Exception): pass\ndef credentials(e): raise urllib.error.HTTPError('u', 403, 'Forbidden', {}, None)\n"
    (tmp_path / "fetch.py").write_text(fetcher)
    question = {"scripts": str(tmp_path), "objects": {"vision": {"uri": "s3://b/vision/x", "region": "r"}}}
    done = subprocess.run([sys.executable, "-c", SCRIPT, "artifacts", json.dumps(question)], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {"vision": "no credentials: HTTP Error 403: Forbidden"}


def test_the_pods_own_fetcher_is_asked_for_each_object(tmp_path: Path) -> None:
    fetcher = (
        "class Refused(Exception): pass\n"
        "def credentials(e): return {}\n"
        "def address(uri, region, e): return uri\n"
        "def get(url, region, keys, span):\n"
        "    if 'assist' in url: raise Refused(url + ' cannot be read: 403 Forbidden')\n"
    )
    (tmp_path / "fetch.py").write_text(fetcher)
    objects = {name: {"uri": f"s3://b/{name}/x", "region": "r"} for name in ("vision", "assist")}
    question: dict[str, Any] = {"scripts": str(tmp_path), "objects": objects}
    done = subprocess.run([sys.executable, "-c", SCRIPT, "artifacts", json.dumps(question)], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {"vision": "read", "assist": "403 Forbidden"}
