"""Which objects an environment's ledger is, by its address."""

from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from headway.ledger.location import opened
from headway.problem import Exit, UserError


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
