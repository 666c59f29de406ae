"""Which objects an environment's ledger is, by its address."""

from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from headway.ledger.location import opened, place, witness
from headway.problem import Exit, UserError
from headway.wire import LEDGER_VARIABLE


@pytest.mark.parametrize(
    ("address", "key"),
    [
        ("s3://ledger", "a/events/1.json"),
        ("s3://ledger/", "a/events/1.json"),
        ("s3://ledger/releases", "releases/a/events/1.json"),
        ("s3://ledger/prod/releases/", "prod/releases/a/events/1.json"),
    ],
)
def test_a_bucket_holds_events_below_the_prefix_of_its_address(address: str, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "none")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        client: Any = boto3.client("s3", region_name="us-east-1")
        client.create_bucket(Bucket="ledger")
        opened(address).create("a/events/1.json", b"{}")
        assert [each["Key"] for each in client.list_objects_v2(Bucket="ledger")["Contents"]] == [key]


def test_a_folder_holds_them_below_its_path(tmp_path: Path) -> None:
    opened(f"file://{tmp_path}/with%20space").create("a/events/1.json", b"{}")
    assert (tmp_path / "with space" / "a" / "events" / "1.json").read_bytes() == b"{}"


@pytest.mark.parametrize("address", ["ledger", "s3:///releases", "file://host/folder", "https://bucket/x"])
def test_an_address_of_another_kind_is_refused(address: str) -> None:
    with pytest.raises(UserError, match="no address of a ledger") as refused:
        opened(address)
    assert refused.value.exit is Exit.USAGE


@pytest.mark.parametrize(
    ("bucket", "variable", "address"),
    [
        ("ledger", {}, "s3://ledger"),
        ("ledger", {LEDGER_VARIABLE: ""}, "s3://ledger"),
        ("ledger", {LEDGER_VARIABLE: "file:///folder"}, "file:///folder"),
        (None, {LEDGER_VARIABLE: "s3://other/prefix"}, "s3://other/prefix"),
        (None, {}, None),
    ],
)
def test_the_variable_says_where_the_ledger_is_and_without_it_the_bucket(
    bucket: str | None, variable: dict[str, str], address: str | None
) -> None:
    assert place(bucket, variable) == address


def test_each_folder_has_a_witness_of_its_own_beside_the_users_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    def region() -> str:
        raise AssertionError("a folder has no region")

    witness("file:///ledger/", "dev", region).write("vision/defects", "1:a")
    assert witness("file:///ledger", "dev", region).said("vision/defects") == "1:a", "the same folder"
    assert witness("file:///other", "dev", region).said("vision/defects") is None
    (folder,) = (tmp_path / "headway").iterdir()
    assert folder.name.startswith("witness.")


class Parameters:
    """SSM, which answers with what it was asked for."""

    region = ""

    def client(self, service: str, region_name: str, config: Any) -> "Parameters":
        assert service == "ssm"
        self.region = region_name
        return self

    def get_parameter(self, Name: str) -> Any:  # noqa: N803
        return {"Parameter": {"Value": f"{self.region} {Name}"}}


def test_each_bucket_is_witnessed_by_its_address_in_its_environments_region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boto3, "Session", Parameters)

    def said(address: str, environment: str, region: str) -> str | None:
        return witness(address, environment, lambda: region).said("vision/defects")

    here = said("s3://ledger/releases", "prod", "eu-west-1")
    assert here == said("s3://ledger/releases/", "prod", "eu-west-1")
    assert here is not None and here.startswith("eu-west-1 /headway/prod/witness/vision/defects.")
    assert here != said("s3://ledger/other", "prod", "eu-west-1")
    assert said("s3://ledger/releases", "staging", "eu-west-2") == here.replace("prod", "staging").replace("west-1", "west-2")
