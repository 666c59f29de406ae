"""Commands that a problem proposes mean the environment in which it was found: whoever types them as they stand reaches no other one.

What refuses deep inside does not know what its caller told; so the command that was told says it at the end.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any

from headway.problem import UserError

_PROPOSED = re.compile(r"`headway ([^`]+)`")
_OPTIONS = ("-e", "--environment")


def takes_environment(command: Any) -> bool:
    """Whether a command of the parser has the option."""
    return any(option in each.opts for each in command.params for option in _OPTIONS)


def told_to(command: Any) -> None:
    """Have the problems of a command that takes an environment propose commands of the one that it was told."""
    inner: Callable[..., Any] = command.callback

    @wraps(inner)
    def outer(*positional: Any, **named: Any) -> Any:
        try:
            return inner(*positional, **named)
        except UserError as error:
            if not (told := named.get("environment")):
                raise
            raise UserError.of(
                [replace(each, consequence=naming(each.consequence, told), remedy=naming(each.remedy, told)) for each in error.problems],
                error.exit,
            ) from error

    command.callback = outer


def naming(text: str, environment: str) -> str:
    """The text, with the environment in each command in it that takes one and names none."""

    def named(found: re.Match[str]) -> str:
        words = found[1].split()
        if set(words) & set(_OPTIONS) or not _known(words):
            return found[0]
        return f"`headway {found[1]} -e {environment}`"

    return _PROPOSED.sub(named, text)


def _known(words: list[str]) -> bool:
    """Whether the words are a command of Headway's own that takes an environment."""
    from headway.cli.plugins import own

    command = own(words[0])
    for word in words[1:]:
        command = getattr(command, "commands", {}).get(word, command)
    return command is not None and takes_environment(command)
