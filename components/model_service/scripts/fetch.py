"""Brings model artifacts from S3 into the pod's cache on the node's own disk, and lets nothing pass that its checksum does not prove.

Runs as an init container from a ConfigMap, in the serving image, on the standard library alone: `python3 fetch.py CONFIG`. The contract
lists every file below the artifact's prefix with its size and SHA-256. Files are fetched by parallel ranges into `.partial`, verified,
then renamed: what has its final name is proven. A restarted container verifies what it finds and fetches only what is missing.

Where the platform keeps artifacts on the node (`node` in the configuration), a file is asked for there first, with a token that says whose pod
this is; whatever goes wrong there, S3 is asked instead. What comes from the node is proven like everything else.

Credentials: environment, EKS Pod Identity (container credentials), or a web identity token (IRSA), in this order. They are never printed.
The trap: ranges hide a truncated object, so the length of every range and the digest of the whole are both checked.
"""

import concurrent.futures
import datetime
import hashlib
import hmac
import http.client
import json
import os
import shutil
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import xml.etree.ElementTree
from pathlib import Path, PurePosixPath
from typing import Any

RANGE_BYTES = 8 * 1024 * 1024
CONNECTIONS = 32
"""S3 gives one connection some 90 MB/s; 32 of them fill the network of a GPU instance (15 GB: 28 s at 4, 4.9 s at 32 connections)."""
ATTEMPTS = 5
TIMEOUT_SECONDS = 60
RANGE_SECONDS = 300
"""For all of one range, of which TIMEOUT_SECONDS may pass between two pieces."""
NODE_SECONDS = 10
"""How long the node's store may be silent: S3 is never far."""
LARGEST_CREDENTIALS = 1 << 16
ODD = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError, xml.etree.ElementTree.ParseError)
"""What reading somebody's answer raises where it is none."""
STS_NAMESPACE = "{https://sts.amazonaws.com/doc/2011-06-15/}"

Json = Any


class Refused(Exception):  # noqa: N818
    """The artifact is not what the contract says, or cannot be had; the text says which and why."""


class Straight(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: signature and session token are for the host that was asked, and for nobody that it may point to."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> None:
        return None


# Nor is a proxy that some variable names: what is asked is in this pod or AWS, and credentials are for nobody between.
STRAIGHT = urllib.request.build_opener(Straight, urllib.request.ProxyHandler({}))


# Credentials ----------------------------------------------------------------------------------------------------------------------------


def credentials(environment: Json) -> "dict[str, str]":
    """Access key, secret and session token from the first source that the environment names."""
    if environment.get("AWS_ACCESS_KEY_ID"):
        return {
            "key": environment["AWS_ACCESS_KEY_ID"],
            "secret": environment["AWS_SECRET_ACCESS_KEY"],
            "token": environment.get("AWS_SESSION_TOKEN", ""),
        }
    if environment.get("AWS_CONTAINER_CREDENTIALS_FULL_URI"):
        token = Path(environment["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"]).read_text().strip()
        asked = urllib.request.Request(environment["AWS_CONTAINER_CREDENTIALS_FULL_URI"], headers={"Authorization": token})  # noqa: S310
        return named(lambda: json.loads(short(asked)), "AccessKeyId", "SecretAccessKey", "Token")
    if environment.get("AWS_WEB_IDENTITY_TOKEN_FILE"):
        query = {
            "Action": "AssumeRoleWithWebIdentity",
            "Version": "2011-06-15",
            "RoleArn": environment["AWS_ROLE_ARN"],
            "RoleSessionName": "artifact-fetch",
            "WebIdentityToken": Path(environment["AWS_WEB_IDENTITY_TOKEN_FILE"]).read_text().strip(),
        }
        region = environment["AWS_REGION"]
        endpoint = environment.get("AWS_ENDPOINT_URL_STS", f"https://sts.{region}.amazonaws.com")
        form = urllib.request.Request(endpoint, urllib.parse.urlencode(query).encode())  # noqa: S310

        def elements() -> Json:
            tree = xml.etree.ElementTree.fromstring(short(form))  # noqa: S314  (the answer of AWS itself, over TLS)
            return {element.tag.replace(STS_NAMESPACE, ""): element.text or "" for element in tree.iter()}

        return named(elements, "AccessKeyId", "SecretAccessKey", "SessionToken")
    raise Refused(
        "no AWS credentials in this pod: neither keys, nor container credentials, nor a web identity token; "
        "the service account needs its Pod Identity association or role annotation"
    )


def short(asked: Json) -> bytes:
    """An answer that holds credentials: one that is large or drips holds none. Raises as urllib does, and ValueError."""
    until, content = time.monotonic() + TIMEOUT_SECONDS, b""
    with STRAIGHT.open(asked, timeout=TIMEOUT_SECONDS) as answer:
        while len(content) <= LARGEST_CREDENTIALS and time.monotonic() < until:
            piece = answer.read1(LARGEST_CREDENTIALS)
            if not piece:
                return content
            content += piece
    raise ValueError("it does not end")


def named(read: Json, key: str, secret: str, token: str) -> "dict[str, str]":
    """The three texts under these names of an answer that `read` brings. Raises Refused, which repeats nothing of it."""
    try:
        said = read()
        found = {"key": said[key], "secret": said[secret], "token": said[token]}
        if not all(isinstance(value, str) for value in found.values()):
            raise TypeError
    except urllib.error.URLError:
        raise
    except (*ODD, OSError, http.client.HTTPException) as odd:
        raise Refused(f"who gives this pod its credentials answers with none ({type(odd).__name__})") from None
    return found


def signed(
    method: str,
    url: str,
    region: str,
    keys: "dict[str, str]",
    extra: "dict[str, str]",
    now: datetime.datetime,
    service: str = "s3",
    body: bytes = b"",
) -> "dict[str, str]":
    """Headers of a request, signed by AWS Signature Version 4."""
    parts = urllib.parse.urlsplit(url)
    content = hashlib.sha256(body).hexdigest()
    stamp, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
    headers = {"host": parts.netloc, "x-amz-content-sha256": content, "x-amz-date": stamp, **extra}
    if keys["token"]:
        headers["x-amz-security-token"] = keys["token"]
    names = ";".join(sorted(headers))
    canonical = "\n".join(
        [method, parts.path, parts.query, *(f"{name}:{headers[name]}" for name in sorted(headers)), "", names, content],
    )
    scope = f"{day}/{region}/{service}/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = ("AWS4" + keys["secret"]).encode()
    for part in (day, region, service, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    headers["authorization"] = f"AWS4-HMAC-SHA256 Credential={keys['key']}/{scope}, SignedHeaders={names}, Signature={signature}"
    del headers["host"]
    return headers


# Objects --------------------------------------------------------------------------------------------------------------------------------


def address(uri: str, region: str, environment: Json) -> str:
    """The HTTPS address of `s3://bucket/key`, or one below AWS_ENDPOINT_URL_S3 where that is set."""
    parts = urllib.parse.urlsplit(uri)
    if parts.scheme != "s3" or not parts.netloc or not parts.path.strip("/"):
        raise Refused(f"{uri} is not an artifact address; write s3://bucket/key")
    key = urllib.parse.quote(parts.path, safe="/-_.~")
    endpoint = environment.get("AWS_ENDPOINT_URL_S3")
    if endpoint:
        return f"{endpoint.rstrip('/')}/{parts.netloc}{key}"
    return f"https://{parts.netloc}.s3.{region}.amazonaws.com{key}"


def get(url: str, region: str, keys: "dict[str, str]", span: "tuple[int, int] | None" = None) -> bytes:
    """The object or the bytes of `span` (both ends included), retried while the failure can pass."""
    extra = {} if span is None else {"range": f"bytes={span[0]}-{span[1]}"}
    failure = ""
    for attempt in range(ATTEMPTS):
        headers = signed("GET", url, region, keys, extra, datetime.datetime.now(datetime.timezone.utc))  # noqa: UP017
        try:
            with STRAIGHT.open(urllib.request.Request(url, headers=headers), timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310
                # A server that ignores the range must not fill the memory with the whole object, nor hold a place by dripping.
                data = in_time(answer, span[1] - span[0] + 2 if span else RANGE_BYTES)
            if span is None or len(data) == span[1] - span[0] + 1:
                return data
            failure = f"{len(data)} bytes where {span[1] - span[0] + 1} were asked for"
        except urllib.error.HTTPError as error:
            failure = f"{error.code} {error.reason}"
            if error.code < 500 and error.code != 429:
                break
        except (OSError, http.client.HTTPException) as error:
            failure = str(error)
        time.sleep(min(2**attempt, 8) * 0.25)
    raise Refused(f"{url} cannot be read: {failure}")


def in_time(answer: Json, most: int) -> bytes:
    """At most so many bytes of an answer, within RANGE_SECONDS. Raises OSError."""
    until, data = time.monotonic() + RANGE_SECONDS, bytearray()
    while len(data) < most:
        piece = answer.read1(min(most - len(data), 1 << 20))
        if not piece:
            break
        data += piece
        if time.monotonic() > until:
            raise TimeoutError(f"only {len(data)} bytes came in {RANGE_SECONDS} s")
    return bytes(data)


def digest(path: Path) -> str:
    """SHA-256 of a file, read in 4 MiB pieces."""
    sha = hashlib.sha256()
    with path.open("rb") as stream:
        while piece := stream.read(4 * 1024 * 1024):
            sha.update(piece)
    return sha.hexdigest()


class Node:
    """The node's store of artifacts (`said`: its address and the file of the token), asked until it does not answer; None where there is none."""

    def __init__(self, said: "Json | None") -> None:
        self.said: Json = said or {}
        self.away = said is None

    def bring(self, target: Path, sha256: str, size: int) -> bool:
        """Have the object at `target`, proven; whether the store had it."""
        if self.away:
            return False
        partial = target.with_name(target.name + ".partial")
        try:
            found = self.copy(f"{self.said['url']}/artifacts/{sha256}", partial, size)
            if found == sha256:
                partial.replace(target)
                return True
            reason = f"{target.name} has SHA-256 {found} there, or another length"
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return False
            reason = f"{error.code} {error.reason}"
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = str(error) or type(error).__name__
        self.away = True
        print(f"the node's store is not asked again: {reason}", flush=True)  # noqa: T201
        return False

    def copy(self, address: str, partial: Path, size: int) -> str:
        """Write what is there to `partial`, a little more than `size` bytes at most; its SHA-256, or none for another length."""
        headers = {"Authorization": f"Bearer {Path(self.said['token']).read_text().strip()}"}
        asked = urllib.request.Request(address, headers=headers)  # noqa: S310
        sha, length = hashlib.sha256(), 0
        with STRAIGHT.open(asked, timeout=NODE_SECONDS) as answer, partial.open("wb") as stream:
            while length <= size and (piece := answer.read(4 * 1024 * 1024)):
                sha.update(piece)
                length += stream.write(piece)
        return sha.hexdigest() if length == size else ""


def bring(url: str, target: Path, sha256: str, size: int, region: str, environment: Json, node: "Node | None" = None) -> str:
    """Have the object at `target`, proven; answers "kept", "fetched", or "fetched here" for one that the node had."""
    if target.exists() and target.stat().st_size == size and digest(target) == sha256:
        return "kept"
    partial = target.with_name(target.name + ".partial")
    partial.parent.mkdir(parents=True, exist_ok=True)
    if node is not None and node.bring(target, sha256, size):
        return "fetched here"
    spans = [(start, min(start + RANGE_BYTES, size) - 1) for start in range(0, size, RANGE_BYTES)]
    with partial.open("wb") as stream:
        stream.truncate(size)
    keys = credentials(environment)
    with concurrent.futures.ThreadPoolExecutor(CONNECTIONS) as pool, partial.open("r+b") as stream:
        handle = stream.fileno()

        def write(span: "tuple[int, int]") -> int:
            return os.pwrite(handle, get(url, region, keys, span), span[0])

        jobs = [pool.submit(write, span) for span in spans]
        try:
            for job in concurrent.futures.as_completed(jobs):
                job.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    found = digest(partial)
    if found != sha256:
        partial.unlink()
        remedy = "register the artifact again or correct the contract"
        raise Refused(f"{url} has SHA-256 {found}, the contract states {sha256}: refused; {remedy}")
    partial.replace(target)
    return "fetched"


def fetch(config: Json, environment: Json) -> None:
    """Bring every file of the artifact, then put the rendered files where the server expects them."""
    region, base, target = config["region"], config["uri"], Path(config["target"])
    target.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    missing = sum(file["size"] for file in config["files"] if not (target / file["path"]).exists())
    free = shutil.disk_usage(target).free
    if missing > free:
        raise Refused(f"{base} needs {missing} more bytes, the cache has {free}: raise envelope.scratch or the nodes' local storage")
    node = Node(config.get("node"))
    for file in config["files"]:
        path = PurePosixPath(file["path"])
        if path.is_absolute() or ".." in path.parts:
            raise Refused(f"{file['path']!r} is a path outside the artifact: refused")
        url = address(base + file["path"], region, environment)
        how = bring(url, target / path, file["sha256"], file["size"], region, environment, node)
        print(f"{how} {file['path']} {file['size']} bytes sha256 {file['sha256']}", flush=True)  # noqa: T201
    for place in config["places"]:
        Path(place["to"]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(place["from"], place["to"])
    print(f"{base} verified in {time.monotonic() - began:.1f} s", flush=True)  # noqa: T201


def main(arguments: "list[str]") -> int:
    try:
        fetch(json.loads(Path(arguments[0]).read_text()), os.environ)
    except (Refused, urllib.error.URLError) as reason:
        print(f"artifact refused: {reason}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
