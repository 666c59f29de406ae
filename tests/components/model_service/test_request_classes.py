"""The class of a request, by which releases compare like with like: written by the replica's own proxy, whatever the
client says.
"""

from typing import Any

from components.model_service import routing
from headway.contract.model import Model
from headway.wire import CLASS_HEADER
from tests.components.contracts import DEFECTS, changed

SIZED = changed(
    DEFECTS, rollout__classes=[{"name": "small", "body_up_to": "1Ki"}, {"name": "middle", "body_up_to": "64Ki"}, {"name": "large"}]
)


def filters(model: Model) -> list[dict[str, Any]]:
    patches = routing.guard("vision", model)["spec"]["configPatches"]
    values = [patch["patch"]["value"] for patch in patches if patch["applyTo"] == "HTTP_FILTER"]
    return [value for value in values if value["name"] != "headway.sample"]  # what is kept of requests has nothing to do with their class


def test_a_model_without_classes_has_no_classifier() -> None:
    assert [each["name"] for each in filters(changed(DEFECTS, rollout__classes=[]))] == [
        "envoy.filters.http.decompressor",
        "envoy.filters.http.buffer",
    ]


def test_the_class_is_written_after_the_whole_body_is_known() -> None:
    assert [each["name"] for each in filters(SIZED)] == [
        "envoy.filters.http.decompressor",
        "envoy.filters.http.buffer",
        "envoy.filters.http.lua",
    ]


def test_each_size_has_its_class_and_the_last_takes_the_rest() -> None:
    code = filters(SIZED)[-1]["typed_config"]["default_source_code"]["inline_string"]
    assert 'size <= 1024 and "small" or size <= 65536 and "middle" or "large"' in code


def test_what_was_there_is_replaced_under_the_name_that_evidence_reads() -> None:
    code = filters(SIZED)[-1]["typed_config"]["default_source_code"]["inline_string"]
    assert f'handle:headers():replace("{CLASS_HEADER}", ' in code
