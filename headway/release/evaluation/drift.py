"""Whether inputs or answers of a serving version still come from where those of its promotion came.

Each new value gets a conformal p-value: its rank among all values before it, those of the promotion first. While nothing changes, these are
independent and uniform whatever the values' distribution is (Fedorova and others, "Plug-in martingales for testing exchangeability on-line",
ICML 2012, arXiv 1204.3251), so bets on them are martingales: Vovk and others, "Retrain or not retrain: conformal test martingales for
change-point detection" (COPA 2021, arXiv 2102.10439).

The traps: values after a change join those before it, so a small change that comes soon after few values is found late or never; and it is
exchangeability that is refuted, so an hour of the day is a change like any other: let `earlier` hold values of the same hour only.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

Floats = NDArray[np.float64]

_SHIFTS = (-1.8, -0.9, -0.4, 0.4, 0.9, 1.8)
"""Standard deviations."""
_SCALES = (0.5, 2.0)
BETS = len(_SHIFTS) + len(_SCALES)
_SMALLEST = 1e-12


def conformal_p(value: ArrayLike, earlier: ArrayLike, tie: ArrayLike) -> Floats:
    """Of one new value in each stream among the values before it, which are the last axis of `earlier`. `tie`: uniform in [0, 1), drawn
    anew for each value; it decides between equal ones."""
    new, before = np.asarray(value)[..., None], np.asarray(earlier)
    above, equal = (before > new).sum(axis=-1), (before == new).sum(axis=-1) + 1
    return (above + np.asarray(tie) * equal) / (before.shape[-1] + 1)


def drift_factors(p: ArrayLike) -> Floats:
    """Factors of the bets after one p-value of each stream: likelihood ratios of normal values that moved or spread, at the p-value's quantile.

    Such a ratio has a mean of 1 when p-values are uniform, so the bets are valid for values that are not normal, too.
    """
    quantile = -ndtri(np.clip(np.asarray(p, dtype=np.float64), _SMALLEST, 1 - _SMALLEST))[..., None]
    shifts, scales = np.asarray(_SHIFTS), np.asarray(_SCALES)
    moved = shifts * quantile - shifts**2 / 2
    spread = (1 - scales**-2) * quantile**2 / 2 - np.log(scales)
    return np.exp(np.concatenate([moved, spread], axis=-1))
