"""Ports of the sandbox: chosen once, kept in a file, so that a kubeconfig stays true from one start to the next."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random

from sandbox.cluster import whole_file

FIRST, LAST = 20000, 32000
"""Below 32768, where Linux begins to give out ports for outgoing connections: one of those could sit on ours while we
are down."""


def choose(taken: Iterable[int], is_free: Callable[[int], bool], random: Random) -> int:
    """A free port that is not in `taken`. RuntimeError when a thousand tries find none."""
    avoid = set(taken)
    for _ in range(1000):
        port = random.randrange(FIRST, LAST)
        if port not in avoid and is_free(port):
            return port
    raise RuntimeError(f"no free port found between {FIRST} and {LAST}")


def read(path: Path) -> dict[str, int]:
    return json.loads(path.read_text()) if path.exists() else {}


def write(path: Path, ports: dict[str, int]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    whole_file.replace(path, json.dumps(dict(sorted(ports.items())), indent=2) + "\n")
