"""A second copy of a ledger, such as one in another region, that may become the ledger itself.

The trap: a copy that is cut off anywhere must be a ledger too. So what events point to is copied before them, and the
events of a chain one after another. A store of which both sides went on cannot be joined: that is refused.

Bundles are left out, for whoever releases there writes them anew; and so are leases. These belong to runners of the
place that is copied, and whoever drives a release takes a new one.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from headway.ledger.events import key
from headway.ledger.reading import READERS, proof, verify
from headway.ledger.store import LedgerStore, create_or_agree
from headway.problem import Exit, UserError
from headway.wire import LEDGER_LEASES


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedChain:
    """One chain as the copy has it now. `newest` is the time of its last event (RFC 3339, UTC), `head` its hash."""

    events: int
    new: int
    newest: str
    head: str


def copy(source: LedgerStore, target: LedgerStore, environment: str | None = None) -> Mapping[str, CopiedChain]:
    """Bring `target` to what `source` holds, by chain; what is there already stays and is not written again.

    `environment` is whose ledger it is; None leaves that open. Raises UserError when the two went different ways, or
    when a chain of either has a flaw; UnreachableError when a store does not answer: what was copied until then is
    sound, and the next call goes on.
    """
    there = frozenset(target.list(""))
    chains: dict[str, None] = {}
    pointed_to: list[str] = []
    for name in source.list(""):
        chain, events, _ = name.partition("/events/")
        if events:
            chains[chain] = None
        elif not name.startswith(LEDGER_LEASES) and "/bundles/" not in name:
            pointed_to.append(name)

    def put(name: str) -> None:
        _put(target, name, source.get(name))

    def grow(chain: str) -> CopiedChain:
        return _chain(source, target, chain, environment, there)

    with ThreadPoolExecutor(max_workers=READERS) as pool:
        list(pool.map(put, (name for name in pointed_to if name not in there)))
        found = dict(zip(chains, pool.map(grow, chains), strict=True))
    flawed = [flaw for chain in found for flaw in (f"{chain}: {flaw}" for flaw in verify(target, chain, environment, found[chain].head))]
    if flawed:
        raise UserError(
            f"The copy is no ledger: {'; '.join(flawed)}.",
            "It cannot take the place of the ledger.",
            "Run `headway release verify` on what was copied; restore the object from its versions, then copy again.",
            Exit.REFUSED,
        )
    return found


def _chain(source: LedgerStore, target: LedgerStore, chain: str, environment: str | None, there: frozenset[str]) -> CopiedChain:
    found = proof(source, chain, environment).sound(chain)
    keys = [key(chain, event.number) for event in found.events]
    ahead = sum(name.startswith(f"{chain}/events/") for name in there) - len(keys)
    if ahead > 0:
        raise UserError(
            f"The copy of {chain} is {ahead} events ahead of the ledger.",
            "Somebody released from it, and what it knows would be lost with it; nothing more was copied.",
            "Copy the other way round, or choose an empty place.",
            Exit.REFUSED,
        )
    new = [name for name in keys if name not in there]
    common = len(keys) - len(new)
    for event in found.events[max(0, common - 1) :]:  # the hash of the last common one stands for all before it
        _put(target, key(chain, event.number), event.stored())
    return CopiedChain(events=len(keys), new=len(new), newest=found.events[-1].time, head=found.end.hash)


def _put(target: LedgerStore, name: str, content: bytes | None) -> None:
    if content is not None and not create_or_agree(target, name, content):
        raise UserError(
            f"{name} says something else in the copy than in the ledger.",
            "Both were written to after they parted, so neither can become the other; nothing more was copied.",
            "Decide which of them is the ledger (HEADWAY_LEDGER), and copy that one to an empty place.",
            Exit.REFUSED,
        )
