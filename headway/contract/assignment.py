"""Which users an experiment gives the new version: arithmetic that the gateway does at each request, and anyone can repeat. Pure.

`bucket` is MurmurHash3 (x86, 32 bits, seed 0; A. Appleby, public domain, github.com/aappleby/smhasher) of the experiment's name, a line feed and
the user, modulo 10,000. The gateway has the same in Lua (`components.model_service.experiment`), and `VECTORS` are asked of both. The trap:
whatever changes a bucket moves users between versions in the middle of an experiment; so the function has a name, and never changes under it.
"""

import mmh3

HASH = "murmur3-32-mod-10000"
"""The name of this function, as releases record it."""
BUCKETS = 10_000

VECTORS: tuple[tuple[str, str, int], ...] = (
    ("tone", "", 7266),
    ("tone", "alice", 3649),
    ("tone", "bob", 8370),
    ("tone", "carol", 880),
    ("tone-2", "alice", 9394),
    ("a", "auth0|5f7c8ec7c33c6c004bbafe82", 4766),
    ("reranker-2026-11", "00000000-0000-0000-0000-000000000000", 1566),
    ("reranker-2026-11", "4815162342", 901),
    ("reranker-2026-11", "zoë@example.com", 9171),
)
"""Experiment, user, bucket: what every implementation answers."""


def bucket(experiment: str, user: str) -> int:
    """0 to 9,999: the same for ever for the same experiment and user."""
    return mmh3.hash(f"{experiment}\n{user}".encode(), signed=False) % BUCKETS


def buckets_of(percent: int) -> int:
    """How many buckets, counted from 0, are the new version's: raising the share only adds users to it."""
    return BUCKETS * percent // 100
