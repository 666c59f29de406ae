"""Samples of requests, as anybody in a tenant's network may have written them."""

import pytest

from headway.contract.sampling import samples

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
