"""What looks like a secret in a variable, a flag or an address, as far as its name tells. One list for contracts and for policies.

The trap: to a language model a token is part of a text, so `MAX_TOKENS`, `TOKENIZERS_PARALLELISM` and `--eos-token` are no secrets.
"""

import re
from collections.abc import Iterator, Sequence

_NAME = re.compile(r"secret|passw|token|api_?key|access_?key|private_?key|credential", re.IGNORECASE)
_HARMLESS = re.compile(r"max_|_limit|_per_|tokens?_(max|per)|tokenizer|_(file|path|dir)$", re.IGNORECASE)
_FLAG = re.compile(
    r"--?([a-z0-9_-]*(passwords?|passwd|secrets?|api[-_]?key|access[-_]?key|private[-_]?key|credentials?)|((access|api|auth|bearer|hf)[-_])?token)",
    re.IGNORECASE,
)
_IN_VALUES = {
    "an address that holds a password": re.compile(r"^[a-z][a-z0-9+.-]*://[^/@:\s]*:[^/@\s]+@", re.IGNORECASE),
    "an address that holds a credential": re.compile(
        r"[?&](access_token|api_?key|auth|credentials?|key|passw(or)?d|secret|sig(nature)?|token|x-(amz|goog)-(credential|security-token|signature))"
        r"=[^&\s#]+",
        re.IGNORECASE,
    ),
    "a private key": re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----"),
    # With a digit: "bearer authentication" is prose.
    "a bearer token": re.compile(r"\b(bearer|basic)\s+(?=\S*[0-9])[A-Za-z0-9._~+/-]{8,}|\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.", re.IGNORECASE),
    "an access key": re.compile(r"\b((AKIA|ASIA)[A-Z0-9]{16}|gh[pousr]_\w{30,}|hf_[A-Za-z0-9]{30,}|sk-[A-Za-z0-9_-]{30,})\b"),
}


def names_a_secret(name: str) -> bool:
    """Whether a variable of this name would hold a secret."""
    return _NAME.search(name) is not None and _HARMLESS.search(name) is None


def secret_in(value: str) -> str:
    """What a text is or holds that opens something: an address with a password, a token, a key. Empty where nothing is seen."""
    return next((name for name, pattern in _IN_VALUES.items() if pattern.search(value)), "")


def masked(text: str) -> str:
    """The text without what opens something: what is shown is kept in logs of CI."""
    for pattern in (_USER_OF_ADDRESS, *_IN_VALUES.values()):
        text = pattern.sub("****", text)
    return text


_USER_OF_ADDRESS = re.compile(r"(?<=://)([^/@\s'\"]+@|[^/@\s'\":]*:[^/@\s'\"]*\.\.\.)")
"""Whoever it names may be a token, with or without a password; what is shown may be cut off."""


def secret_flags(words: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Where a command line gives a secret in clear, and by which flag: `--token VALUE`, `--token=VALUE`; not `--token=$(NAME)`."""
    flag = ""
    for number, word in enumerate(words):
        name, equals, value = word.partition("=") if word.startswith("-") else (flag, "=", word)
        if equals and value and not value.startswith("$(") and _FLAG.fullmatch(name):
            yield number, name
        flag = word if word.startswith("-") and not equals else ""
