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
_LOGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/@:\s]*:[^/@\s]+@", re.IGNORECASE)


def names_a_secret(name: str) -> bool:
    """Whether a variable of this name would hold a secret."""
    return _NAME.search(name) is not None and _HARMLESS.search(name) is None


def holds_a_login(value: str) -> bool:
    """Whether a text is an address with a password in it."""
    return _LOGIN.match(value) is not None


def secret_flags(words: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Where a command line gives a secret in clear, and by which flag: `--token VALUE`, `--token=VALUE`; not `--token=$(NAME)`."""
    flag = ""
    for number, word in enumerate(words):
        name, equals, value = word.partition("=") if word.startswith("-") else (flag, "=", word)
        if equals and value and not value.startswith("$(") and _FLAG.fullmatch(name):
            yield number, name
        flag = word if word.startswith("-") and not equals else ""
