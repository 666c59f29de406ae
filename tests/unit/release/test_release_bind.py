"""`headway release bind`: a ledger of an earlier Headway says whose it is from then on."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from headway.cli import release
from headway.contract.reading.loader import load_tenant
from headway.contract.released import release_id
from headway.ledger.chain import register
from headway.ledger.events import UNBOUND, Event, key
from headway.ledger.serving import ADOPTED
from headway.ledger.store import FolderStore
from headway.ledger.traffic_split import TrafficSplit
from headway.problem import UserError
from tests.unit.release_world import CHAIN

PROJECT = Path(__file__).parents[3]


def command(*words: str) -> Result:
    return CliRunner().invoke(release.app, [*words, CHAIN, "--project", str(PROJECT)])


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("HEADWAY_SANDBOX_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HEADWAY_ENVIRONMENT", "sandbox")
    monkeypatch.setenv("HEADWAY_SANDBOX_LEDGER", (tmp_path / "ledger").as_uri())
    monkeypatch.delenv("HEADWAY_LEDGER", raising=False)
    return tmp_path / "ledger"


def begun(folder: Path, name: str) -> None:
    """One event of an earlier Headway, on a contract of `name`."""
    (tenant,) = load_tenant(PROJECT / "tenants" / "vision").contracts
    model = next(model for model in tenant.models if model.name == name)
    store, named = FolderStore(folder), release_id(model)
    content = register(store, CHAIN, {"id": named, "contract": model.model_dump(mode="json")})
    body = {"release": named, "division": TrafficSplit.only(named, content).document()}
    first = Event(number=1, previous=UNBOUND, time="2026-11-21T12:00:00.000Z", actor="ci", kind=ADOPTED, body=body)
    store.create(key(CHAIN, 1), first.stored())


def test_a_ledger_is_bound_and_verify_no_longer_asks_for_it(ledger: Path) -> None:
    begun(ledger, "defects")
    assert (
        f"! it does not say of which service and environment it is; `headway release bind {CHAIN} -e sandbox`" in command("verify").output
    )
    said = command("bind").stdout
    assert said == f"{CHAIN}: its ledger now says that it is of sandbox (events: 1, releases: 1).\n"
    assert json.loads(command("verify", "--output", "json").output)["bound"] is True
    assert command("bind").stdout == f"{CHAIN}: its ledger says already that it is of sandbox.\n"


def test_a_ledger_with_the_releases_of_another_service_is_not_bound(ledger: Path) -> None:
    begun(ledger, "embeddings")
    refused = command("bind").exception
    assert isinstance(refused, UserError) and "is a contract of embeddings" in refused.fact
    assert not (ledger / key(CHAIN, 2)).exists()


def test_a_ledger_without_an_event_needs_no_binding(ledger: Path) -> None:
    assert command("bind").stdout == f"{CHAIN} is not in the ledger yet: its first event will say that it is of sandbox.\n"
