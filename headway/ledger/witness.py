"""What is kept of each chain outside its store: the number and the hash of one event that it had. Pure.

Who has every right on a ledger's store can write another chain there that follows from its first event to its last,
and no reader of the store could tell. So runners leave the newest event that they know in a place with rights of its
own, and whoever reads a chain compares. The trap is the order: an event is written before a witness names it, and a
reader asks the witness before the store. So a witness may be behind its chain, and is never ahead of it.
"""

import hashlib
import re
from dataclasses import dataclass
from typing import Protocol

from headway.ledger.events import UNBOUND, Event
from headway.ledger.proof import ChainEnd, ChainHashes
from headway.problem import Exit, Problem, ProblemLevel, UserError

_TEXT = re.compile(r"([0-9]{1,8}):([0-9a-f]{64})")
NOTHING = f"0:{UNBOUND}"
"""What a witness says of a chain that has no event, on a person's word."""


class SilentWitnessError(Exception):
    """The witness did not answer, or not this identity. Carries why. Nothing is concluded from that."""


class LedgerWitness(Protocol):
    """One short text for each chain of one ledger, in a place that rights on the ledger's store do not reach."""

    def said(self, chain: str) -> str | None:
        """What was last written of it; None where nothing ever was. Raises SilentWitnessError."""
        ...

    def write(self, chain: str, text: str) -> None:
        """In place of what was said. Raises SilentWitnessError."""
        ...


@dataclass(frozen=True, slots=True)
class WitnessWord:
    """What a witness answered of a chain, and why it did not."""

    text: str | None = None
    silent: str = ""

    @property
    def number(self) -> int:
        """Of the event that it names; 0 where it names none."""
        found = _TEXT.fullmatch(self.text or "")
        return int(found[1]) if found else 0

    def against(self, hashes: ChainHashes) -> str | None:
        """What it says against a chain of events of these hashes, from the first to the last; None where it says nothing."""
        if self.text is None:
            return None
        found = _TEXT.fullmatch(self.text)
        if found is None:
            return f"its witness holds {self.text[:80]!r}, which names no event"
        number, witnessed = int(found[1]), found[2]
        if number > len(hashes):
            return f"its witness names event {number}, and it ends with event {len(hashes)}"
        if number and hashes.of(number) != witnessed:
            return f"its witness names event {number} as {witnessed[:12]}, and that event is {hashes.of(number)[:12]}"
        return None

    def unheard(self, chain: str) -> Problem | None:
        """What people are told of a chain that could not be compared; None where it could, or where there is no witness."""
        if not self.silent:
            return None
        return Problem(
            subject=chain,
            fact=f"the witness of its ledger does not answer ({self.silent})",
            consequence="Another whole chain would pass for it; nothing else is wrong with it",
            remedy="Let this identity read the parameters that `headway access` names, and look again",
            level=ProblemLevel.WARNING,
        )

    def require(self, chain: str, environment: str | None, hashes: ChainHashes) -> None:
        """Raises UserError where it contradicts the chain."""
        fact = self.against(hashes)
        if fact is None:
            return
        raise UserError(
            f"The ledger of {chain} is not the one that was witnessed: {fact}.",
            "Its whole chain was written anew or cut off, or comes from a backup. Nothing is planned or decided on it; what serves goes on.",
            "Find out who could do that, restore the ledger from its copy, and restart loops that still miss an event. If this chain is the"
            f" right one, say so: `headway release accept {chain} -e {environment or 'ENV'} --reason WHY`.",
            Exit.REFUSED,
        )


def nobody(chain: str) -> Problem:
    """What people are told of a chain whose environment names no witness."""
    return Problem(
        subject=chain,
        fact="nobody witnesses its ledger",
        consequence="Another whole chain would pass for it",
        remedy="Have its environment name a witness (docs/security.md)",
        level=ProblemLevel.WARNING,
    )


def named(chain: str, address: str) -> str:
    """A chain of the ledger at `address`, as its witness calls it. The ledger comes last: rights are given by tenant."""
    return f"{chain}.{hashlib.sha256(address.rstrip('/').encode()).hexdigest()[:12]}"


def of(newest: Event | ChainEnd) -> str:
    """What a witness says of a chain that ends with this event."""
    return f"{newest.number}:{newest.hash}"


def ask(witness: LedgerWitness | None, chain: str) -> WitnessWord:
    """What the witness says, if there is one and it answers."""
    if witness is None:
        return WitnessWord()
    try:
        return WitnessWord(text=witness.said(chain))
    except SilentWitnessError as silence:
        return WitnessWord(silent=str(silence))
