"""`headway verify`: exit codes, what is kept, and that nothing is left when somebody ends it."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from headway.cli import verify as verify_cli
from headway.problem import Exit, Problem
from headway.verify import catalogue
from headway.verify.catalogue import VerifyCheck
from headway.verify.outcome import Sighting
from headway.verify.probe import Probe
from headway.verify.site import Site
from tests.unit.verify.test_verify_run import Cluster

WRONG = Problem(rule="x", fact="It is open", consequence="Somebody enters", remedy="Close it")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cluster:
    """The command against an API server in memory and a ledger in a folder."""
    made = Cluster()
    made.request = lambda *_: {"items": []}  # type: ignore[attr-defined]
    environment: Any = SimpleNamespace(kubernetes=made, ledger_address=f"file://{tmp_path}/ledger")

    def site(*_: object) -> Site:
        return Site(
            environment=environment,
            namespace="headway-verify-1",
            began="2026-11-23T15:00:00Z",
            pools=(),
            clock=lambda: 0.0,
            sleep=lambda _: None,
            say=lambda _: None,
            image="i",
        )

    monkeypatch.setattr(verify_cli, "_site", site)
    monkeypatch.setattr(verify_cli, "_versions", lambda *_: {"headway": "1"})
    monkeypatch.setattr("headway.environment.selection.environment", lambda *_: environment)
    return made


def does(monkeypatch: pytest.MonkeyPatch, look: Callable[[Site], Sighting]) -> None:
    monkeypatch.setattr(catalogue, "CHECKS", (VerifyCheck(name="it", says="it holds", minutes=1, look=look),))


def invoked(*words: str) -> Any:
    return CliRunner().invoke(verify_cli.app, [*words, "-e", "prod"] if words[:1] != ("checks",) else [*words])


@pytest.mark.parametrize(
    ("seen", "code"),
    [
        (Sighting(evidence=("a",)), Exit.OK),
        (Sighting(not_shown=("no GPU",)), Exit.OK),
        (Sighting(problems=(WRONG,)), Exit.REFUSED),
        (Sighting(unanswered=("nobody",)), Exit.ENVIRONMENT),
    ],
)
@pytest.mark.usefixtures("cluster")
def test_the_exit_code_says_what_became_of_the_checks(monkeypatch: pytest.MonkeyPatch, seen: Sighting, code: Exit) -> None:
    does(monkeypatch, lambda _: seen)
    assert invoked().exit_code == code


@pytest.mark.usefixtures("cluster")
def test_what_was_seen_is_kept_beside_the_ledger_and_read_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    does(monkeypatch, lambda _: Sighting(evidence=("all is closed",), problems=(WRONG,)))
    done = invoked()
    assert "It is open.\n    Somebody enters.\n    Remedy: Close it." in done.output
    (kept,) = (tmp_path / "ledger/verifications/prod").glob("*.json")
    assert json.loads(kept.read_text())["checks"][0]["evidence"] == ["all is closed"]
    shown = invoked("show")
    assert (shown.exit_code, "all is closed" in shown.output) == (0, True)
    kept.write_text(kept.read_text().replace("all is closed", "all is open"))
    assert "is not as it was written" in str(invoked("show").exception)


@pytest.mark.usefixtures("cluster")
def test_programs_get_the_whole_document(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    does(monkeypatch, lambda _: Sighting(evidence=("a",)))
    done = invoked("--output", "json", "--keep", str(tmp_path / "file.json"))
    assert json.loads(done.stdout) == json.loads((tmp_path / "file.json").read_text())
    assert json.loads(done.stdout)["state"] == "passed"


@pytest.mark.parametrize(
    ("file", "closed", "taken"),
    [
        ("old.json", "old.json", False),
        ("old.json", ".", True),
        ("new.json", ".", False),
        ("new.json", "old.json", True),
        ("absent/new.json", "", False),
        ("old.json/new.json", "", False),
        (".", "", False),
    ],
)
@pytest.mark.usefixtures("cluster")
def test_an_attestation_that_could_not_be_kept_is_refused_before_any_check(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, file: str, closed: str, taken: bool
) -> None:
    (tmp_path / "old.json").touch()
    real = os.access  # for root, nothing is closed
    monkeypatch.setattr(os, "access", lambda path, mode: (mode, path) != (os.W_OK, tmp_path / closed) and real(path, mode))
    looked: list[Site] = []
    does(monkeypatch, lambda site: looked.append(site) or Sighting(evidence=("a",)))
    done = invoked("--keep", str(tmp_path / file))
    assert (done.exit_code == 0, bool(looked)) == (taken, taken)
    assert taken or f"{tmp_path / file} cannot be written" in str(done.exception)


def test_an_interrupted_run_removes_its_namespace(monkeypatch: pytest.MonkeyPatch, cluster: Cluster) -> None:
    def look(site: Site) -> Sighting:
        site.start([Probe(name="p", task="ask")])
        assert cluster.made
        raise KeyboardInterrupt

    does(monkeypatch, look)
    assert invoked().exit_code != 0
    assert cluster.made == {}


def test_an_interrupted_run_that_cannot_clean_up_says_what_is_left(monkeypatch: pytest.MonkeyPatch, cluster: Cluster) -> None:
    def look(site: Site) -> Sighting:
        site.start([Probe(name="p", task="ask")])
        cluster.refuses = 403
        raise KeyboardInterrupt

    does(monkeypatch, look)
    assert "Remove it: `kubectl delete namespace headway-verify-1`" in invoked().output


def test_the_checks_are_listed_with_their_minutes() -> None:
    done = invoked("checks")
    assert "gpu-pods" in done.output and done.output.splitlines()[-1].split() == ["together", "60", "min"]


@pytest.mark.usefixtures("cluster")
def test_what_others_said_in_a_check_is_no_order_to_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    does(monkeypatch, lambda _: Sighting(evidence=("a\x1b]52;c;eA==\x07",), problems=(replace(WRONG, fact="It is\x1b[2J open"),)))
    assert "\x1b" not in invoked().output
