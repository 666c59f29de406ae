"""One request, seen from everywhere: its series, its lines, its spans, and what its contract lets be kept of its body.

A real Envoy with the gateway and the proxies of two releases, as the program's own objects make them, and a collector that only remembers.
The servers behind are stand-ins that answer as they are told to.
"""

import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from time import monotonic, sleep
from typing import Any
from uuid import uuid4

import grpc
import pytest
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2_grpc as logs_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as trace_grpc

from components.addons import istio, otel
from components.model_service.manifests import ServicePlan
from components.model_service.release import Release
from components.platform import mesh
from components.tenant.manifests import TenantPlan
from headway.contract.sampling import BODY_BYTES, Sample, chosen, place, samples, threshold
from headway.contract.units import Share
from headway.ledger.traffic_split import ArmRole, TrafficArm, TrafficMirror, TrafficSplit
from headway.wire import GATEWAY_NAMESPACE, MESH_NAMESPACE
from sandbox.traffic.mesh import envoy_configuration, listeners
from sandbox.traffic.mesh.snapshot import MeshSnapshot
from sandbox.traffic.mesh.tokens import TokenIssuers
from sandbox.traffic.pod_addresses import loopback
from tests.components.contracts import DEFECTS, MODELS, POOLS, SURROUNDINGS, changed, service, tenant
from tests.loopback import served
from tests.traffic import istiod, proxied
from tests.traffic.observed_mesh import (
    ANSWERED,
    ASKED,
    FIELDS,
    ISSUER,
    PROMPT,
    SHARE,
    Collector,
    Mesh,
    Server,
    attributes,
    request_id,
)
from tests.traffic.static_configuration import static


def until(found: Callable[[], Any]) -> Any:
    """What `found` answers once it is true."""
    end = monotonic() + 60
    while not (seen := found()):
        assert monotonic() < end, "nothing came"
        sleep(0.05)
    return seen


def both(found: Callable[[], list[Sample]]) -> list[Sample]:
    """Of the request, and of its copy."""
    return until(lambda: seen if len(seen := found()) == 2 else None)


def made() -> ServicePlan:
    given = {**DEFECTS, "batch": None}
    kept: dict[str, Any] = {"data__log_fields": FIELDS, "data__sample": str(SHARE), "observability__tracing": "100%"}
    old, new = Release(model=changed(given, **kept)), Release(model=changed(given, **kept, artifact__version="2026.12.0"))
    traffic = TrafficSplit(
        arms=(TrafficArm(release=old.id), TrafficArm(release=new.id, role=ArmRole.CANARY, weight=Share.percent(0))),
        mirror=TrafficMirror(release=new.id, share=Share.percent(100)),
    )
    releases = {old.id: old, new.id: new}
    return ServicePlan(
        tenant="vision", model=old.model, releases=releases, traffic=traffic, pool=service("defects").pool, surroundings=SURROUNDINGS
    )


def snapshot(found: ServicePlan) -> tuple[MeshSnapshot, dict[str, str]]:
    """The objects, and addresses by Deployment."""
    plan = TenantPlan(tenant=tenant("vision"), models=(MODELS["defects"],), pools=POOLS, surroundings=SURROUNDINGS)
    rules = mesh.manifests(hosts=SURROUNDINGS.hosts, certificate=None, region="us-west-2")
    manifests = [*rules, *plan.manifests(), *found.manifests()]
    places, replicas = dict[str, str](), list[dict[str, Any]]()
    for number, body in enumerate([each.body for each in manifests if each.body["kind"] == "Deployment"], 1):
        name, template = body["metadata"]["name"], body["spec"]["template"]
        places[name] = f"10.191.8.{number}"
        metadata = {"namespace": "vision", "labels": template["metadata"]["labels"], "name": f"{name}-5d9c-0"}
        owned = {**metadata, "ownerReferences": [{"kind": "ReplicaSet", "name": f"{name}-5d9c"}]}
        endpoint = {"addresses": [places[name]], "conditions": {"ready": True}}
        replicas += [
            {"kind": "Pod", "metadata": owned, "spec": template["spec"], "status": {"podIP": places[name]}},
            {
                "kind": "EndpointSlice",
                "metadata": {"namespace": "vision", "name": f"{name}-x", "labels": {"kubernetes.io/service-name": name}},
                "ports": [{"name": "http", "port": 8000}, {"name": "grpc", "port": 8001}],
                "endpoints": [endpoint],
            },
        ]
    return proxied.snapshot(manifests, *replicas), places


def specs(of: MeshSnapshot, namespace: str, labels: dict[str, str]) -> list[dict[str, Any]]:
    """Telemetry that applies to a proxy, the mesh's own first."""
    found = of.selecting("Telemetry", namespace, labels)
    return [item["spec"] for item in sorted(found, key=lambda item: item["metadata"]["namespace"] != MESH_NAMESPACE)]


def observed(found: dict[str, Any], of: MeshSnapshot, collector: int) -> dict[str, Any]:
    """Envoy's configuration with the tracer and the loggers that istiod gives each proxy."""
    known = istiod.providers(istio.control_plane_values(otel.HOST, 4317))
    pods = {f"inbound-vision-{pod['metadata']['name']}": pod for pod in of.served_pods()}
    for listener in found["static_resources"]["listeners"]:
        manager = listener["filter_chains"][0]["filters"][-1]["typed_config"]
        pod = next((pod for name, pod in pods.items() if listener["name"].startswith(name)), None)
        if pod is None:
            istiod.observed(manager, specs(of, GATEWAY_NAMESPACE, dict(istio.GATEWAY_LABELS)), known, {})
            # Head sampling is a lottery; this test must not be.
            manager["tracing"]["random_sampling"]["value"] = 100.0
        else:
            labels = pod["metadata"]["labels"]
            named, there = {"ISTIO_META_WORKLOAD_NAME": listeners.workload(pod)}, listeners.imports_of(of, pod, otel.NAMESPACE, otel.HOST)
            istiod.observed(manager, specs(of, "vision", labels), known, named, imported=there)
    found["static_resources"]["clusters"].append(istiod.collector(collector))
    return found


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    folder = tmp_path_factory.mktemp("request")
    issuers = TokenIssuers(folder / "issuers")
    port, admin = proxied.free_port(), proxied.free_port()
    ports = listeners.ListenerPorts(gateway={80: port}, mesh={}, log=str(folder / "access.log"), samples=str(folder))
    service = made()
    of, places = snapshot(service)
    assert envoy_configuration.judge(of) == {}
    compiled = envoy_configuration.compile_(of, ports, str(folder), {ISSUER.issuer: issuers.keys(ISSUER.issuer)})
    collector = Collector()
    with ExitStack() as stack:
        server = grpc.server(ThreadPoolExecutor(2))
        logs_grpc.add_LogsServiceServicer_to_server(collector, server)
        trace_grpc.add_TraceServiceServicer_to_server(collector, server)
        collecting = server.add_insecure_port("127.0.0.1:0")
        server.start()
        stack.callback(server.stop, None)
        for ip in places.values():
            stack.enter_context(served(Server, 8000, loopback(ip)))
        config = observed(static(compiled, logs=True), of, collecting)
        config["admin"] = {"address": {"socket_address": {"address": "127.0.0.1", "port_value": admin}}}
        stack.enter_context(proxied.envoy(folder, config, port))
        workloads = (f"defects-{service.traffic.ordered[0].key}", f"defects-{service.traffic.ordered[1].key}")
        yield Mesh(
            port=port, admin=admin, issuers=issuers, collector=collector, folder=folder, address=places[workloads[0]], workloads=workloads
        )


@pytest.fixture
def through(seen: Mesh) -> Iterator[Mesh]:
    former = Server.answer
    yield seen
    Server.answer = former


def trace_id() -> str:
    return uuid4().hex


def traced(of: Mesh, **headers: str) -> tuple[str, str]:
    """The id of a request through the gateway, and the trace that its caller began."""
    trace = trace_id()
    return of.ask(json.dumps(ASKED).encode(), traceparent=f"00-{trace}-{'1' * 16}-01", **headers), trace


def kept_of(of: Mesh) -> str:
    """The id of a request through the gateway that is sampled."""
    return until(lambda: next((found for found in [traced(of)[0]] if chosen(found, SHARE)), None))


def test_a_caller_learns_the_id_of_its_request_and_cannot_choose_it(through: Mesh) -> None:
    mine = str(uuid4())
    found, _ = traced(through, **{"x-request-id": mine})
    assert found != mine
    assert until(lambda: through.lines(found))


def test_a_request_has_one_trace_and_one_id_in_its_lines_and_its_spans(through: Mesh) -> None:
    request, trace = traced(through)
    # The gateway, the stable replica's proxy, and the proxy of the replica that got the copy.
    lines = until(lambda: found if len(found := through.lines(request)) == 3 else None)
    assert {line["trace_id"] for line in lines} == {trace}
    assert {line["request_id"] for line in lines} == {request}
    wanted = {line["span_id"] for line in lines}
    spans = until(lambda: found if wanted <= (found := {span.span_id.hex(): span for span in through.spans(trace)}).keys() else None)
    assert {attributes(spans[each])["guid:x-request-id"] for each in wanted} == {request}


def test_series_line_and_span_of_a_request_say_the_same_of_whose_it_is(through: Mesh) -> None:
    request, trace = traced(through)
    stable = through.workloads[0]
    whose = {"model": "defects", "release": stable.removeprefix("defects-"), "tenant": "vision"}
    (line,) = until(lambda: [line for line in through.lines(request) if "outbound" in line["upstream"]])
    assert named(line["upstream"]) == whose
    span = until(lambda: next((span for span in through.spans(trace) if span.span_id.hex() == line["span_id"]), None))
    assert named(attributes(span)["upstream_cluster"]) == whose
    series = until(lambda: [key for key in through.series() if key["reporter"] == "source"])
    assert {(key["destination_service_namespace"], key["destination_service_name"]) for key in series} == {("vision", stable)}


def test_a_callers_content_is_in_no_log_line_and_no_span_after_the_collector(through: Mesh) -> None:
    request, trace = traced(through)
    until(lambda: len(through.lines(request)) == 3 and through.spans(trace))
    assert PROMPT not in json.dumps(through.lines(request))
    for span in through.spans(trace):
        assert PROMPT not in json.dumps({key: value for key, value in attributes(span).items() if key in otel.ALLOWED_ATTRIBUTES})


def test_a_sampled_request_keeps_the_contracts_fields_of_both_answers(through: Mesh) -> None:
    request = kept_of(through)
    found = {each.workload: each for each in both(lambda: through.samples(request))}
    users, copied = (found[workload] for workload in through.workloads)
    assert (users.mirrored, copied.mirrored) == (False, True)
    for each in (users, copied):
        assert each.request == {"inputs": [{"data": [1, 2.5]}, {"data": ['a\\"]}', "é"]}], "parameters": {"seed": 7}}
        assert each.response == {"outputs": ANSWERED["outputs"]}
        assert each.status == 200
    for line in through.lines(request, sampled=True):
        assert line[istio.SAMPLES_PLACE] == place("vision", "defects", MODELS["defects"].data.retention)
        assert PROMPT not in line["body"]


def test_the_sandboxs_file_holds_what_the_collector_is_told(through: Mesh) -> None:
    request = kept_of(through)
    file = through.folder / "vision.defects.jsonl"
    written = both(lambda: [each for each in samples(file.read_text().splitlines()) if each.request_id == request])
    told = both(lambda: through.samples(request))
    assert sorted(written, key=lambda each: each.workload) == sorted(told, key=lambda each: each.workload)


def test_whether_a_request_is_sampled_is_said_by_its_id_alone(through: Mesh) -> None:
    edge = threshold(SHARE)
    ids = [*map(request_id, (0, edge - 1, edge, 2**32 - 1)), "no-id", ""]
    for each in ids:
        through.ask_replica(b"{}", each)
    last = through.ask_replica(b"{}")
    until(lambda: through.samples(last))
    assert (
        [bool(each and through.samples(each)) for each in ids]
        == [chosen(each, SHARE) for each in ids]
        == [True, True, False, False, False, False]
    )


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/grpc", b"\0\0\0\0\2{}"),
        ("text/plain", json.dumps(ASKED).encode()),
        ("application/json", b""),
        ("application/json", b'{"inputs": '),
        ("application/json", b'"inputs"'),
        ("application/json", b"[" * 5_000),
        ("application/json", b'{"inputs":' * 2_000 + b"1" + b"}" * 2_000),
        ("application/json", b'{"inputs": [{"data": "\\'),
        ("application/json", b'{"other": [1, {"inputs": {"data": 1}}]}'),
        ("application/json", b'{"inputs": [{"data": "' + b"x" * BODY_BYTES + b'"}]}'),
        ("application/json", bytes(range(1, 256))),
    ],
)
def test_what_holds_no_allowed_field_or_is_no_json_is_served_and_not_kept(through: Mesh, kind: str, body: bytes) -> None:
    errors = through.script_errors()
    request = through.ask_replica(body, kind=kind)
    last = through.ask_replica(json.dumps(ASKED).encode())
    until(lambda: through.samples(last))
    assert [each.request for each in through.samples(request)] in ([], [None])
    assert through.script_errors() == errors


def test_a_request_without_a_body_fails_no_script(through: Mesh) -> None:
    errors = through.script_errors()
    through.ask_replica(None)
    last = through.ask_replica(json.dumps(ASKED).encode())
    until(lambda: through.samples(last))
    assert through.script_errors() == errors


@pytest.mark.parametrize(
    "answer",
    [
        (200, "text/event-stream", b"data: {}\n\n"),
        (200, "application/json", b'{"outputs": ["' + b"x" * BODY_BYTES + b'"]}'),
        (200, "application/json", b'{"outputs": [1'),
        (400, "text/html", b"<p>no</p>"),
        (200, "application/json", b""),
    ],
)
def test_an_answer_that_cannot_be_read_passes_unharmed_and_is_not_kept(through: Mesh, answer: tuple[int, str, bytes]) -> None:
    Server.answer = answer
    errors = through.script_errors()
    request = through.ask_replica(json.dumps(ASKED).encode())
    (found,) = until(lambda: through.samples(request))
    assert (found.status, found.response) == (answer[0], None)
    assert found.request
    assert through.script_errors() == errors


def named(upstream: str) -> dict[str, str]:
    """Tenant, model and release as the collector reads them off the name of an upstream."""
    found = re.match(otel.OF_UPSTREAM, upstream)
    assert found
    return found.groupdict()
