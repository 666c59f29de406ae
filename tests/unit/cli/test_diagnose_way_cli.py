"""`headway diagnose` of routes and certificates: the ledger against the cluster, and what it cannot see."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from headway.ledger.chain import Ledger
from headway.ledger.events import Event
from headway.ledger.store import FolderStore
from headway.problem import Exit
from headway.release.driver.event_kinds import EventKind
from headway.wire import MODEL, RELEASE_HEADER, WEIGHTS_ROUTE
from tests.unit.cli.test_diagnose_cli import Command, Played, command, one, world
from tests.unit.release.driver.test_rollout_state import chain

__all__ = ["command", "world"]


def known(folder: Path) -> Ledger:
    """A ledger that says r1 has everything."""
    ledger = Ledger(FolderStore(folder / "ledger"), "vision/defects", "sandbox", "ann", lambda: datetime(2023, 11, 14, tzinfo=UTC))
    (adopted, *_) = chain()
    ledger.append(EventKind.ADOPTED, adopted.body)
    return ledger


def route(host: str) -> dict[str, Any]:
    to = {
        "destination": {"host": f"{host}.vision.svc.cluster.local"},
        "weight": 100,
        "headers": {"response": {"set": {RELEASE_HEADER: host.removeprefix("defects-")}}},
    }
    metadata = {"name": "defects", "namespace": "vision", "labels": {MODEL: "defects"}}
    return {"metadata": metadata, "spec": {"hosts": ["defects.models.test"], "http": [{"name": WEIGHTS_ROUTE, "route": [to]}]}}


def test_a_route_as_the_ledger_says_it_is_no_finding(world: type[Played], command: Command, tmp_path: Path) -> None:
    known(tmp_path)
    world.objects["deployments"][0]["metadata"]["name"] = "defects-r1"
    world.objects["virtualservices"] = [route("defects-r1")]
    answer = one(command)
    assert answer.output.startswith("vision/defects: nothing is wrong"), answer.output


def test_a_route_that_leads_elsewhere_is_told_with_the_ledgers(world: type[Played], command: Command, tmp_path: Path) -> None:
    known(tmp_path)
    world.objects["virtualservices"] = [route("defects-r2")]
    answer = one(command)
    assert answer.exit_code == Exit.REFUSED
    assert "route-astray" in answer.output and "defects-r2" in answer.output


def test_a_ledger_that_moved_while_the_route_was_read_is_not_held_against_it(
    world: type[Played], command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = known(tmp_path)
    world.objects["virtualservices"] = [route("defects-r2")]
    look = Ledger.look

    def moving(self: Ledger) -> Sequence[Event]:
        found = look(self)
        ledger.append(EventKind.LEASE, {"by": "a driver"})
        return found

    monkeypatch.setattr(Ledger, "look", moving)
    assert "route-astray" not in one(command).output


def certified(world: type[Played], *hosts: str) -> None:
    """The gateway's listener for those hosts has a certificate that has ended."""
    over = {"conditions": [{"type": "Ready", "status": "False", "message": "the order failed"}], "notAfter": "2023-11-01T00:00:00Z"}
    metadata = {"name": "gateway-tls", "namespace": "vision"}  # where the played API server has a namespace's objects
    servers = [{"hosts": list(hosts), "tls": {"credentialName": "tls"}}]
    world.objects["certificates"] = [{"metadata": metadata, "spec": {"secretName": "tls"}, "status": over}]
    world.objects["gateways"] = [{"metadata": metadata, "spec": {"servers": servers}}]


def test_a_certificate_that_ended_is_a_finding_of_those_whose_hosts_it_is_for(world: type[Played], command: Command) -> None:
    world.objects["virtualservices"] = [route("defects-r1")]
    certified(world, "*.models.test")
    answer = one(command)
    assert answer.exit_code == Exit.REFUSED
    assert "certificate-invalid" in answer.output and "the order failed" in answer.output
    certified(world, "*.elsewhere.test")
    assert "certificate-invalid" not in one(command).output


@pytest.mark.parametrize("kind", ["certificates", "gateways"])
def test_whoever_may_not_list_certificates_is_told_what_was_not_seen(world: type[Played], command: Command, kind: str) -> None:
    world.forbidden = (kind,)
    assert "certificates" in one(command).output
