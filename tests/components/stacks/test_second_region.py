"""`docs/guide/day-two.md`, "A second region": a release goes on from the copy of a ledger whose region is away, and comes home.

Both buckets are S3 in memory, one in each region. What runs is the page's own commands and the tenant's program; no cluster.
"""

import shlex
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import boto3
import pytest
from moto import mock_aws
from typer.testing import CliRunner, Result

from headway.cli.main import app
from headway.contract.model import Model
from headway.contract.reading.loader import load_tenant
from headway.contract.released import release_id
from headway.ledger.chain import Ledger, register
from headway.ledger.location import opened
from headway.ledger.serving import ADOPTED, ENDED, INTENDED, STARTED
from headway.ledger.traffic_split import TrafficSplit
from headway.wire import LEDGER_VARIABLE
from stacks import tenant
from stacks.settings import TenantSettings
from tests import day_two_page
from tests.components.contracts import TENANTS, document
from tests.components.program import PROJECT, answers
from tests.components.recording import Recording, record
from tests.components.stacks.test_tenant import write
from tests.components.tenant_layer import settings_of

CHAIN, HOME, AWAY = "hello/digits", "s3://ledger-home", "s3://ledger-away"
RTO_SECONDS = 60.0
"""What is stated for `verify` and the plan of one tenant, on this stand-in: seconds, with room for a busy machine."""
HERE, THERE = "us-west-2", "us-east-1"


@pytest.fixture(autouse=True)
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", HERE)
    with mock_aws():
        boto3.client("s3", region_name=HERE).create_bucket(Bucket="ledger-home", CreateBucketConfiguration={"LocationConstraint": HERE})
        boto3.client("s3", region_name=THERE).create_bucket(Bucket="ledger-away")
        yield


@pytest.fixture
def elsewhere(tmp_path: Path) -> TenantSettings:
    """The tenant's settings where the environment is brought up in the other region."""
    folder = tmp_path / "stacks"
    folder.mkdir()
    for file in (PROJECT / "stacks").glob("Pulumi.dev-*.yaml"):
        (folder / file.name).write_text(file.read_text().replace(HERE, THERE))
    return settings_of("dev-hello", folder=folder)


def contract(found: TenantSettings, folder: Path = TENANTS) -> Model:
    loaded = load_tenant(folder / "hello", found.pools).tenant("hello")
    assert loaded is not None
    return next(model for model in loaded.models if model.name == "digits")


def serve(address: str, model: Model) -> None:
    """Write down that `model` serves, as a release does at its end."""
    store = opened(address)
    ledger = Ledger(store, CHAIN, "dev", "ci", lambda: datetime(2026, 11, 21, tzinfo=UTC))
    kept = register(store, CHAIN, {"id": release_id(model), "contract": model.model_dump(mode="json")})
    division = {"division": TrafficSplit.only(release_id(model), kept).document()}
    if not ledger.read():
        ledger.append(ADOPTED, division)
        return
    for kind, body in ((STARTED, {}), (INTENDED, division), (ENDED, {})):
        ledger.append(kind, body)


def plan(found: TenantSettings, folder: Path, address: str) -> Recording:
    return record(
        lambda: tenant.build(found, folder, opened(address)), stack="dev-hello", calls=answers("dev", "cluster", "platform")
    )  # fmt: skip


def serving(found: Recording) -> list[str]:
    """Releases of which the plan has servers."""
    deployments = [each for each in found.registrations if each.type == "kubernetes:apps/v1:Deployment" and "digits" in each.name]
    return [each.inputs["metadata"]["labels"]["platform.io/release"] for each in deployments]


def typed(line: str, ledger: str) -> Result:
    words = shlex.split(line.replace("s3://YOUR-COPY", AWAY).replace("s3://LEDGER-BUCKET", HOME))
    return CliRunner().invoke(app, words[1:], env={LEDGER_VARIABLE: ledger})


def lines() -> list[str]:
    return [line for line in day_two_page.sections()["A second region"] if line.startswith("headway ")]


def edited(folder: Path, version: str) -> Path:
    folder.mkdir()
    content = document("hello", "digits")
    content["artifact"] = {**content["artifact"], "version": version}
    return write(folder, "hello", digits=content)


def test_a_second_region_serves_what_was_copied_and_its_releases_come_home(tmp_path: Path, elsewhere: TenantSettings) -> None:
    copy, verify, home = lines()
    old = contract(elsewhere)
    serve(HOME, old)
    copied = typed(copy, HOME)
    assert copied.exit_code == 0, copied.output

    newer = edited(tmp_path / "newer", "2026.12.1")
    begun = time.monotonic()
    verified = typed(verify, AWAY)
    assert verified.exit_code == 0, verified.output
    found = plan(elsewhere, newer, AWAY)
    assert time.monotonic() - begun < RTO_SECONDS
    assert serving(found) == [release_id(old)], "the copy says what serves, whatever the contract has become"
    (region,) = {each.inputs["region"] for each in found.registrations if each.type == "pulumi:providers:aws"}
    assert region == THERE

    new = contract(elsewhere, newer)
    serve(AWAY, new)
    back = typed(home, HOME)
    assert back.exit_code == 0, back.output
    assert serving(plan(elsewhere, newer, HOME)) == [release_id(new)]


def test_what_was_released_after_the_last_copy_is_what_a_lost_region_loses(tmp_path: Path, elsewhere: TenantSettings) -> None:
    copy, *_ = lines()
    old, newer = contract(elsewhere), edited(tmp_path / "newer", "2026.12.1")
    serve(HOME, old)
    assert typed(copy, HOME).exit_code == 0
    serve(HOME, contract(elsewhere, newer))
    assert serving(plan(elsewhere, newer, AWAY)) == [release_id(old)]
    assert typed(copy, HOME).exit_code == 0
    assert serving(plan(elsewhere, newer, AWAY)) == [release_id(contract(elsewhere, newer))]


def test_two_ledgers_that_both_went_on_are_not_joined(tmp_path: Path, elsewhere: TenantSettings) -> None:
    copy, _, home = lines()
    serve(HOME, contract(elsewhere))
    assert typed(copy, HOME).exit_code == 0
    for place, version in ((HOME, "2026.12.1"), (AWAY, "2026.12.2")):
        serve(place, contract(elsewhere, edited(tmp_path / version, version)))
    for line in (copy, home):
        refused = typed(line, HOME)
        assert refused.exit_code != 0
        assert "says something else" in str(refused.exception) + refused.output
