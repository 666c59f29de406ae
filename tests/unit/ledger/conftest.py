"""The real stores: a folder, and S3 as moto has it."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from headway.ledger.s3_store import S3Store
from headway.ledger.store import FolderStore, LedgerStore


@cache
def s3() -> Any:
    """One client for all tests: it takes longer to make than a test, and asks whatever moto has at that time."""
    made: Any = boto3.client("s3", region_name="us-east-1", aws_access_key_id="none", aws_secret_access_key="none")
    return made


@pytest.fixture(params=["folder", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LedgerStore]:
    if request.param == "folder":
        yield FolderStore(tmp_path)
        return
    with mock_aws():
        s3().create_bucket(Bucket="ledger")
        yield S3Store(s3(), "ledger", "releases/")
