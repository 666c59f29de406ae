"""Lines from Loki, by its HTTP API: `GET /loki/api/v1/query_range` with a LogQL query, nanoseconds and a limit (Grafana
Loki's reference, "HTTP API"; its `max_entries_limit_per_query` is 5,000 by default). Whoever follows asks again and again,
as the address for tailing is a web socket, which the API server's proxy would need another right for.

Lines come late and out of order, so who follows looks some seconds back, and tells each line once.
"""

import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from headway.bounded_json import bounded_json
from headway.environment.container_logs import LogLine, LogQuery
from headway.environment.port import OutOfReachError
from headway.outgoing import asked, body_of, refusal_of

MOST_LINES = 5000
LARGEST_ANSWER = 64 * 2**20
SECONDS = 20.0
LATE = timedelta(seconds=10)
"""How long after it was printed a line may arrive."""
_POD, _CONTAINER, _NAMESPACE = "k8s_pod_name", "k8s_container_name", "k8s_namespace_name"
"""As Loki writes the attributes of `components/addons/node_logs.py`: dots become underscores."""


class LokiReader:
    """One query. `address`: of Loki, without its path; `now`: UTC."""

    def __init__(self, address: str, query: LogQuery, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._address, self._query, self._now = address.rstrip("/"), query, now
        self._told: dict[LogLine, datetime] = {}
        self._read = False

    def read(self) -> Sequence[LogLine]:
        until = self._query.until or self._now()
        since = max(self._query.since, until - LATE - LATE) if self._read else self._query.since
        self._read = True
        found = sorted(self._asked(since, until), key=lambda line: (line.time or until, line.pod))
        new = [line for line in found if line not in self._told]
        self._told = {line: time for line, time in self._told.items() if time >= until - 4 * LATE}
        self._told |= {line: line.time or until for line in new}
        return new

    def _asked(self, since: datetime, until: datetime) -> Sequence[LogLine]:
        words = {
            "query": logql(self._query),
            "start": str(_nanoseconds(since)),
            "end": str(_nanoseconds(until)),
            "limit": str(min(self._query.most, MOST_LINES)),
            "direction": "backward",
        }
        request = urllib.request.Request(f"{self._address}/loki/api/v1/query_range?{urllib.parse.urlencode(words)}")  # noqa: S310 - the port's own address
        try:
            with asked(request, SECONDS) as answer:
                content = body_of(answer, LARGEST_ANSWER)
        except urllib.error.HTTPError as refusal:
            raise OutOfReachError(f"Loki answers {refusal.code}: {refusal_of(refusal)}") from None
        except OSError as failure:
            raise OutOfReachError(f"Loki does not answer ({getattr(failure, 'reason', failure)})") from None
        return lines(content)


def logql(query: LogQuery) -> str:
    """The query in LogQL. A line of which the agent did not know the pod has a namespace and no model."""
    picked = {"tenant": query.tenant, "model": query.model} if query.model else {_NAMESPACE: query.tenant}
    picked |= {"release": query.release, _CONTAINER: query.container}
    stream = ", ".join(f"{name}={json.dumps(value)}" for name, value in picked.items() if value)
    pod = f" | {_POD}=~{json.dumps(re.escape(query.pod) + '.*')}" if query.pod else ""
    return f"{{{stream}}}{pod}"


def lines(content: bytes) -> list[LogLine]:
    """What an answer holds. Raises OutOfReachError for one that is no list of streams."""
    try:
        streams: Any = bounded_json(content, LARGEST_ANSWER)["data"]["result"]
        return [_line(stream["stream"], entry) for stream in streams for entry in stream["values"]]
    except (ArithmeticError, AttributeError, LookupError, OSError, TypeError, ValueError):  # a time beyond the system's is an OSError
        raise OutOfReachError("Loki gives an answer that cannot be read") from None


def _line(labels: Mapping[str, str], entry: Sequence[str]) -> LogLine:
    time = datetime.fromtimestamp(int(entry[0]) / 1e9, UTC)
    return LogLine(time, str(labels.get(_POD, "")), str(labels.get(_CONTAINER, labels.get("service_name", ""))), str(entry[1]))


def _nanoseconds(time: datetime) -> int:
    return round(time.timestamp() * 1e6) * 1000
