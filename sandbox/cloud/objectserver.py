"""The S3 and SQS server of the sandbox: moto, with a journal, so that buckets and objects outlive the process.

A script for the servers' own environment (it imports moto and nothing of the sandbox): `objectserver.py PORT FOLDER`. moto keeps
everything in memory; every successful change of S3, and of the definition of a queue, is appended to `FOLDER/journal.jsonl` before it is
answered, and played again at the start, with the same random numbers and the same clock, so that version ids, ETags and times stay.
Queued messages are not kept.

Where moto is laxer than S3, it is made as strict: a SHA-256 that disagrees with a body or a part is refused (BadDigest), ListParts tells the
SHA-256 of each part, and a bucket policy that demands conditional writes is enforced (S3 user guide, "Enforce conditional writes on Amazon S3
buckets"). Trap: moto takes a bucket policy's Deny without its Condition, so nothing else of a policy is enforced: "TLS only" would refuse
everything.
"""

import base64
import copy
import datetime
import fnmatch
import hashlib
import json
import logging
import os
import random
import re
import sys
import threading
import urllib.parse
from collections.abc import Callable, Iterable
from functools import partial
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import moto.core.common_models
import moto.s3.models
import moto.s3.responses
from moto.iam.access_control import PermissionResult
from moto.moto_api._internal import mock_random
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import run_simple

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
Answer = tuple[str, list[tuple[str, str]], bytes]

SERVICES = ("s3", "sqs")
_QUEUE_CHANGES = frozenset({"CreateQueue", "DeleteQueue", "SetQueueAttributes", "TagQueue", "UntagQueue"})
_INLINE_BYTES = 64 * 1024
_HEADERS = re.compile(r"HTTP_[A-Z0-9_]+|CONTENT_TYPE|CONTENT_LENGTH")
READY_PATH = "/_sandbox/ready"
_BESIDE_THE_OBJECT = frozenset({"acl", "legal-hold", "restore", "retention", "select", "tagging"})


class StoreJournal:
    """Changes in the order in which they took effect. Bodies beyond 64 KiB lie beside it, by their SHA-256."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "journal.jsonl"
        self._blobs = folder / "blobs"
        self._blobs.mkdir(parents=True, exist_ok=True)

    def entries(self) -> Iterable[dict[str, Any]]:
        """Every whole entry; a torn last line is cut off, because it was never answered."""
        if not self._file.exists():
            return
        good = 0
        with self._file.open("rb") as lines:
            for line in lines:
                try:
                    entry = json.loads(line)
                except ValueError:
                    break
                if not line.endswith(b"\n"):
                    break
                good += len(line)
                entry["body"] = self._body(entry)
                yield entry
        if good < self._file.stat().st_size:
            os.truncate(self._file, good)

    def append(self, entry: dict[str, Any], body: bytes) -> None:
        """Returns when the entry has reached the disk."""
        if len(body) <= _INLINE_BYTES:
            entry = {**entry, "inline": base64.b64encode(body).decode()}
        else:
            digest = hashlib.sha256(body).hexdigest()
            if not (self._blobs / digest).exists():
                _write(self._blobs / digest, body)
            entry = {**entry, "blob": digest}
        with self._file.open("ab") as journal:
            journal.write(json.dumps(entry).encode() + b"\n")
            journal.flush()
            os.fsync(journal.fileno())

    def _body(self, entry: dict[str, Any]) -> bytes:
        return base64.b64decode(entry["inline"]) if "inline" in entry else (self._blobs / entry["blob"]).read_bytes()


def _write(path: Path, data: bytes) -> None:
    new = path.with_suffix(".new")
    with new.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


class StoreServer:
    """moto behind one lock for changes; reads and message traffic run beside each other."""

    def __init__(self, folder: Path) -> None:
        self._app = DomainDispatcherApplication(create_backend_app)
        self._journal = StoreJournal(folder)
        self._lock = threading.Lock()
        self._time = threading.local()
        self._count = 0
        setattr(moto.s3.models, "utcnow", self._now)  # noqa: B010 -- pyright guards what a module imports
        setattr(moto.s3.models.FakeBucket, "get_permission", _neutral)  # noqa: B010 -- pyright guards the attribute
        _have_randomness_of_its_own_in_each_thread()
        _have_uploads_replayed()
        _have_parts_listed_with_digests()
        _have_nothing_kept_of_answers()
        _have_versions_listed_without_their_content()
        self._denials: dict[str, list[dict[str, Any]]] = {}
        for entry in self._journal.entries():
            self._play(entry)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if environ["PATH_INFO"] == READY_PATH:
            start_response("200 OK", [("Content-Type", "text/plain")])
            return [b"ready"]
        region, service = _scope(environ)
        if service not in SERVICES or environ["PATH_INFO"].startswith("/moto-api"):
            return _refuse(service, environ, start_response)
        body = _read(environ)
        if not _changes(service, environ):
            status, headers, payload = self._run(environ, body)
            if service == "s3":
                with self._lock:  # what was read may be a change that has not reached the disk yet
                    pass
        else:
            with self._lock:
                status, headers, payload = self._change(environ, body, region, service)
        start_response(status, headers)
        return [payload]

    def _change(self, environ: Environ, body: bytes, region: str, service: str) -> Answer:
        if service == "s3" and (refusal := _refusal(environ, body, self._denials)):
            return _error(*refusal)
        now = datetime.datetime.now(datetime.UTC)
        kept = {key: value for key, value in environ.items() if _HEADERS.fullmatch(key) and key != "HTTP_AUTHORIZATION"}
        entry = {
            "number": self._count + 1,
            "time": now.timestamp(),
            "region": region,
            "service": service,
            "method": environ["REQUEST_METHOD"],
            "path": environ["PATH_INFO"],
            "query": environ.get("QUERY_STRING", ""),
            "headers": kept,
        }
        answer = self._apply(entry, environ, body)
        if answer[0].startswith("2"):
            self._count += 1
            self._journal.append(entry, body)
        return answer

    def _play(self, entry: dict[str, Any]) -> None:
        authorization = f"AWS4-HMAC-SHA256 Credential=sandbox/20260101/{entry['region']}/{entry['service']}/aws4_request"
        environ: Environ = {
            **entry["headers"],
            "HTTP_AUTHORIZATION": authorization,
            "REQUEST_METHOD": entry["method"],
            "PATH_INFO": entry["path"],
            "QUERY_STRING": entry["query"],
            "SERVER_NAME": "127.0.0.1",
            "SERVER_PORT": "80",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "SCRIPT_NAME": "",
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": "http",
            "wsgi.errors": sys.stderr,
            "wsgi.multithread": True,
            "wsgi.multiprocess": False,
            "wsgi.run_once": False,
        }
        status, _, payload = self._apply(entry, environ, entry["body"])
        self._count = entry["number"]
        if not status.startswith("2"):
            sys.exit(
                f"journal entry {entry['number']} ({entry['method']} {entry['path']}) was accepted once and is refused now: {payload[:200]!r}"
            )

    def _apply(self, entry: dict[str, Any], environ: Environ, body: bytes) -> Answer:
        # The number of the entry decides every random id in it, and its time every date.
        mock_random.seed(entry["number"])
        self._time.value = datetime.datetime.fromtimestamp(entry["time"], datetime.UTC).replace(tzinfo=None)
        try:
            answer = self._run(environ, body)
        finally:
            self._time.value = None
        if answer[0].startswith("2"):
            self._keep_policy(entry, body)
        return answer

    def _keep_policy(self, entry: dict[str, Any], body: bytes) -> None:
        """What a bucket's policy denies, for the next writes."""
        bucket = entry["path"].strip("/")
        if entry["service"] != "s3" or "/" in bucket or entry["query"] not in ("policy", ""):
            return
        if entry["method"] == "PUT" and entry["query"]:
            self._denials[bucket] = [each for each in json.loads(body)["Statement"] if each["Effect"] == "Deny"]
        elif entry["method"] == "DELETE":
            self._denials.pop(bucket, None)

    def _now(self) -> datetime.datetime:
        return getattr(self._time, "value", None) or datetime.datetime.now(datetime.UTC).replace(tzinfo=None)

    def _run(self, environ: Environ, body: bytes) -> Answer:
        answered: list[tuple[str, list[tuple[str, str]]]] = []

        def start(status: str, headers: list[tuple[str, str]], *_: Any) -> None:
            answered.append((status, list(headers)))

        environ = {**environ, "wsgi.input": BytesIO(body), "CONTENT_LENGTH": str(len(body))}
        environ.pop("HTTP_TRANSFER_ENCODING", None)
        chunks = self._app(environ, start)
        try:
            payload = b"".join(chunks)
        finally:
            getattr(chunks, "close", lambda: None)()
        status, headers = answered[-1]
        return status, headers, payload


# As strict as S3 -------------------------------------------------------------------------------------------------------------------


def _refusal(environ: Environ, body: bytes, denials: dict[str, list[dict[str, Any]]]) -> tuple[str, str, str] | None:
    """Status, code and message with which S3 refuses a write that moto would take."""
    bucket, _, key = environ["PATH_INFO"].strip("/").partition("/")
    query = urllib.parse.parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)
    if not key or environ["REQUEST_METHOD"] not in ("PUT", "POST") or query.keys() & _BESIDE_THE_OBJECT:
        return None
    stated = environ.get("HTTP_X_AMZ_CHECKSUM_SHA256")
    if stated and environ["REQUEST_METHOD"] == "PUT" and base64.b64encode(hashlib.sha256(body).digest()).decode() != stated:
        return "400 Bad Request", "BadDigest", "The SHA256 you specified did not match the calculated checksum."
    creates = "partNumber" not in query and "uploads" not in query
    given = {"s3:if-none-match": "HTTP_IF_NONE_MATCH" in environ, "s3:if-match": "HTTP_IF_MATCH" in environ}
    if creates and any(_denied(each, f"arn:aws:s3:::{bucket}/{key}", given) for each in denials.get(bucket, ())):
        return "403 Forbidden", "AccessDenied", "An explicit deny of the bucket policy demands a conditional write."
    if creates and "HTTP_X_AMZ_COPY_SOURCE" in environ and any(given.values()):
        return "501 Not Implemented", "NotImplemented", "CopyObject takes no conditions on its destination."
    return None


def _denied(statement: dict[str, Any], resource: str, given: dict[str, bool]) -> bool:
    """Whether a statement on conditional writes refuses the creation of `resource`; other conditions are not enforced."""
    condition = statement.get("Condition", {})
    if "s3:PutObject" not in _listed(statement.get("Action")) or condition.get("Bool") != {"s3:ObjectCreationOperation": "true"}:
        return False
    absent = condition.get("Null", {})
    if not absent or not absent.keys() <= given.keys() or any(given[key] for key in absent):
        return False
    matches = any(fnmatch.fnmatchcase(resource, each) for each in _listed(statement.get("Resource")))
    spared = any(fnmatch.fnmatchcase(resource, each) for each in _listed(statement.get("NotResource")))
    return matches or ("NotResource" in statement and not spared)


def _listed(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value or ())


def _error(status: str, code: str, message: str) -> Answer:
    text = f'<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code><Message>{message}</Message></Error>'
    return status, [("Content-Type", "application/xml")], text.encode()


def _have_randomness_of_its_own_in_each_thread() -> None:
    """Let a change draw its ids from its own seed alone: moto's one source also gives every read beside it the id of its answer."""
    sources = threading.local()

    def mine() -> random.Random:
        if not hasattr(sources, "source"):
            sources.source = random.Random()  # noqa: S311 -- ids of a sandbox, which must be the same each time
        return sources.source

    def drawn(name: str, *given: Any) -> Any:
        return getattr(mine(), name)(*given)

    for name in ("seed", "random", "getrandbits"):  # everything that `Random` offers is drawn from these
        setattr(mock_random, name, partial(drawn, name))


def _have_uploads_replayed() -> None:
    """Let an upload's id follow from the journal: moto draws it from the machine, and a part would find no upload after a restart."""
    begin: Any = moto.s3.models.FakeMultipart.__init__

    def begun(upload: Any, *given: Any, **named: Any) -> None:
        begin(upload, *given, **named)
        upload.id = "".join(mock_random.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=48))

    setattr(moto.s3.models.FakeMultipart, "__init__", begun)  # noqa: B010 -- pyright guards the attribute


def _have_parts_listed_with_digests() -> None:
    """Let ListParts tell the SHA-256 of each part of an upload that was begun with it, as S3 does."""
    listed: Any = moto.s3.responses.S3Response.list_parts

    def list_parts(response: Any) -> Any:
        status, headers, text = listed(response)
        upload = response.backend.get_bucket(response.bucket_name).multiparts.get(response._get_param("uploadId"))
        if upload is None or upload.metadata.get("x-amz-checksum-algorithm") != "SHA256":
            return status, headers, text

        def told(found: re.Match[str]) -> str:
            digest = base64.b64encode(hashlib.sha256(upload.parts[int(found[1])].value).digest()).decode()
            return f"{found[0]}<ChecksumSHA256>{digest}</ChecksumSHA256>"

        plain = text.decode() if isinstance(text, bytes) else text
        return status, headers, re.sub(r"<PartNumber>(\d+)</PartNumber>", told, plain)

    setattr(moto.s3.responses.S3Response, "list_parts", list_parts)  # noqa: B010 -- pyright guards the attribute


def _have_nothing_kept_of_answers() -> None:
    """Moto remembers each of its objects for a page that nobody looks at here, also the copies that it makes to answer: gigabytes a day
    where a ledger is listed each second."""

    def unremembered(kind: Any, *_given: Any, **_named: Any) -> Any:
        return object.__new__(kind)

    setattr(moto.core.common_models.BaseModel, "__new__", unremembered)  # noqa: B010 -- pyright guards the attribute


def _have_versions_listed_without_their_content() -> None:
    """Let a list of versions, for which moto copies every object of the bucket, copy what it tells of each and not its bytes."""

    def light(version: Any) -> Any:
        made = object.__new__(type(version))
        told = {"_etag": version.etag.strip('"'), "_value_buffer": BytesIO(), "multipart": None} if hasattr(version, "etag") else {}
        vars(made).update(vars(version) | told)
        return made

    def copied(versions: Iterable[Any]) -> list[Any]:
        return [light(each) for each in versions]

    setattr(moto.s3.models, "copy", SimpleNamespace(copy=copy.copy, deepcopy=copied))  # noqa: B010 -- pyright guards what a module imports


def _scope(environ: Environ) -> tuple[str, str]:
    """Region and service of the signature, in the header or in a presigned URL; unsigned requests can only be for S3."""
    found = re.search(r"Credential=[^/]+/\d+/([^/]+)/([^/]+)/", environ.get("HTTP_AUTHORIZATION", ""))
    if not found:
        found = re.search(r"X-Amz-Credential=[^&]*?%2F\d+%2F([^%&]+)%2F([^%&]+)%2F", environ.get("QUERY_STRING", ""))
    return (found[1], found[2]) if found else ("us-east-1", "s3")


def _neutral(*_: Any) -> PermissionResult:
    return PermissionResult.NEUTRAL


def _refuse(service: str, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """An error that SDKs can read, in the protocol of the request."""
    text = f"the sandbox serves {' and '.join(SERVICES)}; {service} is not simulated as an API"
    start_response("501 Not Implemented", [("Content-Type", "application/json" if "HTTP_X_AMZ_TARGET" in environ else "text/xml")])
    if "HTTP_X_AMZ_TARGET" in environ:
        return [json.dumps({"__type": "NotImplemented", "message": text}).encode()]
    return [f"<ErrorResponse><Error><Code>NotImplemented</Code><Message>{text}</Message></Error></ErrorResponse>".encode()]


def _changes(service: str, environ: Environ) -> bool:
    if service == "sqs":
        return environ.get("HTTP_X_AMZ_TARGET", "").rpartition(".")[2] in _QUEUE_CHANGES
    return environ["REQUEST_METHOD"] in ("PUT", "POST", "DELETE")


def _read(environ: Environ) -> bytes:
    length = environ.get("CONTENT_LENGTH")
    if length:
        return environ["wsgi.input"].read(int(length))
    return environ["wsgi.input"].read() if environ.get("wsgi.input_terminated") else b""


if __name__ == "__main__":
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # one line a request would fill the disk
    run_simple("127.0.0.1", int(sys.argv[1]), StoreServer(Path(sys.argv[2])), threaded=True, request_handler=MotoRequestHandler)
