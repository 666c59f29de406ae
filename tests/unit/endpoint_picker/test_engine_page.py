"""What the picker reads of an engine's metrics page."""

import pytest

from headway.endpoint_picker.engine_page import LARGEST_PAGE, MOST, EnginePage, read

SIZE = 'vllm:cache_config_info{block_size="16",cache_dtype="auto",odd="{}",num_gpu_blocks="6250"} 1.0\n'
LOAD = """# HELP vllm:num_requests_running Number of requests in model execution batches.
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_waiting{engine="0",model_name="m"} 2.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="capacity"} 2.0
"""
PACE = """vllm:request_prefill_time_seconds_bucket{engine="0",le="0.3",model_name="m"} 7.0
vllm:request_prefill_time_seconds_sum{engine="0",model_name="m"} 0.25
vllm:request_prefill_time_seconds_count{engine="0",model_name="m"} 7.0
vllm:request_prefill_kv_computed_tokens_sum{engine="0",model_name="m"} 1.5e+03
"""


def test_an_engine_says_its_size_and_its_load() -> None:
    assert read((SIZE + LOAD).encode()) == EnginePage(capacity=100_000, in_progress=5)


def test_ranks_of_an_engine_add_up() -> None:
    assert read((SIZE * 2 + LOAD * 2 + PACE * 2).encode()) == EnginePage(200_000, 10, computed=3000.0, took=0.5)


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("", EnginePage()),
        ("<html>", EnginePage()),
        (SIZE.replace("6250", "None"), EnginePage()),
        (SIZE.replace("6250", "9" * 15), EnginePage(capacity=MOST)),
        (LOAD.replace("3.0", "NaN"), EnginePage(in_progress=2)),
        (LOAD.replace("3.0", "-3"), EnginePage(in_progress=2)),
        (LOAD.replace("3.0", "9e999"), EnginePage(in_progress=MOST)),
        (LOAD.replace("3.0", "1.1.1"), EnginePage(in_progress=2)),
        ("#" * LARGEST_PAGE + "\n" + SIZE, EnginePage()),
    ],
)
def test_what_cannot_be_read_of_an_engine_is_not_known(page: str, said: EnginePage) -> None:
    assert read(page.encode()) == said
