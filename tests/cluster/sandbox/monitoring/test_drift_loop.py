"""The loop that watches users, as a process in a sandbox: what users get changes, and Prometheus, ledger and status say so; nothing is taken back."""

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest

from components.observability.alerts import groups
from components.observability.evaluation_alerts import DRIFT_PROVEN
from headway.contract.model import Model
from headway.contract.released import release_id
from headway.ledger.traffic_split import TrafficSplit
from headway.release.driver.adoption import adopt
from headway.release.service_place import ServicePlace
from sandbox.layout import HOME_VARIABLE
from sandbox.monitoring import servers
from sandbox.monitoring.configuration import target_file
from sandbox.monitoring.servers import Monitoring
from sandbox.progress import Silent
from tests.cluster.command import Command, Sandbox
from tests.cluster.conftest import ControlPlane, eventually
from tests.cluster.definitions import define
from tests.loopback import free_port
from tests.unit.release.town import rendered

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

SERVICE = "vision/defects"
SPEED = "30"
WITHIN = 240.0
A_SECOND = 20


@dataclass
class Users:
    """Who send a request twenty times a second, and what the proxy keeps of it."""

    file: Path
    release: str
    label: int = 4
    secret: str = "Erika Mustermann"
    stopped: threading.Event = field(default_factory=threading.Event)

    def send(self) -> None:
        chance, number = Random(1), 0
        while not self.stopped.wait(1 / A_SECOND):
            number += 1
            scores = [chance.random() / 2 for _ in range(12)]
            scores[self.label if chance.random() < 0.9 else 0] = 0.5 + chance.random() / 2
            line = {
                "request_id": f"{self.secret} {chance.getrandbits(32):08x}",
                "workload": self.release,
                "time": datetime.now(UTC).isoformat(),
                "mirrored": False,
                "status": 200,
                "request": None,
                "response": {"outputs": [{"data": scores, "note": self.secret}]},
            }
            with self.file.open("a") as lines:
                lines.write(json.dumps(line) + "\n")


@dataclass(frozen=True)
class Watched:
    """A service in a sandbox whose users' traffic is watched."""

    users: Users
    here: ServicePlace
    sandbox: Sandbox
    monitoring: Monitoring
    port: int

    def loop(self) -> Command:
        words = ("drift", SERVICE, "--watch", "--serve", f"127.0.0.1:{self.port}", "--speed", SPEED, "-e", "sandbox")
        return self.sandbox.begin(*words)

    def kept(self) -> str:
        """The chain, as it lies in the ledger."""
        return "".join(each.read_text() for each in sorted((self.sandbox.layout.ledger / SERVICE / "drift").rglob("*.json")))


@pytest.fixture
def watched(control_plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    sandbox = Sandbox(tmp_path)
    sandbox.environment[HOME_VARIABLE] = str(control_plane.layout.state)
    sandbox.layout = control_plane.layout
    monkeypatch.setenv(HOME_VARIABLE, str(control_plane.layout.state))
    contract = sandbox.project / "tenants" / f"{SERVICE}.yaml"
    contract.write_text(contract.read_text().replace("reference: 7d", "reference: 1h").replace("rhythm: week", "rhythm: none"))
    here = ServicePlace(project=sandbox.project, environment="sandbox", tenant="vision", model="defects")
    model: Model = here.contract()
    release = release_id(model)
    adopt(here.ledger(), here.store, model.model_dump(mode="json"), release)
    define(control_plane, "istio")
    control_plane.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "vision"}})
    head = {"name": "defects", "namespace": "vision", "labels": {"platform.io/model": "defects"}}
    route = {"apiVersion": "networking.istio.io/v1", "kind": "VirtualService", "metadata": head}
    control_plane.create({**route, "spec": {"hosts": ["defects"], **rendered(TrafficSplit.only(release))}})
    monitoring, port = servers.start(control_plane.layout, Silent()), free_port()
    rules = [
        {**rule, "for": "0s"}
        for group in groups("runbooks", environment="sandbox")
        for rule in group["rules"]
        if rule["alert"] == DRIFT_PROVEN.name
    ]
    (monitoring.folder / "rules" / "drift.yml").write_text(json.dumps({"groups": [{"name": "drift", "rules": rules}]}))
    (monitoring.folder / "targets" / "drift.json").write_text(json.dumps(target_file([f"127.0.0.1:{port}"], {"job": "evaluation"})))
    monitoring.reload()
    samples = control_plane.layout.logs / "samples"
    samples.mkdir(parents=True, exist_ok=True)
    users = Users(samples / "vision.defects.jsonl", release)
    sender = threading.Thread(target=users.send)
    sender.start()
    yield Watched(users, here, sandbox, monitoring, port)
    users.stopped.set()
    sender.join()


def test_other_answers_to_users_are_found_told_and_nothing_is_taken_back(watched: Watched) -> None:
    loop = watched.loop()
    try:
        eventually(lambda: watched.monitoring.query("headway_drift_evidence > 0"), WITHIN)
        eventually(lambda: "values-counted" in watched.kept(), WITHIN)
        assert not watched.monitoring.query("headway_drift_proven == 1"), "users still get what they got"
        watched.users.label = 2
        (alert,) = eventually(lambda: watched.monitoring.query('ALERTS{alertname="DriftProven",alertstate="firing"}'), WITHIN)
        assert {name: alert["metric"][name] for name in ("namespace", "tenant", "model", "severity")} == {
            "namespace": "vision",
            "tenant": "vision",
            "model": "defects",
            "severity": "ticket",
        }
    finally:
        loop.interrupt()
        _, said = loop.end()
    assert "label drifted" in said.lower()
    code, status = watched.sandbox.run("release", "status", SERVICE, "-e", "sandbox")
    assert (code, "no proof against the version; a person decides" in " ".join(status.split())) == (0, True)
    assert [event.kind for event in watched.here.ledger().read()] == ["adopted"]
    assert not [place for place, text in {"log": said, "ledger": watched.kept(), "status": status}.items() if "Erika" in text]
