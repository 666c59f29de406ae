"""A world on disk, and a program in it, for updates that are killed in the middle."""

import json
import os
import signal
import threading
from pathlib import Path

import pulumi

from engine.doubles import Memory, Thing, World
from pulumi_embedded.engine.model import ProviderFactories
from pulumi_embedded.engine.provider import Properties, ProviderStep

NAMES = [f"n{number}" for number in range(6)]


def program() -> None:
    """Three in a row, three beside them."""
    last: list[pulumi.Resource] = []
    for name in NAMES[:3]:
        last = [Thing(name, name=name, value=pulumi.Output.secret(name), opts=pulumi.ResourceOptions(depends_on=last))]
    for name in NAMES[3:]:
        Thing(name, name=name, value=1)


class Persistent(World):
    """Objects survive the process. At its `kill_at`th half step (before or after the object exists) the process kills itself."""

    def __init__(self, file: Path, kill_at: int) -> None:
        super().__init__()
        self.file, self.kill_at, self.halves = file, kill_at, 0
        self.write_lock = threading.Lock()
        if file.exists():
            self.live.update(json.loads(file.read_text()))

    def factories(self) -> ProviderFactories:
        return {"mem": lambda: Durable(self)}

    def half_step(self) -> None:
        self.halves += 1
        if self.halves == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def save(self) -> None:
        self.file.with_suffix(".new").write_text(json.dumps(self.live))
        self.file.with_suffix(".new").replace(self.file)


class Durable(Memory):
    world: Persistent

    def create(self, urn: str, type: str, name: str, inputs: Properties, step: ProviderStep) -> tuple[str, Properties]:
        with self.world.write_lock:
            self.world.half_step()
            made = super().create(urn, type, name, inputs, step)
            self.world.save()
            self.world.half_step()
        return made
