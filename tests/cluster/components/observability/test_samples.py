"""Samples of requests all their way: a proxy's line, the real collector, an object in the bucket, the release's reader, and what it finds.

Runs where the collector has been built (`make servers`). The bucket is moto's; whether the role may write there is IAM's to say, and not said here.
"""

import gzip
import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from components.addons import otel
from components.addons.istio import SAMPLES_PLACE
from headway.contract.health import Golden, Top
from headway.contract.sampling import Sample, prefix
from headway.contract.units import Duration
from headway.environment.request_samples import SampleBucket
from headway.release.driver.mirrored import paired
from sandbox.cloud import objectstore
from sandbox.progress import Silent
from tests.cluster.components.observability.collecting import Running, Sender, attributes, collecting, populate, text
from tests.cluster.components.observability.test_collector import Sink, sink
from tests.cluster.conftest import ControlPlane, eventually

__all__ = ["sink"]
pytestmark = pytest.mark.needs("collector")

BUCKET, REGION = "telemetry", "us-west-2"
OURS, THEIRS = (prefix(tenant, model, Duration.parse("45d")) for tenant, model in (("vision", "defects"), ("fraud", "scores")))
STABLE, CANARY = "defects-r0123456789", "defects-rfedcba9876"
NOTE = "mail anna@example.com, token: abcdefgh12345678"
REQUEST = {"inputs": [{"data": [1, 2.5, 1e21]}], "note": NOTE}
LOUDEST = Golden(name="one", request={}, answer="/outputs/0/data", expect=Top(compare="top", index=0))


def kept(name: str, workload: str, scores: list[float], *, mirrored: bool = False) -> str:
    """A sample as a proxy writes it (`components.addons.istio.SAMPLE`)."""
    record = {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "workload": workload,
        "request_id": name,
        "mirrored": mirrored,
        "request": REQUEST,
        "status": 200,
        "response": {"outputs": [{"data": scores}]},
    }
    return json.dumps(record)


def line(body: str, place: str | None = None) -> dict[str, Any]:
    attributes = [] if place is None else [text(SAMPLES_PLACE, place)]
    return {"timeUnixNano": str(time.time_ns()), "body": {"stringValue": body}, "attributes": attributes}


@dataclass(frozen=True)
class Stored:
    """What came of the lines that went in."""

    sink: Sink
    client: Any
    since: float

    @property
    def objects(self) -> dict[str, bytes]:
        return {
            each["Key"]: self.client.get_object(Bucket=BUCKET, Key=each["Key"])["Body"].read()
            for each in self.client.list_objects_v2(Bucket=BUCKET).get("Contents", ())
        }

    def below(self, place: str) -> list[Sample]:
        """As a release reads them."""
        return SampleBucket(self.client, BUCKET, place).read(self.since, time.time())


@pytest.fixture(scope="module")
def stored(sink: Sink, control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stored]:
    populate(control_plane)
    address = objectstore.ensure_running(control_plane.layout, Silent())
    client = objectstore.client("s3", REGION, address)
    client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
    found = Stored(sink, client, time.time() - 1)
    config = otel.sampling(otel.config(), bucket=BUCKET, region=REGION)
    local = {
        "processors": {"batch": {"timeout": "100ms"}, "batch/samples": {"timeout": "100ms"}},
        "exporters": {"otlp_http": {"endpoint": f"http://127.0.0.1:{sink.port}", "encoding": "json", "compression": "none"}},
    }
    environment = dict(objectstore.environment(control_plane.layout))
    with collecting(tmp_path_factory.mktemp("samples"), control_plane, config, local, **environment) as collector:
        eventually(lambda: _known(collector, sink), within=60)
        _send(collector)
        eventually(lambda: len(found.below(OURS)) >= 5 and found.below(THEIRS) and len(_requests(sink)) >= 1, within=60)
    yield found


def _known(collector: Running, sink: Sink) -> bool:
    """Whether the collector has heard of both tenants' pods."""
    for sender in (Sender.DEFECTS, Sender.FRAUD):
        collector.tell(sender, "logs", {}, line("known?"))
    return {"vision", "fraud"} <= {attributes(record).get("tenant") for record in sink.records}


def _requests(sink: Sink) -> list[str]:
    return [text for record in sink.records if (text := record["body"].get("stringValue", "")) != "known?"]


def _send(collector: Running) -> None:
    place = OURS.removeprefix("samples/").removesuffix("/")
    # Lies first: what is stored at last was sent after them.
    collector.tell(Sender.STRANGER, "logs", {SAMPLES_PLACE: place}, line(kept("stranger", STABLE, [1, 0]), place))
    collector.tell(Sender.GATEWAY, "logs", {}, line(kept("gateway", STABLE, [1, 0]), place))
    collector.tell(Sender.FRAUD, "logs", {SAMPLES_PLACE: place, "source.tenant": "vision"}, line(kept("fraud", STABLE, [1, 0]), place))
    for wrong in ("../logs", "2d/vision/defects", "30d", ""):
        collector.tell(Sender.DEFECTS, "logs", {SAMPLES_PLACE: "365d/fraud/scores"}, line(kept("wrong", STABLE, [1, 0]), wrong))
    collector.tell(Sender.DEFECTS, "logs", {}, line("no json", place))
    collector.tell(Sender.DEFECTS, "logs", {}, line("POST weights 200 - 12"))
    collector.tell(
        Sender.DEFECTS,
        "logs",
        {},
        *(
            line(each, place)
            for each in (
                kept("alike", STABLE, [0.1, 0.9]),
                kept("alike", CANARY, [0.2, 0.8], mirrored=True),
                kept("other", STABLE, [0.1, 0.9]),
                kept("other", CANARY, [0.8, 0.2], mirrored=True),
                kept("alone", STABLE, [0.5, 0.5]),
            )
        ),
    )


def test_samples_become_gzipped_json_lines_below_the_models_prefix_per_minute(stored: Stored) -> None:
    ours = {key: body for key, body in stored.objects.items() if key.startswith(OURS)}
    assert ours
    begun, now = (datetime.fromtimestamp(at, UTC) for at in (stored.since, time.time()))
    for key, body in ours.items():
        assert re.fullmatch(r"samples/30d/vision/defects/\d{4}/\d\d/\d\d/\d\d/\d\d/logs_\d+[.]txt[.]gz", key)
        minute = datetime.strptime(key.removeprefix(OURS)[:16], "%Y/%m/%d/%H/%M").replace(tzinfo=UTC)
        assert begun.replace(second=0, microsecond=0) <= minute <= now, "the collector's own clock is Tokyo's here"
        assert [json.loads(each) for each in gzip.decompress(body).splitlines()]


def test_a_release_reads_what_was_kept_masked_and_otherwise_as_it_was(stored: Stored) -> None:
    found = {(each.request_id, each.workload): each for each in stored.below(OURS)}
    assert sorted(found) == [("alike", STABLE), ("alike", CANARY), ("alone", STABLE), ("other", STABLE), ("other", CANARY)]
    one = found["alike", CANARY]
    assert (one.mirrored, one.status) == (True, 200)
    assert one.request == REQUEST | {"note": "mail ****, ****"}
    assert one.response == {"outputs": [{"data": [0.2, 0.8]}]}


def test_answers_to_copies_are_judged_beside_those_that_users_got(stored: Stored) -> None:
    found = paired(stored.below(OURS), (STABLE,), CANARY, LOUDEST)
    assert (found.pairs, found.mismatches) == (2, 1)
    assert found.examples == ("other: the largest number stands at 0, the user's at 1",)


def test_nobody_can_put_a_sample_below_anothers_prefix(stored: Stored) -> None:
    assert {each.request_id for each in stored.below(THEIRS)} == {"fraud"}, "its own, whatever place it named"
    assert {key for key in stored.objects if not key.startswith((OURS, THEIRS))} == set(), "nobody's samples are kept nowhere"


def test_no_sample_is_among_the_lines_of_requests(stored: Stored) -> None:
    assert set(_requests(stored.sink)) == {"POST weights 200 - 12"}
