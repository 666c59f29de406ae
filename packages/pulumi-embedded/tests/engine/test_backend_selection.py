"""Which stack of a checkout is selected, when several are at once."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pulumi_embedded.engine.backend import FileBackend, StackName


def test_stacks_of_one_checkout_may_be_selected_at_once(tmp_path: Path) -> None:
    backend = FileBackend(tmp_path)
    names = [StackName("p", f"s{i}") for i in range(8)]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(25):
            list(pool.map(lambda name: backend.select(name, "p", tmp_path), names))
    assert backend.selected("p", tmp_path) in names
