"""False alarms and delays of the evidence that watches a serving version, beside a CUSUM that knows what will change.

    python -m benchmarks.drift --streams 10000 [--length 1000] [--reference 1000] [--seed 1]

Each stream begins with the values of the promotion, 1,000 of them, of which every fourth cuts the cells, as in a ledger. The CUSUM knows the
distribution before and after (Page, "Continuous inspection schemes", Biometrika 41, 1954), which nobody does, and its threshold is the one that
on the null streams gives as many false alarms as the budget allows: 1 % over the whole length.
"""

import argparse
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headway.release.backtest.interval import interval
from headway.release.evaluation.drift import conformal_ranks, drift_begun, drift_observed
from headway.release.evaluation.lifelong import FALSE_ALARM, begun, observed
from headway.release.evaluation.loss import BETS as LOSS_BETS
from headway.release.evaluation.loss import loss_factors
from headway.release.evaluation.watched import CUTS, cut

Floats = NDArray[np.float64]
Sample = Callable[[np.random.Generator, tuple[int, ...]], Floats]
REFERENCE = 1000


@dataclass(frozen=True, kw_only=True)
class WatchedChange:
    """What values are before and after, and the log likelihood ratio between both, which only the CUSUM is told."""

    name: str
    before: Sample
    after: Sample
    ratio: Callable[[Floats], Floats]
    lossy: bool = False
    """Whether values are what an answer lost, and not values of a feature."""


def _normal(mean: float, deviation: float) -> WatchedChange:
    def after(rng: np.random.Generator, size: tuple[int, ...]) -> Floats:
        return mean + deviation * rng.standard_normal(size)

    name = f"mean +{mean:g} sd" if mean else f"sd x{deviation:g}"
    return WatchedChange(
        name=name,
        before=lambda rng, size: rng.standard_normal(size),
        after=after,
        ratio=lambda values: (values**2 - ((values - mean) / deviation) ** 2) / 2 - math.log(deviation),
    )


def _losing(before: float, after: float) -> WatchedChange:
    wrong, right = math.log(after / before), math.log((1 - after) / (1 - before))
    return WatchedChange(
        name=f"wrong answers {before:.0%} to {after:.0%}",
        before=lambda rng, size: (rng.random(size) < before).astype(float),
        after=lambda rng, size: (rng.random(size) < after).astype(float),
        ratio=lambda values: values * wrong + (1 - values) * right,
        lossy=True,
    )


def _class(share: float) -> WatchedChange:
    """Of ten classes as frequent as one another, the fourth is answered more often."""
    others = (1 - share) / 9
    shares = np.asarray([share if number == 3 else others for number in range(10)])
    return WatchedChange(
        name=f"one class of ten 10% to {share:.0%}",
        before=lambda rng, size: rng.integers(0, 10, size).astype(float),
        after=lambda rng, size: rng.choice(10, size, p=shares).astype(float),
        ratio=lambda values: np.log(10 * shares[values.astype(int)]),
    )


ACCEPTED = 0.02
CHANGES = (_normal(0.5, 1), _normal(1, 1), _normal(2, 1), _normal(0, 2), _class(0.3), _losing(ACCEPTED, 0.1), _losing(ACCEPTED, 0.2))


def accused(change: WatchedChange, streams: int, length: int, onset: int, rng: np.random.Generator, reference: int = REFERENCE) -> Floats:
    """When the evidence first speaks, in values since the onset; not-a-number: never."""
    values = watched_values(change, streams, length, onset, rng, reference)
    if change.lossy:
        return _losses(values[:, reference:]) - onset
    said = np.full(streams, np.nan)
    edges = [cut(stream[:reference:CUTS]) for stream in values]
    for cells in {len(each) + 1 for each in edges}:
        alike = np.asarray([number for number, each in enumerate(edges) if len(each) + 1 == cells])
        placed = np.stack([np.searchsorted(edges[number], values[number], side="right") for number in alike])
        said[alike] = _drifts(placed, cells, reference, rng)
    return said - onset


def _losses(values: Floats) -> Floats:
    said, evidence = np.full(len(values), np.nan), begun(LOSS_BETS, (len(values),))
    for number, now in enumerate(values.T, 1):
        evidence = observed(evidence, loss_factors(now, ACCEPTED))
        said = np.where(np.isnan(said) & evidence.proven(), number, said)
    return said


def _drifts(placed: NDArray[np.int64], cells: int, reference: int, rng: np.random.Generator) -> Floats:
    """`placed`: the cell of each value, of streams with as many cells."""
    learned = np.arange(reference)
    cutting, counts = (_counts(placed[:, learned[chosen]], cells) for chosen in (learned % CUTS == 0, learned % CUTS > 0))
    said, evidence = np.full(len(placed), np.nan), drift_begun(cutting)
    for number, now in enumerate(placed[:, reference:].T, 1):
        evidence = drift_observed(evidence, conformal_ranks(counts, now, rng.random(len(now))))
        np.add.at(counts, (np.arange(len(now)), now), 1)
        said = np.where(np.isnan(said) & evidence.proven(), number, said)
    return said


def _counts(placed: NDArray[np.int64], cells: int) -> NDArray[np.int64]:
    return np.stack([np.bincount(stream, minlength=cells) for stream in placed])


def watched_values(change: WatchedChange, streams: int, length: int, onset: int, rng: np.random.Generator, reference: int) -> Floats:
    """One stream a row: `reference` values of the promotion, then `length`, the last of them changed."""
    before, after = change.before(rng, (streams, reference + onset)), change.after(rng, (streams, length - onset))
    return np.concatenate([before, after], axis=1)


def cusum(change: WatchedChange, streams: int, length: int, onset: int, rng: np.random.Generator) -> Floats:
    """Its path in each stream."""
    ratios = change.ratio(watched_values(change, streams, length, onset, rng, 0))
    path, now = np.zeros((streams, length)), np.zeros(streams)
    for number in range(length):
        now = np.maximum(now, 0) + ratios[:, number]
        path[:, number] = now
    return path


def clairvoyant(change: WatchedChange, streams: int, length: int, onset: int, rng: np.random.Generator) -> float:
    """Mean delay of the CUSUM with as many false alarms over the length as the budget allows, where it spoke after the onset."""
    threshold = np.quantile(cusum(change, 10 * streams, length, length, rng).max(axis=1), 1 - FALSE_ALARM)
    over = cusum(change, streams, length, onset, rng) >= threshold
    first = np.where(over.any(axis=1), over.argmax(axis=1), -1)
    return float((first[first >= onset] - onset + 1).mean())


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=10_000, help="null streams; a fiftieth of them for each delay")
    parser.add_argument("--length", type=int, default=1000)
    parser.add_argument("--reference", type=int, default=REFERENCE, help="values of the promotion")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(arguments)
    streams, length, reference = asked.streams, asked.length, asked.reference
    for number, (name, change) in enumerate((("values", CHANGES[0]), ("answers", CHANGES[-1]), ("classes", CHANGES[4]))):
        said = accused(change, streams, length, length, np.random.default_rng([asked.seed, number]), reference)
        false = int((~np.isnan(said)).sum())
        sys.stdout.write(f"{name} that do not change: {false} of {streams} streams accused (at most {interval(false, streams)[1]:.2%})\n")
        sys.stdout.flush()
    for number, change in enumerate(CHANGES):
        for onset in (length // 10, length // 2):
            rng = np.random.default_rng([asked.seed, number, onset])
            said = accused(change, streams // 50, length, onset, rng, reference)
            shortest = clairvoyant(change, streams // 10, length, onset, rng)
            found = said[said > 0]
            sys.stdout.write(
                f"{change.name} from value {onset}: after {found.mean():.1f}, the CUSUM after {shortest:.1f} ({found.mean() / shortest:.2f} times);"
                f" not found within {length - onset}: {np.isnan(said).mean():.1%}\n"
            )
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
