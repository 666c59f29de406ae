"""Ledgers of an earlier Headway: what their contracts say that no contract may say any more is still read."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from headway.cli.main import app
from headway.contract.model import Model
from headway.contract.reading.loader import load_tenant
from headway.contract.released import release_id
from headway.contract.scaling import ScalingPolicy
from headway.ledger.chain import Ledger, register
from headway.ledger.events import canonical, digest
from headway.ledger.serving import released
from headway.ledger.store import FolderStore
from headway.problem import UserError
from headway.release.driver.adoption import adopt
from tests.unit.release_kill import Shelf, promoting
from tests.unit.release_world import CHAIN, START, Scene

ROOT = Path(__file__).parents[3]


def defects() -> Model:
    (tenant,) = load_tenant(ROOT / "tenants/vision").contracts
    return next(model for model in tenant.models if model.name == "defects")


def old_contract() -> dict[str, Any]:
    """As an earlier Headway wrote it, with the preset of scaling that it still had."""
    contract = defects().model_dump(mode="json")
    contract["scaling"]["policy"] = "threshold_table"
    return contract


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FolderStore:
    """The ledger of an environment in which such a release serves."""
    monkeypatch.setenv("HEADWAY_SANDBOX_LEDGER", tmp_path.as_uri())
    store = FolderStore(tmp_path)
    adopt(Ledger(store, CHAIN, "sandbox", "ci", lambda: START), store, old_contract(), release_id(defects()))
    return store


def headway(*words: str) -> str:
    answer = CliRunner().invoke(app, [*words, "--project", str(ROOT)])
    assert answer.exit_code == 0, answer.output
    return answer.stdout


def test_a_snapshot_with_the_removed_preset_is_read_as_targets() -> None:
    shelf = Shelf()
    name = register(shelf, CHAIN, {"id": "r0123456789", "contract": old_contract()})
    assert released(shelf, CHAIN, name) == defects().model_copy(
        update={"scaling": defects().scaling.model_copy(update={"policy": ScalingPolicy.TARGET})}
    )


def test_a_new_contract_cannot_name_the_removed_preset() -> None:
    with pytest.raises(ValidationError, match="threshold_table"):
        Model.model_validate(old_contract())


def test_a_ledger_with_such_a_snapshot_is_sound(store: FolderStore) -> None:
    assert json.loads(headway("release", "verify", CHAIN, "--output", "json"))["sound"]


def test_a_ledger_with_such_a_snapshot_is_listed(store: FolderStore) -> None:
    assert release_id(defects()) in headway("release", "status")
    assert json.loads(headway("release", "history", CHAIN, "--output", "json")) == []


def test_a_new_version_is_released_over_such_a_snapshot(store: FolderStore) -> None:
    scene = Scene.of(store, defects(), mirror=None, weights=["10%"])
    promoting(scene, 1)
    scene.run()
    assert scene.service().stable == scene.release
    assert scene.release in headway("release", "report", CHAIN)


def test_a_snapshot_that_says_something_unknown_is_refused_in_words() -> None:
    shelf = Shelf()
    contract = old_contract() | {"colour": "blue"}
    body = canonical({"id": "r0123456789", "contract": contract})
    shelf.create(f"{CHAIN}/releases/{digest(body)}.json", body)
    with pytest.raises(UserError, match="something that this Headway does not know"):
        released(shelf, CHAIN, digest(body))
