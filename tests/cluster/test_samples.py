"""Samples of requests on their way through the real collector: to their own place, masked, and past the log of all requests.

Runs where the collector has been built (`make collector`). It holds no exporter for S3, so the last step is another's here: what would be an object
in the bucket is a request to a server of the test.
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from components.addons import otel
from components.addons.istio import SAMPLES_PLACE
from headway.contract.sampling import samples
from tests.cluster.conftest import eventually
from tests.cluster.test_collector import ENVIRONMENT, Sink, answers, binary, file, free_ports, post, pytestmark, sink, text

__all__ = ["pytestmark", "sink"]
PLACE = "30d/vision/defects"
RECORD = {
    "time": "2026-11-21T17:14:36.555Z",
    "workload": "defects-r0123456789",
    "request_id": "390112d5-2924-9fff-b2ed-4a348243f257",
    "mirrored": False,
    "request": {"inputs": [{"data": [1, 2.5, 1e21]}], "note": "mail anna@example.com, token: abcdefgh12345678"},
    "status": 200,
    "response": {"outputs": [{"data": [0.125]}]},
}


def line(body: str, *attributes: dict[str, Any]) -> dict[str, Any]:
    return {"timeUnixNano": "1", "body": {"stringValue": body}, "attributes": list(attributes)}


@pytest.fixture(scope="module")
def told(sink: Sink, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sink]:
    """What came out after a sample, a line of the log, and samples that are none went in."""
    folder = tmp_path_factory.mktemp("samples")
    otlp, health, metrics = free_ports()
    config = otel.sampling(otel.config(), bucket="telemetry", region="us-east-1")
    store = {"endpoint": f"http://127.0.0.1:{sink.port}/bucket", "encoding": "json", "compression": "none"}
    log = {**store, "endpoint": f"http://127.0.0.1:{sink.port}/loki"}
    del config["exporters"]["awss3"]
    config["exporters"] |= {"otlp_http": log, "otlp_http/samples": {**store, "logs_endpoint": f"http://127.0.0.1:{sink.port}/bucket"}}
    config["service"]["pipelines"]["logs/samples"]["exporters"] = ["otlp_http/samples"]
    config["processors"] |= {"batch": {"timeout": "100ms"}, "batch/samples": {"timeout": "100ms"}}
    config["extensions"] = {"health_check": {"endpoint": f"127.0.0.1:{health}"}}
    config["receivers"]["otlp"]["protocols"] = {"http": {"endpoint": f"127.0.0.1:{otlp}"}}
    reader = {"pull": {"exporter": {"prometheus": {"host": "127.0.0.1", "port": metrics}}}}
    config["service"]["telemetry"] = {"metrics": {"readers": [reader]}}
    with (folder / "log").open("w") as output:
        process = subprocess.Popen([binary(), *file(folder, "config", config)], env=ENVIRONMENT, stderr=output)
        try:
            eventually(lambda: process.poll() is not None or answers(f"http://127.0.0.1:{health}"), within=60)
            assert process.poll() is None, (folder / "log").read_text()
            for each in (
                line("no json", text(SAMPLES_PLACE, PLACE)),
                line(json.dumps(RECORD), text(SAMPLES_PLACE, "../assist")),
                line("POST weights 200 - 12", text("status", "200")),
                line(json.dumps(RECORD), text(SAMPLES_PLACE, PLACE)),
            ):
                post(otlp, "logs", {"resourceLogs": [{"resource": {"attributes": []}, "scopeLogs": [{"logRecords": [each]}]}]})
            eventually(lambda: len(sink.bodies["logs"]) and len(sink.bodies["bucket"]), within=60)
        finally:
            process.terminate()
            process.wait(60)
    yield sink


def kept(told: Sink) -> list[tuple[dict[str, str], Any]]:
    """Where each sample belongs, and the record, as values of the protocol."""
    return [
        ({each["key"]: each["value"].get("stringValue", "") for each in resource["resource"]["attributes"]}, record["body"])
        for body in told.bodies["bucket"]
        for resource in body["resourceLogs"]
        for scope in resource["scopeLogs"]
        for record in scope["logRecords"]
    ]


def plain(value: dict[str, Any]) -> Any:
    """A value of the protocol as JSON has it."""
    ((kind, held),) = value.items()
    if kind == "kvlistValue":
        return {each["key"]: plain(each["value"]) for each in held.get("values", ())}
    if kind == "arrayValue":
        return [plain(each) for each in held.get("values", ())]
    return int(held) if kind == "intValue" else held


def test_a_sample_arrives_where_it_belongs_masked_and_is_still_json(told: Sink) -> None:
    ((where, body),) = kept(told)
    assert where[SAMPLES_PLACE] == PLACE
    said = plain(body)
    (found,) = samples([json.dumps(said)])
    assert found.request == {**RECORD["request"], "note": "mail ****, ****"}  # pyright: ignore[reportGeneralTypeIssues]
    assert said | {"request": None} == RECORD | {"request": None}


def test_no_sample_is_among_the_lines_of_requests(told: Sink) -> None:
    records = told.records
    assert [record["body"]["stringValue"] for record in records] == ["POST weights 200 - 12"]


def test_the_collector_finds_no_fault_in_the_rest_of_the_configuration(tmp_path: Path) -> None:
    config = otel.sampling(otel.config(), bucket="telemetry", region="us-east-1")
    store = config["exporters"].pop("awss3")
    config["service"]["pipelines"]["logs/samples"]["exporters"] = ["otlp_http"]
    done = subprocess.run(
        [binary(), "validate", *file(tmp_path, "config", config)], env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert store["resource_attrs_to_s3"]["s3_prefix"] == SAMPLES_PLACE
