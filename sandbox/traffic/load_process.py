"""The demonstration's steady load as a process that the sandbox keeps: it outlives the command that started it, and
`make demo-down` ends it with everything else.

`python -m sandbox.traffic.load_process SETTINGS`; the settings are a JSON file. `/tally` says what users got so far.
"""

import http.client
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any

from headway.listening import listening, pages
from headway.problem import UserError
from sandbox.cluster.api import LoopbackEndpoint
from sandbox.cluster.processes import Supervisor
from sandbox.layout import Layout
from sandbox.progress import Progress
from sandbox.traffic import servers
from sandbox.traffic.load import LoadTally
from sandbox.traffic.steady_load import RATES, TOKEN_SECONDS, SteadyLoad

NAME = "load"
_NEWEST = 500
"""Answers by which `/tally` says how fast a model is now."""


@dataclass(frozen=True, kw_only=True)
class UsersTally:
    """What users of one model got since the load began."""

    sent: int
    lost: int
    """No answer, or a server's error."""
    refused: int
    """Answered with 400 to 499."""
    p99_ms: float | None
    """Of the newest answers; None before there is one."""
    began: str
    """When the load began; one that was started anew has another one."""


def tally_of(tally: LoadTally, began: str) -> UsersTally:
    statuses = dict(tally.statuses)
    p99 = tally.quantile(0.99, max(0, tally.answered - _NEWEST))
    return UsersTally(
        sent=sum(statuses.values()),
        lost=len(tally.lost),
        refused=sum(count for status, count in statuses.items() if 400 <= status < 500),
        p99_ms=None if p99 != p99 else round(p99 * 1000, 1),  # NaN is not itself
        began=began,
    )


def start(layout: Layout, progress: Progress, changes: Mapping[str, Any] | None = None) -> None:
    """Have the load run. `changes`: `rates` of models in requests a second, and for how many seconds from now tokens are
    valid (`token_seconds`); a load that runs otherwise is started anew, and counts from nothing."""
    supervisor = Supervisor(layout)
    port = supervisor.port(NAME)
    settings = {"cache": str(layout.cache), "port": port, "project": str(layout.project), "state": str(layout.state)}
    settings |= changes or {}
    supervisor.ensure(servers.python_process(layout, NAME, "sandbox.traffic.load_process", settings, port), progress)


def running(layout: Layout) -> bool:
    return Supervisor(layout).runs(NAME)


def read(layout: Layout) -> Mapping[str, UsersTally]:
    """By model, what users got so far. Raises UserError where no load runs."""
    try:
        answer = LoopbackEndpoint(port=Supervisor(layout).port(NAME)).call("GET", "/tally")
        return {model: UsersTally(**found) for model, found in json.loads(answer.body).items()}
    except (OSError, ValueError, http.client.HTTPException):
        raise UserError(
            "The demonstration's steady load does not run.",
            "There is no user whose answers could be looked at.",
            "Run `make demo-traffic`.",
        ) from None


def serve(loads: SteadyLoad, port: int) -> None:
    """Answer `/ready` and `/tally` until the process is ended."""
    began = datetime.now(UTC).isoformat()

    def tallies() -> tuple[int, str]:
        return 200, json.dumps({model: asdict(tally_of(each, began)) for model, each in sorted(loads.tallies.items())})

    found = pages({"/ready": lambda: (200, "ok"), "/tally": tallies})
    with listening("127.0.0.1", port, found, consequence="No user asks anything.", remedy="End what listens there."):
        Event().wait()


def main(path: Path) -> None:
    settings = json.loads(path.read_text())
    layout = Layout(project=Path(settings["project"]), state=Path(settings["state"]), cache=Path(settings["cache"]))
    artifacts = servers.artifacts(layout)
    loads = SteadyLoad(
        layout, artifacts, rates={**RATES, **settings.get("rates", {})}, token_seconds=settings.get("token_seconds", TOKEN_SECONDS)
    )
    loads.start()
    serve(loads, settings["port"])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
