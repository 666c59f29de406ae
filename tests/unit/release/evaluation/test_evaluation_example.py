"""The example of the page about a serving version is a valid part of a contract."""

import re
from pathlib import Path

import yaml

from headway.contract.drift import Drift, NumberOf

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "evaluation.md"


def test_the_page_shows_a_drift_of_a_contract_and_every_way_to_take_a_number():
    example = re.search(r"```yaml\n(drift:\n.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert example
    assert len(Drift.model_validate(yaml.safe_load(example[1])["drift"]).numbers) == 3
    assert all(take.value in example[1] for take in NumberOf)
