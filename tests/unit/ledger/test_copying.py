"""A ledger in a second place: whole, in order, repeatable, and never joined with one that went another way."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws
from typer.testing import CliRunner

from headway.cli.main import app
from headway.ledger.chain import Ledger, register
from headway.ledger.copying import copy
from headway.ledger.reading import verify
from headway.ledger.s3_store import S3Store
from headway.ledger.serving import ADOPTED, latest
from headway.ledger.store import FolderStore, LedgerStore, UnreachableError
from headway.ledger.traffic_split import TrafficSplit
from headway.problem import UserError
from headway.wire import LEDGER_VARIABLE

START = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
ENVIRONMENT = "dev"
CHAINS = ("vision/defects", "vision/embeddings")


class Dying(FolderStore):
    """A store that stops answering after so many writes."""

    left = 0

    def create(self, key: str, body: bytes) -> None:
        if self.left == 0:
            raise UnreachableError("gone")
        self.left -= 1
        super().create(key, body)


def appended(store: LedgerStore, chain: str, count: int) -> None:
    ledger = Ledger(store, chain, ENVIRONMENT, "ci", lambda: START + timedelta(minutes=len(ledger.events)))
    ledger.read()
    for _ in range(count):
        ledger.append("noted", {"of": len(ledger.events)})


def filled(store: LedgerStore) -> LedgerStore:
    for chain in CHAINS:
        content = register(store, chain, {"contract": {"name": chain}})
        Ledger(store, chain, ENVIRONMENT, "ci", lambda: START).append(ADOPTED, {"division": TrafficSplit.only("r1", content).document()})
        appended(store, chain, 5)
    Ledger(store, CHAINS[0], ENVIRONMENT, "ci", lambda: START).acquire("a-runner", timedelta(minutes=1))
    return store


@pytest.fixture
def regions() -> Iterator[Callable[[str], LedgerStore]]:
    """A bucket in each of two regions."""
    with mock_aws():

        def bucket(region: str) -> LedgerStore:
            client: Any = boto3.client("s3", region_name=region, aws_access_key_id="none", aws_secret_access_key="none")
            client.create_bucket(Bucket=f"ledger-{region}", CreateBucketConfiguration={"LocationConstraint": region})
            return S3Store(client, f"ledger-{region}")

        yield bucket


def test_a_copy_in_a_second_region_is_the_ledger_without_its_leases(regions: Callable[[str], LedgerStore]) -> None:
    source, target = filled(regions("us-west-2")), regions("us-east-2")
    found = copy(source, target)
    assert {chain: (one.events, one.new) for chain, one in found.items()} == {CHAINS[0]: (7, 7), CHAINS[1]: (6, 6)}
    kept = [key for key in source.list("") if not key.startswith("leases/")]
    assert list(target.list("")) == kept
    assert all(source.get(key) == target.get(key) for key in kept)
    assert [verify(target, chain, ENVIRONMENT, one.head) for chain, one in found.items()] == [(), ()]
    assert [latest(target, chain, ENVIRONMENT) for chain in CHAINS] == [latest(source, chain, ENVIRONMENT) for chain in CHAINS]


def test_a_second_copy_writes_what_is_new_alone(tmp_path: Path) -> None:
    source, target = filled(FolderStore(tmp_path / "a")), FolderStore(tmp_path / "b")
    copy(source, target)
    appended(source, CHAINS[1], 2)
    found = copy(source, target)
    assert {chain: one.new for chain, one in found.items()} == {CHAINS[0]: 0, CHAINS[1]: 2}
    assert found[CHAINS[1]].newest == "2026-11-23T12:07:00.000Z"
    ledger = Ledger(source, CHAINS[1], ENVIRONMENT, "ci", lambda: START)
    ledger.read()
    assert found[CHAINS[1]].head == ledger.head


def test_a_ledger_of_another_environment_is_not_copied(tmp_path: Path) -> None:
    source, target = filled(FolderStore(tmp_path / "a")), FolderStore(tmp_path / "b")
    with pytest.raises(UserError, match="written for another service or another environment"):
        copy(source, target, "prod")
    assert not [key for key in target.list("") if "/events/" in key]
    assert copy(source, target, ENVIRONMENT)[CHAINS[0]].new == 7


@pytest.mark.parametrize("writes", [0, 1, 3, 9])
def test_a_copy_that_is_cut_off_is_a_ledger_and_the_next_goes_on(tmp_path: Path, writes: int) -> None:
    source, target = filled(FolderStore(tmp_path / "a")), Dying(tmp_path / "b")
    target.left = writes
    with pytest.raises(UnreachableError):
        copy(source, target)
    assert [verify(target, chain, ENVIRONMENT) for chain in CHAINS] == [(), ()]
    if any("/events/" in key for key in target.list("")):
        assert len([key for key in target.list("") if "/releases/" in key]) == 2, "an event points to a release that is not there"
    target.left = 99
    assert copy(source, target)[CHAINS[0]].events == 7


def test_a_copy_from_which_somebody_released_is_not_overwritten(tmp_path: Path) -> None:
    source, target = filled(FolderStore(tmp_path / "a")), FolderStore(tmp_path / "b")
    copy(source, target)
    appended(target, CHAINS[0], 1)
    with pytest.raises(UserError, match="1 events ahead"):
        copy(source, target)
    assert copy(target, source)[CHAINS[0]].new == 1, "the way back"


def test_two_ledgers_that_went_different_ways_are_not_joined(tmp_path: Path) -> None:
    source, target = filled(FolderStore(tmp_path / "a")), FolderStore(tmp_path / "b")
    copy(source, target)
    for store, actor in ((source, "west"), (target, "east")):
        ledger = Ledger(store, CHAINS[0], ENVIRONMENT, actor, lambda: START)
        ledger.read()
        ledger.append("noted", {"by": actor})
    before = target.list("")
    with pytest.raises(UserError, match="says something else in the copy"):
        copy(source, target)
    assert target.list("") == before


def test_a_flaw_of_the_ledger_is_found_in_its_copy(tmp_path: Path) -> None:
    source, target = filled(FolderStore(tmp_path / "a")), FolderStore(tmp_path / "b")
    event = tmp_path / "a" / CHAINS[0] / "events" / "00000003.json"
    event.write_bytes(event.read_bytes().replace(b'"ci"', b'"me"'))
    with pytest.raises(UserError, match="event 4 does not follow"):
        copy(source, target)


def test_the_command_says_what_the_copy_holds_and_until_when(tmp_path: Path) -> None:
    filled(FolderStore(tmp_path / "a"))
    words = ["release", "copy", "--from", (tmp_path / "a").as_uri(), "--to", (tmp_path / "b").as_uri()]
    said = CliRunner().invoke(app, words)
    assert said.exit_code == 0, said.output
    assert f"✓ {CHAINS[0]}: 7 events (7 new), the newest of 2026-11-23T12:00:00.000Z" in said.output
    address = {LEDGER_VARIABLE: (tmp_path / "b").as_uri()}
    verified = CliRunner().invoke(app, ["release", "verify", CHAINS[0], "-e", "dev"], env=address)
    assert "7 events follow each other unaltered" in verified.output, verified.output


def test_no_chains_name_is_an_order_to_the_terminal_of_who_copies(tmp_path: Path) -> None:
    appended(FolderStore(tmp_path / "a"), "vision/\x1b[2J", 1)
    said = CliRunner().invoke(app, ["release", "copy", "--from", (tmp_path / "a").as_uri(), "--to", (tmp_path / "b").as_uri()])
    assert said.output.startswith("✓ vision/\\x1b[2J: 1 events (1 new)"), said.output
