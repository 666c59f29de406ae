"""What a preview has planned so far, and what it has learnt of the cluster: the memory between the resources of one operation.

A dry run is only worth asking for when everything that it depends on is there already. A namespace that the same preview creates, or a
definition that it changes, is not, and then the inputs are the plan.
"""

import threading
from dataclasses import dataclass, field

from pulumi_embedded.providers.kubernetes.kinds import ObjectKind


@dataclass
class Plans:
    """Safe to use from any thread."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _objects: set[tuple[str, str]] = field(default_factory=set)
    _made: set[tuple[str, str]] = field(default_factory=set)
    _groups: set[str] = field(default_factory=set)
    _unserved: set[ObjectKind] = field(default_factory=set)
    _ignored: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _away: bool = False

    def note(self, kind: ObjectKind, name: str, *, made: bool = False) -> None:
        """This preview creates (`made`) or changes the object."""
        with self._lock:
            self._objects.add((kind.kind, name))
            if made:
                self._made.add((kind.kind, name))
            if kind.kind == "CustomResourceDefinition":
                self._groups.add(name.partition(".")[2])

    def note_groups(self, groups: frozenset[str]) -> None:
        """This preview installs or changes definitions of these API groups."""
        with self._lock:
            self._groups |= groups

    def note_unserved(self, kind: ObjectKind) -> None:
        with self._lock:
            self._unserved.add(kind)

    def unsettled(self, kind: ObjectKind, namespace: str) -> bool:
        """Whether a dry run of such an object would ask a cluster that lacks what this preview brings."""
        with self._lock:
            return kind in self._unserved or kind.group in self._groups or ("Namespace", namespace) in self._made

    def changes(self, governors: tuple[tuple[str, str], ...]) -> bool:
        """Whether this preview changes one of the (kind, name) whose rule stands in the way."""
        with self._lock:
            return any(governor in self._objects for governor in governors)

    def compared(self, urn: str, ignored: tuple[str, ...]) -> None:
        """The resource was compared with its recorded inputs, so it has an object already."""
        with self._lock:
            self._ignored[urn] = ignored

    def was_compared(self, urn: str) -> bool:
        with self._lock:
            return urn in self._ignored

    def ignored(self, urn: str) -> tuple[str, ...]:
        """ignoreChanges of the resource, as `compared` was told."""
        with self._lock:
            return self._ignored.get(urn, ())

    def lost(self) -> bool:
        """The API server does not answer. True the first time."""
        with self._lock:
            first, self._away = not self._away, True
            return first

    @property
    def away(self) -> bool:
        return self._away
