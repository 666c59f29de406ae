"""Loki and Tempo themselves, with the platform's settings: what the collector sends is found again by the queries of the dashboards.

Runs where somebody has built both and the collector (`HEADWAY_LOKI=PATH HEADWAY_TEMPO=PATH`, `make servers`): Tempo's module is in no registry,
and Loki takes a quarter of an hour. The settings stand where the charts' templates put them (loki 18.11.0, tempo 2.2.4); what is not the
platform's is one replica and its addresses, and moto in place of S3. Whether IAM would let them is not asked.
"""

import json
import os
import re
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

from components.addons import loki, otel, tempo
from components.observability import trail
from components.observability.panels import PanelSource
from sandbox.cloud import objectstore
from sandbox.progress import Silent
from tests.cluster.components.observability.collecting import (
    DEFECTS,
    FRAUD,
    UPSTREAM,
    Running,
    Sender,
    collecting,
    free_ports,
    populate,
    text,
)
from tests.cluster.conftest import ControlPlane, eventually

LOKI, TEMPO = (os.environ.get(name, "") for name in ("HEADWAY_LOKI", "HEADWAY_TEMPO"))
pytestmark = [pytest.mark.needs("collector"), pytest.mark.needs("Loki and Tempo")]

BUCKET, REGION, DAYS = "telemetry", "us-west-2", 30
HERE = "127.0.0.1"
REQUEST, TRACE = "390112d5-2924-9fff-b2ed-4a348243f257", f"{7:032x}"


def logs(folder: Path, http: int, grpc: int, gossip: int, store: str) -> dict[str, Any]:
    wanted = loki.values(bucket=BUCKET, region=REGION, days=DAYS)["loki"]
    s3 = {**wanted["storage"]["object_store"]["s3"], "bucket_name": BUCKET, "endpoint": store, "insecure": True}
    objects = {"storage_prefix": wanted["storage"]["object_store"]["storage_prefix"], "s3": s3}
    single = {"replication_factor": 1, "instance_addr": HERE, "ring": {"kvstore": {"store": "inmemory"}}}
    return {
        **{key: wanted[key] for key in ("analytics", "auth_enabled", "compactor", "limits_config")},
        "common": {
            **wanted["commonConfig"],
            **single,
            "compactor_grpc_address": f"{HERE}:{grpc}",
            "path_prefix": str(folder / "loki"),
            "storage": {"object_store": objects},
        },
        "memberlist": {"bind_addr": [HERE], "bind_port": gossip},
        "ruler": {"wal": {"dir": str(folder / "ruler")}},
        "ruler_storage": {"backend": "s3", **objects},
        "schema_config": wanted["schemaConfig"],
        "server": {"http_listen_address": HERE, "http_listen_port": http, "grpc_listen_address": HERE, "grpc_listen_port": grpc},
        "storage_config": {"use_thanos_objstore": True},
    }


def traces(folder: Path, http: int, grpc: int, otlp: int, store: str) -> dict[str, Any]:
    wanted = tempo.values(bucket=BUCKET, region=REGION, days=DAYS)["tempo"]
    kept = wanted["storage"]["trace"]
    ring = {"address": HERE, "ring": {"kvstore": {"store": "inmemory"}, "replication_factor": 1}}
    return {
        "compactor": {"compaction": {"block_retention": wanted["retention"]}},
        "distributor": {"receivers": {"otlp": {"protocols": {"grpc": {"endpoint": f"{HERE}:{otlp}"}}}}},
        "ingester": {"lifecycler": ring, "trace_idle_period": "1s", "flush_check_period": "1s", "max_block_duration": "5s"},
        "memberlist": {"bind_addr": [HERE], "bind_port": 0},
        "server": {"http_listen_address": HERE, "http_listen_port": http, "grpc_listen_address": HERE, "grpc_listen_port": grpc},
        "storage": {
            "trace": {
                "backend": kept["backend"],
                "s3": {**kept["s3"], "endpoint": store, "insecure": True},
                "wal": {"path": str(folder / "tempo" / "wal")},
            }
        },
        "usage_report": {"reporting_enabled": wanted["reportingEnabled"]},
    }


@dataclass(frozen=True)
class Stores:
    logs: str
    traces: str
    client: Any

    def lines(self, query: str) -> list[dict[str, Any]]:
        """Streams that Loki finds, with their lines."""
        now = time.time_ns()
        return ask(f"{self.logs}/loki/api/v1/query_range", query=query, start=now - 10**12, end=now + 10**10)["data"]["result"]

    def spans(self, query: str) -> list[str]:
        """Traces that Tempo finds, by id."""
        now = int(time.time())
        return [each["traceID"].zfill(32) for each in ask(f"{self.traces}/api/search", q=query, start=now - 900, end=now + 60)["traces"]]

    def stored(self) -> set[str]:
        return {each["Key"] for each in self.client.list_objects_v2(Bucket=BUCKET).get("Contents", ())}


def ask(url: str, **query: Any) -> Any:
    with urllib.request.urlopen(f"{url}?{urlencode(query)}", timeout=30) as answer:
        return json.load(answer)


@contextmanager
def serving(folder: Path, program: str, config: Mapping[str, Any], address: str, environment: Mapping[str, str]) -> Iterator[None]:
    """`program` with `config`, once it says that it is ready."""
    name = Path(program).name
    file = folder / f"{name}.yaml"
    file.write_text(json.dumps(config))
    with (folder / f"{name}.log").open("w") as log:
        process = subprocess.Popen([program, f"-config.file={file}"], env={**os.environ, **environment}, stdout=log, stderr=log)
        try:
            eventually(lambda: process.poll() is not None or ready(f"{address}/ready"), within=180)
            assert process.poll() is None, (folder / f"{name}.log").read_text()[-4000:]
            yield
        finally:
            process.kill()  # asked to end, Tempo takes its time to hand over what nobody reads any more
            process.wait(60)


def ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


@pytest.fixture(scope="module")
def stores(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stores]:
    folder = tmp_path_factory.mktemp("stores")
    populate(control_plane)
    address = objectstore.ensure_running(control_plane.layout, Silent())
    client = objectstore.client("s3", REGION, address)
    client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
    environment = objectstore.environment(control_plane.layout)
    (a, b, c), (d, e, otlp) = free_ports(), free_ports()
    found = Stores(f"http://{HERE}:{a}", f"http://{HERE}:{d}", client)
    store = urlsplit(address).netloc
    local = {
        "processors": {"batch": {"timeout": "100ms"}, "tail_sampling": {"decision_wait": "1s"}},
        "exporters": {"otlp_grpc": {"endpoint": f"{HERE}:{otlp}"}, "otlp_http": {"endpoint": f"{found.logs}/otlp"}},
    }
    with ExitStack() as stack:
        stack.enter_context(serving(folder, LOKI, logs(folder, a, b, c, store), found.logs, environment))
        stack.enter_context(serving(folder, TEMPO, traces(folder, d, e, otlp, store), found.traces, environment))
        collector = stack.enter_context(collecting(folder, control_plane, otel.config(), local))
        eventually(lambda: _known(collector, found), within=120)
        _send(collector)
        eventually(lambda: found.lines('{service_name="told"} |= "last"') and found.spans('{ span.tenant = "fraud" }'), within=120)
        yield found


def line(body: str, *attributes: Any) -> dict[str, Any]:
    return {"timeUnixNano": str(time.time_ns()), "body": {"stringValue": body}, "attributes": list(attributes)}


def _known(collector: Running, stores: Stores) -> bool:
    for sender in (Sender.DEFECTS, Sender.FRAUD):
        collector.tell(sender, "logs", {}, line("known?"))
    return all(stores.lines(f'{{service_name="access-log"}} |= "known?" | tenant="{name}"') for name in ("vision", "fraud"))


def _send(collector: Running) -> None:
    now = time.time_ns()
    span = {"traceId": TRACE, "spanId": f"{8:016x}", "name": "POST", "kind": 2, "status": {"code": 2}}
    span |= {"startTimeUnixNano": str(now - 10**7), "endTimeUnixNano": str(now)}
    fields = [text("request_id", REQUEST), text("status", "503"), text("upstream", UPSTREAM)]
    asked = [text("guid:x-request-id", REQUEST), text("upstream_cluster", UPSTREAM)]
    collector.tell(Sender.GATEWAY, "logs", {}, {**line("POST weights 503 UF 12", *fields), "traceId": TRACE})
    collector.tell(Sender.GATEWAY, "traces", {"service.name": "gateway"}, {**span, "attributes": asked})
    lies = [text(key, value) for key, value in DEFECTS.items()]
    collector.tell(Sender.FRAUD, "traces", {"service.name": "gateway"}, {**span, "traceId": f"{9:032x}", "attributes": [*asked, *lies]})
    for number in range(20):
        collector.tell(Sender.FRAUD, "logs", {"service.name": f"mine-{number}"}, line("a stream of its own?"))
    collector.tell(Sender.FRAUD, "logs", {"service.name": "gateway", **DEFECTS}, line("x" * 80_000 + " last"), line("last", *lies, *fields))


def filled(query: str, **chosen: str) -> str:
    """A panel's query with the variables that its page offers."""
    values = dict(trail.PAGE.asked) | chosen
    return re.sub(r"\$(\w+)", lambda found: values[found[1]], query)


def panel(title: str) -> str:
    (query,) = next(panel.queries for panel in trail.PAGE.panels if panel.title == title)
    return query.expression


def test_a_request_is_found_by_its_id_and_leads_to_its_trace(stores: Stores) -> None:
    (found,) = stores.lines(filled(panel("One line per request"), request=REQUEST, **DEFECTS))
    assert [body for _, body in found["values"]] == ["POST weights 503 UF 12"]
    assert DEFECTS.items() <= found["stream"].items()
    assert found["stream"]["trace_id"] == TRACE
    assert stores.spans(filled(panel("Stored traces"), request=REQUEST, **DEFECTS)) == [TRACE]
    assert json.dumps(ask(f"{stores.traces}/api/traces/{filled(panel('Selected trace'), trace=TRACE)}"))


def test_what_a_tenant_sends_under_anothers_name_is_found_under_its_own(stores: Stores) -> None:
    mine = filled(panel("One line per request"), tenant="vision")
    assert not any("last" in body for found in stores.lines(mine) for _, body in found["values"])
    (told,) = stores.lines('{service_name="told"} | tenant="fraud" |= "last" | request_id != ""')
    assert FRAUD.items() <= told["stream"].items()
    assert stores.spans('{ span.tenant = "fraud" }') == [f"{9:032x}"]


def test_a_sender_makes_no_streams_of_its_own(stores: Stores) -> None:
    (series,) = (ask(f"{stores.logs}/loki/api/v1/series", **{"match[]": '{service_name=~".+"}'})["data"],)
    assert sorted(series, key=str) == [{"service_name": otel.ACCESS_LOG}, {"service_name": otel.TOLD}]


def test_a_line_that_is_too_long_is_cut_and_not_refused(stores: Stores) -> None:
    long = [body for found in stores.lines('{service_name="told"} |= "xxxx"') for _, body in found["values"]]
    assert [len(body) for body in long] == [64 * 1024]


@pytest.mark.parametrize("title", [panel.title for panel in trail.PAGE.panels if panel.store in (PanelSource.LOGS, PanelSource.LOG_RATES)])
def test_loki_takes_every_query_of_the_page_as_it_opens(stores: Stores, title: str) -> None:
    try:
        stores.lines(filled(panel(title)))
    except urllib.error.HTTPError as refusal:
        pytest.fail(refusal.read().decode())


def test_both_store_below_their_own_prefix_and_ask_for_nothing_else(stores: Stores) -> None:
    urllib.request.urlopen(urllib.request.Request(f"{stores.logs}/flush", method="POST"), timeout=30).close()
    eventually(lambda: {key.split("/")[0] for key in stores.stored()} >= {loki.PREFIX, tempo.PREFIX}, within=120)
    assert {key.split("/")[0] for key in stores.stored()} == {loki.PREFIX, tempo.PREFIX}
    assert not any("cluster_seed" in key for key in stores.stored()), "Loki tells its maker about the installation"


@pytest.mark.parametrize(
    ("program", "config", "path"),
    [(LOKI, logs, ("limits_config", "volume_enabledd")), (TEMPO, traces, ("compactor", "compaction", "block_retentionn"))],
    ids=["loki", "tempo"],
)
def test_each_finds_no_fault_in_its_configuration_and_would(program: str, config: Any, path: tuple[str, ...], tmp_path: Path) -> None:
    made = config(tmp_path, 1, 2, 3, "store")
    assert _verified(program, made, tmp_path) == 0
    part = made
    for name in path[:-1]:
        part = part[name]
    part[path[-1]] = "1"
    assert _verified(program, made, tmp_path) != 0


def _verified(program: str, config: Any, folder: Path) -> int:
    file = folder / "config.yaml"
    file.write_text(json.dumps(config))
    verify = "-verify-config" if program == LOKI else "-config.verify=true"
    return subprocess.run([program, f"-config.file={file}", verify], capture_output=True, check=False).returncode
