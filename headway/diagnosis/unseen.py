"""What is not measured of a service though it serves, and what that leaves undecided. Pure."""

from collections.abc import Iterator, Mapping, Sequence

from headway.diagnosis.facts import Blindness
from headway.release.evidence.samples import TimedValue

_LEAST_SHARE = 0.01
_UNSEEN: Mapping[str, tuple[str, str, str]] = {
    "unread": (
        "replicas",
        "Prometheus cannot read {share:.0%} of the pages of replicas that are ready",
        "which phase takes longer, and which replica differs, is told by the others alone",
    ),
    "gpus_silent": (
        "GPUs",
        "the exporter says nothing of the GPUs of {share:.0%} of the replicas that are ready",
        "heat, clocks, memory errors and Xids of those cannot be ruled out",
    ),
    "rules_failing": ("promises", "Prometheus cannot evaluate some of its rules", "whether a promise burns may not be known"),
}
"""By measure: what is not seen, why, and what it leaves undecided."""


def unseen(series: Mapping[str, Mapping[str, Sequence[TimedValue]]]) -> Iterator[Blindness]:
    """By the newest value of what is measured of the watchers themselves."""
    for name, (what, why, undecided) in _UNSEEN.items():
        samples = series.get(name, {}).get("", ())
        least = 0.0 if name == "rules_failing" else _LEAST_SHARE
        if samples and (share := samples[-1][1]) > least:
            yield Blindness(what=what, why=f"{why.format(share=share)}: {undecided}")
