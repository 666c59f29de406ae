"""The counts that the guide's sizes are made of, taken from real servers after real requests."""

import re
import urllib.request
from collections import Counter

from components.model_service import triton
from components.observability import sizing
from headway.contract.runtime import Engine
from headway.wire import WORKED_BYTES, WORKED_REQUESTS
from tests.cluster.conftest import eventually
from tests.traffic.serving import CLASSIFIER, PATIENCE, Serving, is_ready


def samples(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def test_a_real_triton_shows_as_many_series_as_the_sizing_says(serving: Serving) -> None:
    pod = eventually(lambda: next((each for each in serving.pods(CLASSIFIER) if is_ready(each)), None), within=PATIENCE)
    address = pod["metadata"]["annotations"]["sandbox.platform.io/address"]
    with urllib.request.urlopen(f"http://{address}:{triton.METRICS_PORT}/metrics", timeout=10) as answer:
        found = samples(answer.read().decode())
    assert len(found) == sizing.SERVER_SERIES[Engine.TRITON], Counter(line.partition("{")[0] for line in found)


def test_each_kind_of_answer_adds_as_many_series_as_the_sizing_says(serving: Serving) -> None:
    """By reporter, release and code: what the gateway's proxy says of it, and what the replica's own does."""
    assert serving.ask(serving.request(CLASSIFIER)).status == 200

    def counted() -> Counter[tuple[str, ...]]:
        lines = [line for line in samples(serving.metrics()) if line.startswith("istio_request")]
        return Counter(
            tuple(part for part in line.partition("{")[2].rpartition("}")[0].split(",") if not part.startswith("le=")) for line in lines
        )

    def reporters(found: Counter[tuple[str, ...]]) -> set[str]:
        return {each.partition("=")[2].strip('"') for kind in found for each in kind if each.startswith("reporter=")}

    # A replica's series are there before its first request, and callers' are not.
    eventually(lambda: reporters(counted()) >= {"destination", "source"}, within=PATIENCE)
    found = counted()
    assert set(found.values()) == {sizing.answer_series()}


def test_bytes_of_requests_are_counted_once_a_model_whatever_its_answers(serving: Serving) -> None:
    asked = serving.request(CLASSIFIER)
    of = {"tenant": CLASSIFIER.tenant, "model": CLASSIFIER.model}

    def total(what: str) -> float:
        return serving.total(f"envoy_headway_{what}", **of)

    before = total(WORKED_REQUESTS), total(WORKED_BYTES)
    assert serving.ask(asked).status == 200
    eventually(lambda: total(WORKED_REQUESTS) > before[0], within=PATIENCE)
    assert total(WORKED_BYTES) - before[1] == (total(WORKED_REQUESTS) - before[0]) * len(asked.body)
    mine = [line for line in samples(serving.metrics()) if re.match(r"envoy_headway_(worked|repeated)_", line) and CLASSIFIER.model in line]
    assert 0 < len(mine) <= sizing.COUNTED_SERIES
