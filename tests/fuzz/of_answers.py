"""What servers of the platform answer: Prometheus, Loki, Alertmanager, MLflow, and scripts that ran in a replica."""

import gzip
import io
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from unittest import mock

import requests
import requests.adapters
import urllib3

from headway.contract.drift import NumberOf, WatchedNumber
from headway.contract.sampling import samples
from headway.diagnosis.alertmanager import AlertmanagerError, Alertmanagers
from headway.diagnosis.incident import listed
from headway.diagnosis.notification import service_of
from headway.environment import loki
from headway.environment.container_logs import LogQuery
from headway.environment.port import OutOfReachError
from headway.environment.request_samples import SampleBucket, UnreadableSamplesError
from headway.model_registry import mlflow
from headway.problem import UserError
from headway.release.driver import golden_answers, labelled
from headway.release.evaluation.holdout import labelled_requests
from headway.release.evaluation.watched import number_of
from headway.release.evidence.prometheus import Prometheus, PrometheusEndpoint, UnansweredError
from headway.release.evidence.reader import PrometheusEvidence
from headway.release.evidence.reading import ArmNames, JudgedService, TickWindow
from headway.verify import alerts, probe, run, scrapes
from headway.verify.catalogue import VerifyCheck
from headway.verify.outcome import Sighting
from tests.evaluation_world import evaluation, lines
from tests.fuzz.parser import FuzzedParser, document, texts

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
ENDPOINT = PrometheusEndpoint(url="http://127.0.0.1:9090")
PODS = [{"metadata": {"name": "defects-r1-0"}}]
SERVICE = JudgedService(tenant="vision", model="defects", classes=("small",))
ARMS = ArmNames(stable="defects-r1", baseline="defects-r1-baseline", canary="defects-r2")


def _answer(content: bytes) -> Any:
    """Has every request by `requests` answered so."""

    def send(self: Any, request: requests.PreparedRequest, *_: Any, **__: Any) -> requests.Response:
        found = requests.Response()
        found.status_code, found.request, found.url = 200, request, request.url or ""
        found.raw = urllib3.HTTPResponse(io.BytesIO(content), status=200, preload_content=False)
        return found

    return mock.patch.object(requests.adapters.HTTPAdapter, "send", send)


def _alerts(data: bytes) -> None:
    with mock.patch.object(Alertmanagers, "_asked", return_value=data):
        source = Alertmanagers(lambda: ("http://127.0.0.1:9093",))
        source.causes()
        source.pages()
        source.firing()


def _samples(data: bytes) -> None:
    source = Prometheus(ENDPOINT)
    with _answer(data):
        source.samples("up", 1.0)
    source.close()


def _evidence(data: bytes) -> None:
    evidence = PrometheusEvidence([ENDPOINT])
    with _answer(data):
        raw = evidence.read(SERVICE, ARMS, TickWindow(1_700_000_000.0, 1_700_000_060.0))
        evidence.drained(SERVICE, "defects-r2", None)
        evidence.time()
        evidence.preflight(SERVICE, ARMS, now=1_700_000_060.0, seconds=60.0)
    evidence.close()
    json.dumps(raw, allow_nan=False)


def _history(data: bytes) -> None:
    evidence = PrometheusEvidence([ENDPOINT])
    try:
        with _answer(data):
            evidence.by_pod(SERVICE, "defects-r1", [1_700_000_000.0, 1_700_000_060.0])
            evidence.arms_of("vision", "defects", 1.0)
    finally:
        evidence.close()


class _Body(io.BytesIO):
    """An answer of urllib's."""

    status, headers = 200, {"content-type": "text/plain"}


def _logs(data: bytes) -> None:
    query = LogQuery(tenant="vision", since=datetime(2023, 1, 1, tzinfo=UTC), most=10)
    reader = loki.LokiReader("http://loki", query, lambda: NOW)
    with mock.patch.object(loki, "asked", lambda *_: _Body(data)):
        for _ in range(2):
            for line in reader.read():
                str(line.text)


class _Bucket:
    def __init__(self, content: bytes) -> None:
        self._content = content

    def get_paginator(self, _: str) -> Any:
        return self

    def paginate(self, **_: Any) -> Any:
        return [{"Contents": [{"Key": "a"}]}]

    def get_object(self, **_: Any) -> Any:
        return {"Body": io.BytesIO(self._content)}


def _kept(data: bytes) -> None:
    SampleBucket(_Bucket(data), "b", "samples/7d/vision/defects/").read(1_700_000_000.0, 1_700_000_010.0)


def _registered(data: bytes) -> None:
    with mock.patch.object(mlflow, "asked", lambda *_: _Body(data)):
        mlflow.MlflowRegistry("https://mlflow.example").find("defects", "1")


def _numbers(data: bytes) -> None:
    """Every number that a contract could watch in what a user sent or got."""
    for sample in samples(data.decode(errors="replace").splitlines()):
        for of, body in (("request", sample.request), ("response", sample.response)):
            for field in body or {}:
                for take in NumberOf:
                    at = f"/{field.replace('~', '~0').replace('/', '~1')}"
                    number_of(sample, WatchedNumber.model_construct(name="n", of=of, at=at, take=take))


def _golden(data: bytes) -> None:
    text = data.decode(errors="replace")
    golden_answers.failing(PODS, lambda *_: text)
    golden_answers.asked(PODS, lambda *_: text, 1.0)


def _compared(data: bytes) -> None:
    labelled.compared(PODS, PODS, (), lambda *_: data.decode(errors="replace"), 1.0)


def checked(look: Callable[[Any], Any]) -> None:
    """What a verification does with a check that looks at such an answer."""
    site: Any = None
    run._seen(site, VerifyCheck(name="x", says="x", minutes=1, look=look))  # pyright: ignore[reportPrivateUsage]


class _Site:
    """A site whose servers all answer so."""

    namespace, sleep = "x", staticmethod(lambda _: None)

    def __init__(self, content: bytes) -> None:
        self.environment: Any = mock.Mock(alertmanager_address="http://a", metrics_address="http://a", cannot_show=lambda _: None)
        self._content, self._moments = content, iter((0.0, 1e9, 1e9))

    def clock(self) -> float:
        return next(self._moments)

    def http(self, *_: Any) -> bytes:
        return self._content

    def items(self, _: str) -> list[Any]:
        return []


def _looked(look: Any) -> Callable[[bytes], None]:
    return lambda data: checked(lambda _: look(_Site(data)))


def _config(data: bytes) -> None:
    if found := document(data):
        head = {"namespace": "vision", "name": "x"}
        checked(lambda _: alerts.receivers([{**found, "metadata": head}]) and Sighting())


def _pod(data: bytes) -> None:
    if found := document(data):
        checked(lambda _: probe.seen(found) and Sighting())


_MESH = {
    "destination_workload": "defects-r1",
    "pod": "p",
    "response_code": "200",
    "grpc_response_status": "0",
    "job": "a",
    "instance": "b",
    "le": "5",
}
_ROWS = [
    {
        "metric": {**_MESH, "destination_workload": f"defects-r{number}", "le": edge},
        "value": [1_700_000_030, "1"],
        "values": [[1_700_000_015.5, "3"], [1_700_000_030, "9"]],
    }
    for number in (1, 2)
    for edge in ("5", "+Inf")
]
_VECTOR = {"status": "success", "data": {"resultType": "matrix", "result": _ROWS}}
_STREAM = {"stream": {"k8s_pod_name": "p", "k8s_container_name": "c"}, "values": [["1763726400000000000", "a line"]]}
_SAMPLE = {
    "request_id": "a",
    "workload": "defects-r1",
    "time": "2023-11-14T22:13:25Z",
    "mirrored": False,
    "status": 200,
    "request": {},
    "response": None,
}
_TARGET = {"scrapePool": "podMonitor/a/b/0", "health": "up", "lastError": "", "labels": {"pod": "x"}, "scrapeUrl": "http://a"}
_COUNTERS = ("alertmanager_notification_requests_total", "alertmanager_notification_requests_failed_total")
_METRICS = "".join(f'{name}{{integration="webhook",receiver_name="a/b/c"}} 1e+06\n' for name in _COUNTERS)
_VERSION = {"model_version": {"tags": [{"key": "a", "value": "b"}], "status": "READY"}, "artifact_uri": "s3://a/b"}
_ROUTES = {
    "spec": {
        "route": {"receiver": "a", "matchers": [{"name": "b", "value": "c"}], "routes": [{"receiver": "a"}]},
        "receivers": [{"name": "a"}],
    }
}
_STATE = {"state": {"terminated": {"message": '{"listed": "x"}', "reason": "y"}}, "name": "probe"}
_PROBE = {
    "spec": {"nodeName": "n"},
    "status": {"phase": "Succeeded", "containerStatuses": [_STATE], "conditions": [{"type": "PodScheduled", "status": "False"}]},
}
_EVIDENCE = ("headway/release/evidence/prometheus.py", "headway/release/evidence/samples.py", "headway/release/evidence/counted.py")

PARSERS = (
    FuzzedParser(
        name="prometheus-answer",
        rooms=_EVIDENCE,
        read=_samples,
        refuses=(UnansweredError,),
        seeds=texts(_VECTOR, {"status": "error", "error": "x", "errorType": "y"}),
    ),
    FuzzedParser(
        name="prometheus-evidence", rooms=(*_EVIDENCE, "headway/release/evidence/reader.py"), read=_evidence, seeds=texts(_VECTOR)
    ),
    FuzzedParser(name="prometheus-history", rooms=_EVIDENCE, read=_history, refuses=(UnansweredError,), seeds=texts(_VECTOR)),
    FuzzedParser(
        name="loki-answer",
        rooms=("headway/environment/loki.py",),
        read=_logs,
        refuses=(OutOfReachError,),
        seeds=texts({"data": {"result": [_STREAM]}}),
    ),
    FuzzedParser(
        name="kept-requests",
        rooms=("headway/environment/request_samples.py", "headway/contract/sampling.py"),
        read=_kept,
        refuses=(UnreadableSamplesError,),
        seeds=(json.dumps(_SAMPLE).encode(), gzip.compress(json.dumps(_SAMPLE).encode(), mtime=0)),
    ),
    FuzzedParser(
        name="watched-numbers",
        rooms=("headway/release/evaluation/watched.py", "headway/contract/sampling.py"),
        read=_numbers,
        seeds=texts(
            {**_SAMPLE, "request": {"n": 3, "text": "three", "list": [[0.5, 1], [2, 10**400]]}},
            {**_SAMPLE, "response": {"n": True, "list": [10**400]}},
        ),
    ),
    FuzzedParser(
        name="mlflow-answer", rooms=("headway/model_registry/mlflow.py",), read=_registered, refuses=(UserError,), seeds=texts(_VERSION)
    ),
    FuzzedParser(
        name="golden-answers",
        rooms=("headway/release/driver/golden_answers.py",),
        read=_golden,
        refuses=(OutOfReachError,),
        seeds=texts('["a", "right", ""]\n["b", "silent", "x"]\n', {"times": 20, "why": "x"}),
    ),
    FuzzedParser(
        name="labelled-answers",
        rooms=("headway/release/driver/labelled.py",),
        read=_compared,
        refuses=(OutOfReachError,),
        seeds=texts('["a", "right", {"body": 1}]\n["b", "invalid", {}]\n', '["a", "right"]\n'),
    ),
    FuzzedParser(
        name="labelled-requests",
        rooms=("headway/release/evaluation/holdout.py",),
        read=lambda data: labelled_requests(data, evaluation(60, slices=[])),
        refuses=(UserError,),
        seeds=("\n".join(map(json.dumps, lines(60))).encode(),),
    ),
    FuzzedParser(
        name="verify-targets",
        rooms=("headway/verify/scrapes.py",),
        read=_looked(scrapes.look),
        seeds=texts({"data": {"activeTargets": [_TARGET]}}),
    ),
    FuzzedParser(name="verify-receivers", rooms=("headway/verify/alerts.py",), read=_looked(alerts.look), seeds=texts([{"name": "a"}])),
    FuzzedParser(name="verify-routes-of-alerts", rooms=("headway/verify/alerts.py",), read=_config, seeds=texts(_ROUTES)),
    FuzzedParser(
        name="verify-deliveries",
        rooms=("headway/verify/alerts.py",),
        read=lambda data: alerts.counted(data.decode(errors="replace")),
        seeds=texts(_METRICS),
    ),
    FuzzedParser(name="verify-probe", rooms=("headway/verify/probe.py",), read=_pod, seeds=texts(_PROBE)),
    FuzzedParser(
        name="incident-manifest",
        rooms=("headway/diagnosis/incident.py",),
        read=listed,
        refuses=(UserError,),
        seeds=texts({"files": [{"file": "series.json", "bytes": 2, "sha256": "0" * 64}], "missing": []}),
    ),
    FuzzedParser(
        name="alertmanager-alerts",
        rooms=("headway/diagnosis/alertmanager.py",),
        read=_alerts,
        refuses=(AlertmanagerError,),
        seeds=texts(
            [{"status": {"state": "active"}, "labels": {"namespace": "a", "model": "b"}}],
            [{"status": {"state": "active"}, "labels": {"namespace": "a", "model": "b", "cause": "gpu-hot"}}],
        ),
    ),
    FuzzedParser(
        name="notification",
        rooms=("headway/diagnosis/notification.py",),
        read=lambda data: service_of(data, "a file"),
        refuses=(UserError,),
        seeds=texts(
            {"alerts": [{"labels": {}}, {"labels": {"tenant": "a", "model": "b"}, "startsAt": "2026-11-29T01:00:00.5Z"}]},
            {"alerts": [{"labels": {"namespace": "a", "model": "b"}, "startsAt": "0001-01-01T00:00:00+14:00"}]},
        ),
    ),
)
