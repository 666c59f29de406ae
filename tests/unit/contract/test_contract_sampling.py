"""Samples of requests, as anybody in a tenant's network may have written them."""

import pytest

from headway.contract.sampling import flat_numbers, samples

GOOD = '{"request_id":"a","workload":"w","time":"t","mirrored":false,"status":200}'


@pytest.mark.parametrize(
    "odd",
    [
        "[" * 100_000,
        GOOD.replace("200", "1e999"),
        GOOD.replace("200", "null"),
        GOOD.replace('"a"', '"\\ud800"'),
        "[]",
        "5",
        '{"request_id":',
    ],
    ids=lambda odd: odd[:60],
)
def test_an_odd_line_is_left_out_and_hides_no_other(odd: str) -> None:
    assert [each.status for each in samples([odd, GOOD])] == [200]


@pytest.mark.parametrize(("value", "numbers"), [([1, [2.5]], [1.0, 2.5]), ([1, True], None), ([1, "2"], None), ([1, 10**400], None)])
def test_numbers_of_a_list_are_all_numbers_that_can_be_compared_or_none(value: object, numbers: list[float] | None) -> None:
    assert flat_numbers(value) == numbers
