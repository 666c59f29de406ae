"""`stack change-secrets-provider`: every secret of a stack moves to a new passphrase, or nothing does."""

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pulumi import automation as auto
from pulumi.automation.errors import CommandError

from engine.doubles import Thing, World
from engine.place import Place
from pulumi_embedded.engine.cli import main
from pulumi_embedded.engine.command import EmbeddedPulumi

SECRET, NEW = "marker-7Qx2", "battery staple"


def program() -> None:
    import pulumi

    Thing("kept", value=pulumi.Config().require_secret("token"))
    pulumi.export("token", pulumi.Config().require_secret("token"))


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A stack with a secret in its file, in a list of its file, in its state and in its history."""
    found = Place(tmp_path)
    found.command = EmbeddedPulumi(World().factories())
    found.run("stack", "init", "dev")
    found.run("config", "set", "--secret", "token", SECRET)
    found.run("config", "set", "--path", "--secret", "list[0].inner", SECRET)
    auto.create_or_select_stack(
        "dev", project_name="proj", program=program, opts=auto.LocalWorkspaceOptions(
            pulumi_command=found.command, work_dir=str(found.project), env_vars=found.environment
        )
    ).up()  # fmt: skip
    yield found


def change(place: Place, typed: str, *words: str) -> "subprocess.CompletedProcess[str]":
    """The command as an executable, with `typed` on its standard input."""
    line = [sys.executable, "-m", "engine.executable", "stack", "change-secrets-provider", *(words or ("passphrase",)), "-s", "dev"]
    environment = {**place.environment, "PYTHONPATH": str(Path(__file__).parents[1])}
    return subprocess.run(line, cwd=place.project, env=environment, input=typed, capture_output=True, text=True, timeout=60, check=False)


def opened(place: Place, passphrase: str) -> list[str]:
    """The secret as each place that keeps it tells it."""
    environment = {"PULUMI_CONFIG_PASSPHRASE": passphrase}
    history = json.loads(place.run("stack", "history", "--show-secrets", **environment))
    return [
        place.run("config", "get", "token", **environment),
        place.run("config", "get", "--path", "list[0].inner", **environment),
        place.run("stack", "output", "token", "--show-secrets", **environment),
        history[0]["config"]["proj:token"]["value"],
    ]


def test_every_secret_opens_with_the_new_passphrase_and_none_with_the_old(place: Place) -> None:
    assert opened(place, "pw") == [SECRET] * 4
    done = change(place, NEW + "\n")
    assert done.returncode == 0, done.stderr
    assert opened(place, NEW) == [SECRET] * 4
    for words in (("config", "get", "token"), ("stack", "output", "--show-secrets"), ("preview",)):
        assert "incorrect passphrase" in place.fails(*words)
    assert SECRET not in "".join(place.files().values()) and NEW not in "".join(place.files().values())


def test_the_configuration_of_the_last_update_can_still_be_taken_back(place: Place) -> None:
    assert change(place, NEW + "\n").returncode == 0
    place.run("config", "refresh", "--force", PULUMI_CONFIG_PASSPHRASE=NEW)
    assert place.run("config", "get", "token", PULUMI_CONFIG_PASSPHRASE=NEW) == SECRET


def test_a_stack_file_without_a_secret_stays_as_it_was_committed(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.config_file.write_text("# reviewed\nconfig:\n  proj:size: 3\n")
    place.run("stack", "init", "dev")
    assert change(place, NEW + "\n").returncode == 0
    assert place.config_file.read_text() == "# reviewed\nconfig:\n  proj:size: 3\n"
    assert "incorrect passphrase" in place.fails("preview")


@pytest.mark.parametrize("typed", ["", "\n"])
def test_no_new_passphrase_is_not_taken_for_an_empty_one(place: Place, typed: str) -> None:
    before = place.files()
    done = change(place, typed)
    assert done.returncode == 255 and "no new passphrase was given" in done.stderr
    assert place.files() == before


def test_a_provider_of_a_cloud_is_refused_and_nothing_changes(place: Place) -> None:
    before = place.files()
    done = change(place, NEW + "\n", "awskms://alias/headway-state")
    assert done.returncode == 255 and "awskms://alias/headway-state' is not supported" in done.stderr
    assert place.files() == before


def test_a_wrong_old_passphrase_changes_nothing(place: Place) -> None:
    before = place.files()
    place.environment["PULUMI_CONFIG_PASSPHRASE"] = "guessed"
    assert "incorrect passphrase" in change(place, NEW + "\n").stderr
    assert place.files() == before


def test_a_person_types_the_new_passphrase_twice(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    answers = iter([NEW, NEW + "x"])
    monkeypatch.setattr("getpass.getpass", lambda question: next(answers))
    monkeypatch.setattr(sys, "stdout", Screen())
    monkeypatch.setattr(sys, "stdin", Screen())
    errors = Screen()
    monkeypatch.setattr(sys, "stderr", errors)
    for name, value in place.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.chdir(place.project)
    assert main(dict, ["stack", "change-secrets-provider", "passphrase", "-s", "dev"]) == 255
    assert "passphrases do not match" in errors.getvalue()
    with pytest.raises(CommandError, match="incorrect passphrase"):
        place.run("config", "get", "token", PULUMI_CONFIG_PASSPHRASE=NEW)
