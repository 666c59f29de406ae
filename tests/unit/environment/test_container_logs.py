"""Lines of containers from Loki's HTTP API, as its reference describes it, and what a query becomes in LogQL."""

import json
from collections.abc import Generator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from headway.environment import loki
from headway.environment.container_logs import LogQuery
from headway.environment.loki import LokiReader, lines, logql
from headway.environment.port import OutOfReachError
from tests.loopback import Handler, served

NOW = datetime(2026, 11, 25, 4, 0, tzinfo=UTC)


def query(**more: Any) -> LogQuery:
    return LogQuery(**{"tenant": "vision", "since": NOW - timedelta(hours=1), "most": 100, **more})


class Loki(Handler):
    """Answers the newest lines of a window, as `direction=backward` asks for."""

    entries: list[tuple[datetime, str, str]]
    asked: list[dict[str, list[str]]]
    status = 200

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        words = parse_qs(address.query)
        self.asked.append(words)
        assert address.path == "/loki/api/v1/query_range" and words["direction"] == ["backward"]
        start, end = int(words["start"][0]), int(words["end"][0])
        found = [each for each in self.entries if start <= each[0].timestamp() * 1e9 < end][-int(words["limit"][0]) :]
        pods = sorted({pod for _, pod, _ in found})
        result = [
            {
                "stream": {"k8s_pod_name": pod, "k8s_container_name": "server", "tenant": "vision"},
                "values": [[str(round(time.timestamp() * 1e9)), text] for time, of, text in reversed(found) if of == pod],
            }
            for pod in pods
        ]
        self.reply(self.status, {"status": "success", "data": {"resultType": "streams", "result": result}})


@pytest.fixture
def server() -> Generator[tuple[type[Loki], str]]:
    class Here(Loki):
        entries = [(NOW - timedelta(minutes=minutes), f"pod-{minutes % 2}", f"{minutes} min ago") for minutes in (5, 4, 3)]  # noqa: RUF012
        asked: list[dict[str, list[str]]] = []  # noqa: RUF012

    with served(Here) as address:
        yield Here, address


@pytest.mark.parametrize(
    ("more", "written"),
    [
        ({}, '{k8s_namespace_name="vision"}'),
        ({"model": "defects"}, '{tenant="vision", model="defects"}'),
        ({"model": "defects", "release": "r0123456789"}, '{tenant="vision", model="defects", release="r0123456789"}'),
        ({"container": "fetch"}, '{k8s_namespace_name="vision", k8s_container_name="fetch"}'),
        ({"pod": "defects-r1.x"}, '{k8s_namespace_name="vision"} | k8s_pod_name=~"defects\\\\-r1\\\\.x.*"'),
    ],
)
def test_a_query_in_logql_picks_streams_by_label_and_pods_beside_them(more: dict[str, str], written: str) -> None:
    assert logql(query(**more)) == written


def test_what_somebody_types_cannot_leave_its_quotes() -> None:
    assert logql(query(release='x"} or {tenant="assist')) == '{k8s_namespace_name="vision", release="x\\"} or {tenant=\\"assist"}'


def test_lines_of_several_streams_come_in_the_order_of_time(server: tuple[type[Loki], str]) -> None:
    found = LokiReader(server[1], query(), lambda: NOW).read()
    assert [(line.pod, line.text) for line in found] == [("pod-1", "5 min ago"), ("pod-0", "4 min ago"), ("pod-1", "3 min ago")]
    assert found[0].time == NOW - timedelta(minutes=5)


def test_an_answer_holds_the_newest_lines_and_no_more_than_loki_allows(server: tuple[type[Loki], str]) -> None:
    assert [line.text for line in LokiReader(server[1], query(most=1), lambda: NOW).read()] == ["3 min ago"]
    LokiReader(server[1], query(most=90_000), lambda: NOW).read()
    assert server[0].asked[-1]["limit"] == [str(loki.MOST_LINES)]


def test_who_follows_is_told_each_line_once_also_one_that_came_late(server: tuple[type[Loki], str]) -> None:
    moment = [NOW]
    reader = LokiReader(server[1], query(), lambda: moment[0])
    assert len(reader.read()) == 3
    server[0].entries.append((NOW - timedelta(seconds=4), "pod-0", "late"))
    moment[0] = NOW + timedelta(seconds=2)
    assert [line.text for line in reader.read()] == ["late"]
    moment[0] = NOW + timedelta(seconds=4)
    server[0].entries.append((NOW + timedelta(seconds=3), "pod-0", "next"))
    assert [line.text for line in reader.read()] == ["next"]
    assert reader.read() == []


def test_a_loki_that_refuses_or_is_away_is_out_of_reach_and_says_why(server: tuple[type[Loki], str]) -> None:
    server[0].status = 400
    with pytest.raises(OutOfReachError, match="Loki answers 400"):
        LokiReader(server[1], query(), lambda: NOW).read()
    with pytest.raises(OutOfReachError, match="Loki does not answer"):
        LokiReader("http://127.0.0.1:1", query(), lambda: NOW).read()


@pytest.mark.parametrize(
    "content", [b"<html>", b"[]", b'{"data": {}}', json.dumps({"data": {"result": [{"stream": {}, "values": [["x"]]}]}}).encode()]
)
def test_an_answer_of_another_shape_is_out_of_reach(content: bytes) -> None:
    with pytest.raises(OutOfReachError, match="cannot be read"):
        lines(content)
