"""Starts Prometheus and Alertmanager on loopback and keeps them, with or without a cluster. The shell around
`configuration.py`.

Everything lies in `<state>/monitoring/`. Prometheus reads rules only when told to; whoever writes into `rules/` calls
`Monitoring.reload`, which also says what is wrong with them.
"""

import http.client
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from headway.problem import UserError
from sandbox.cluster import manifests, whole_file
from sandbox.cluster.api import LoopbackEndpoint
from sandbox.cluster.processes import Process, Supervisor
from sandbox.cluster.toolchain import Toolchain, ensure_toolchain
from sandbox.layout import Layout
from sandbox.monitoring import configuration
from sandbox.monitoring.configuration import MonitoringSettings
from sandbox.progress import Progress

TOOL_SETS = ("prometheus", "alertmanager")
PROMETHEUS, ALERTMANAGER = NAMES = ("prometheus", "alertmanager")
RETENTION = "2d"


def folder_of(layout: Layout) -> Path:
    """Where both keep everything."""
    return layout.state / "monitoring"


@dataclass(frozen=True, kw_only=True)
class Monitoring:
    """Both servers, ready."""

    folder: Path
    prometheus: str
    """`http://127.0.0.1:<port>`: the HTTP API, remote write at `/api/v1/write` included."""
    alertmanager: str
    toolchain: Toolchain

    @property
    def rules(self) -> Path:
        """Files `*.yml` here are Prometheus' rules, after `reload`."""
        return self.folder / "rules"

    @property
    def targets(self) -> Path:
        """Files `*.json` here name targets, as `configuration.target_file` writes them; no reload is needed."""
        return self.folder / "targets"

    @property
    def promtool(self) -> Path:
        return self.toolchain.binary("promtool")

    def scrape(self, name: str, targets: Sequence[str], labels: Mapping[str, str]) -> None:
        """Have `targets` (`host:port`) scraped from now on, under the file `name`; none at all forgets them."""
        write(self.targets / f"{name}.json", json.dumps(configuration.target_file(targets, labels), indent=2) + "\n")

    def reload(self) -> None:
        """Have both read their files again. UserError with the server's words when it refuses; it then goes on with the
        old ones."""
        reload(self.prometheus)
        reload(self.alertmanager)

    def query(self, expression: str, at: float | None = None) -> list[dict[str, Any]]:
        """Instant query: the result vector. `at` in unix seconds. UserError with the server's words when it refuses."""
        values = {"query": expression} | ({"time": f"{at:.3f}"} if at is not None else {})
        answer = json.loads(_post(f"{self.prometheus}/api/v1/query", values))
        return answer["data"]["result"]


def start(
    layout: Layout, progress: Progress, settings: MonitoringSettings | None = None, *, supervisor: Supervisor | None = None
) -> Monitoring:
    """Have both run and ready with `settings`, building their programs first if need be (minutes). UserError when they
    cannot be."""
    chosen, keeper = settings or MonitoringSettings(), supervisor or Supervisor(layout)
    toolchain = ensure_toolchain(layout, progress, TOOL_SETS)
    ports = {name: keeper.port(name) for name in NAMES}
    folder = folder_of(layout)
    for path in (folder / "rules", folder / "scrape", folder / "targets", layout.cluster):
        path.mkdir(parents=True, exist_ok=True)
    prometheus = configuration.prometheus(chosen, folder=folder, alertmanager_port=ports[ALERTMANAGER])
    write(folder / "prometheus.yml", manifests.dump(prometheus))
    if chosen.alertmanager is not None or not (folder / "alertmanager.yml").exists():  # else it is the follower's
        write(folder / "alertmanager.yml", manifests.dump(dict(configuration.alertmanager(chosen))))
    specs = (_prometheus(toolchain, folder, ports[PROMETHEUS]), _alertmanager(toolchain, folder, ports[ALERTMANAGER]))
    started = keeper.ensure_all(specs, progress)
    monitoring = Monitoring(
        folder=folder,
        prometheus=f"http://127.0.0.1:{ports[PROMETHEUS]}",
        alertmanager=f"http://127.0.0.1:{ports[ALERTMANAGER]}",
        toolchain=toolchain,
    )
    if len(started) < len(specs):  # what ran already has not read what was just written
        monitoring.reload()
    return monitoring


def stop(layout: Layout, progress: Progress, *, supervisor: Supervisor | None = None) -> tuple[str, ...]:
    """End both; what they stored stays. The names of those that ran."""
    keeper = supervisor or Supervisor(layout)
    return tuple(name for name in NAMES if keeper.stop(name, progress))


def reload(url: str) -> None:
    """Have the server at `url` read its files again. UserError with its words when it refuses; it then goes on with the
    old ones."""
    _post(f"{url}/-/reload")


def write(path: Path, text: str) -> None:
    """Whole or not at all: Prometheus watches these folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    whole_file.replace(path, text)


def _prometheus(toolchain: Toolchain, folder: Path, port: int) -> Process:
    return Process(
        name=PROMETHEUS,
        argv=(
            str(toolchain.binary("prometheus")),
            f"--config.file={folder / 'prometheus.yml'}",
            "--log.level=warn",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--storage.tsdb.retention.time={RETENTION}",
            "--web.enable-admin-api",
            "--web.enable-lifecycle",
            "--web.enable-remote-write-receiver",
            f"--web.listen-address=127.0.0.1:{port}",
        ),
        ports=(port,),
        file_watches=2,
        ready=lambda: LoopbackEndpoint(port=port).unready("/-/ready"),
    )


def _alertmanager(toolchain: Toolchain, folder: Path, port: int) -> Process:
    return Process(
        name=ALERTMANAGER,
        argv=(
            str(toolchain.binary("alertmanager")),
            "--cluster.listen-address=",  # no gossip: one of them
            "--enable-feature=receiver-name-in-metrics",  # as the platform has it
            f"--config.file={folder / 'alertmanager.yml'}",
            "--log.level=warn",
            f"--storage.path={folder / 'alerts'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ),
        ports=(port,),
        ready=lambda: LoopbackEndpoint(port=port).unready("/-/ready"),
    )


def _post(url: str, values: Mapping[str, str] | None = None) -> bytes:
    address = urlsplit(url)
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    try:
        answer = LoopbackEndpoint(port=address.port or 80).call("POST", address.path, urlencode(values or {}), headers)
    except (OSError, http.client.HTTPException) as failure:
        said = str(failure) or type(failure).__name__
    else:
        if answer.status == 200:
            return answer.body
        said = answer.body.decode(errors="replace").strip()
    raise UserError(
        f"{url} refused the request: {said}",
        "It continues with its former configuration.",
        "Correct what the message names, or read the server's log in the sandbox.",
    )
