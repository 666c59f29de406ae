"""What the language model is taught and asked: its golden answers are Python's own, and catch the release that is wrong."""

from pathlib import Path
from typing import Any

import pytest

from headway.contract.model import Model
from sandbox.traffic import profile
from sandbox.traffic.node import cpu_vllm
from sandbox.traffic.profile import ModelArtifacts
from tests.unit.sandbox.traffic.test_language_node import ARTIFACTS


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


def test_releases_that_differ_in_behaviour_alone_have_the_stable_weights(trainer: Any) -> None:
    behaving = {name for name, (_, differs) in trainer.RELEASES.items() if differs}
    assert {trainer.RELEASES[name][0] for name in behaving} == {"stable"}
    assert behaving == {"slow-prefill", "slow-decode", "leak", "dead"}


def test_the_better_release_can_be_told_from_a_stable_one_that_errs(trainer: Any) -> None:
    assert trainer.AT_LEAST["stable"] + trainer.BETTER_BY < trainer.AT_LEAST["better"] < 1


def test_the_wide_release_needs_more_cache_than_the_contract_leaves_it(trainer: Any) -> None:
    envelope = Model.model_validate(profile.contract(profile.LANGUAGE, ARTIFACTS)).envelope
    shape = {**trainer.SHAPE, **trainer.WIDE}
    heads = 2 * shape["num_key_value_heads"] * shape["head_dim"]
    bytes_of_request = 2 * shape["num_hidden_layers"] * heads * (envelope.largest_request.context_tokens or 0)
    projections = 2 * shape["num_hidden_layers"] * shape["hidden_size"] * (heads + 2 * shape["num_attention_heads"] * shape["head_dim"])
    cache = cpu_vllm.cache_bytes(int(envelope.gpu.memory or 0), projections)
    assert bytes_of_request > cache > bytes_of_request / 8


def test_a_workspace_forgets_the_contracts_of_another_demonstration(tmp_path: Path) -> None:
    other = tmp_path / "quality" / "classifier.yaml"
    other.parent.mkdir()
    other.touch()
    profile.write_contracts(tmp_path, ARTIFACTS)
    assert not other.exists(), "else the demonstration would serve what its artifacts do not have"
    assert (tmp_path / "writing" / "sorter.yaml").exists()


def test_a_sorter_with_longer_answers_is_tolerated_no_more_than_any_other() -> None:
    files = next(iter(ARTIFACTS.manifest["sorter"]["releases"].values()))
    artifacts = ModelArtifacts(
        folder=Path("/none"), manifest={"sorter": {**ARTIFACTS.manifest["sorter"], "releases": dict.fromkeys(("better", "stable"), files)}}
    )
    better, stable = (
        Model.model_validate(profile.contract(profile.LANGUAGE, artifacts, each)).rollout.tolerances for each in ("better", "stable")
    )
    assert better == stable


@pytest.mark.parametrize(("release", "wider"), [("stable", False), ("better", True)])
def test_a_slower_better_classifier_says_in_its_own_contract_how_much(release: str, *, wider: bool) -> None:
    files = {"files": [{"path": "model.onnx", "sha256": "1" * 64, "size": 10}]}
    golden = {"name": "g", "request": {"inputs": [{"data": [0.5] * 16}]}, "answer": "/a", "expect": {"compare": "top", "index": 0}}
    artifacts = ModelArtifacts(folder=Path("/none"), manifest={"classifier": {"golden": [golden], "releases": {release: files}}})
    tolerances = profile.contract(profile.SERVED[0], artifacts, release)["rollout"]["tolerances"]
    assert (tolerances.get("latency") == "50%") is wider
