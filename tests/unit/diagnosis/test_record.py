"""A diagnosis as data: its schema is published, valid, described, and refuses what is none."""

import json
from pathlib import Path

import jsonschema
import pytest
from typer.testing import CliRunner

from headway.cli.main import app
from headway.contract.part import Part, description
from headway.diagnosis import record
from headway.diagnosis.reasoning import diagnoses
from tests.unit.diagnosis.played import played

PUBLISHED = Path(__file__).parents[3] / "docs/reference/diagnosis.schema.json"
PARTS = [each for each in vars(record).values() if isinstance(each, type) and issubclass(each, Part) and each is not Part]


def test_the_published_schema_of_a_diagnosis_is_current() -> None:
    remedy = "run: headway schema diagnosis > docs/reference/diagnosis.schema.json"
    assert PUBLISHED.read_text(encoding="utf-8") == CliRunner().invoke(app, ["schema", "diagnosis"]).output, remedy


def test_the_schema_of_a_diagnosis_is_valid() -> None:
    jsonschema.Draft202012Validator.check_schema(record.schema())


@pytest.mark.parametrize("part", PARTS)
def test_every_field_of_a_diagnosis_is_described(part: type[Part]) -> None:
    assert [name for name in part.model_fields if not description(part, name).endswith(".")] == []


@pytest.mark.parametrize("change", [{"verdict": "perhaps"}, {"chain": None}, {"more": 1}])
def test_the_schema_refuses_what_is_no_diagnosis(change: dict[str, object]) -> None:
    found = record.document(diagnoses(played({"compute": 0.060})), "prod")
    found["diagnoses"][0].update(change)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(found, record.schema(), jsonschema.Draft202012Validator)


def test_every_field_of_a_diagnosis_is_always_there() -> None:
    (found,) = record.document(diagnoses(played()), "prod")["diagnoses"]
    assert json.loads(json.dumps(found)).keys() == record.DiagnosisRecord.model_fields.keys()
