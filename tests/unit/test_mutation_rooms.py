"""The rooms of `make mutants`: their files and tests exist, and what it tells apart."""

from pathlib import Path

import pytest

from tests.mutation.rooms import ROOMS, Room, changes_words_only, drawn

CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("room", ROOMS.values(), ids=ROOMS)
def test_each_room_of_mutants_names_files_and_tests_that_exist(room: Room) -> None:
    assert all(list(CHECKOUT.glob(pattern)) for pattern in room.files)
    assert all((CHECKOUT / each).exists() for each in room.tests)


def test_the_same_seed_draws_the_same_mutants_in_any_order() -> None:
    names = [f"mutant {number}" for number in range(50)]
    assert drawn(names, 5, seed=3) == drawn(reversed(names), 5, seed=3) != drawn(names, 5, seed=4)


def test_a_room_with_few_mutants_gets_them_all() -> None:
    assert drawn(["b", "a"], 200, seed=1) == ["a", "b"]


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ('say("it is ready")', 'say("XXit is readyXX")', True),
        ('say("it is ready")', 'say("IT IS READY")', True),
        ('say("it is ready")', 'say("it is ready", 1)', False),
        ('say("it is ready")', "say(None)", False),
        ('say(r["ports"], "is open")', 'say(r["PORTS"], "is open")', False),
        ('say(r["ports"], "is open")', 'say(r["XXportsXX"], "is open")', False),
    ],
    ids=["marked", "in capitals", "another argument", "nothing", "a key in capitals", "a key marked"],
)
def test_a_mutant_of_words_is_told_from_a_mutant_of_a_decision(before: str, after: str, words: bool) -> None:
    difference = f"# a mutant: survived\n--- a.py\n+++ a.py\n@@ -1,2 +1,2 @@\n def tell():\n-    {before}\n+    {after}\n"
    assert changes_words_only(difference) is words
