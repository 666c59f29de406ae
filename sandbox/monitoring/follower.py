"""Follows the cluster's PodMonitors, PrometheusRules and AlertmanagerConfigs, and keeps what they told where it can be
seen.

The stand-in for the Prometheus operator and for everybody who would be called at night: a process of the sandbox that
asks the API server every two seconds, writes what changed, has Prometheus and Alertmanager read it, and takes
Alertmanager's notifications into a file. One rule that Prometheus cannot read would keep it from reading any, so each
object's rules are checked by promtool on their own.
"""

import http.client
import http.server
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from time import sleep
from typing import Any

from headway.bounded_json import LARGEST_JSON, bounded_json
from headway.listening import asked_body
from headway.problem import UserError
from sandbox.cluster import control_plane_programs, manifests
from sandbox.cluster.api import LoopbackEndpoint
from sandbox.cluster.processes import Process, Supervisor
from sandbox.layout import Layout
from sandbox.monitoring import configuration, diagnosis_loop, objects, servers
from sandbox.progress import Progress

NAME = "monitoring-follower"
PLATFORM_NAMESPACE = "monitoring"
NOTIFICATIONS = "notifications.jsonl"
PERIOD_SECONDS = 2.0
_GROUP = "/apis/monitoring.coreos.com"


def start(layout: Layout, progress: Progress, *, supervisor: Supervisor | None = None) -> None:
    """Have the follower run. Needs the control plane and both servers. UserError when it cannot be."""
    keeper = supervisor or Supervisor(layout)
    port = keeper.port(NAME)
    folder = Path(__file__).parent
    process = Process(
        name=NAME,
        argv=(sys.executable, "-m", "sandbox.monitoring.follower", str(layout.project), str(layout.state), str(layout.cache)),
        environment={"PYTHONPATH": str(layout.project), "PYTHONDONTWRITEBYTECODE": "1"},
        ports=(port,),
        inputs=tuple(folder / name for name in ("follower.py", "objects.py", "configuration.py", "servers.py")),
        ready=lambda: LoopbackEndpoint(port=port).unready("/ready"),
    )
    keeper.ensure(process, progress)


@dataclass
class Follower:
    """What it wrote last, and what it does next. `list_` answers the objects of a plural; `check` judges a rules file."""

    folder: Path
    kubeconfig: Path
    interval: str
    inbox: str
    diagnosis: str
    list_: Callable[[str, str], list[dict[str, Any]]]
    check: Callable[[Path], str | None]
    reload: Callable[[], None]
    say: Callable[[str], None] = print
    _refused: dict[str, str] = field(default_factory=dict[str, str])

    def once(self) -> bool:
        """Bring the files up to date; True when any changed and was read."""
        wanted = {**self._scrapes(), **self._rules(), **self._alerting()}
        changed = False
        for path, text in wanted.items():
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                servers.write(path, text)
                changed = True
        for stale in {*self.folder.glob("scrape/*.yml"), *self.folder.glob("rules/cluster-*.yml")} - wanted.keys():
            stale.unlink()
            changed = True
        if changed:
            self.reload()
        return changed

    def _scrapes(self) -> dict[Path, str]:
        found: dict[Path, str] = {}
        for monitor in self.list_("v1", "podmonitors"):
            name = _name(monitor)
            try:
                jobs = objects.scrape_configs(monitor, self.kubeconfig, self.interval)
            except ValueError as unknown:
                self._refuse(f"PodMonitor {name}", str(unknown))
                continue
            found[self.folder / "scrape" / f"{name}.yml"] = manifests.dump({"scrape_configs": jobs})
        return found

    def _rules(self) -> dict[Path, str]:
        found: dict[Path, str] = {}
        for rule in self.list_("v1", "prometheusrules"):
            path = self.folder / "rules" / f"cluster-{_name(rule)}.yml"
            text = manifests.dump(objects.rule_file(rule))
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                trial = self.folder / f"{path.name}.trial"
                servers.write(trial, text)
                wrong = self.check(trial)
                trial.unlink()
                if wrong:
                    self._refuse(f"PrometheusRule {_name(rule)}", wrong)
                    continue
            found[path] = text
        return found

    def _alerting(self) -> dict[Path, str]:
        whole, refused = objects.alerting(self.list_("v1alpha1", "alertmanagerconfigs"), PLATFORM_NAMESPACE, self.inbox, self.diagnosis)
        for each in refused:
            self._refuse(f"AlertmanagerConfig {each.object}", each.reason)
        return {self.folder / "alertmanager.yml": manifests.dump(whole)}

    def _refuse(self, what: str, why: str) -> None:
        if self._refused.get(what) != why:
            self._refused[what] = why
            self.say(f"{what} is left out: {why}")


def _name(thing: Mapping[str, Any]) -> str:
    return f"{thing['metadata']['namespace']}.{thing['metadata']['name']}"


def lister(api: LoopbackEndpoint) -> Callable[[str, str], list[dict[str, Any]]]:
    """Lists all objects of a plural, in order of their names; none where the kind is not defined. OSError when there is
    no answer."""

    def list_(version: str, plural: str) -> list[dict[str, Any]]:
        answer = api.call("GET", f"{_GROUP}/{version}/{plural}")
        if answer.status == 404:
            return []
        if answer.status != 200:
            raise OSError(f"{plural}: {answer.status}")
        return sorted(json.loads(answer.body)["items"], key=_name)

    return list_


def checker(promtool: Path) -> Callable[[Path], str | None]:
    """Judges a rules file: None, or promtool's words."""

    def check(path: Path) -> str | None:
        done = subprocess.run([str(promtool), "check", "rules", str(path)], capture_output=True, text=True, check=False)
        return None if done.returncode == 0 else " ".join((done.stderr or done.stdout).replace(str(path), path.name).split())

    return check


class _Inbox(http.server.ThreadingHTTPServer):
    """Takes Alertmanager's notifications: one line of JSON each, into a file."""

    daemon_threads = True

    def __init__(self, port: int, file: Path) -> None:
        super().__init__(("127.0.0.1", port), _Request)
        self.file, self.lock = file, threading.Lock()

    def keep(self, receiver: str, sent: Mapping[str, Any]) -> None:
        line = {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "receiver": receiver,
            "status": sent["status"],
            "alerts": [_kept(alert) for alert in sent["alerts"]],
        }
        with self.lock, self.file.open("a", encoding="utf-8") as sink:
            sink.write(json.dumps(line, sort_keys=True) + "\n")


def _kept(alert: Mapping[str, Any]) -> dict[str, Any]:
    said = {name: alert["annotations"].get(name, "") for name in ("summary", "description")}
    return {"labels": alert["labels"], **{name: text for name, text in said.items() if text or name == "summary"}}


class _Request(http.server.BaseHTTPRequestHandler):
    server: _Inbox  # pyright: ignore[reportIncompatibleVariableOverride] - the one that made it

    def do_GET(self) -> None:
        self._answer(200)

    def do_POST(self) -> None:
        try:
            self.server.keep(self.path.strip("/"), bounded_json(asked_body(self, LARGEST_JSON)))
        except (AttributeError, LookupError, TypeError, ValueError):
            self.close_connection = True
            self._answer(400)
            return
        self._answer(200)

    def _answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None: ...


def main(project: str, state: str, cache: str) -> None:
    from sandbox.cluster.toolchain import ensure_toolchain
    from sandbox.progress import Silent

    layout = Layout(project=Path(project), state=Path(state), cache=Path(cache))
    keeper, folder = Supervisor(layout), servers.folder_of(layout)
    inbox = _Inbox(keeper.port(NAME), folder / NOTIFICATIONS)
    threading.Thread(target=inbox.serve_forever, daemon=True).start()
    who = control_plane_programs.identities(layout.cluster / "pki")
    api = LoopbackEndpoint(port=keeper.port(control_plane_programs.API_SERVER), authority=who.cluster.certificate, client=who.admin)

    def reload() -> None:
        for name in servers.NAMES:
            servers.reload(f"http://127.0.0.1:{keeper.port(name)}")

    follower = Follower(
        folder=folder,
        kubeconfig=layout.kubeconfig,
        interval=configuration.duration(configuration.SCRAPE_SECONDS),
        inbox=f"http://127.0.0.1:{inbox.server_port}",
        diagnosis=diagnosis_loop.address(keeper),
        list_=lister(api),
        check=checker(ensure_toolchain(layout, Silent(), servers.TOOL_SETS).binary("promtool")),
        reload=reload,
    )
    said = ""
    while True:
        try:
            follower.once()
            said = ""
        except (OSError, http.client.HTTPException, UserError) as trouble:  # the API server or a server restarts: ask again
            if str(trouble) != said:
                said = str(trouble)
                print(said, flush=True)  # noqa: T201 - its log
        sleep(PERIOD_SECONDS)


if __name__ == "__main__":
    main(*sys.argv[1:])
