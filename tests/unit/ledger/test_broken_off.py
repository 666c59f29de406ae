"""An answer of S3 that breaks off is no object: whoever reads asks again, and concludes nothing from a part."""

import io
from datetime import UTC, datetime

import pytest
from botocore.response import StreamingBody
from botocore.stub import Stubber

from headway.ledger.events import key
from headway.ledger.s3_store import S3Store
from headway.ledger.store import UnreachableError
from tests.unit.ledger.conftest import s3


def broken_off() -> tuple[S3Store, Stubber]:
    """A store that answers 400 of 1000 bytes, as a connection does that ends."""
    client = s3()
    stub = Stubber(client)
    answer = {"Body": StreamingBody(io.BytesIO(b"{" * 400), 1000), "ContentLength": 1000, "ETag": '"a"', "LastModified": datetime.now(UTC)}
    stub.add_response("get_object", answer)
    return S3Store(client, "ledger"), stub


@pytest.mark.parametrize("name", [key("vision/defects", 1), "vision/defects/bundles/00000100.jsonl"])
def test_a_part_of_an_object_is_no_object(name: str) -> None:
    store, stub = broken_off()
    with stub, pytest.raises(UnreachableError, match="400 of 1000 bytes"):
        store.get(name)


def test_a_part_of_a_lease_is_no_lease() -> None:
    store, stub = broken_off()
    with stub, pytest.raises(UnreachableError, match="400 of 1000 bytes"):
        store.held("leases/vision/defects.json")
