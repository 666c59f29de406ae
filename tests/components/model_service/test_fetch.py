"""The artifact fetcher, run as the init container runs it: a process against an S3 that checks every signature with
botocore.
"""

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.loopback import Handler, served

SCRIPT = Path(__file__).parents[3] / "components" / "model_service" / "scripts" / "fetch.py"
UNHURRIED = "import runpy, sys, time; time.sleep = lambda seconds: None; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')"
"""Runs the fetcher as a process, without the pauses between its attempts."""
KEYS = Credentials("AKIDEXAMPLE", "not-a-real-secret", "session-token")


@dataclass
class Bucket:
    """An S3 look-alike that serves `objects` by range, refuses a wrong signature, and counts what it was asked."""

    objects: dict[str, bytes]
    url: str = ""
    requests: list[str] = field(default_factory=list[str])
    failures: list[int] = field(default_factory=list[int])
    """Status codes to answer first, one for each request."""
    truncate: bool = False
    whole: bool = False
    """Answer every range with the whole object, as a proxy without ranges does."""
    elsewhere: str = ""
    """Redirect every request there."""

    def authorised(self, path: str, headers: Any) -> bool:
        claimed = headers["authorization"].partition("SignedHeaders=")[2].partition(",")[0].split(";")
        request = AWSRequest("GET", self.url + path, headers={name: headers[name] for name in claimed if name != "host"})
        request.context["timestamp"] = headers["x-amz-date"]
        signer = S3SigV4Auth(KEYS, "s3", "us-west-2")
        canonical = signer.canonical_request(request)
        signature = signer.signature(signer.string_to_sign(request, canonical), request)
        return headers["authorization"].endswith(f"Signature={signature}")


@pytest.fixture
def bucket() -> Iterator[Bucket]:
    found = Bucket({})

    class Objects(Handler):
        def do_GET(self) -> None:
            found.requests.append(self.path)
            if found.elsewhere:
                return self.reply(307, location=found.elsewhere + self.path)
            if found.failures:
                return self.reply(found.failures.pop(0), "slow down")
            if not found.authorised(self.path, self.headers):
                return self.reply(403, b"SignatureDoesNotMatch")
            data = found.objects.get(self.path)
            if data is None:
                return self.reply(404, b"NoSuchKey")
            span = self.headers.get("range")
            if span is None or found.whole:
                return self.reply(200, data)
            first, last = (int(n) for n in span.removeprefix("bytes=").split("-"))
            return self.reply(206, data[first : last + 1][: -1 if found.truncate else None])

    with served(Objects) as found.url:
        yield found


def fetch(
    bucket: Bucket,
    tmp_path: Path,
    files: dict[str, bytes],
    places: list[dict[str, str]] | None = None,
    node: dict[str, str] | None = None,
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    """Run the fetcher for an artifact whose contract lists `files` with these contents."""
    rows = [{"path": path, "sha256": hashlib.sha256(data).hexdigest(), "size": len(data)} for path, data in files.items()]
    config = tmp_path / "fetch.json"
    target = str(tmp_path / "cache")
    said: dict[str, Any] = {
        "region": "us-west-2",
        "uri": "s3://models/vision/resnet/",
        "files": rows,
        "target": target,
        "places": places or [],
    }
    config.write_text(json.dumps({**said, "node": node} if node else said))
    keys = {"AWS_ACCESS_KEY_ID": KEYS.access_key, "AWS_SECRET_ACCESS_KEY": KEYS.secret_key, "AWS_SESSION_TOKEN": str(KEYS.token)}
    return subprocess.run(
        [sys.executable, "-I", "-c", UNHURRIED, str(SCRIPT), str(config)],
        env={"AWS_ENDPOINT_URL_S3": bucket.url, "PATH": "/usr/bin:/bin", **(environment or keys)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


MODEL = "1/model.onnx"
KEY = "/models/vision/resnet/1/model.onnx"


def test_a_file_of_several_ranges_arrives_whole_and_signed_as_by_botocore(bucket: Bucket, tmp_path: Path) -> None:
    data = bytes(range(256)) * 80_000  # 20 MB: three ranges
    bucket.objects[KEY] = data
    done = fetch(bucket, tmp_path, {MODEL: data})
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "cache" / MODEL).read_bytes() == data
    assert len(bucket.requests) == 3


def test_one_flipped_byte_is_refused_and_leaves_nothing_a_server_could_load(bucket: Bucket, tmp_path: Path) -> None:
    data = b"weights" * 1000
    bucket.objects[KEY] = data[:-1] + b"S"
    done = fetch(bucket, tmp_path, {MODEL: data})
    assert done.returncode == 1
    assert "the contract states" in done.stderr
    assert "Traceback" not in done.stderr
    assert list((tmp_path / "cache" / "1").iterdir()) == []


@pytest.mark.parametrize("lie", [b"W" + b"eights" * 1000, b"weights", b"weights" * 2000], ids=["altered", "short", "long"])
def test_what_the_nodes_store_says_is_proven_like_everything_else(bucket: Bucket, tmp_path: Path, lie: bytes) -> None:
    data = b"w" + b"eights" * 1000
    bucket.objects[KEY] = data
    (token := tmp_path / "token").write_text("token")

    class Lying(Handler):
        def do_GET(self) -> None:
            self.reply(200, lie)

    with served(Lying) as address:
        done = fetch(bucket, tmp_path, {MODEL: data}, node={"url": address, "token": str(token)})
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "cache" / MODEL).read_bytes() == data
    assert "the node's store is not asked again" in done.stdout


def test_a_restart_verifies_what_it_finds_and_asks_for_nothing_again(bucket: Bucket, tmp_path: Path) -> None:
    data = b"weights" * 1000
    bucket.objects[KEY] = data
    fetch(bucket, tmp_path, {MODEL: data})
    bucket.requests.clear()
    done = fetch(bucket, tmp_path, {MODEL: data})
    assert done.returncode == 0
    assert f"kept {MODEL}" in done.stdout
    assert bucket.requests == []


def test_a_cached_file_that_was_altered_is_fetched_again(bucket: Bucket, tmp_path: Path) -> None:
    data = b"weights" * 1000
    bucket.objects[KEY] = data
    fetch(bucket, tmp_path, {MODEL: data})
    cached = tmp_path / "cache" / MODEL
    cached.write_bytes(b"W" + data[1:])
    assert fetch(bucket, tmp_path, {MODEL: data}).returncode == 0
    assert cached.read_bytes() == data


def test_only_what_is_missing_of_several_files_is_fetched(bucket: Bucket, tmp_path: Path) -> None:
    files = {"config.json": b"{}", "shards/model-00001.safetensors": b"w" * 5000, "empty": b""}
    for name, data in files.items():
        bucket.objects[f"/models/vision/resnet/{name}"] = data
    assert fetch(bucket, tmp_path, files).returncode == 0
    for name, data in files.items():
        assert (tmp_path / "cache" / name).read_bytes() == data
    (tmp_path / "cache" / "config.json").unlink()
    bucket.requests.clear()
    assert fetch(bucket, tmp_path, files).returncode == 0
    assert bucket.requests == ["/models/vision/resnet/config.json"]


@pytest.mark.parametrize("path", ["../../etc/passwd", "/etc/passwd", "a/../../b"])
def test_a_path_outside_the_artifact_is_refused(bucket: Bucket, tmp_path: Path, path: str) -> None:
    done = fetch(bucket, tmp_path, {path: b"x"})
    assert done.returncode == 1
    assert "outside the artifact" in done.stderr
    assert bucket.requests == []


def test_a_store_that_says_slow_down_is_asked_again(bucket: Bucket, tmp_path: Path) -> None:
    data = b"weights" * 10
    bucket.objects[KEY] = data
    bucket.failures = [503, 500]
    assert fetch(bucket, tmp_path, {MODEL: data}).returncode == 0
    assert len(bucket.requests) == 3


def test_a_missing_object_is_refused_at_once_and_named(bucket: Bucket, tmp_path: Path) -> None:
    done = fetch(bucket, tmp_path, {MODEL: b"weights"})
    assert done.returncode == 1
    assert "model.onnx cannot be read: 404" in done.stderr
    assert len(bucket.requests) == 1


def test_a_range_that_comes_back_short_is_not_taken_for_the_whole(bucket: Bucket, tmp_path: Path) -> None:
    data = b"weights" * 10
    bucket.objects[KEY] = data
    bucket.truncate = True
    done = fetch(bucket, tmp_path, {MODEL: data})
    assert done.returncode == 1
    assert "69 bytes where 70 were asked for" in done.stderr


def test_an_artifact_larger_than_the_disk_is_refused_before_any_byte_is_fetched(bucket: Bucket, tmp_path: Path) -> None:
    rows = [{"path": MODEL, "sha256": "0" * 64, "size": 2**60}]
    config = tmp_path / "large.json"
    config.write_text(
        json.dumps({"region": "us-west-2", "uri": "s3://models/vision/", "files": rows, "target": str(tmp_path / "cache"), "places": []})
    )
    done = subprocess.run([sys.executable, "-I", str(SCRIPT), str(config)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "needs 1152921504606846976 more bytes" in done.stderr


def test_rendered_files_are_put_where_the_server_reads_them(bucket: Bucket, tmp_path: Path) -> None:
    (tmp_path / "rendered").write_text('name: "resnet"')
    target = tmp_path / "repository" / "resnet" / "config.pbtxt"
    assert fetch(bucket, tmp_path, {}, places=[{"from": str(tmp_path / "rendered"), "to": str(target)}]).returncode == 0
    assert target.read_text() == 'name: "resnet"'


def test_pod_identity_credentials_are_taken_from_the_agent_and_never_printed(bucket: Bucket, tmp_path: Path) -> None:
    data = b"weights"
    bucket.objects[KEY] = data
    token = tmp_path / "token"
    token.write_text("pod-token\n")
    seen: list[str | None] = []

    class Agent(Handler):
        def do_GET(self) -> None:
            seen.append(self.headers["authorization"])
            self.reply(200, {"AccessKeyId": KEYS.access_key, "SecretAccessKey": KEYS.secret_key, "Token": KEYS.token})

    with served(Agent) as agent:
        done = fetch(
            bucket,
            tmp_path,
            {MODEL: data},
            AWS_CONTAINER_CREDENTIALS_FULL_URI=f"{agent}/v1/credentials",
            AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE=str(token),
        )
    assert done.returncode == 0, done.stderr
    assert seen == ["pod-token"]
    assert KEYS.secret_key not in done.stdout + done.stderr
    assert str(KEYS.token) not in done.stdout + done.stderr


def test_a_pod_without_an_identity_is_told_what_it_lacks(bucket: Bucket, tmp_path: Path) -> None:
    done = fetch(bucket, tmp_path, {MODEL: b"x"}, HOME="/nonexistent")
    assert done.returncode == 1
    assert "Pod Identity" in done.stderr


def test_credentials_follow_no_redirect(bucket: Bucket, tmp_path: Path) -> None:
    """What is signed for one host would otherwise be shown, session token and all, to any host that it names."""
    asked: list[str] = []

    class Elsewhere(Handler):
        def do_GET(self) -> None:
            asked.append(str(self.headers))
            self.reply(404)

    with served(Elsewhere) as bucket.elsewhere:
        done = fetch(bucket, tmp_path, {MODEL: b"model"})
    assert done.returncode == 1
    assert "307" in done.stderr
    assert asked == []


def test_a_server_that_ignores_ranges_is_refused_and_read_no_further(bucket: Bucket, tmp_path: Path) -> None:
    data = bytes(9 * 1024 * 1024)  # two ranges
    bucket.objects[KEY] = data
    bucket.whole = True
    done = fetch(bucket, tmp_path, {MODEL: data})
    assert done.returncode == 1
    assert "bytes where" in done.stderr
    assert not (tmp_path / "cache" / MODEL).exists()
