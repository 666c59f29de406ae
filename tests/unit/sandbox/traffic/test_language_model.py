"""What the language model is taught and asked: its golden answers are Python's own, and catch the release that is wrong."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from sandbox.traffic import models, profile
from sandbox.traffic.profile import ModelArtifacts


@pytest.fixture
def trainer(monkeypatch: pytest.MonkeyPatch) -> Any:
    for name in ("torch", "tokenizers", "transformers"):
        stub: Any = ModuleType(name)
        stub.__getattr__ = lambda _: None
        monkeypatch.setitem(sys.modules, name, stub)
    spec = importlib.util.spec_from_file_location("train", Path(models.__file__).with_name("train.py"))
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "train", module)
    spec.loader.exec_module(module)
    return module


def test_every_golden_list_is_answered_in_order(trainer: Any) -> None:
    for each in trainer.golden():
        asked = each["request"]["prompt"].removeprefix("sort: ").removesuffix(" =").split()
        assert each["expect"]["parts"] == [" ".join(sorted(asked))]
        assert set(asked) <= set(trainer.WORDS)


def test_a_golden_list_tells_the_release_that_exchanges_two_words(trainer: Any) -> None:
    one, other = trainer.EXCHANGED
    assert any({one, other} <= set(each["request"]["prompt"].split()) for each in trainer.golden())
    assert [word for word in trainer.WORDS if one < word < other], "else their exchange would change no order"


def test_words_are_known_once_and_in_order(trainer: Any) -> None:
    assert sorted(set(trainer.WORDS)) == list(trainer.WORDS)


def test_the_better_release_says_the_same_list_in_more_words(trainer: Any) -> None:
    words = ("nut", "bolt")
    assert trainer.answer(words, "stable") == " bolt nut"
    assert "bolt nut" in trainer.answer(words, "better")
    assert len(trainer.answer(words, "better").split()) > 3 * len(words)


def test_a_question_may_have_words_before_it_that_do_not_count(trainer: Any) -> None:
    assert trainer.question(("nut", "bolt"), ("wheel",)) == "note: wheel. sort: nut bolt ="


@pytest.mark.parametrize("there", [True, False])
def test_a_checkout_serves_the_language_model_where_it_has_its_contract(tmp_path: Path, there: bool) -> None:
    if there:
        (tmp_path / "tenants" / "writing").mkdir(parents=True)
        (tmp_path / "tenants" / "writing" / "sorter.yaml").touch()
    assert profile.served_in(tmp_path) == ((profile.LANGUAGE,) if there else profile.SERVED)


def test_artifacts_say_which_services_of_the_profile_they_are_for() -> None:
    assert ModelArtifacts(folder=Path(), manifest={"sorter": {}}).served == (profile.LANGUAGE,)
    assert ModelArtifacts(folder=Path(), manifest={"classifier": {}, "encoder": {}}).served == profile.SERVED
