"""Faults on real traffic, as they were recorded (`make record-incidents`): what a diagnosis says of each, without the bed."""

from pathlib import Path

import pytest

from benchmarks.diagnosis.recording import LOOKS, RECORDED, read, write
from headway.diagnosis.reasoning import diagnoses
from sandbox.rehearsal.catalogue import FAULTS

RECORDS = sorted(RECORDED.glob("*.json.gz"))


@pytest.mark.parametrize("file", RECORDS, ids=lambda file: file.name.split(".")[0])
def test_a_recorded_faults_cause_is_named_from_a_minute_on(file: Path) -> None:
    record = read(file)
    said = [{each.cause for each in diagnoses(look)} for look in record.looks]
    assert len(said) == len(LOOKS)
    assert all(FAULTS[record.fault].cause in each for each in said), said


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    record = read(RECORDS[0])
    write(record, tmp_path / "again.json.gz")
    assert read(tmp_path / "again.json.gz") == record
