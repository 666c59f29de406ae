"""What `headway artifact push --write` does to a contract's text."""

import pytest
import yaml

from headway.contract.reading.artifact_section import with_artifact
from headway.problem import UserError

FILES = ["files:", "  - {path: a/1/model.onnx, sha256: 00, size: 3B}"]
CONTRACT = """\
# Ours.
name: chat  # as the team calls it
artifact:
  uri: artifacts://vision/chat/1/
  version: "1"
  # an older remark
  registry:
    system: sagemaker
    model: chat-model
    version: "1"
  files:
    - {path: old.onnx, sha256: 11, size: 1B}

# What proves that it works.
health: {drain: 5s}
"""


def written(text: str = CONTRACT) -> str:
    return with_artifact(text, "artifacts://vision/chat/2/", "2", FILES)


def test_the_section_names_what_was_uploaded_and_the_registrys_own_entry() -> None:
    assert yaml.safe_load(written())["artifact"] == {
        "uri": "artifacts://vision/chat/2/",
        "version": "2",
        "registry": {"system": "sagemaker", "model": "chat-model", "version": "2"},
        "files": [{"path": "a/1/model.onnx", "sha256": 0, "size": "3B"}],
    }


def test_every_other_line_of_the_contract_stays() -> None:
    before, after = CONTRACT.split("artifact:")[0], "\n\n# What proves that it works.\nhealth: {drain: 5s}\n"
    assert written().startswith(before)
    assert written().endswith(after)


def test_a_section_at_the_end_of_the_contract_is_replaced_whole() -> None:
    assert "old.onnx" not in written(CONTRACT.partition("\n# What")[0])


@pytest.mark.parametrize("text", ["name: chat\n", "artifact: 1\n", "artifact: {uri: a}\n", "a: [\n"])
def test_a_contract_without_a_section_to_write_into_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="no artifact section"):
        written(text)
