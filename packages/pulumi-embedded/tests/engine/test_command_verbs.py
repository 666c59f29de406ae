"""Verbs of configuration, and how command lines are read, driven as any client of the Automation API drives them."""

import json
import threading

import pytest
from pulumi import automation as auto
from pulumi.automation.errors import CommandError

from engine.place import Place

MARKER = "marker-7Qx2-in-the-clear"


# ---- configuration -------------------------------------------------------------------------------------------------------------------


def test_configuration_set_by_the_sdk_is_read_back_by_the_sdk(stack: auto.Stack) -> None:
    stack.set_config("plain", auto.ConfigValue("--looks like a flag"))
    stack.set_config("token", auto.ConfigValue(MARKER, secret=True))
    stack.set_config("deep.list[0]", auto.ConfigValue("3"), path=True)
    stack.set_all_config({"one": auto.ConfigValue("1=2"), "two": auto.ConfigValue("s3cret", secret=True)})
    read = {key: (value.value, value.secret) for key, value in stack.get_all_config().items()}
    assert read == {
        "proj:plain": ("--looks like a flag", False),
        "proj:token": (MARKER, True),
        "proj:deep": ('{"list":[3]}', False),
        "proj:one": ("1=2", False),
        "proj:two": ("s3cret", True),
    }
    assert stack.get_config("deep.list[0]", path=True).value == "3"
    stack.remove_config("plain")
    stack.remove_all_config(["one", "two"])
    assert sorted(stack.get_all_config()) == ["proj:deep", "proj:token"]


def test_a_first_secret_brings_the_salt_into_the_file_and_nothing_else_does(place: Place, stack: auto.Stack) -> None:
    place.run("config", "set", "a", "1")
    assert "encryptionsalt" not in place.config_file.read_text()
    place.run("config", "set", "--secret", "token", MARKER)
    text = place.config_file.read_text()
    assert place.json("stack", "export")["deployment"]["secrets_providers"]["state"]["salt"] in text
    assert MARKER not in text


def test_secrets_are_masked_in_the_list_unless_asked_for(place: Place, stack: auto.Stack) -> None:
    place.run("config", "set", "--secret", "token", MARKER)
    assert place.json("config", "--json") == {"proj:token": {"secret": True}}
    assert MARKER not in place.run("config")
    assert MARKER in place.run("config", "--show-secrets")


def test_configuration_can_be_carried_over_as_json(place: Place, stack: auto.Stack) -> None:
    place.run("config", "set", "--path", "deep.a[0]", "true")
    place.run("config", "set", "--secret", "token", MARKER)
    everything = place.run("config", "--json", "--show-secrets")
    place.run("stack", "init", "other")
    place.run("config", "set-all", "--json", everything, "--stack", "other")
    assert json.loads(place.run("config", "--json", "--show-secrets", "--stack", "other")) == json.loads(everything)


def test_a_missing_key_is_named_with_its_stack(place: Place, stack: auto.Stack) -> None:
    assert "configuration key 'nope' not found for stack 'dev'" in place.fails("config", "get", "nope")


def test_another_configuration_file_can_be_named(place: Place, stack: auto.Stack) -> None:
    place.run("config", "set", "a", "1", "--config-file", "other.yaml")
    assert not place.config_file.exists()
    assert place.run("config", "get", "a", "--config-file", "other.yaml") == "1"


# ---- command lines -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("up --bogus", "unknown flag: --bogus for `pulumi up`"),
        ("up -Z", "unknown shorthand flag: -Z"),
        ("bogus", 'unknown command "bogus"'),
        ("stack bogus", "takes 0 argument"),
        ("config get", r"takes 1 argument\(s\) \(KEY\), received 0"),
        ("up --parallel", "flag needs an argument: --parallel"),
        ("stack history --page-size x", 'invalid argument "x" for "--page-size"'),
        ("preview --debug=maybe", 'invalid argument "maybe" for "--debug"'),
        ("up --plan p", "--plan is not supported by the embedded engine: update plans are not modelled"),
        ("preview --import-file f", "--import-file is not supported"),
        ("up --attach-debugger", "--attach-debugger is not supported"),
        ("up --remote", "--remote is not supported .* Pulumi Cloud"),
        ("import --file x", "`pulumi import` is not supported .*`import_` resource option"),
        ("login", "`pulumi login` is not supported .*PULUMI_BACKEND_URL"),
        ("new", "`pulumi new` is not supported"),
        ("watch", "`pulumi watch` is not supported .*pulumi up"),
        ("logs", "`pulumi logs` is not supported"),
        ("policy publish x", "`pulumi policy` is not supported .*--policy-pack"),
        ("stack change-secrets-provider awskms://x", "secrets provider 'awskms://x' is not supported .*Nothing was changed"),
        ("plugin rm --all", "`pulumi plugin rm` is not supported"),
        ("stack tag get nothing", "stack tag 'nothing' not found for stack 'dev'"),
        ("stack tag rm nothing", "stack tag 'nothing' not found for stack 'dev'"),
        ("refresh --yes --run-program", "--run-program is not supported"),
        ("config env ls", "`pulumi config env` is not supported .*ESC"),
        ("stack init dev2 --secrets-provider awskms://x", "secrets provider 'awskms://x' is not supported"),
        ("up", "--yes or --skip-preview must be passed in to proceed when running in non-interactive mode"),
        ("destroy", "--yes or --skip-preview must be passed"),
        ("cancel", "non-interactive mode requires --yes flag"),
    ],
)
def test_what_is_not_understood_or_not_supported_is_refused_by_name(place: Place, stack: auto.Stack, line: str, message: str) -> None:
    with pytest.raises(CommandError, match=message):
        place.run(*line.split())


@pytest.mark.parametrize(
    "line",
    [
        "--non-interactive stack ls",
        "stack --non-interactive ls",
        "stack ls --non-interactive=true",
        "-C . stack ls",
        "stack ls --verbose 9 --logflow",
    ],
)
def test_global_flags_may_stand_anywhere(place: Place, stack: auto.Stack, line: str) -> None:
    assert "dev" in place.run(*line.split())


@pytest.mark.parametrize("line", ["stack ls -aj", "stack ls -a -j", "stack list --all --json"])
def test_short_flags_and_aliases_mean_the_long_ones(place: Place, stack: auto.Stack, line: str) -> None:
    assert json.loads(place.run(*line.split()))[0]["name"] == "organization/proj/dev"


def test_words_after_two_dashes_are_never_flags(place: Place, stack: auto.Stack) -> None:
    place.run("config", "set", "a", "--plaintext", "--", "--yes")
    assert place.run("config", "get", "a") == "--yes"


def test_every_verb_explains_itself(place: Place) -> None:
    for line in ("--help", "up --help", "stack --help", "stack rm -h", "config set-all --help"):
        assert "Usage:" in place.run(*line.split())


def test_who_and_where_are_told_as_the_sdk_reads_them(place: Place) -> None:
    who = place.workspace.who_am_i()
    assert who.user
    assert who.url == place.backend.as_uri()


def test_a_backend_that_is_not_a_folder_is_refused(place: Place) -> None:
    assert "backend 's3://x' is not supported" in place.fails("stack", "ls", PULUMI_BACKEND_URL="s3://x")


def test_a_folder_without_a_project_is_told(place: Place) -> None:
    assert "no Pulumi.yaml project file found" in place.fails("-C", str(place.backend.parent), "stack", "ls")


def test_verbs_on_different_stacks_do_not_disturb_each_other(place: Place) -> None:
    failures: list[BaseException] = []

    def work(name: str) -> None:
        try:
            place.run("stack", "init", "--no-select", name)
            for number in range(5):
                place.run("config", "set", f"k{number}", name, "--stack", name)
            assert set(place.json("config", "--json", "--stack", name)) == {f"proj:k{number}" for number in range(5)}
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(f"s{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert [entry["name"] for entry in place.json("stack", "ls", "--json")] == ["s0", "s1", "s2", "s3"]
