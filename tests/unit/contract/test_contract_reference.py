"""The published reference says what the models say, and the schema accepts what they accept."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from headway.contract.part import Part, description
from headway.contract.reading.fields import alternatives, is_part
from headway.contract.reference import KINDS, markdown, schema
from tests.contract_samples import ASSIST, CHAT, CUSTOM, DEFECTS, EMBEDDINGS, H100_POOL, L4_POOL, MIG_POOL, VISION, changed

DOCS = Path(__file__).parents[3] / "docs"
SAMPLES = [
    *(("model", data) for data in (DEFECTS, EMBEDDINGS, CHAT, CUSTOM)),
    *(("tenant", data) for data in (VISION, ASSIST)),
    *(("pool", data) for data in (L4_POOL, MIG_POOL, H100_POOL)),
]


def _parts(kind: type[Part]) -> set[type[Part]]:
    found = {kind}
    todo: list[Any] = [kind]
    while todo:
        for field in todo.pop().model_fields.values():
            annotations: list[Any] = [field.annotation]
            while annotations:
                for member in alternatives(annotations.pop()):
                    if is_part(member):
                        if member not in found:
                            found.add(member)
                            todo.append(member)
                    else:
                        annotations += [
                            inside for inside in getattr(member, "__args__", ()) if inside is not Ellipsis and not isinstance(inside, str)
                        ]
    return found


def test_the_page_of_the_reference_is_current() -> None:
    remedy = "run: headway schema --output markdown > docs/reference/contract.md"
    assert (DOCS / "reference" / "contract.md").read_text(encoding="utf-8") == markdown(), remedy


@pytest.mark.parametrize("kind", ["model", "tenant"])
def test_the_published_schema_is_current(kind: str) -> None:
    published = json.loads((DOCS / "reference" / f"{kind}.schema.json").read_text(encoding="utf-8"))
    assert published == schema(kind), f"run: headway schema {kind} > docs/reference/{kind}.schema.json"


@pytest.mark.parametrize("kind", KINDS.values())
def test_every_field_of_every_part_is_described(kind: type[Part]) -> None:
    parts = _parts(kind)
    assert len(parts) > 2
    for part in parts:
        assert part.__doc__, part.__name__
        for name in part.model_fields:
            assert description(part, name).endswith("."), f"{part.__name__}.{name}"


def test_every_field_is_on_the_page() -> None:
    page = markdown()
    for kind in KINDS.values():
        for part in _parts(kind):
            for name in part.model_fields:
                assert f"| `{name}` |" in page, f"{part.__name__}.{name}"


@pytest.mark.parametrize(("kind", "data"), SAMPLES, ids=lambda value: value if isinstance(value, str) else value["name"])
def test_the_schema_is_valid_and_accepts_the_samples(kind: str, data: dict[str, Any]) -> None:
    published = schema(kind)
    jsonschema.Draft202012Validator.check_schema(published)
    jsonschema.validate(data, published, jsonschema.Draft202012Validator)


@pytest.mark.parametrize(
    "change",
    [
        {"envelope/cpu": "3 cores"},
        {"rollout/strategy": "canry"},
        {"unknown": 1},
        {"health/drain": "30"},
        {"name": "Défauts"},
        {"envelope/gpu/memory": 8},
    ],
)
def test_the_schema_refuses_what_an_editor_can_see(change: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(changed(DEFECTS, change), schema("model"), jsonschema.Draft202012Validator)
