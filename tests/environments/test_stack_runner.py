"""The runner of stacks on the embedded engine: what it refuses to make."""

from pathlib import Path

import pytest
from pulumi.automation.errors import StackNotFoundError

from tests.environments.environments import Environment


@pytest.fixture
def dev(tmp_path: Path) -> Environment:
    return Environment(tmp_path, "dev-cluster")


def test_a_stack_named_by_a_typing_mistake_is_refused_and_not_made(dev: Environment) -> None:
    done = dev.runner.preview("dev-clutser")
    assert not done.ok
    assert done.errors == (
        "There is no stack dev-clutser, so nothing was changed. Create it with `pulumi stack init dev-clutser`, or correct its name.",
    )
    assert [path.stem for path in dev.folder.glob("backend/.pulumi/stacks/*/*.json")] == ["dev-cluster"]


def test_outputs_of_a_stack_that_does_not_exist_are_no_empty_answer(dev: Environment) -> None:
    with pytest.raises(StackNotFoundError):
        dev.runner.outputs("dev-clutser")
