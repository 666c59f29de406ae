"""The passphrase format: what we write others read, what others write we read, and a wrong passphrase is told."""

from pathlib import Path

import pytest
from pulumi_crypto import PassphraseCipher

from pulumi_embedded.engine.errors import EngineError
from pulumi_embedded.engine.secrets import Passphrase, phrase_of

OTHERS = PassphraseCipher("correct horse")
OURS = Passphrase.new("correct horse")


def test_an_independent_implementation_reads_what_we_encrypt() -> None:
    assert PassphraseCipher("correct horse", salt_state=OURS.salt).decrypt(OURS.encrypt("grüße ✓")) == "grüße ✓"


def test_we_read_what_an_independent_implementation_encrypts() -> None:
    assert Passphrase("correct horse", OTHERS.salt_state).decrypt(OTHERS.encrypt("grüße ✓")) == "grüße ✓"


def test_the_wrong_passphrase_is_called_incorrect_and_is_not_repeated() -> None:
    with pytest.raises(EngineError, match="incorrect passphrase") as caught:
        Passphrase("battery staple", OURS.salt).check()
    assert "battery staple" not in str(caught.value)


def test_the_right_passphrase_passes_the_check_of_a_salt_line() -> None:
    Passphrase("correct horse", OTHERS.salt_state).check()


def test_equal_values_do_not_look_equal_once_encrypted() -> None:
    assert OURS.encrypt("same") != OURS.encrypt("same")


@pytest.mark.parametrize("line", ["", "v1", "v2:AAAA:v1:AAAA:AAAA", "v1:not base64!:v1:AAAA:AAAA"])
def test_a_malformed_salt_line_is_named_as_such(line: str) -> None:
    with pytest.raises(EngineError, match="encryptionsalt is malformed"):
        Passphrase("correct horse", line).check()


@pytest.mark.parametrize("value", ["", "v1:AAAA", "v2:AAAA:AAAA", "v1:!!:!!"])
def test_a_damaged_value_is_explained_without_being_repeated(value: str) -> None:
    with pytest.raises(EngineError, match="cannot be decrypted") as caught:
        OURS.decrypt(value)
    assert not value or value not in str(caught.value)


def test_a_value_that_was_tampered_with_is_refused() -> None:
    sealed = OURS.encrypt("amount=1")
    version, nonce, text = sealed.split(":")
    other = ("B" if text[0] != "B" else "C") + text[1:]
    with pytest.raises(EngineError, match="cannot be decrypted"):
        OURS.decrypt(f"{version}:{nonce}:{other}")


def test_the_passphrase_comes_from_the_variable_before_the_file(tmp_path: Path) -> None:
    file = tmp_path / "phrase"
    file.write_text("from file\n")
    both = {"PULUMI_CONFIG_PASSPHRASE": "from variable", "PULUMI_CONFIG_PASSPHRASE_FILE": str(file)}
    assert phrase_of(both) == "from variable"
    assert phrase_of({"PULUMI_CONFIG_PASSPHRASE_FILE": str(file)}) == "from file"


def test_an_empty_passphrase_is_a_passphrase() -> None:
    assert phrase_of({"PULUMI_CONFIG_PASSPHRASE": ""}) == ""


def test_a_missing_passphrase_names_both_variables() -> None:
    with pytest.raises(EngineError, match="PULUMI_CONFIG_PASSPHRASE or PULUMI_CONFIG_PASSPHRASE_FILE"):
        phrase_of({})


def test_an_unreadable_passphrase_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="gone"):
        phrase_of({"PULUMI_CONFIG_PASSPHRASE_FILE": str(tmp_path / "gone")})
