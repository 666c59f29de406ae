"""Who depends on whom: order, closures, and walking many resources at once without breaking the order.

The trap: while a replacement is under way two entries share one URN, so nodes here are entries, and edges are by URN.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from pulumi_embedded.engine.model import Resource


def provider_urn(reference: str) -> str:
    """The URN in a provider reference `URN::ID`."""
    return reference.rsplit("::", 1)[0] if reference else ""


def references(resource: Resource) -> set[str]:
    """URNs that must exist as long as this resource does."""
    found = {resource.parent, resource.deleted_with, provider_urn(resource.provider), *resource.dependencies}
    for urns in resource.property_dependencies.values():
        found.update(urns)
    found.discard("")
    found.discard(resource.urn)
    return found


def ordered(resources: Sequence[Resource]) -> list[Resource]:
    """Every resource after what it references; otherwise in the order given. A cycle (never made here) is cut where it is met."""
    by_urn: dict[str, list[Resource]] = {}
    for resource in resources:
        by_urn.setdefault(resource.urn, []).append(resource)
    result: list[Resource] = []
    seen: set[str] = set()
    for start in by_urn:
        pending = [(start, False)]
        while pending:
            urn, finished = pending.pop()
            if finished:
                result.extend(by_urn[urn])
            elif urn not in seen:
                seen.add(urn)
                pending.append((urn, True))
                needed = {other for resource in by_urn[urn] for other in references(resource)}
                pending.extend((other, False) for other in sorted(needed, reverse=True) if other in by_urn and other not in seen)
    return result


def dependants(resources: Iterable[Resource], roots: Iterable[str]) -> set[str]:
    """URNs of everything that references `roots`, directly or not, without the roots."""
    above: dict[str, list[str]] = {}
    for resource in resources:
        for urn in references(resource):
            above.setdefault(urn, []).append(resource.urn)
    return _reached(roots, lambda urn: above.get(urn, ()))


def requirements(resources: Iterable[Resource], roots: Iterable[str]) -> set[str]:
    """URNs of everything that `roots` reference, directly or not, without the roots."""
    needed: dict[str, set[str]] = {}
    for resource in resources:
        needed.setdefault(resource.urn, set()).update(references(resource))
    return _reached(roots, lambda urn: needed.get(urn, ()))


def walk_backwards(resources: Sequence[Resource], parallel: int, visit: Callable[[Resource], bool]) -> None:
    """Visit each resource after all that reference it, at most `parallel` at once.

    `visit` answers whether the resource is gone; what a resource that stays references is not visited. An exception of `visit` is
    raised here once the visits under way have ended, and no further one starts.
    """
    _Walk(resources, visit).run(parallel)


class _Walk:
    def __init__(self, resources: Sequence[Resource], visit: Callable[[Resource], bool]) -> None:
        self.resources = resources
        self.visit = visit
        self.lock = threading.Lock()
        self.idle = threading.Condition(self.lock)
        self.running = 0
        self.error: BaseException | None = None
        by_urn: dict[str, list[int]] = {}
        for index, resource in enumerate(resources):
            by_urn.setdefault(resource.urn, []).append(index)
        self.below = [sorted({target for urn in references(resource) for target in by_urn.get(urn, ())}) for resource in resources]
        self.waiting = [0] * len(resources)
        for targets in self.below:
            for target in targets:
                self.waiting[target] += 1
        self.left = set(range(len(resources)))

    def run(self, parallel: int) -> None:
        # Later entries first: within the same freedom, the reverse of creation.
        with ThreadPoolExecutor(max_workers=max(1, min(parallel, len(self.resources) or 1)), thread_name_prefix="delete") as pool:
            self.start(pool, [index for index in reversed(range(len(self.resources))) if self.waiting[index] == 0])
            with self.lock:
                self.idle.wait_for(lambda: self.running == 0)
        if self.error is not None:
            raise self.error

    def start(self, pool: ThreadPoolExecutor, indexes: Iterable[int]) -> None:
        with self.lock:
            for index in indexes:
                if self.error is None and index in self.left:
                    self.left.discard(index)
                    self.running += 1
                    pool.submit(self.one, pool, index)

    def one(self, pool: ThreadPoolExecutor, index: int) -> None:
        freed: list[int] = []
        try:
            gone = False
            with self.lock:
                stopped = self.error is not None
            if not stopped:
                gone = self.visit(self.resources[index])
            if gone:
                with self.lock:
                    for target in self.below[index]:
                        self.waiting[target] -= 1
                        if self.waiting[target] == 0:
                            freed.append(target)
        except BaseException as error:
            with self.lock:
                self.error = self.error or error
        self.start(pool, sorted(freed, reverse=True))
        with self.lock:
            self.running -= 1
            if self.running == 0:
                self.idle.notify_all()


def _reached(roots: Iterable[str], step: Callable[[str], Iterable[str]]) -> set[str]:
    start = set(roots)
    found: set[str] = set()
    pending = list(start)
    while pending:
        for urn in step(pending.pop()):
            if urn not in found and urn not in start:
                found.add(urn)
                pending.append(urn)
    return found
