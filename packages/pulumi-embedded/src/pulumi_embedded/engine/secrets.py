"""Pulumi's passphrase secrets: PBKDF2-HMAC-SHA256 to a key, AES-256-GCM for the values, and where the passphrase comes from.

Format (public: sdk/go/common/resource/config/crypt.go): a value is `v1:BASE64(nonce):BASE64(ciphertext)`; the salt line of a stack is
`v1:BASE64(salt):` followed by the word `pulumi` encrypted, which is how a wrong passphrase is told.

The trap: one derivation costs a third of a second, so it is done at first need and remembered for the process.
"""

import base64
import binascii
import hashlib
import os
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from pulumi_embedded.engine.errors import EngineError

ROUNDS: Final = 1_000_000
KEY_BYTES: Final = 32
SALT_BYTES: Final = 8
NONCE_BYTES: Final = 12
CHECK: Final = "pulumi"

VALUE_VARIABLE: Final = "PULUMI_CONFIG_PASSPHRASE"
FILE_VARIABLE: Final = "PULUMI_CONFIG_PASSPHRASE_FILE"

Random = Callable[[int], bytes]


class Passphrase:
    """Encrypts and decrypts the values of one stack. Safe to use from several threads."""

    def __init__(self, phrase: str, salt: str, *, random: Random = os.urandom) -> None:
        """`salt` is the whole salt line. Nothing is derived or checked before the first use; `check` does it at once."""
        self.salt = salt
        self._phrase = phrase
        self._random = random
        self._cipher: AESGCM | None = None

    @classmethod
    def new(cls, phrase: str, *, random: Random = os.urandom) -> "Passphrase":
        """A passphrase with a fresh salt."""
        salt = random(SALT_BYTES)
        cipher = AESGCM(_key(phrase, salt))
        return cls(phrase, f"v1:{_text(salt)}:{_seal(cipher, CHECK, random)}", random=random)

    def check(self) -> None:
        """Raises EngineError if this is not the passphrase that the salt line was made with."""
        self._ready()

    def encrypt(self, text: str) -> str:
        return _seal(self._ready(), text, self._random)

    def decrypt(self, value: str) -> str:
        """Raises EngineError for what this passphrase did not encrypt; the text never repeats the value."""
        try:
            return _unseal(self._ready(), value)
        except (ValueError, InvalidTag):
            raise EngineError(
                "a secret cannot be decrypted: it was not encrypted with this stack's passphrase and salt, or was damaged; "
                "set it again, or restore the file that holds it"
            ) from None

    def _ready(self) -> AESGCM:
        if self._cipher is None:
            parts = self.salt.split(":", 2)
            try:
                version, salt = parts[0], base64.b64decode(parts[1], validate=True)
                check = parts[2]
            except (IndexError, binascii.Error):
                version, salt, check = "", b"", ""
            if version != "v1":
                raise EngineError(
                    "encryptionsalt is malformed: expected v1:SALT:CHECK as Pulumi writes it; restore it, the secrets depend on it"
                )
            cipher = AESGCM(_key(self._phrase, salt))
            try:
                right = _unseal(cipher, check) == CHECK
            except (ValueError, InvalidTag):
                right = False
            if not right:
                raise EngineError(
                    f"incorrect passphrase: the stack's secrets were made with another one; set {VALUE_VARIABLE} or {FILE_VARIABLE} to it"
                )
            self._cipher = cipher
        return self._cipher


def phrase_of(environment: Mapping[str, str]) -> str:
    """The passphrase that `environment` names. An empty one is legal. Raises EngineError when there is none."""
    phrase = environment.get(VALUE_VARIABLE)
    if phrase is not None:
        return phrase
    file = environment.get(FILE_VARIABLE)
    if file:
        try:
            return Path(file).expanduser().read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            raise EngineError(f"cannot read the passphrase from {file} ({FILE_VARIABLE}): {why}") from None
    raise EngineError(f"passphrase must be set with {VALUE_VARIABLE} or {FILE_VARIABLE} environment variables")


@lru_cache(maxsize=64)
def _key(phrase: str, salt: bytes) -> bytes:
    return hashlib.pbkdf2_hmac("sha256", phrase.encode(), salt, ROUNDS, KEY_BYTES)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _seal(cipher: AESGCM, text: str, random: Random) -> str:
    nonce = random(NONCE_BYTES)
    return f"v1:{_text(nonce)}:{_text(cipher.encrypt(nonce, text.encode(), None))}"


def _unseal(cipher: AESGCM, value: str) -> str:
    version, nonce, sealed = value.split(":")
    if version != "v1":
        raise ValueError(version)
    return cipher.decrypt(base64.b64decode(nonce, validate=True), base64.b64decode(sealed, validate=True), None).decode()
