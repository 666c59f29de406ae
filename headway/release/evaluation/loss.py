"""Whether a serving version answers labelled requests worse than is accepted.

A request is drawn at random from the holdout set, with replacement, and its answer loses 0 (right) to 1 (wrong). All of the set was asked at the
promotion, so what the version lost there is known, and `accepted` is that and what the contract tolerates above it. While the version loses no
more, a loss has a mean of `accepted` at most given the past, and so has each bet's factor a mean of 1 at most: betting on a bounded mean,
Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting" (JRSS B 86(1), 2024, arXiv 2010.09686).
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

_WORSE = (0.03, 0.1, 0.3)
"""What a bet expects to be lost, as a part of what can be lost beyond what is accepted; small ones find small losses."""
BETS = len(_WORSE)


def loss_factors(loss: ArrayLike, accepted: float) -> Floats:
    """Factors of the bets after one answer to each stream. `loss`, `accepted`: 0 to 1. Of right and wrong it is the likelihood ratio.

    Raises ValueError for a loss outside of 0 to 1, and where nothing or everything may be lost.
    """
    lost = np.asarray(loss, dtype=np.float64)
    if np.any((lost < 0) | (lost > 1)) or not 0 < accepted < 1:
        raise ValueError(f"a loss outside of 0 to 1, or {accepted} accepted. No bet allows for it. Scale losses, and accept a few")
    expected = accepted + (1 - accepted) * np.asarray(_WORSE)
    return 1 + (expected - accepted) / (accepted * (1 - accepted)) * (lost[..., None] - accepted)
