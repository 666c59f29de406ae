"""What is wrong, in the one form in which people and programs are told: a fact, its consequence and a remedy. Also the exit codes."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum, unique
from typing import Any, Self, cast

ODD = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What code of ours raises for data of a shape that none of ours has: others write events, objects of the API, samples and answers."""

FieldPath = tuple[str | int, ...]
"""The steps from the top of a document to one of its values."""


@unique
class ProblemLevel(StrEnum):
    """error: what it is about is refused. warning: it is accepted, and somebody should know."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What is so, what follows from it and what to do about it; each a sentence, whose full stop may be left out."""

    fact: str
    consequence: str
    remedy: str
    rule: str = ""
    """A stable id in kebab case, by which programs tell one problem from another."""
    subject: str = ""
    """What the problem is about where that is no file: a contract such as `vision/defects`, a node, a pool."""
    path: FieldPath = ()
    value: Any = None
    """The offending value; None where there is none to show."""
    file: str = ""
    """The file in which it stands, with forward slashes."""
    line: int = 0
    column: int = 0
    """Both count from 1; 0 where the problem concerns the whole file or folder."""
    level: ProblemLevel = ProblemLevel.ERROR

    @property
    def place(self) -> str:
        """`file:line:column`, as editors understand it; empty where there is no file."""
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file

    @property
    def dotted(self) -> str:
        """The path as `health.golden[0].file`."""
        return dotted(self.path)

    @property
    def value_text(self) -> str:
        """The value on one line, shortened; empty where there is none."""
        return "" if self.value is None else shown(self.value)

    @property
    def blocking(self) -> bool:
        return self.level is ProblemLevel.ERROR

    @property
    def order(self) -> tuple[object, ...]:
        """Sorts problems by place, then rule and text."""
        return (self.file, self.line, self.column, self.dotted, self.rule, self.fact)

    @property
    def sentences(self) -> tuple[str, str, str]:
        """Fact, consequence and remedy, each with its full stop, and the last with its label."""
        fact, consequence, remedy = (sentence(printable(text)) for text in (self.fact, self.consequence, self.remedy))
        return fact, consequence, f"Remedy: {remedy}"

    @property
    def heading(self) -> str:
        """Where it stands and what stands there, such as `vision/tenant.yaml:3:1 quota.gpus = 7`; empty where nothing is known of it."""
        return " ".join(
            filter(None, (on_one_line(self.place or self.subject), self.dotted, f"= {self.value_text}" if self.value_text else ""))
        )

    @property
    def brief(self) -> str:
        """The whole problem on one line."""
        return " ".join(self._headed())

    def record(self, *beside: str) -> dict[str, Any]:
        """For programs: what is so, what follows and what to do, after these fields of the problem; `path` as it is written."""
        known = {"path": self.dotted, "level": self.level.value}
        return {name: known.get(name, getattr(self, name)) for name in (*beside, "fact", "consequence", "remedy")}

    def __str__(self) -> str:
        """The whole problem on three lines, or more where its texts have more."""
        return "\n  ".join(self._headed())

    def _headed(self) -> tuple[str, str, str]:
        fact, consequence, remedy = self.sentences
        return (f"{self.heading}: {fact}" if self.heading else fact, consequence, remedy)


def problem(rule: str, *path: str | int, value: Any = None, fact: str, consequence: str, remedy: str) -> Problem:
    """A problem with a value at `path`, with its parts in the order in which one reads them."""
    return Problem(rule=rule, path=path, value=value, fact=fact, consequence=consequence, remedy=remedy)


class Exit(IntEnum):
    """Exit codes of the `headway` command; documented in docs/reference/cli.md and branched on by CI."""

    OK = 0
    REFUSED = 1
    """The input was understood and refused: findings in a contract, a policy violation, a failed update."""
    USAGE = 2
    """The command line itself was wrong."""
    ENVIRONMENT = 3
    """Something the command needs is missing or in the way: a tool, a port, disk space, a registry."""
    BUSY = 4
    """Another command holds the lock."""
    ROLLED_BACK = 5
    """A release was carried out and its evidence, a person, or the end of its time sent it back. Users are where they were."""
    UNDER_WAY = 6
    """A release is under way: neither promoted nor rolled back yet."""
    INTERRUPTED = 130
    UNREAD = 141
    """Whoever read the output has gone, as `head` does: no verdict on the input. It is what shells say of SIGPIPE."""


class UserError(Exception):
    """Ends a command with its problems, which are shown to people without a traceback."""

    def __init__(self, fact: str, consequence: str, remedy: str, exit: Exit = Exit.ENVIRONMENT) -> None:
        self._carry((Problem(fact=fact, consequence=consequence, remedy=remedy),), exit)

    @classmethod
    def of(cls, problems: Sequence[Problem], exit: Exit = Exit.REFUSED) -> Self:
        """One that carries problems which are known already, at least one."""
        error = cls.__new__(cls)
        error._carry(tuple(problems), exit)
        return error

    def _carry(self, problems: tuple[Problem, ...], exit: Exit) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems, self.exit = problems, exit

    @property
    def fact(self) -> str:
        """The first problem's."""
        return self.problems[0].fact

    @property
    def consequence(self) -> str:
        """The first problem's."""
        return self.problems[0].consequence

    @property
    def remedy(self) -> str:
        """The first problem's."""
        return self.problems[0].remedy


def dotted(path: FieldPath) -> str:
    """A path as people write it; keys that hold dots are put in quotes."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
            continue
        key = on_one_line(part)
        if "." in key or not key:
            text += f'["{key}"]'
        else:
            text += f".{key}" if text else key
    return text


_COMMAND = re.compile(r"\n(?=\s*(::|##\[))")
"""A line that CI would obey (GitHub's workflow commands, Azure's logging commands)."""


def printable(text: str) -> str:
    """A text whose lines are no orders to a terminal or to CI, whoever wrote parts of it."""
    return _COMMAND.sub(r"\\n", "\n".join(map(on_one_line, text.split("\n"))))


def on_one_line(text: str) -> str:
    """The same with every character that does not print written as Python writes it."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def in_code(text: str) -> str:
    """As Markdown that nothing in it is, in a table too: a bar would end its cell (GitHub Flavored Markdown, "Tables (extension)")."""
    return "`" + on_one_line(text).replace("`", "'").replace("|", "\\|") + "`"


def count(number: int, thing: str) -> str:
    """`1 replica`, `2 replicas`."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def sentence(text: str) -> str:
    """`text` with a full stop, unless it is none or ends already."""
    return text if not text or text.endswith((".", "?", ":")) else f"{text}."


def shown(value: object, limit: int = 60) -> str:
    """A value on one line, printable on any terminal, shortened."""
    text = _flow(value)
    text = on_one_line(text[: limit + 1])
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _flow(value: object) -> str:
    """As YAML would have it on one line."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_flow, cast(list[object], value)))}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {_flow(each)}' for key, each in cast(Mapping[object, object], value).items())}}}"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)
