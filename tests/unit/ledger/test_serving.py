"""What a release was registered with, and what is refused in its place."""

from pathlib import Path
from typing import Any

import pytest

from headway.ledger.chain import register
from headway.ledger.serving import released
from headway.ledger.store import FolderStore
from headway.problem import Exit, UserError
from tests.contract_samples import DEFECTS, changed, model

CHAIN = "vision/defects"


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    return FolderStore(tmp_path)


def registered(store: FolderStore, chain: str = CHAIN, **changes: Any) -> str:
    contract = model(changed(DEFECTS, changes)).model_dump(mode="json")
    return register(store, chain, {"contract": contract})


def refusal(store: FolderStore, content: str) -> str:
    with pytest.raises(UserError) as refused:
        released(store, CHAIN, content)
    assert refused.value.exit is Exit.REFUSED
    assert all(sentence.endswith(".") for sentence in refused.value.problems[0].sentences)
    return refused.value.problems[0].fact


def test_what_a_release_was_registered_with_is_read_again(store: FolderStore) -> None:
    assert released(store, CHAIN, registered(store)) == model(DEFECTS)


def test_a_release_that_is_gone_or_was_altered_is_refused(store: FolderStore, tmp_path: Path) -> None:
    assert refusal(store, "0" * 64).endswith("is missing.")
    assert refusal(store, "../releases").endswith("is not what its name says.")
    content = registered(store)
    file = tmp_path / CHAIN / "releases" / f"{content}.json"
    file.chmod(0o600)
    file.write_bytes(file.read_bytes() + b" ")
    assert refusal(store, content).endswith("is not what its name says.")


def test_a_release_that_is_no_contract_is_refused(store: FolderStore) -> None:
    assert "does not know (it holds no contract)" in refusal(store, register(store, CHAIN, {"other": {}}))
    contract = model(DEFECTS).model_dump(mode="json") | {"colour": "red"}
    assert "does not know (colour)" in refusal(store, register(store, CHAIN, {"contract": contract}))


def test_a_release_of_another_service_is_refused(store: FolderStore) -> None:
    assert refusal(store, registered(store, name="scratches")).endswith("is a contract of scratches.")
