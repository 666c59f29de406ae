"""Shares and times in words."""


def share_in_words(value: float) -> str:
    """`0.98 %`, `12.4 %`, `0.004 %`."""
    percent = 100 * value
    return f"{percent:.1f} %" if percent >= 10 else f"{percent:.2f} %" if percent >= 0.01 or not percent else f"{percent:.1g} %"


def time_in_words(seconds: float) -> str:
    """`312 ms`, `4.2 ms`, `12.5 s`."""
    if seconds >= 1:
        return f"{seconds:.3g} s"
    return f"{1e3 * seconds:.3g} ms" if seconds >= 0.001 or not seconds else f"{1e3 * seconds:.2g} ms"
