"""Kills a driver in memory at any line where it meets the ledger or the world, just before or just after, and lets
another go on."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from headway.ledger.chain import Ledger
from headway.ledger.reading import verify
from headway.ledger.store import StoredObject, TakenError, Written, digest_of
from headway.release.driver.event_kinds import EventKind, OperatorRequest
from headway.release.driver.rollout_state import RolloutState
from tests.unit.release_world import START, Memory, Scene


class KilledError(BaseException):
    """No `except Exception` survives it, as nothing survives SIGKILL."""


class Shelf:
    """A store in memory."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.clock: Callable[[], datetime] = lambda: START
        self.when: dict[str, datetime] = {}

    def get(self, key: str, version: str = "") -> bytes | None:
        return self.objects.get(key)

    def written(self, prefix: str, after: str = "") -> tuple[Written, ...]:
        return tuple(Written(key) for key in self.list(prefix, after))

    def create(self, key: str, body: bytes) -> None:
        if key in self.objects:
            raise TakenError(key)
        self.objects[key] = body

    def held(self, key: str) -> StoredObject | None:
        body = self.objects.get(key)
        return StoredObject(body, digest_of(body), (self.clock() - self.when[key]).total_seconds()) if body is not None else None

    def replace(self, key: str, body: bytes, tag: str | None) -> str:
        there = self.objects.get(key)
        if (digest_of(there) if there is not None else None) != tag:
            raise TakenError(key)
        self.objects[key], self.when[key] = body, self.clock()
        return digest_of(body)

    def list(self, prefix: str, after: str = "") -> tuple[str, ...]:
        return tuple(sorted(key for key in self.objects if key > after and key.startswith(prefix)))


@dataclass
class Sword:
    """Counts boundaries; falls at one of them."""

    at: int | None = None
    seen: int = 0
    look: Callable[[], Any] = lambda: None
    met: list[Any] = field(default_factory=list[Any])
    """What was seen of the world at each boundary."""

    def pass_by(self) -> None:
        self.seen += 1
        self.met.append(self.look())
        if self.at == self.seen:
            raise KilledError

    def around(self, act: Callable[..., Any]) -> Callable[..., Any]:
        def passed(*words: Any, **named: Any) -> Any:
            self.pass_by()
            result = act(*words, **named)
            self.pass_by()
            return result

        return passed


MET = ("preview", "up", "patch", "vouch", "unready", "probe", "check", "history", "read", "drained")
"""What of the world a boundary lies around; looking at the route and sleeping change nothing."""

WRITES = ("create", "replace")


def armed(scene: Scene, sword: Sword) -> None:
    for name in MET:
        setattr(scene.world, name, sword.around(getattr(scene.world, name)))
    for name in WRITES:
        setattr(scene.store, name, sword.around(getattr(scene.store, name)))


def disarmed(scene: Scene) -> None:
    for name in MET:
        delattr(scene.world, name)
    for name in WRITES:
        delattr(scene.store, name)


def promoting(scene: Scene, after_ticks: int) -> None:
    """A person promotes once, after some ticks, from another process."""

    class Impatient(Memory):
        def read(self, rollout: RolloutState, start: float, end: float) -> Any:
            ledger: Ledger = scene.ledger("person")
            asked = any(event.kind == EventKind.ASKED for event in ledger.read())
            if rollout.ticks >= after_ticks and not asked:
                ledger.append(EventKind.ASKED, {"wish": OperatorRequest.PROMOTE.value, "reason": "shown to the customer at noon"})
            return super().read(rollout, start, end)

    scene.world.__class__ = Impatient


@dataclass(frozen=True)
class Ending:
    """What must not depend on who was killed when."""

    outcome: str
    kinds: tuple[str, ...]
    done: tuple[str, ...]
    flaws: tuple[str, ...]


def ending(scene: Scene, rollout: RolloutState) -> Ending:
    return Ending(str(rollout.outcome), tuple(scene.kinds()), tuple(scene.world.done), verify(scene.store, "vision/defects", "sandbox"))


def killed_at(scene: Scene, at: int | None) -> tuple[Ending, int]:
    """Run to the end, killed once at boundary `at`; answers the end and how many boundaries there were in all."""
    sword = Sword(at)
    return _run(scene, sword), sword.seen


def _run(scene: Scene, sword: Sword) -> Ending:
    scene.begin()
    armed(scene, sword)
    try:
        rollout = scene.driver("one").run()
    except KilledError:
        disarmed(scene)
        rollout = scene.driver("two", gone=lambda _: True).run()
    return ending(scene, rollout)


def outlives(scene: Scene) -> tuple[Any, ...]:
    """Everything that a runner leaves behind: what was written, and what was done to the world. All else dies with it."""
    world, store = scene.world, scene.store
    assert isinstance(store, Shelf)
    route = (dict(world.routed), world.mirrored, world.copies, world.led, world.share_of_users, len(world.in_force))
    return (dict(store.objects), dict(store.when), world.clock, world.stack, route, tuple(world.done), world.vouched)


def walk(make: Callable[[], Scene], every: int = 1, start: int = 1) -> Iterator[tuple[int, Ending, Ending]]:
    """For each boundary: its number, how an undisturbed run ends, how the killed one does. Where two boundaries have nothing between them that
    outlives a runner (it only looked), to be killed at the one is to be killed at the other: the first of them is walked."""
    scene = make()
    sword = Sword(look=lambda: outlives(scene))
    undisturbed = _run(scene, sword)
    told = [number for number, seen in enumerate(sword.met, 1) if number == 1 or seen != sword.met[number - 2]]
    for at in told[start - 1 :: every]:
        yield at, undisturbed, killed_at(make(), at)[0]


__all__ = ["Ending", "KilledError", "Shelf", "Sword", "armed", "disarmed", "ending", "killed_at", "promoting", "walk"]
