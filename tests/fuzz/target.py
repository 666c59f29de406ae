"""One parser under atheris: `python -m tests.fuzz.target TABLE NAME LIBFUZZER-OPTIONS`."""

import importlib
import random
import sys
from typing import Any

from tests.fuzz.mutation import mutated

ROOMS = (
    "headway",
    "stacks",
    "policies",
    "components.model_service.scripts",
    "fetch",
    "probe",
    "inference",
    "worker",
    "tarfile",
    "sandbox.monitoring",
)


def main() -> None:
    atheris: Any = importlib.import_module("atheris")
    table, name, *options = sys.argv[1:]
    with atheris.instrument_imports(include=list(ROOMS), enable_loader_override=False):
        known = importlib.import_module(table).PARSERS
    parser = next(each for each in known if each.name == name)

    def changed(data: bytes, most: int, seed: int) -> bytes:
        """By what it says as often as by its bytes, of which libFuzzer knows which ones a comparison asked for."""
        chance = random.Random(seed)
        return bytes(atheris.Mutate(data, most)) if chance.random() < 0.4 else mutated(data, chance)[:most]

    atheris.Setup([sys.argv[0], *options], parser.accepts, custom_mutator=changed)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
