"""Edges of the latency histograms that both arms of a release share.

A quantile read from a histogram is wrong by up to one bucket, so edges a quarter apart bound the error at 25 % of the value, and a change
of 20 % stays visible. The trap: arms with different edges cannot be compared at all, so there is one list.
"""

FIRST_MILLISECONDS = 5
LAST_MILLISECONDS = 120_000
"""Longer than any answer that a client still waits for."""


def latency_edges_milliseconds() -> tuple[int, ...]:
    """Upper edges, each about 1.25 times the one before, in whole milliseconds."""
    edges = [FIRST_MILLISECONDS]
    while edges[-1] < LAST_MILLISECONDS:
        edges.append(max(edges[-1] + 1, round(edges[-1] * 1.25)))
    return (*edges[:-1], LAST_MILLISECONDS)
