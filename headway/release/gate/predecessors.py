"""Earlier gates whose figures this gate gives bit for bit, by the version that releases recorded of them.

The version of a gate is a digest of its sources, so it changes with every edit, even of a comment. An edit that changes no figure adds
the version before it here; then releases that the earlier gate began go on, and their decisions can be made again. An edit that changes
a figure must empty this set, and first keep the gate in `earlier_gates`. The stored decisions in tests/unit/release/gate tell which of
the two it is.
"""

SAME_FIGURES = frozenset[str]()
"""Sentences may differ from theirs: a ledger holds the sentence that was said."""
