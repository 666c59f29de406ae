"""The catalogue as data: every path in it exists, every output is answered, and a preview has the shape of what follows it."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pulumi_embedded.engine.provider import UNKNOWN, Properties
from pulumi_embedded.providers.aws import listing
from pulumi_embedded.providers.aws.catalogue import CATALOGUE
from pulumi_embedded.providers.aws.functions import FUNCTIONS
from pulumi_embedded.providers.aws.kind import ACCOUNT_ID, AwsKind, Facts
from pulumi_embedded.providers.aws.naming import identified
from pulumi_embedded.providers.schema import Fields, Shape

PAGE = Path(__file__).parents[2] / "docs" / "providers.md"
KINDS = [pytest.param(kind, id=kind.title) for kind in CATALOGUE.values()]


def shape_at(fields: Fields, path: str) -> bool:
    """Whether the SDK declares this path."""
    shape: Shape | None = None
    for part in path.replace("[]", "").split("."):
        while shape is not None and shape.form == "list":
            shape = shape.element
        below = shape.fields if shape else fields
        members = below.members if below else {}
        if part not in members:
            return False
        shape = members[part]
    return True


def example(fields: Fields) -> Properties:
    """The least that the SDK asks for."""
    return {key: _value(fields.members[key]) for key in fields.required}


def _value(shape: Shape) -> Any:
    match shape.form:
        case "string":
            return "https://x"
        case "integer" | "number":
            return 1
        case "boolean":
            return True
        case "list":
            return [_value(shape.element)] if shape.element else []
        case "object":
            return example(shape.fields) if shape.fields else {}
        case _:
            return {}


def facts_of(kind: AwsKind) -> tuple[Facts, Facts]:
    """The same object in a preview and made."""
    inputs = example(kind.schema.inputs)
    if kind.named:
        inputs[kind.named.field] = "given"
    preview = Facts(inputs=inputs, urn="urn:x", region="us-west-2")
    return preview, identified(kind, replace(preview, created=datetime(2026, 11, 21, tzinfo=UTC), extra={"version": 1}))


@pytest.mark.parametrize("kind", KINDS)
def test_every_path_of_the_catalogue_is_one_of_the_sdk(kind: AwsKind) -> None:
    inputs = [*kind.replaces, *kind.ordered, *kind.concealed, *(path for path in kind.references if not path.startswith("="))]
    assert [path for path in inputs if not shape_at(kind.schema.inputs, path)] == []
    outputs = [*kind.outputs, *kind.volatile, *kind.absent]
    outputs += [path for paths in kind.handles.values() for path in paths if path != "id" and not path.startswith("=")]
    assert [path for path in outputs if not shape_at(kind.schema.outputs, path)] == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_input_that_says_where_its_api_twin_is_exists(kind: AwsKind) -> None:
    assert [path for path in kind.api if not shape_at(kind.schema.inputs, path)] == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_computed_output_is_answered_or_named_as_absent(kind: AwsKind) -> None:
    made = kind.compute(facts_of(kind)[1])
    computed = set(kind.schema.outputs.members) - set(kind.schema.inputs.members)
    assert computed - set(made) == set(kind.absent)


@pytest.mark.parametrize("kind", KINDS)
def test_a_preview_has_the_shape_of_what_is_made(kind: AwsKind) -> None:
    preview, made = (kind.compute(facts) for facts in facts_of(kind))
    assert different("", preview, made) == []


def different(path: str, preview: Any, made: Any) -> list[str]:
    """Where a preview says something else than what follows; unknown may become anything."""
    if preview == UNKNOWN:
        return []
    if isinstance(preview, dict) and isinstance(made, dict):
        keys = sorted({*preview, *made})
        return [found for key in keys for found in different(f"{path}.{key}", preview.get(key, "missing"), made.get(key, "missing"))]
    if isinstance(preview, list) and isinstance(made, list) and len(preview) == len(made):
        return [found for index, pair in enumerate(zip(preview, made, strict=True)) for found in different(f"{path}[{index}]", *pair)]
    return [] if preview == made else [f"{path}: {preview!r} became {made!r}"]


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_that_aws_makes_up_is_known_in_a_preview(kind: AwsKind) -> None:
    preview, made = facts_of(kind)
    outputs = kind.compute(preview)
    assert outputs.get("arn", UNKNOWN) == UNKNOWN or "arn" in kind.schema.inputs.members
    # Account and region are known to the provider; some objects there is only one of go by them.
    assert made.id in (ACCOUNT_ID, "us-west-2") or made.id not in [value for key, value in outputs.items() if key not in preview.inputs]


@pytest.mark.parametrize("kind", KINDS)
def test_an_operation_that_bounds_a_kind_bounds_at_least_one_input(kind: AwsKind) -> None:
    if kind.operation:
        bounded = len(kind.limits.members) and any(_bounds(limits) for limits in kind.limits.members.values())
        assert bounded


def _bounds(limits: Any) -> bool:
    return limits.limit is not None or any(map(_bounds, limits.members.values())) or bool(limits.element and _bounds(limits.element))


def test_the_page_of_types_lists_the_types_that_are_modelled() -> None:
    remedy = "run: .venv/bin/python -m pulumi_embedded.providers.aws.listing"
    assert PAGE.with_name("types.md").read_text(encoding="utf-8") == listing.types(), remedy


def test_what_no_service_model_bounds_is_listed() -> None:
    assert PAGE.with_name("unchecked.md").read_text(encoding="utf-8") == listing.unchecked(), (
        "run: .venv/bin/python -m pulumi_embedded.providers.aws.listing"
    )


def test_the_readme_lists_the_functions_that_are_answered() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [token for token in FUNCTIONS if f"`{token.rsplit(':', 1)[1]}`" not in text] == []
