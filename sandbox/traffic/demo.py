"""The demonstration: two tenants under load, a good release promoted, three bad ones caught, each with its report.

`python -m sandbox.traffic.demo [--speed N] [RELEASE ...]`, or `make demo`. It uses the commands that people use (`headway sandbox up`,
`headway release start`) on a workspace of its own. Minutes of a rollout pass `--speed` times as fast, which the ledger and every report
say; the gate is the one of production and needs the same evidence. The trap: a faster clock gives each tick fewer requests, not the gate
less proof, so the load is what decides how long a release takes.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from headway.errors import UserError
from sandbox.cluster.processes import Supervisor
from sandbox.layout import HOME_VARIABLE, Layout
from sandbox.progress import Silent
from sandbox.traffic import profile, servers, workspace
from sandbox.traffic.load import Client, Request, Results, run
from sandbox.traffic.mesh.tokens import Issuers
from sandbox.traffic.profile import SERVED, Artifacts, Served

SPEED = 15.0
RATES: Mapping[str, float] = {"classifier": 30.0, "encoder": 8.0}
"""Requests a second of each model's steady load: golden requests in turn, one caller."""
STORY = (("better", "promoted"), ("slow-tail", "rolled back"), ("errors", "rolled back"), ("wrong", "rolled back"))
"""Releases in their order, and how each should end."""
ENDS = {0: "promoted", 5: "rolled back"}
_TOKEN_SECONDS = 6 * 3600.0
_LOAD_SECONDS = 5 * 3600.0


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How one release of the story ended, and how long it took."""

    release: str
    wanted: str
    found: str
    seconds: float


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="make demo", description="Real traffic, a good release and three bad ones.")
    parser.add_argument("--speed", type=float, default=SPEED, help="how much faster the minutes of a rollout pass")
    parser.add_argument("releases", nargs="*", help="which releases of the classifier to try; the story's by default")
    given = parser.parse_args(arguments)
    checkout = Path(__file__).parents[2]
    layout = layout_of(checkout)
    wanted = dict(STORY)
    story = tuple((name, wanted.get(name, "rolled back")) for name in given.releases) or STORY
    try:
        return demonstrate(checkout, layout, story, given.speed)
    except UserError as error:
        sys.stderr.write(f"error: {error.fact}\n  {error.consequence}\n  {error.remedy}\n")
        return int(error.exit)


def layout_of(checkout: Path) -> Layout:
    """Where the demonstration of a checkout lives: beside the sandbox's own state, and none of it."""
    outer = Layout.of(checkout)
    return Layout(project=outer.state / "demo" / "checkout", state=outer.state / "demo" / "state", cache=outer.cache)


def demonstrate(checkout: Path, layout: Layout, story: tuple[tuple[str, str], ...], speed: float) -> int:
    """Play the story; 0 when every release ended as it should."""
    from sandbox.traffic.environment import programs

    artifacts = profile.build(programs(checkout), servers.folder(layout) / "artifacts")
    unknown = sorted({name for name, _ in story} - set(artifacts.releases("classifier")))
    if unknown:
        raise UserError(
            f"the classifier has no release {', '.join(unknown)}",
            "nothing was started",
            f"choose from {', '.join(artifacts.releases('classifier'))}",
        )
    workspace.make(checkout, layout.project, artifacts)
    _say("Bringing the demonstration up: two tenants, served by Triton behind Envoy, measured by Prometheus")
    if _headway(layout, "sandbox", "up", "--with", "traffic"):
        return 1
    loads = _Loads(layout, artifacts)
    loads.start()
    ended = [_release(layout, artifacts, name, wanted, speed) for name, wanted in story]
    loads.stop()
    for each in ended:
        _say(
            f"{'as it should' if each.found == each.wanted else 'NOT as it should'}: {each.release} was {each.found} after {each.seconds:.0f} s"
        )
    for model, results in loads.results.items():
        _say(
            f"load on {model}: {len(results.answers)} requests, by status {dict(results.statuses)}, p99 {results.quantile(0.99) * 1000:.0f} ms"
        )
    return 0 if all(each.found == each.wanted for each in ended) else 1


def _release(layout: Layout, artifacts: Artifacts, name: str, wanted: str, speed: float) -> Ended:
    workspace.release(layout.project, artifacts, "classifier", name)
    began = time.monotonic()
    _say(f"Releasing {name} of quality/classifier; it should be {wanted}. Rollout minutes pass {speed:g} times as fast")
    code = _headway(layout, "release", "start", "quality/classifier", "--reason", f"demonstration: {name}", "--speed", f"{speed:g}")
    return Ended(release=name, wanted=wanted, found=ENDS.get(code, f"ended with {code}"), seconds=time.monotonic() - began)


def _headway(layout: Layout, *arguments: str) -> int:
    """Run `headway` on the workspace, its output ours."""
    import os

    command = [str(layout.project / ".venv" / "bin" / "python"), "-m", "headway.cli.main", *arguments, "--project", str(layout.project)]
    return subprocess.run(command, env={**os.environ, HOME_VARIABLE: str(layout.state)}, check=False).returncode


class _Loads:
    """Steady load on every served model, from a thread of its own."""

    def __init__(self, layout: Layout, artifacts: Artifacts) -> None:
        self._layout, self._artifacts = layout, artifacts
        self.results = {each.model: Results() for each in SERVED}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(timeout=30)

    async def _run(self) -> None:
        port = servers.addresses(Supervisor(self._layout)).gateway
        tasks = [
            asyncio.create_task(
                run(
                    Client(port),
                    requests(self._layout, self._artifacts, each),
                    RATES[each.model],
                    _LOAD_SECONDS,
                    seed,
                    self.results[each.model],
                )
            )
            for seed, each in enumerate(SERVED)
        ]
        while not self._stopped.is_set():
            await asyncio.sleep(0.5)
        for task in tasks:
            task.cancel()


def requests(layout: Layout, artifacts: Artifacts, served: Served) -> list[Request]:
    """Golden requests of a model as an application of its tenant sends them."""
    tenant = yaml.safe_load((profile.CONTRACTS / served.tenant / "tenant.yaml").read_text())
    (issuer,) = tenant["issuers"]
    issuers = Issuers(servers.folder(layout) / "issuers")
    token = issuers.token(issuer["issuer"], issuer["audiences"], "demonstration", now=time.time(), seconds=_TOKEN_SECONDS, claims={})
    gateway = yaml.safe_load((layout.project / "stacks" / "Pulumi.sandbox-platform.yaml").read_text())["config"]["headway:gateway"]
    host = f"{served.model}.{served.tenant}.{gateway['hosts'][0]}"
    headers = {"host": host, "content-type": "application/json", "authorization": f"Bearer {token}"}
    path = f"/v2/models/{served.model}/versions/1/infer"
    return [Request(path=path, body=json.dumps(each["request"]).encode(), headers=headers) for each in artifacts.golden(served.model)]


def stop(layout: Layout) -> None:
    """End every process of the demonstration."""
    Supervisor(layout).stop_all(Silent())


def _say(text: str) -> None:
    sys.stdout.write(f"\n== {text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
