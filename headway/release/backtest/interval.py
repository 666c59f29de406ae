"""How far a share that was counted may be from the true one."""

from scipy.stats import beta


def interval(found: int, of: int) -> tuple[float, float]:
    """95 % interval of a share, 0 to 1, of which `found` of `of` were counted (Clopper and Pearson, Biometrika 26(4), 1934)."""
    low = float(beta.ppf(0.025, found, of - found + 1)) if found else 0.0
    high = float(beta.ppf(0.975, found + 1, of - found)) if found < of else 1.0
    return low, high
