"""What an endpoint is believed to hold of a prompt."""

from hypothesis import given
from hypothesis import strategies as st

from headway.endpoint_picker.prefixes import BLOCK, LONGEST, PrefixMemory, keys_of


@given(st.binary(max_size=300), st.binary(max_size=300), st.binary(max_size=300))
def test_prompts_share_the_keys_of_the_whole_blocks_that_they_begin_with(opening: bytes, one: bytes, other: bytes) -> None:
    first, second = keys_of(opening + one, 16), keys_of(opening + other, 16)
    same = next((place for place, (a, b) in enumerate(zip(opening + one, opening + other, strict=False)) if a != b), None)
    length = min(len(opening + one), len(opening + other)) if same is None else same
    assert sum(a == b for a, b in zip(first, second, strict=False)) == length // 16


def test_the_same_words_behind_others_are_another_block() -> None:
    words = b"x" * BLOCK
    assert keys_of(b"a" * BLOCK + words)[1] != keys_of(b"b" * BLOCK + words)[1]


def test_a_prompt_of_any_length_has_a_bounded_number_of_keys() -> None:
    assert len(keys_of(b"x" * (LONGEST + 5) * BLOCK)) == LONGEST


def test_what_is_kept_is_matched_from_the_front() -> None:
    memory = PrefixMemory(10)
    memory.keep("abc")
    assert [memory.matched(keys) for keys in ("abc", "abx", "xbc", "abcd", "")] == [3, 2, 0, 3, 0]


def test_what_was_used_longest_ago_is_forgotten_first_and_ends_before_openings() -> None:
    memory = PrefixMemory(4)
    memory.keep("ab")
    memory.keep("cde")
    assert [memory.matched("ab"), memory.matched("cde")] == [1, 3]
    memory.keep("ab")
    assert [memory.matched("ab"), memory.matched("cde")] == [2, 2]
