"""Command lines: words and flags to one typed request. A flag that a verb does not know, or that the engine refuses, is named.

Follows the conventions of Pulumi's own command line: global flags anywhere, `--name value` or `--name=value`, one-letter forms (also
joined), `--` before words that look like flags. Whether a flag takes a value depends on the verb (`config set --secret` does not,
`config set-all --secret k=v` does), so the verb is found first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from pulumi_embedded.engine.errors import EngineError

Kind = Literal["switch", "value", "list"]


class UsageError(EngineError):
    """The command line itself is wrong."""


@dataclass(frozen=True, slots=True)
class CommandFlag:
    """`name` without dashes. A switch may be written `--name`, `--name=true` or `--name=false`."""

    name: str
    kind: Kind = "switch"
    short: str = ""
    help: str = ""
    refused: str = ""
    """Why the embedded engine does not know it, and what to do instead; empty if it does."""


@dataclass(frozen=True, slots=True)
class CommandVerb:
    """`words` as typed, for instance ("stack", "output"). `least` and `most` count the words that follow."""

    words: tuple[str, ...]
    help: str
    flags: tuple[CommandFlag, ...] = ()
    least: int = 0
    most: int = 0
    usage: str = ""
    """Names of the words that follow."""
    aliases: tuple[tuple[str, ...], ...] = ()
    refused: str = ""

    def __str__(self) -> str:
        return " ".join(self.words)


@dataclass(frozen=True)
class Arguments:
    verb: CommandVerb
    words: tuple[str, ...] = ()
    help: bool = False
    _values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def switch(self, name: str, *, default: bool = False) -> bool:
        given = self._values.get(name)
        return default if given is None else given[-1] == "true"

    def given(self, name: str) -> bool:
        return name in self._values

    def text(self, name: str, default: str = "") -> str:
        given = self._values.get(name)
        return given[-1] if given else default

    def texts(self, name: str) -> tuple[str, ...]:
        return self._values.get(name, ())

    def number(self, name: str, default: int) -> int:
        text = self.text(name)
        if not text:
            return default
        try:
            return int(text)
        except ValueError:
            raise UsageError(f'invalid argument "{text}" for "--{name}": expected a whole number') from None


GLOBAL: Final = (
    CommandFlag("cwd", "value", "C", "run as if started in this folder"),
    CommandFlag("non-interactive", help="never ask"),
    CommandFlag("help", short="h", help="tell about a command"),
    CommandFlag("fully-qualify-stack-names", short="Q", help="show stack names as organization/PROJECT/STACK"),
    CommandFlag("disable-integrity-checking", help="accept a checkpoint with missing parents or providers in `stack import`"),
    # These tune the looks, logs and traces of the engine that this one stands in for: taken, so that clients need not know, and without
    # effect.
    CommandFlag("color", "value"),
    CommandFlag("emoji", short="e"),
    CommandFlag("logflow"),
    CommandFlag("logtostderr"),
    CommandFlag("verbose", "value", "v"),
    CommandFlag("tracing", "value"),
    CommandFlag("tracing-header", "value"),
    CommandFlag("otel-traces", "value"),
    CommandFlag("profiling", "value"),
    CommandFlag("memprofilerate", "value"),
)


def parse(args: Sequence[str], verbs: Sequence[CommandVerb]) -> Arguments:
    """The request of a command line. Raises UsageError naming the word or flag that is wrong, or what is refused and why."""
    by_words = {words: verb for verb in verbs for words in (verb.words, *verb.aliases)}
    verb, rest = _verb(list(args), by_words)
    if verb.refused:
        raise UsageError(f"`pulumi {verb}` is not supported by the embedded engine: {verb.refused}")
    values, words = _flags(rest, verb)
    arguments = Arguments(verb, tuple(words), "help" in values, values)
    if not arguments.help and not verb.least <= len(words) <= verb.most:
        expected = f"{verb.least}" if verb.least == verb.most else f"{verb.least} to {verb.most}"
        raise UsageError(f"`pulumi {verb}` takes {expected} argument(s){f' ({verb.usage})' if verb.usage else ''}, received {len(words)}")
    return arguments


def _verb(args: list[str], by_words: Mapping[tuple[str, ...], CommandVerb]) -> tuple[CommandVerb, list[str]]:
    """The verb, and the arguments without its words."""
    words: tuple[str, ...] = ()
    rest: list[str] = []
    known = _table(GLOBAL)
    index = 0
    while index < len(args) and args[index] != "--":
        arg = args[index]
        index += 1
        if arg.startswith("-") and arg != "-":
            rest.append(arg)
            if _takes_value(arg, known) and index < len(args):
                rest.append(args[index])
                index += 1
            continue
        following = (*words, arg)
        if not any(other[: len(following)] == following for other in by_words):
            rest.append(arg)
            break
        words = following
        if words in by_words:
            known = _table((*GLOBAL, *by_words[words].flags))
    if words in by_words:
        return by_words[words], rest + args[index:]
    unknown = " ".join((*words, *(arg for arg in rest if not arg.startswith("-"))))
    supported = (verb.words for verb in by_words.values() if not verb.refused)
    choices = sorted({other[len(words)] for other in supported if other[: len(words)] == words and len(other) > len(words)})
    if not unknown:
        return CommandVerb((), "", most=0), [*rest, "--help"]
    raise UsageError(f'unknown command "{unknown}" for "pulumi"; the embedded engine knows {", ".join(choices)}')


def _flags(args: list[str], verb: CommandVerb) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    known = _table((*GLOBAL, *verb.flags))
    values: dict[str, tuple[str, ...]] = {}
    words: list[str] = []

    def add(flag: CommandFlag, value: str) -> None:
        if flag.refused:
            raise UsageError(f"--{flag.name} is not supported by the embedded engine: {flag.refused}")
        if flag.kind == "switch" and value not in ("true", "false"):
            raise UsageError(f'invalid argument "{value}" for "--{flag.name}": expected true or false')
        values[flag.name] = (*values.get(flag.name, ()), value)

    queue = list(reversed(args))
    while queue:
        arg = queue.pop()
        if arg == "--":
            words += reversed(queue)
            break
        if not arg.startswith("-") or arg == "-":
            words.append(arg)
            continue
        name, equals, value = arg.partition("=")
        if not name.startswith("--") and len(name) > 2:
            # -yf is -y -f, and -sdev is -s dev.
            first = known.get(name[:2])
            queue.append(name[2:] + equals + value if first and first.kind != "switch" else "-" + name[2:] + equals + value)
            name, equals, value = name[:2], "", ""
        flag = known.get(name)
        if flag is None:
            shape = "flag" if name.startswith("--") else "shorthand flag"
            raise UsageError(
                f"unknown {shape}: {name} for `pulumi {verb}`; see `pulumi {verb} --help` for those that the embedded engine knows"
            )
        if equals:
            add(flag, value)
        elif flag.kind == "switch":
            add(flag, "true")
        elif queue:
            add(flag, queue.pop())
        else:
            raise UsageError(f"flag needs an argument: {name}")
    return values, words


def _table(flags: Sequence[CommandFlag]) -> dict[str, CommandFlag]:
    table = {f"--{flag.name}": flag for flag in flags}
    return table | {f"-{flag.short}": flag for flag in flags if flag.short}


def _takes_value(arg: str, known: Mapping[str, CommandFlag]) -> bool:
    flag = known.get(arg)
    return flag is not None and flag.kind != "switch"
