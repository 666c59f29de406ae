"""The prompt of a request to a language model, for the picker's eyes: the bytes with which its tokens begin alike. Pure."""

from typing import Any

from headway.bounded_json import bounded_json

LARGEST = 8 << 20
"""Bytes of a body that are read; a larger one is sent by load alone."""
TOKEN = 4
"""Bytes of a token, about, of English."""


def prompt_of(body: bytes) -> bytes:
    """What the engine will compute: model (adapters share nothing), then prompt, messages or input. Empty if it cannot be read: the engine says why."""
    try:
        asked = bounded_json(body, LARGEST)
    except ValueError:
        return b""
    if not isinstance(asked, dict):
        return b""
    fields: dict[str, Any] = asked
    said = [fields.get(name) for name in ("tools", "instructions", "prompt", "messages", "input")]
    words = [word for each in said if each is not None for word in _words(each)]
    return "\0".join([str(fields.get("model", "")), *words]).encode() if words else b""


def _words(value: Any) -> list[str]:
    """Texts and numbers, in order."""
    if isinstance(value, dict):
        return [word for name, each in value.items() for word in (str(name), *_words(each))]
    if isinstance(value, list):
        return [word for each in value for word in _words(each)]
    return [str(value)]
