"""Kills updates of fifty resources at random moments, again and again: `python -m engine.hammer --kills 30 --seed 1`.

By hand, because it takes minutes; `test_crash` has the chosen moments. Every generation of the program creates, updates, replaces and deletes.
After each kill: the state is valid by the published schema, and every object that exists is recorded or about to be (nothing is lost).
After each completed generation: exactly the objects that it describes exist, each once.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pulumi

from engine.conftest import _workspace
from engine.doubles import Memory, Thing, World
from engine.published_schema import validator
from pulumi_embedded.engine.command import EmbeddedPulumi
from pulumi_embedded.engine.model import ProviderFactories
from pulumi_embedded.engine.provider import Properties, ProviderStep

MOST = 50
STEP_SECONDS = 0.01


def program(generation: int) -> None:
    """Chains of five; all are updated in each generation, each third time some are replaced, each second time some are left out."""
    last: dict[int, pulumi.Resource] = {}
    for number in range(MOST - 5 * (generation % 2)):
        zone = f"z{generation // 3}" if number % 7 == 0 else "z"
        above = [last[number % 10]] if number % 10 in last else []
        last[number % 10] = Thing(f"n{number}", value=generation, zone=zone, opts=pulumi.ResourceOptions(depends_on=above))


class Durable(World):
    """A folder of objects that outlives every process."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.live.update({file.name: json.loads(file.read_text()) for file in folder.iterdir() if not file.name.startswith(".")})

    def factories(self) -> ProviderFactories:
        return {"mem": lambda: Disk(self)}


class Disk(Memory):
    world: Durable

    def create(self, urn: str, type: str, name: str, inputs: Properties, step: ProviderStep) -> tuple[str, Properties]:
        if step.preview:
            return super().create(urn, type, name, inputs, step)
        id = str(inputs["name"])
        return id, self._write(id, {**inputs, **self.computed(inputs, id)})

    def update(
        self, urn: str, type: str, id: str, old_inputs: Properties, old_outputs: Properties, new: Properties, step: ProviderStep
    ) -> Properties:
        if step.preview:
            return super().update(urn, type, id, old_inputs, old_outputs, new, step)
        return self._write(id, {**new, **self.computed(new, id)})

    def delete(self, urn: str, type: str, id: str, inputs: Properties, outputs: Properties, step: ProviderStep) -> None:
        time.sleep(STEP_SECONDS)
        (self.world.folder / id).unlink(missing_ok=True)

    def _write(self, id: str, outputs: Properties) -> Properties:
        time.sleep(STEP_SECONDS)
        new = self.world.folder / f".{threading.get_ident()}"
        new.write_text(json.dumps(outputs))
        new.replace(self.world.folder / id)
        time.sleep(STEP_SECONDS)
        return outputs


def stack(folder: Path, generation: int) -> Any:
    world = Durable(folder / "world")
    return _workspace(folder, EmbeddedPulumi(world.factories()), world).stack(lambda: program(generation), project="crash")


def recorded(folder: Path) -> tuple[set[str], int]:
    """Physical names that the state knows, done or begun; and how many operations are pending."""
    deployment = stack(folder, 0).export_stack().deployment
    validator().validate({"version": 3, "deployment": deployment})
    pending = deployment.get("pending_operations") or []
    entries = [*deployment.get("resources", []), *(operation["resource"] for operation in pending)]
    return {str(entry.get("id") or entry.get("inputs", {}).get("name", "")) for entry in entries}, len(pending)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--update", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--generation", type=int, default=0, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.update:
        stack(given.update, given.generation).up(parallel=8)
        return
    moments = random.Random(given.seed)
    folder = Path(tempfile.mkdtemp(prefix="hammer-"))
    kills = generation = left = 0
    usual = 10.0
    while kills < given.kills:
        began = time.monotonic()
        command = [sys.executable, "-m", "engine.hammer", "--update", str(folder), "--generation", str(generation)]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            process.wait(usual * moments.uniform(0.3, 1.0))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            kills += 1
            known, pending = recorded(folder)
            lost = {file.name for file in (folder / "world").glob("[!.]*")} - known
            assert not lost, f"kill {kills}: {sorted(lost)} exist and nobody knows them; {folder}"
            left += pending
            continue
        assert process.returncode == 0, f"generation {generation}: {process.stderr.read() if process.stderr else ''}; {folder}"
        usual = time.monotonic() - began
        exist = sorted(file.name.partition("-")[0] for file in (folder / "world").glob("[!.]*"))
        assert exist == sorted(f"n{number}" for number in range(MOST - 5 * (generation % 2))), f"generation {generation}: {exist}; {folder}"
        assert recorded(folder)[1] == 0, f"generation {generation} left pending operations; {folder}"
        generation += 1
    outcome = f"{kills} kills in {generation + 1} generations, {left} operations interrupted"
    sys.stdout.write(f"{outcome}: every one converged, nothing lost or made twice\n")


if __name__ == "__main__":
    main()
