"""The sums of a contract stand beside what vLLM says of the same shape."""

import pytest

from benchmarks.llm_memory import LONGEST, SHAPES, Row, Shape, row


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_each_shape_is_a_contract_whose_cache_bounds_its_requests(shape: Shape) -> None:
    said = {"block": 128, "steps_in_flight": 1, "blocks": shape.blocks, "block_bytes": 1, "safetensors": 1, "weights": 1, "a_request": 1}
    whole = row(shape, {**said, "block_bytes": 2**30, "tokens_each": LONGEST})
    assert whole.tokens_each[0] == LONGEST, "a large cache has room for all"
    assert row(shape, {**said, "tokens_each": LONGEST}).tokens_each[0] == 0, "and none has room in bytes"


def test_an_error_says_how_far_a_sum_is_above_what_was_said() -> None:
    assert Row("a", (110, 100), (90, 100), (256, 256)).errors == pytest.approx((0.1, -0.1, 0.0, 0.0))
