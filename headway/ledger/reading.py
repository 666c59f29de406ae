"""The one way in which anybody reads the events of a chain: proven one after the other, each forgotten once its reader
has it, so that no reader's memory grows with what somebody else writes.

What is kept is the reader's matter: all events (people's commands), or what follows from them (loops, `kept.StateKept`).
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from headway.ledger import bundle
from headway.ledger import store as stores
from headway.ledger import witness as witnesses
from headway.ledger.events import digest, key
from headway.ledger.kept import EventsKept, Kept, NewestGoneError
from headway.ledger.proof import START, ChainEnd, ChainFlaw, ChainHashes, ChainProof, counting, listed, prove_each
from headway.ledger.store import LedgerStore, MissingStoreError, Written
from headway.ledger.witness import LedgerWitness, WitnessWord
from headway.problem import UserError

READERS = 16
"""Objects that are read at once; so many are in memory."""
_BUNDLES_AT_ONCE = 4
"""Of up to `store.LARGEST` bytes each."""


@dataclass
class _Room:
    """How many bytes may be read yet."""

    left: float

    def of(self, objects: Iterable[tuple[str, bytes]]) -> Iterator[tuple[str, bytes]]:
        """As many as there is room for, but one."""
        for name, content in objects:
            yield name, content
            self.left -= len(content)
            if self.left <= 0:
                return


def proof(
    store: LedgerStore,
    chain: str,
    environment: str | None,
    after: ChainEnd = START,
    kept: Kept | None = None,
    at_most: float = math.inf,
) -> ChainProof:
    """What the store holds of a chain after `after`, or of that some `at_most` bytes. `kept` takes the events; without it the proof has
    them. What `kept` took of a chain with a flaw is for its owner to take back. Raises UnreachableError, and what `kept` raises."""
    events, room = EventsKept(), _Room(at_most)
    kept = events if kept is None else kept
    found = ChainProof((), (), after)
    for keys in listings(store, chain, after.number):
        found = _of_listed(store, chain, environment, keys, found.end, kept, room)
        if found.flaws or room.left <= 0:
            break
    return ChainProof(tuple(events.events), found.flaws, found.end, room.left <= 0)


def _of_listed(
    store: LedgerStore, chain: str, environment: str | None, keys: Sequence[Written], after: ChainEnd, kept: Kept, room: _Room
) -> ChainProof:
    if not all(one.once for one in keys):
        objects = room.of(counting(chain, environment, _ever(store, keys), after))
        return _until_flawed(chain, environment, objects, after, kept)
    names = [one.key for one in keys]
    if flaws := listed(chain, names, after.number):
        return ChainProof((), flaws, after)
    start, left = kept.mark(), room.left
    found = _bundled(store, chain, environment, names, after, kept, room)
    if found is None:  # the events themselves decide, whatever somebody put into a bundle
        kept.back_to(start)
        room.left = left
        found = prove_each(chain, environment, room.of(contents_of(store, names)), kept.take, after)
    return found


def _bundled(
    store: LedgerStore, chain: str, environment: str | None, keys: Sequence[str], after: ChainEnd, kept: Kept, room: _Room
) -> ChainProof | None:
    """The proof by bundles; None where there are none, or not those of the chain."""
    if bundle.whole(after.number + len(keys)) <= -(-after.number // bundle.EVENTS):
        return None
    try:
        found = prove_each(chain, environment, room.of(_packed(store, chain, keys, after.number)), kept.take, after)
    except (UserError, NewestGoneError):
        return None  # of what a bundle has, or of the chain, which will be said again
    if found.flaws:
        return None
    if room.left <= 0:  # no event after it holds its bundle to what the chain says
        last = store.get(key(chain, found.end.number))
        return found if last is not None and digest(last) == found.end.hash else None
    return found


def witnessed(store: LedgerStore, chain: str, environment: str, witness: LedgerWitness | None) -> tuple[ChainProof, WitnessWord]:
    """The whole chain, proven and not contradicted, and what its witness said. Raises UserError for a chain that has a flaw or is
    contradicted, UnreachableError."""
    word = witnesses.ask(witness, chain)  # before the store: an event of meanwhile would look like one that is gone
    kept = EventsKept()
    try:
        found = proof(store, chain, environment, kept=kept).sound(chain)
    except MissingStoreError:
        word.require(chain, environment, ChainHashes())  # or whoever deletes the whole store has every plan begin anew
        raise
    word.require(chain, environment, kept.hashes)
    return ChainProof(tuple(kept.events), (), found.end), word


def verify(
    store: LedgerStore, chain: str, environment: str | None, head: str | None = None, word: WitnessWord | None = None
) -> tuple[str, ...]:
    """Every flaw of a chain, as sentences; empty for a sound one. Reads the whole chain, also what lies beside it, and
    says what somebody did to it that no reader believes. `word`: what its witness said, before that."""
    hashes, again = ChainHashes(), list[Written]()

    def ever() -> Iterator[tuple[str, Iterable[bytes], bool]]:
        for keys in listings(store, chain, 0):
            again.extend(one for one in keys if not one.once)
            yield from _ever(store, keys)

    objects = counting(chain, environment, ever())
    found = prove_each(chain, environment, objects, lambda _, each, __: hashes.add(each), head=head, beyond=True)
    later = (f"{one.key} was deleted or written again; what was first written there and follows the chain counts" for one in again)
    against = word.against(hashes) if word else None
    return (*(flaw.fact for flaw in found.flaws), *([against] if against else []), *later)


def listings(store: LedgerStore, chain: str, number: int) -> Iterator[Sequence[Written]]:
    """Everything below `events/` that comes after event `number`, as many at once as a store lists; 0 is before the first."""
    after = key(chain, number) if number else ""
    while keys := store.written(f"{chain}/events/", after):
        yield keys
        if len(keys) < stores.LISTED_AT_ONCE:
            return
        after = keys[-1].key


def _until_flawed(chain: str, environment: str | None, objects: Iterator[tuple[str, bytes]], after: ChainEnd, kept: Kept) -> ChainProof:
    """Keys that are none of the next event end it: which ones there are shows only while they are read."""
    start, flaws, number = kept.mark(), list[ChainFlaw](), after.number

    def fitting() -> Iterator[tuple[str, bytes]]:
        nonlocal number
        for name, content in objects:
            flaws.extend(listed(chain, [name], number))
            if flaws:
                return
            number += 1
            yield name, content

    found = prove_each(chain, environment, fitting(), kept.take, after)
    if not flaws:
        return found
    kept.back_to(start)
    return ChainProof((), tuple(flaws), after)


def _packed(store: LedgerStore, chain: str, keys: Sequence[str], after: int) -> Iterator[tuple[str, bytes]]:
    """The objects of `keys`, which come after event `after`, as far as possible from bundles."""
    begun, bundles = -(-after // bundle.EVENTS), bundle.whole(after + len(keys))
    yield from contents_of(store, keys[: bundle.EVENTS * begun - after])
    for first in range(begun + 1, bundles + 1, _BUNDLES_AT_ONCE):
        some = range(first, min(bundles + 1, first + _BUNDLES_AT_ONCE))
        packed = dict(contents_of(store, [bundle.key(chain, each) for each in some]))
        for each in some:
            unpacked = bundle.unpacked(chain, each, packed.pop(bundle.key(chain, each), None))
            yield from unpacked or contents_of(store, keys[bundle.EVENTS * (each - 1) - after : bundle.EVENTS * each - after])
    yield from contents_of(store, keys[bundle.EVENTS * bundles - after :])


def contents_of(store: LedgerStore, keys: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Of those that are there."""
    for name, contents, _ in _ever(store, [Written(name) for name in keys]):
        for content in contents:
            yield name, content


def _ever(store: LedgerStore, keys: Sequence[Written]) -> Iterator[tuple[str, Iterable[bytes], bool]]:
    """What was written under each key. Some objects at once, for each is a round trip; the writings of one key that has many one
    by one."""

    def writing(one: Written) -> bytes | None:
        return store.get(one.key, one.versions[0]) if len(one.versions) == 1 else None

    def writings(one: Written) -> Iterator[bytes]:
        for version in one.versions:
            if (content := store.get(one.key, version)) is not None:
                yield content

    with ThreadPoolExecutor(max_workers=min(READERS, max(1, len(keys)))) as pool:
        for first in range(0, len(keys), READERS):
            some = keys[first : first + READERS]
            for one, content in zip(some, pool.map(writing, some) if len(some) > 1 else map(writing, some), strict=True):
                yield one.key, writings(one) if len(one.versions) > 1 else () if content is None else (content,), one.there
