"""What an operation remembers while it runs: the resources recorded before, those registered now, and what became of each.

Every method is safe to call from any thread. Nothing here is durable: that is the state's part.
"""

import threading
from collections import Counter
from collections.abc import Mapping, Sequence

from pulumi_embedded.engine.halt import StepError
from pulumi_embedded.engine.model import Op, Resource

# Parts of one replacement: the replacement itself is counted once, by Op.REPLACE.
_UNCOUNTED = frozenset({Op.CREATE_REPLACEMENT, Op.DELETE_REPLACED})


class OperationResources:
    def __init__(self, recorded: Sequence[Resource]) -> None:
        self._lock = threading.RLock()
        self.recorded: tuple[Resource, ...] = tuple(recorded)
        self.old: dict[str, Resource] = {}
        """Live entries recorded before this operation, by URN."""
        self.new: dict[str, Resource] = {}
        """Resources of this operation, by URN."""
        self.replaced: list[Resource] = []
        """Entries whose object waits for its deletion, from earlier operations and from this one."""
        self.renamed: dict[str, str] = {}
        """Old URN -> new URN, of resources found under an alias."""
        self.displaced: dict[str, tuple[str, ...]] = {}
        """URN -> why, of resources deleted ahead because what they depend on is deleted before its replacement is made."""
        self.failed: set[str] = set()
        self.skipped: set[str] = set()
        """Creations left out by the selection."""
        self.untouched: set[str] = set()
        """Registrations that the selection leaves as they were recorded."""
        self.acting: set[str] = set()
        """Registrations that the selection lets act, without the stack and providers, which always act."""
        self._claimed: set[str] = set()
        self._aliases: dict[str, tuple[str, ...]] = {}
        self._counts: Counter[str] = Counter()
        for resource in recorded:
            if resource.delete:
                self.replaced.append(resource)
            else:
                self.old[resource.urn] = resource

    def claim(self, urn: str) -> bool:
        """Reserve a URN for one registration; False if it was taken."""
        with self._lock:
            if urn in self._claimed:
                return False
            self._claimed.add(urn)
            return True

    def claimed(self, urn: str) -> bool:
        return urn in self._claimed

    def predecessor(self, urn: str, aliases: Sequence[str]) -> Resource | None:
        """The recorded entry that a registration continues, under its own name or the first alias that is recorded.

        Raises StepError where another registration of this operation continues that one.
        """
        with self._lock:
            self._aliases[urn] = tuple(aliases)
            found = self.old.get(urn)
            if found is not None or not self.old:
                return found
            for alias in aliases:
                found = self.old.get(alias)
                if found is None:
                    continue
                if alias in self._claimed:
                    raise StepError(
                        f"Duplicate resource alias '{alias}' applied to resource with URN '{urn}' conflicting with resource with URN "
                        f"'{self.renamed.get(alias, alias)}': one recorded resource cannot become two; take the alias away from one of them",
                        urn,
                    )
                self._claimed.add(alias)
                self.renamed[alias] = urn
                return found
            return None

    def aliases(self, urn: str) -> tuple[str, ...]:
        """Names that children of `urn` may have been known below."""
        return self._aliases.get(urn, ())

    def current_name(self, urn: str) -> str:
        """`urn` by its name in this operation."""
        return self.renamed.get(urn, urn)

    def record(self, resource: Resource) -> None:
        with self._lock:
            self.new[resource.urn] = resource

    def replace(self, old: Resource) -> None:
        """`old` now waits for its deletion."""
        with self._lock:
            self.replaced.append(old)

    def count(self, op: Op) -> None:
        if op not in _UNCOUNTED:
            with self._lock:
                self._counts[op.value] += 1

    def count_all(self, counts: Mapping[str, int]) -> None:
        """Go on from the counts of an earlier part of the same operation."""
        with self._lock:
            self._counts.update(counts)

    @property
    def counts(self) -> Mapping[str, int]:
        with self._lock:
            return dict(sorted(self._counts.items()))
