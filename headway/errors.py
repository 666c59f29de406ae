"""The one shape of an error that a person reads: what is so, what follows from it, what to do. And the exit codes."""

from enum import IntEnum


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
    """A release was carried out and its evidence, or a person, sent it back. Users are where they were."""
    UNDER_WAY = 6
    """A release is under way: neither promoted nor rolled back yet."""
    INTERRUPTED = 130


class UserError(Exception):
    """Shown as three short lines, never as a traceback."""

    def __init__(self, fact: str, consequence: str, remedy: str, exit: Exit = Exit.ENVIRONMENT) -> None:
        super().__init__(f"{fact}\n  {consequence}\n  {remedy}")
        self.fact, self.consequence, self.remedy, self.exit = fact, consequence, remedy, exit
