"""A script that fails made smaller, by leaving events out (delta debugging, Zeller and Hildebrandt 2002, `ddmin`), with
a bounded number of replays. Pure but for the question."""

from collections.abc import Callable, Sequence
from typing import TypeVar

Each = TypeVar("Each")


def shrunk(events: Sequence[Each], fails: Callable[[Sequence[Each]], bool], replays: int) -> tuple[Each, ...]:
    """The fewest of `events` that still fail, as far as `replays` questions tell. `events` themselves must fail."""
    kept, parts = tuple(events), 2
    while len(kept) > 1 and replays > 0:
        size = -(-len(kept) // parts)
        for start in range(0, len(kept), size):
            if replays == 0:
                return kept
            replays -= 1
            left = (*kept[:start], *kept[start + size :])
            if left and fails(left):
                kept, parts = left, max(2, parts - 1)
                break
        else:
            if size == 1:
                return kept
            parts = min(len(kept), parts * 2)
    return kept
