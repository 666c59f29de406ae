"""Answers to copies, beside those that users got: which pairs are compared, how, and what comes of them in a release."""

import gzip
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
import pytest
from hypothesis import given
from hypothesis import strategies as st
from moto import mock_aws

from headway.contract.health import Cosine, Exact, Golden, Near, Top
from headway.contract.model import Model
from headway.contract.reading.loader import load_tenant
from headway.contract.sampling import Sample
from headway.environment.request_samples import SampleBucket, UnreadableSamplesError
from headway.release.driver.mirrored import paired
from headway.release.driver.rollout_state import RolloutState
from headway.release.driver.start import GoldenTrial
from sandbox.traffic.request_samples import SampleFile
from tests.unit.release_kill import Shelf
from tests.unit.release_world import UNASKED, Scene

TENANTS = Path(__file__).parents[4] / "tenants"
STABLE, TWIN, CANARY = "defects-r1", "defects-r1-baseline", "defects-r2"
NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC).timestamp()


def golden(expect: Any) -> Golden:
    return Golden(name="one", request={}, answer="/outputs/0/data", expect=expect)


TOP = golden(Top(compare="top", index=0))


def sample(name: str, answer: Any, *, copy: bool = False, workload: str | None = None, status: int = 200, at: float = NOON) -> Sample:
    response = None if answer is None else {"outputs": [{"name": "scores", "data": answer}]}
    time = datetime.fromtimestamp(at, UTC).isoformat()
    of = workload or (CANARY if copy else STABLE)
    return Sample(request_id=name, workload=of, time=time, mirrored=copy, status=status, request=None, response=response)


def pair(user: Any, copy: Any, how: Golden = TOP, **more: Any) -> tuple[int, int]:
    found = paired([sample("a", user), sample("a", copy, copy=True, **more)], (STABLE, TWIN), CANARY, how)
    return found.pairs, found.mismatches


@pytest.mark.parametrize(
    ("how", "user", "copy", "differs"),
    [
        (TOP, [0.1, 0.9], [0.4, 0.6], False),
        (TOP, [0.1, 0.9], [0.6, 0.4], True),
        (TOP, [[0.1, 0.9]], [0.2, 0.8], False),
        (golden(Near(compare="near", value=(1.0,), relative=0.1)), [2.0, 0.0], [2.19, 0.0], False),
        (golden(Near(compare="near", value=(1.0,), relative=0.1)), [2.0, 0.0], [2.21, 0.0], True),
        (golden(Near(compare="near", value=(1.0,), absolute=0.5)), 3, 3.5, False),
        (golden(Cosine(compare="cosine", value=(1.0, 0.0), at_least=0.99)), [1.0, 0.0], [2.0, 0.1], False),
        (golden(Cosine(compare="cosine", value=(1.0, 0.0), at_least=0.99)), [1.0, 0.0], [1.0, 1.0], True),
        (golden(Exact(compare="exact", value="ok")), "ok", "ok", False),
        (golden(Exact(compare="exact", value="ok")), 1, True, True),
        (TOP, [0.1, 0.9], [0.1, 0.9, 0.0], True),
        (TOP, [0.1, 0.9], ["none"], True),
        (TOP, [0.1, 0.9], [float("nan"), 0.9], True),
        (TOP, [0.1, 0.9], None, True),
    ],
)
def test_a_copys_answer_is_compared_with_the_users_as_golden_answers_are(how: Golden, user: Any, copy: Any, differs: bool) -> None:
    assert pair(user, copy, how) == (1, int(differs))


@pytest.mark.parametrize(
    ("user", "more"),
    [([0.1, 0.9], {"status": 503}), ([0.1, 0.9], {"workload": "defects-r0"}), (None, {}), ("none", {}), ([], {}), ([float("nan")], {})],
)
def test_where_there_is_nothing_to_compare_nothing_is_counted(user: Any, more: dict[str, Any]) -> None:
    assert pair(user, [0.9, 0.1], TOP, **more) == (0, 0)


def test_a_request_counts_once_and_only_with_a_copy_of_its_own() -> None:
    kept = [
        sample("a", [1, 0]),
        sample("a", [0, 1], copy=True),
        sample("a", [0, 1], copy=True),
        sample("b", [1, 0]),
        sample("c", [1, 0], copy=True),
    ]
    found = paired([*kept, sample("d", [1, 0], workload=TWIN), sample("d", [1, 0], copy=True)], (STABLE, TWIN), CANARY, TOP)
    assert (found.pairs, found.mismatches) == (2, 1)
    assert found.examples == ("a: the largest number stands at 1, the user's at 0",)


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.sampled_from([[1, 0], [0, 1], None, [], "x"])), max_size=30))
def test_differences_never_exceed_pairs_and_pairs_never_exceed_requests(kept: list[tuple[int, bool, Any]]) -> None:
    found = paired([sample(str(n), answer, copy=copy) for n, copy, answer in kept], (STABLE,), CANARY, TOP)
    assert 0 <= found.mismatches <= found.pairs <= len({n for n, copy, _ in kept if copy} & {n for n, copy, _ in kept if not copy})


def line(name: str, at: float) -> str:
    time = datetime.fromtimestamp(at, UTC).isoformat()
    return json.dumps({"request_id": name, "workload": STABLE, "time": time, "mirrored": False, "status": 200, "response": {}})


def test_a_file_gives_the_samples_of_a_time_and_a_missing_one_none(tmp_path: Path) -> None:
    file = tmp_path / "vision.defects.jsonl"
    assert SampleFile(file).read(NOON, NOON + 60) == []
    file.write_text("\n".join([line("early", NOON), line("first", NOON + 1), line("last", NOON + 60), line("late", NOON + 61), '{"cut']))
    assert [one.request_id for one in SampleFile(file).read(NOON, NOON + 60)] == ["first", "last"]


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "none")
    with mock_aws():
        made: Any = boto3.client("s3", region_name="us-east-1")
        made.create_bucket(Bucket="telemetry")
        yield made


def test_a_bucket_gives_late_samples_too_and_each_sample_once(bucket: Any) -> None:
    def stored(minute: str, *lines: str) -> None:
        packed = gzip.compress("\n".join(lines).encode())
        bucket.put_object(Bucket="telemetry", Key=f"samples/7d/vision/defects/2026/11/21/12/{minute}/logs.json.gz", Body=packed)

    stored("00", line("a", NOON + 10))
    stored("02", line("b", NOON + 50), line("c", NOON + 70))
    kept = SampleBucket(bucket, "telemetry", "samples/7d/vision/defects/")
    assert [one.request_id for one in kept.read(NOON, NOON + 60)] == ["a", "b"]
    assert [one.request_id for one in kept.read(NOON + 60, NOON + 120)] == ["c"]


def test_a_bucket_that_cannot_be_read_is_no_evidence(bucket: Any) -> None:
    with pytest.raises(UnreadableSamplesError, match="NoSuchBucket"):
        SampleBucket(bucket, "elsewhere", "").read(NOON, NOON + 60)
    bucket.put_object(Bucket="telemetry", Key="p/2026/11/21/12/00/cut.gz", Body=gzip.compress(b"x" * 1000)[:20])
    with pytest.raises(UnreadableSamplesError, match=r"cut\.gz cannot be unpacked"):
        SampleBucket(bucket, "telemetry", "p/").read(NOON, NOON + 60)


# in a release -----------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def contract() -> Model:
    (found,) = load_tenant(TENANTS / "vision").contracts
    return next(model for model in found.models if model.name == "defects")


def released(contract: Model, pairs: int, differing: int, answers: GoldenTrial = UNASKED) -> RolloutState:
    scene = Scene.of(Shelf(), contract, mirror={"share": "100%", "differ": "5%"}, weights=["25%"], on_inconclusive="rollback")
    scene.world.copied = (pairs, differing)
    scene.begin(answers)
    return scene.driver().run()


def test_a_version_that_answers_copies_differently_is_rolled_back_unseen(contract: Model) -> None:
    ended = released(contract, 20, 6)
    assert ended.outcome == "rolled back"
    assert ended.failing is not None
    assert "answers differ" in ended.failing.reason
    assert released(contract, 20, 0).outcome == "promoted"


def test_where_no_answer_to_a_copy_was_compared_no_user_meets_the_version(contract: Model) -> None:
    ended = released(contract, 0, 0)
    assert (ended.outcome, ended.decision and ended.decision["stage"]) == ("out of time", 0)


def test_replicas_that_only_pretend_to_run_are_not_judged_by_answers_to_copies(contract: Model) -> None:
    asked = GoldenTrial(compared=False, reason="the replicas are simulated", simulated=True)
    ended = released(contract, 0, 0, asked)
    assert (ended.outcome, ended.body["policy"]["mirrored"]) == ("promoted", None)


@pytest.mark.parametrize("fields", [["response.outputs"], ["response.outputs.data"], ["request.inputs", "response.outputs"]])
def test_a_contract_that_compares_copies_may_keep_all_or_part_of_their_answers(contract: Model, fields: list[str]) -> None:
    document = contract.model_dump(mode="json")
    document["rollout"]["mirror"] = {"share": "100%", "differ": "5%"}
    document["data"]["log_fields"] = fields
    assert Model.model_validate(document).health.valued is not None
