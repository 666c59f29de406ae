"""A registry that lies: it gets no credentials for another, fills no disk and no memory, and ends in a sentence."""

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headway.problem import UserError
from headway.registry_mirror import charts, copying
from headway.registry_mirror.charts import package_of
from headway.registry_mirror.client import RegistryClient
from headway.registry_mirror.copying import ImagePlace, chart_of, copy_image
from headway.registry_mirror.manifest import INDEXES, LARGEST_BLOB, LARGEST_MANIFEST, MANIFESTS, MOST_PARTS
from tests.loopback import Handler, served

DIGEST = "sha256:" + "a" * 64
PART = {"digest": DIGEST, "size": 1}


def sha(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


@contextmanager
def registry(answer: Callable[[Handler], None], basic: str = "me:word") -> Generator[tuple[RegistryClient, list[str]]]:
    """A registry that answers so, and the credentials that it was sent."""
    got: list[str] = []

    class Server(Handler):
        def do_GET(self) -> None:
            got.append(self.headers.get("Authorization") or "")
            answer(self)

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_POST(self) -> None:
            self.body()
            self.do_GET()

        def do_PATCH(self) -> None:
            self.do_POST()

        def do_PUT(self) -> None:
            self.do_POST()

    with served(Server) as address:
        yield RegistryClient(address.removeprefix("http://"), basic), got


@pytest.mark.parametrize(
    "realm", ["{thief}/token", "http://auth.docker.io/token", "", "file:///etc/passwd", "https://auth.docker.io/token"]
)
def test_no_credentials_go_to_a_realm_that_is_not_the_registrys(realm: str) -> None:
    with registry(lambda it: it.reply(200, {"token": "x"})) as (thief, stolen):
        said = f'Bearer realm="{realm.format(thief=f"http://{thief.host}")}",service="s"' if realm else 'Bearer service="s"'
        lying = registry(lambda it: it.reply(401, b"", WWW_Authenticate=said))
        with lying as (asked, _), pytest.raises(UserError, match="who is not known to give its tokens"):
            asked.manifest("a/b", "1")
    assert stolen == []


def test_a_known_registry_may_send_to_its_own_token_host_over_https_alone() -> None:
    known = RegistryClient("docker.io")
    sent = ["https://auth.docker.io/token", "http://auth.docker.io/token", "https://auth.docker.io.example.org/token"]
    assert [known._gives_tokens(realm) for realm in sent] == [True, False, False]  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("said", ["{}", "[]", '{"token": 5}', '{"token": "a\\nb"}', "[" * 9000, '{"access_token": ""}', " " * (2**20 + 1)])
def test_what_is_no_token_is_said(said: str) -> None:
    def answer(it: Handler) -> None:
        realm = f"http://{it.headers['Host']}/token"
        it.reply(200, said) if it.path.startswith("/token") else it.reply(401, b"", WWW_Authenticate=f'Bearer realm="{realm}"')

    with registry(answer) as (asked, _), pytest.raises(UserError, match=r"gives no token|more than"):
        asked.manifest("a/b", "1")


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_no_credentials_follow_to_another_host_nor_answer_its_challenge(code: int) -> None:
    challenge = 'Basic realm="thief"'
    with registry(lambda it: it.reply(401, b"", WWW_Authenticate=challenge)) as (thief, stolen):

        def answer(it: Handler) -> None:
            if it.headers.get("Authorization"):
                it.reply(code, b"", Location=f"http://{thief.host}{it.path}")
            else:
                it.reply(401, b"", WWW_Authenticate='Basic realm="own"')

        with registry(answer) as (asked, got), pytest.raises(UserError):
            asked.manifest("a/b", "1")
    assert stolen == [""] and got[0] == "" and got[1].startswith("Basic ")


def test_an_upload_that_is_to_go_elsewhere_takes_no_credentials_along(tmp_path: Path) -> None:
    (tmp_path / "blob").write_bytes(b"x")
    with registry(lambda it: it.reply(202, b"", Location="/next")) as (thief, stolen):

        def answer(it: Handler) -> None:
            if not it.headers.get("Authorization"):
                it.reply(401, b"", WWW_Authenticate='Basic realm="own"')
            else:
                it.reply(202, b"", Location=f"http://{thief.host}/upload")

        with registry(answer) as (asked, _):
            asked.push_blob("a/b", sha(b"x"), tmp_path / "blob")
    assert set(stolen) == {""}


IMAGE: dict[str, Any] = {"config": PART, "layers": [PART]}
ODD: dict[str, Any] = {
    "no object": [],
    "no layers": {"config": PART},
    "layers without end": {**IMAGE, "layers": [PART] * (MOST_PARTS + 1)},
    "platforms without end": {"manifests": [PART] * (MOST_PARTS + 1)},
    "no digest": {**IMAGE, "config": {"size": 1}},
    "a digest that leads out of the folder": {**IMAGE, "layers": [{**PART, "digest": "sha256:../../../../tmp/x"}]},
    "a digest with a way out behind it": {**IMAGE, "layers": [{**PART, "digest": f"{PART['digest']}/../../x"}]},
    "a short digest": {**IMAGE, "layers": [{**PART, "digest": "sha256:abc"}]},
    "a size that is a text": {**IMAGE, "layers": [{**PART, "size": "1"}]},
    "a size that is yes": {**IMAGE, "layers": [{**PART, "size": True}]},
    "a size below nothing": {**IMAGE, "layers": [{**PART, "size": -1}]},
    "a size that fills a disk": {**IMAGE, "layers": [{**PART, "size": LARGEST_BLOB + 1}]},
    "a platform that is a text": {"manifests": [{**PART, "platform": "linux"}]},
    "an image that is an index too": {**IMAGE, "manifests": [{**PART, "platform": "linux"}]},
    "what is deep": b"[" * 100_000,
    "what is large": b" " * (LARGEST_MANIFEST + 1),
}


@pytest.mark.parametrize("said", ODD.values(), ids=ODD)
def test_what_is_no_manifest_is_not_believed(said: Any) -> None:
    with registry(lambda it: it.reply(200, said, Content_Type=MANIFESTS[0])) as (asked, _), pytest.raises(UserError):
        asked.manifest("a/b", "1")


def test_an_index_that_names_itself_has_an_end(tmp_path: Path) -> None:
    raw = json.dumps({"manifests": [PART]}).encode()
    found: dict[str, bytes] = {}

    def answer(it: Handler) -> None:
        wanted = it.path.rpartition("/")[2]
        if wanted != "1" and wanted not in found:
            found[wanted] = json.dumps({"manifests": [PART]}).encode()
        it.reply(200, raw, Content_Type=INDEXES[0])

    with registry(answer) as (asked, _), registry(lambda it: it.reply(404)) as (mirror, _), pytest.raises(UserError):
        copy_image(ImagePlace(asked, "a/b"), ImagePlace(mirror, "a/b"), "1", None, tmp_path, lambda _: None)


def test_indexes_within_indexes_have_an_end(tmp_path: Path) -> None:
    levels: dict[str, bytes] = {}
    below = json.dumps(IMAGE).encode()
    for _ in range(10):
        levels[sha(below)] = below
        below = json.dumps({"manifests": [{"digest": sha(below), "size": len(below)}]}).encode()

    def answer(it: Handler) -> None:
        it.reply(200, levels.get(it.path.rpartition("/")[2], below), Content_Type=INDEXES[0])

    with (
        registry(answer) as (asked, _),
        registry(lambda it: it.reply(404)) as (mirror, _),
        pytest.raises(UserError, match="indexes within indexes"),
    ):
        copy_image(ImagePlace(asked, "a/b"), ImagePlace(mirror, "a/b"), "1", None, tmp_path, lambda _: None)


def test_a_blob_without_end_ends_at_its_stated_size(tmp_path: Path) -> None:
    sent = 0

    def answer(it: Handler) -> None:
        nonlocal sent
        it.send_response(200)
        it.end_headers()
        try:
            for _ in range(64):
                it.wfile.write(b"x" * 2**20)
                sent += 1
        except OSError:
            it.close_connection = True

    with registry(answer) as (asked, _), pytest.raises(UserError, match="more than the 5 bytes that its manifest states"):
        asked.fetch_blob("a/b", DIGEST, 5, tmp_path / "blob", lambda _: None)
    assert not (tmp_path / "blob").exists() and sent < 64


def package(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        b"no gzip",
        gzip.compress(b"0" * 200),
        package({"keda/Chart.yaml": b"[" * 300_000}),
        package({"keda/Chart.yaml": b"- 1"}),
        package({"keda/Chart.yaml": b"a: ["}),
        package({"keda/other.yaml": b""}),
    ],
    ids=["no gzip", "no archive", "deep", "a list", "half", "none"],
)
def test_a_package_that_is_no_chart_is_refused(content: bytes) -> None:
    with pytest.raises(UserError, match="a package is no chart"):
        chart_of(content)


def test_a_package_that_swells_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "LARGEST_UNPACKED", 10_000)
    with pytest.raises(UserError, match="more than 10000 bytes when it is unpacked"):
        chart_of(package({"keda/Chart.yaml": b"#" * 10_000}))


INDEX_OF = "entries: {{keda: [{{version: 2.0.0, urls: ['{url}']}}]}}"


@pytest.mark.parametrize(
    "index",
    [
        b"[" * 300_000,
        b"entries: [1]",
        b"entries: {keda: [{version: 2.0.0}]}",
        b"a: [",
        b"\xff\xfe",
        INDEX_OF.format(url="file:///etc/hostname").encode(),
        INDEX_OF.format(url="ftp://example.org/x").encode(),
    ],
    ids=["deep", "list", "no address", "half", "no text", "a file of this machine", "ftp"],
)
def test_an_index_of_charts_that_lies_is_refused(index: bytes) -> None:
    class Server(Handler):
        def do_GET(self) -> None:
            self.reply(200, index)

    with served(Server) as address, pytest.raises(UserError, match=r"no index of charts|no https address"):
        package_of({"chart": "keda", "version": "2.0.0", "repository": address, "digest": None}, None)


def test_a_package_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(charts, "LARGEST_PACKAGE", 1000)

    class Server(Handler):
        def do_GET(self) -> None:
            self.reply(200, INDEX_OF.format(url="x.tgz") if self.path.endswith(".yaml") else b"x" * 1001)

    with served(Server) as address, pytest.raises(UserError, match="more than 1000 bytes"):
        package_of({"chart": "keda", "version": "2.0.0", "repository": address, "digest": None}, None)
