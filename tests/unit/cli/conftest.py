"""Commands that look at a service in memory, and those that read what these wrote of it into a ledger."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from headway.cli import release
from headway.contract.model import Model
from headway.ledger.store import FolderStore
from headway.release import notify
from tests.unit.release_kill import Shelf
from tests.unit.release_world import CHAIN, Scene, quickly_baked

PROJECT = Path(__file__).parents[3]
Command = Callable[..., Result]


@pytest.fixture(scope="module")
def contract() -> Model:
    return quickly_baked()


@pytest.fixture
def scene(contract: Model) -> Scene:
    """A service in memory."""
    return Scene.of(Shelf(), contract, mirror=None, weights=["10%"])


@pytest.fixture
def command_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Callable[..., None]], Command]:
    """A command before a sandbox of the test's own."""
    monkeypatch.setenv("HEADWAY_SANDBOX_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HEADWAY_SANDBOX_LEDGER", (tmp_path / "ledger").as_uri())

    def of(function: Callable[..., None]) -> Command:
        app = typer.Typer()
        app.command()(function)
        return lambda *words: CliRunner().invoke(app, [*words, "-e", "sandbox", "--project", str(PROJECT)])

    return of


@pytest.fixture
def stored(contract: Model, tmp_path: Path) -> Scene:
    """A service whose ledger is in a folder, after a release."""
    found = Scene.of(FolderStore(tmp_path / "ledger"), contract, mirror=None, weights=["10%"])
    found.run()
    return found


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """`headway release WORDS` of that service."""
    monkeypatch.setenv("HEADWAY_SANDBOX_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HEADWAY_SANDBOX_LEDGER", (tmp_path / "ledger").as_uri())
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *words: CliRunner().invoke(release.app, [*words, CHAIN, "--project", str(PROJECT)])


@pytest.fixture
def posted(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What webhooks were told."""
    found: list[dict[str, Any]] = []

    def post(_hook: Any, body: bytes) -> None:
        found.append(json.loads(body))

    monkeypatch.setattr(notify.Webhook, "_post", post)
    return found
