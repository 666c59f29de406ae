"""What the ledger refuses is told as a fact, what follows from it and what to do; and programs are told that it was refused."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from botocore.stub import Stubber

from headway.ledger.chain import Ledger, register
from headway.ledger.copying import copy
from headway.ledger.events import key
from headway.ledger.lease import TAKEN
from headway.ledger.location import opened
from headway.ledger.proof import ChainHashes
from headway.ledger.s3_store import S3Store
from headway.ledger.serving import released
from headway.ledger.store import LARGEST, FolderStore, LedgerStore
from headway.ledger.store_proof import prove
from headway.ledger.witness import WitnessWord, nobody
from headway.problem import Exit, Problem, UserError
from tests.unit.ledger.conftest import s3

CHAIN, NOW = "vision/defects", datetime(2026, 11, 28, 12, tzinfo=UTC)


def ledger(store: LedgerStore, actor: str = "ci") -> Ledger:
    return Ledger(store, CHAIN, "prod", actor, lambda: NOW)


def grown(root: Path, count: int, actor: str = "ci") -> FolderStore:
    made = ledger(store := FolderStore(root), actor)
    made.read()
    for number in range(count):
        made.append("noted", {"of": number})
    return store


def a_release_that_was_altered(root: Path) -> None:
    store = FolderStore(root)
    name = register(store, CHAIN, {"image": "a"})
    (root / CHAIN / "releases" / f"{name}.json").write_bytes(b"{}")
    register(store, CHAIN, {"image": "a"})


def a_lease_of_somebody_else(root: Path) -> None:
    for name in ("one", "two"):
        ledger(FolderStore(root, NOW.timestamp), name).acquire(name, timedelta(minutes=1))


def an_event_of_a_newer_headway(root: Path) -> None:
    ledger(FolderStore(root)).append(TAKEN, {"holder": "one"})


def an_altered_chain(root: Path) -> None:
    store = grown(root, 2)
    first = root / key(CHAIN, 1)
    first.write_bytes(first.read_bytes().replace(b'"ci"', b'"me"'))
    ledger(store).read()


def a_copy_with_rubbish(root: Path) -> None:
    target = FolderStore(root / "b")
    target.create(f"{CHAIN}/events/rubbish", b"")
    copy(grown(root / "a", 2), target)


def a_copy_that_is_ahead(root: Path) -> None:
    copy(grown(root / "a", 1), grown(root / "b", 3))


def a_copy_that_went_another_way(root: Path) -> None:
    copy(grown(root / "a", 1), grown(root / "b", 1, "another"))


def an_object_that_fills_the_memory(root: Path) -> None:
    with (root / "large").open("wb") as file:
        file.truncate(LARGEST + 1)
    FolderStore(root).get("large")


def a_store_that_refuses(_: Path) -> None:
    made = s3()
    with Stubber(made) as stub:
        stub.add_client_error("get_object", "AccessDenied", "told by the store", 403)
        S3Store(made, "ledger").get("k")


def a_store_without_conditions(root: Path) -> None:
    class Forgetful(FolderStore):
        def replace(self, key: str, body: bytes, tag: str | None) -> str:
            there = self.held(key)
            return super().replace(key, body, there.tag if there else None)

    prove(Forgetful(root))


def a_release_that_is_no_contract(root: Path) -> None:
    store = FolderStore(root)
    released(store, CHAIN, register(store, CHAIN, {"contract": {}, "more": "1"}))


REFUSALS: list[tuple[Callable[[Path], object], Exit, str]] = [
    (a_release_that_was_altered, Exit.REFUSED, r"The stored release [0-9a-f]{12} of vision/defects is not what its name says\."),
    (a_lease_of_somebody_else, Exit.BUSY, r"The rollout of vision/defects is driven by one until 2026-11-28T12:01:00\.000Z\."),
    (
        an_event_of_a_newer_headway,
        Exit.REFUSED,
        r"Event 1 of the release ledger \(lease\) says something that this Headway does not know\.",
    ),
    (an_altered_chain, Exit.REFUSED, r"Event 2 of vision/defects does not fit the chain: event 2 does not follow .*"),
    (
        a_copy_with_rubbish,
        Exit.REFUSED,
        r"The copy is no ledger: vision/defects: vision/defects/events/rubbish is no event: .*",
    ),
    (a_copy_that_is_ahead, Exit.REFUSED, r"The copy of vision/defects is 2 events ahead of the ledger\."),
    (
        a_copy_that_went_another_way,
        Exit.REFUSED,
        r"vision/defects/events/00000001\.json says something else in the copy than in the ledger\.",
    ),
    (
        an_object_that_fills_the_memory,
        Exit.REFUSED,
        r"large has 16777217 bytes: no object of the release ledger is larger than 16777216\.",
    ),
    (
        a_store_that_refuses,
        Exit.REFUSED,
        r"The release ledger refuses this identity or this request \(AccessDenied: told by the store\)\.",
    ),
    (
        a_store_without_conditions,
        Exit.ENVIRONMENT,
        r"The ledger's store let a second writer overwrite an object: it does not enforce conditional writes\.",
    ),
    (lambda root: opened("ledger"), Exit.USAGE, r"'ledger' is no address of a ledger\."),
    (
        lambda root: released(FolderStore(root), CHAIN, "0" * 64),
        Exit.REFUSED,
        r"Release 000000000000 of vision/defects is missing\.",
    ),
    (
        a_release_that_is_no_contract,
        Exit.REFUSED,
        r"The contract of release [0-9a-f]{12} of vision/defects says something that this Headway does not know \([a-z_]+(, [a-z_.]+)*\)\.",
    ),
    (
        lambda root: WitnessWord(f"1:{'a' * 64}").require(CHAIN, None, ChainHashes()),
        Exit.REFUSED,
        r"The ledger of vision/defects is not the one that was witnessed: its witness names event 1, and it ends with event 0\.",
    ),
]
SENTENCES = re.compile(r"[A-Z][^.]*[^. ].*\.", re.DOTALL)


@pytest.mark.parametrize(("act", "exit", "fact"), REFUSALS, ids=[fact.replace("\\", "")[:50] for _, _, fact in REFUSALS])
def test_a_refusal_says_what_is_so_what_follows_and_what_to_do(
    act: Callable[[Path], object], exit: Exit, fact: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError) as refused:
        act(tmp_path)
    (problem,) = refused.value.problems
    assert refused.value.exit is exit
    assert re.fullmatch(fact, problem.fact), problem.fact
    for text in (problem.consequence, problem.remedy):
        assert SENTENCES.fullmatch(text), text


@pytest.mark.parametrize(
    ("told", "fact"),
    [
        (lambda: nobody(CHAIN), "nobody witnesses its ledger"),
        (lambda: WitnessWord(silent="Throttled").unheard(CHAIN), "the witness of its ledger does not answer (Throttled)"),
    ],
    ids=["nobody", "silent"],
)
def test_a_chain_that_was_compared_with_no_witness_is_told_of_as_a_warning(told: Callable[[], Problem], fact: str) -> None:
    warning = told()
    assert (warning.subject, warning.blocking, warning.fact) == (CHAIN, False, fact)
    assert warning.consequence.startswith("Another whole chain would pass for it")
    assert warning.remedy[0].isupper()


def test_an_object_as_large_as_may_be_is_read(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(LARGEST)
    assert len(FolderStore(tmp_path).get("large") or b"") == LARGEST
