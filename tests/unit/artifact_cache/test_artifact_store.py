"""What a node keeps of artifacts, for whom, and for how long; callers are told apart by the API server's word alone. No process is started."""

import base64
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.artifact_cache.callers import ASKED_PER_SECOND, REMEMBERED_SECONDS, BusyError, Callers
from headway.artifact_cache.store import ArtifactStore, NoRoomError, RefusedError
from headway.artifact_cache.wanted import CachedFile, files, ordered
from headway.wire import ARTIFACT_CACHE_AUDIENCE


def configuration(tenant: str, uri: str, sizes: dict[str, int], created: str = "1", name: str = "r1") -> dict[str, Any]:
    listed = [{"path": path, "sha256": hashlib.sha256(path.encode()).hexdigest(), "size": size} for path, size in sizes.items()]
    metadata = {"namespace": tenant, "name": name, "creationTimestamp": created}
    return {"metadata": metadata, "data": {"fetch.json": json.dumps({"uri": uri, "files": listed})}}


def test_a_release_names_the_files_below_its_own_namespaces_prefix() -> None:
    (found,) = files(configuration("vision", "s3://models/vision/defects/5/", {"a/model.onnx": 7}))
    assert found == CachedFile(
        tenant="vision", sha256=hashlib.sha256(b"a/model.onnx").hexdigest(), bucket="models", key="vision/defects/5/a/model.onnx", size=7
    )


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("s3://models/assist/chat/", "model"),
        ("s3://models/shared/vision/", "model"),
        ("s3://models/visionary/", "model"),
        ("s3://models/vision/", "../assist/model"),
        ("s3://models/vision/../assist/", "model"),
        ("s3://models/vision//", "model"),
        ("s3:///vision/", "model"),
        ("https://models/vision/", "model"),
        ("s3://models/vision/", "x" * 1025),
    ],
)
def test_whoever_reaches_beyond_its_own_prefix_gets_nothing_at_all(uri: str, path: str) -> None:
    assert files(configuration("vision", uri, {"good": 1, path: 1})) == ()


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda each: st.lists(each) | st.dictionaries(st.text(), each)))
def test_what_is_no_configuration_names_nothing(said: Any) -> None:
    for data in ({"fetch.json": json.dumps(said)}, {"fetch.json": json.dumps({"uri": said, "files": said})}, None):
        assert files({"metadata": {"namespace": "vision", "name": "x"}, "data": data}) == ()


GOOD = '{"uri":"s3://m/vision/","files":[{"path":"x","sha256":"HASH","size":1}]}'.replace("HASH", "a" * 64)
ODD = {
    "no size": GOOD.replace(',"size":1', ""),
    "a size beyond every number": GOOD.replace(":1}", ":1e999}"),
    "a size that is not whole": GOOD.replace(":1}", ":1.5}"),
    "a size that is yes": GOOD.replace(":1}", ":true}"),
    "a size that no object has": GOOD.replace(":1}", ":99999999999999999}"),
    "a digest that is a number": GOOD.replace(f'"{"a" * 64}"', "5"),
    "half of a pair of surrogates": GOOD.replace('"x"', '"\\ud800"'),
    "a bucket by its ARN": GOOD.replace("m/vision", "arn:aws:s3:us-west-2:1:accesspoint:x/vision"),
    "lists in lists": "[" * 100_000,
    "a number of a million digits": "9" * 1_000_000,
}


@pytest.mark.parametrize("said", ODD.values(), ids=ODD)
def test_an_odd_configuration_leaves_those_of_others_kept(said: str) -> None:
    odd = {"metadata": {"namespace": "vision", "name": "x"}, "data": {"fetch.json": said}}
    assert [file.tenant for file in ordered([odd, configuration("assist", "s3://b/assist/", {"a": 1})])] == ["assist"]


def test_every_tenants_newest_release_comes_before_anybodys_second() -> None:
    many = [configuration("assist", "s3://b/assist/", {f"a{n}": 1}, created=f"2026-01-0{n}", name=f"r{n}") for n in (1, 2, 3)]
    one = configuration("vision", "s3://b/vision/", {"v1": 1}, created="2025-01-01")
    assert [file.key for file in ordered([*many, one])] == ["assist/a3", "vision/v1", "assist/a2", "assist/a1"]


def test_a_tenant_that_names_much_takes_no_room_before_others_have_as_much() -> None:
    greedy = configuration("assist", "s3://b/assist/", {f"a{n}": 10 for n in range(9)}, created="2030")
    two = [configuration("vision", "s3://b/vision/", {f"v{n}": 12}, created=f"202{n}", name=f"r{n}") for n in (1, 2)]
    assert [file.key[-2:] for file in ordered([greedy, *two])][:5] == ["a0", "v2", "a1", "v1", "a2"]


def file(data: bytes, tenant: str = "vision", size: int | None = None) -> CachedFile:
    digest = hashlib.sha256(data).hexdigest()
    return CachedFile(tenant=tenant, sha256=digest, bucket="b", key=f"{tenant}/x", size=len(data) if size is None else size)


def writes(data: bytes) -> Callable[[CachedFile, Path], None]:
    def write(_: CachedFile, path: Path) -> None:
        path.write_bytes(data)

    return write


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def store(folder: Path, room: int, clock: Clock | None = None) -> ArtifactStore:
    return ArtifactStore(folder, room, clock or Clock())


def read(found: ArtifactStore, wanted: CachedFile) -> bytes | None:
    opened = found.open(wanted.tenant, wanted.sha256)
    if opened is None:
        return None
    with opened[0] as stream:
        return stream.read()


def test_a_file_is_handed_to_the_tenant_that_names_it_and_to_no_other(tmp_path: Path) -> None:
    found, mine = store(tmp_path, 100), file(b"weights")
    assert found.want([mine]) == (mine,)
    found.bring(mine, writes(b"weights"))
    assert found.want([mine]) == ()
    assert read(found, mine) == b"weights"
    assert found.open("assist", mine.sha256) is None
    found.want([])
    assert found.open(mine.tenant, mine.sha256) is None, "whom its releases name it to no more"


@pytest.mark.parametrize("data", [b"weighty", b"weight", b"weights!", b""])
def test_what_is_not_what_its_release_says_is_not_kept(tmp_path: Path, data: bytes) -> None:
    found, mine = store(tmp_path, 100), file(b"weights")
    found.want([mine])
    with pytest.raises(RefusedError, match="its release states"):
        found.bring(mine, writes(data))
    assert read(found, mine) is None
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_download_that_breaks_leaves_nothing(tmp_path: Path) -> None:
    def breaks(_: CachedFile, path: Path) -> None:
        path.write_bytes(b"wei")
        raise OSError("gone")

    found, mine = store(tmp_path, 100), file(b"weights")
    with pytest.raises(OSError, match="gone"):
        found.bring(mine, breaks)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_room_is_made_of_what_no_release_names_the_longest_unused_first(tmp_path: Path) -> None:
    clock = Clock()
    found = store(tmp_path, 30, clock)
    old, used, new = (file(bytes([n]) * 10) for n in (1, 2, 3))
    found.want([old, used, new])
    for clock.now, each in enumerate((old, used, new)):
        found.bring(each, writes(bytes([int(clock.now) + 1]) * 10))
    clock.now = 10
    assert read(found, old)
    last = file(b"x" * 10)
    found.want([new, last])
    found.bring(last, writes(b"x" * 10))
    found.want([old, used, new, last])
    assert [read(found, each) is not None for each in (old, used, new, last)] == [True, False, True, True]
    assert found.bytes == 30


def test_what_releases_name_is_never_given_up_for_more(tmp_path: Path) -> None:
    found, first, second = store(tmp_path, 15), file(b"a" * 10), file(b"b" * 10)
    found.want([first, second])
    found.bring(first, writes(b"a" * 10))
    with pytest.raises(NoRoomError):
        found.bring(second, writes(b"b" * 10))
    assert read(found, first)


def test_who_came_first_gives_room_up_to_whom_it_belongs(tmp_path: Path) -> None:
    found, first, second = store(tmp_path, 15), file(b"a" * 10), file(b"b" * 10)
    found.want([first])
    found.bring(first, writes(b"a" * 10))
    assert found.want([second, first]) == (second,)
    found.bring(second, writes(b"b" * 10))
    assert found.want([second, first]) == (first,)
    with pytest.raises(NoRoomError):
        found.bring(first, writes(b"a" * 10))
    assert read(found, second)


def test_a_store_that_is_started_anew_keeps_proven_files_and_clears_the_rest(tmp_path: Path) -> None:
    mine = file(b"weights")
    before = store(tmp_path, 100)
    before.bring(mine, writes(b"weights"))
    (tmp_path / "vision" / f"{'0' * 64}.partial").write_bytes(b"half")
    after = store(tmp_path, 100)
    assert after.want([mine]) == ()
    assert read(after, mine) == b"weights"
    assert len(list((tmp_path / "vision").iterdir())) == 1


def test_a_file_that_somebody_deleted_is_fetched_again(tmp_path: Path) -> None:
    found, mine = store(tmp_path, 100), file(b"weights")
    found.bring(mine, writes(b"weights"))
    found.want([mine])
    (tmp_path / "vision" / mine.sha256).unlink()
    assert read(found, mine) is None
    assert found.want([mine]) == (mine,)


def token(audience: Any = ARTIFACT_CACHE_AUDIENCE, subject: str = "x") -> str:
    def part(said: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(said).encode()).decode().rstrip("=")

    return f"{part({'alg': 'RS256'})}.{part({'aud': audience, 'sub': subject})}.signature"


def test_a_caller_is_whom_the_api_server_calls_by_the_token() -> None:
    known = {
        token([ARTIFACT_CACHE_AUDIENCE], "a"): "system:serviceaccount:vision:models",
        token(ARTIFACT_CACHE_AUDIENCE, "b"): "system:node:x",
    }
    callers = Callers(known.get, Clock())
    assert [
        callers.namespace(token(each, subject))
        for each, subject in (([ARTIFACT_CACHE_AUDIENCE], "a"), (ARTIFACT_CACHE_AUDIENCE, "b"), (ARTIFACT_CACHE_AUDIENCE, "c"))
    ] == [
        "vision",
        None,
        None,
    ]


@pytest.mark.parametrize(
    "said", ["", "a.b", "a.b.c", token("kubernetes"), token([]), token(None), token() * 500, "é.é.é", f"x.{'e' * 9}.y"]
)
def test_what_is_no_token_for_this_is_not_worth_a_question(said: str) -> None:
    def never(_: str) -> str | None:
        raise AssertionError("asked")

    assert Callers(never, Clock()).namespace(said) is None


def test_an_answer_is_remembered_for_a_minute_and_no_longer() -> None:
    asked: list[str] = []
    clock = Clock()
    callers = Callers(lambda each: asked.append(each) or "system:serviceaccount:vision:models", clock)
    for clock.now in (0.0, REMEMBERED_SECONDS - 1, REMEMBERED_SECONDS + 1):
        assert callers.namespace(token()) == "vision"
    assert len(asked) == 2


def test_strangers_cannot_flood_the_api_server() -> None:
    asked: list[str] = []
    clock = Clock()
    callers = Callers(lambda each: asked.append(each) and None, clock)
    turned_away = 0
    for number in range(1_000):
        clock.now = number / 1_000
        try:
            callers.namespace(token(subject=str(number)))
        except BusyError:
            turned_away += 1
    assert len(asked) + turned_away == 1_000
    assert len(asked) <= 3 * ASKED_PER_SECOND + 1


def test_while_the_api_server_is_away_no_caller_is_identified_or_remembered() -> None:
    answers: list[str | None] = [None, "system:serviceaccount:vision:models"]

    def review(_: str) -> str | None:
        if (found := answers.pop(0)) is None:
            raise OSError("away")
        return found

    callers = Callers(review, Clock())
    with pytest.raises(BusyError):
        callers.namespace(token())
    assert callers.namespace(token()) == "vision"
