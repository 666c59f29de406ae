"""What serves by the events of a chain; what a release was registered with, and what is refused in its place."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headway.ledger.chain import register
from headway.ledger.events import UNBOUND, Event
from headway.ledger.serving import ADOPTED, ENDED, INTENDED, STARTED, released, serves
from headway.ledger.store import FolderStore
from headway.ledger.traffic_split import TrafficSplit
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


def events(*acts: str) -> list[Event]:
    """Each act a kind, and the release that it names where it names one."""
    made: list[Event] = []
    for act in acts:
        kind, _, name = act.partition(" ")
        body = {"division": TrafficSplit.only(name, "1" * 64).document()} if name else {}
        made.append(Event(number=len(made) + 1, previous=UNBOUND, time="2026-11-28T12:00:00.000Z", actor="ci", kind=kind, body=body))
    return made


@pytest.mark.parametrize(
    ("acts", "release"),
    [
        ((), None),
        ((f"{ADOPTED} r1",), "r1"),
        ((f"{ADOPTED} r1", STARTED), "r1"),
        ((f"{ADOPTED} r1", STARTED, f"{INTENDED} r2"), "r2"),
        ((f"{ADOPTED} r1", STARTED, f"{INTENDED} r2", f"{INTENDED} r3", ENDED), "r3"),
        ((f"{ADOPTED} r1", STARTED, f"{INTENDED} r2", ENDED, f"{INTENDED} r3"), "r2"),
        ((f"{ADOPTED} r1", STARTED, f"{INTENDED} r2", ENDED, STARTED, f"{INTENDED} r3"), "r3"),
        ((f"{ADOPTED} r1", f"{INTENDED} r2"), "r1"),
        ((f"{ADOPTED} r1", f"{ADOPTED} r2"), "r1"),
        ((STARTED, f"{INTENDED} r2"), None),
    ],
)
def test_what_is_intended_serves_from_a_start_to_its_end_and_stays(acts: tuple[str, ...], release: str | None) -> None:
    split = serves(events(*acts))
    assert split == (TrafficSplit.only(release, "1" * 64) if release else None)


def test_a_split_whose_release_has_no_content_is_not_obeyed() -> None:
    (adopted,) = events(f"{ADOPTED} r1")
    with pytest.raises(UserError, match="does not know"):
        serves([replace(adopted, body={"division": TrafficSplit.only("r1").document()})])


def test_fields_that_are_not_known_are_named_one_after_another(store: FolderStore) -> None:
    contract = model(DEFECTS).model_dump(mode="json") | {"colour": "red", "taste": "sweet"}
    assert "does not know (colour, taste)" in refusal(store, register(store, CHAIN, {"contract": contract}))
