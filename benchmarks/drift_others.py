"""What other tools for drift say of streams like those of `benchmarks.drift`, and of the drifts that their own documentation shows.

    PYTHONPATH=. .venv-drift/bin/python -m benchmarks.drift_others --streams 10000 [--tool NAME ...]

Each is used as its documentation shows, with its own defaults, 1,000 values of the promotion as its reference, and is looked at whenever it has
something new to say, until it speaks for the first time; Headway's evidence and the CUSUM that knows the change see streams drawn alike. The
tools are in an environment of their own (`requirements/drift.txt`).
"""

# pyright: reportMissingImports=false, reportUnknownParameterType=false
# What the other environment holds is not here.

import argparse
import copy
import logging
import math
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial

os.environ.update(DO_NOT_TRACK="1", NML_DISABLE_USAGE_LOGGING="1")  # Evidently and NannyML would report their use

import nannyml
import numpy as np
import pandas as pd
from alibi_detect.cd import CVMDriftOnline
from evidently.legacy.calculations.stattests import get_stattest
from evidently.legacy.core import ColumnType
from frouros.detectors.data_drift import IncrementalKSTest
from numpy.typing import NDArray
from sklearn.datasets import load_iris

from benchmarks.drift import CHANGES, REFERENCE, Sample, WatchedChange, accused, clairvoyant, watched_values

Floats = NDArray[np.float64]
FirstAlarm = Callable[[Floats], Floats]
"""From streams (rows: reference, then what is watched) to the number of watched values after which each is accused; not-a-number: never."""
WINDOW = 100
"""Values of a window or chunk."""
SMALL_REFERENCE = 250
"""Of Alibi Detect, whose page recommends to keep it reasonably small and to take a part of a larger one."""
_CELLS = 40
"""Of equal probability, in which the CUSUM of a documented drift knows both distributions."""


def evidently(values: Floats) -> Floats:
    """Each window of 100 by the test that its drift preset chooses by itself: Kolmogorov-Smirnov at 0.05 for 1,000 values of reference.

    A whole Report takes a quarter of a second a column; this is the test that it calls (`report_agrees`).
    """
    said = np.full(len(values), np.nan)
    for number, stream in enumerate(values):
        reference, live = pd.Series(stream[:REFERENCE]), stream[REFERENCE:]
        for end in range(WINDOW, len(live) + 1, WINDOW):
            window = pd.Series(live[end - WINDOW : end])
            test = get_stattest(reference, window, ColumnType.Numerical, None)
            if test.func(reference, window, ColumnType.Numerical, test.default_threshold)[1]:
                said[number] = end
                break
    return said


def report_agrees(values: Floats) -> bool:
    """Whether Evidently's Report says of the first window of each stream what its test says."""
    from evidently import DataDefinition, Dataset, Report
    from evidently.presets import DataDriftPreset

    columns = [f"stream{number}" for number in range(len(values))]
    definition = DataDefinition(numerical_columns=columns)
    frames = (pd.DataFrame(part.T, columns=columns) for part in (values[:, REFERENCE : REFERENCE + WINDOW], values[:, :REFERENCE]))
    now, before = (Dataset.from_pandas(frame, data_definition=definition) for frame in frames)
    metrics = Report([DataDriftPreset()]).run(now, before).dict()["metrics"]
    p = {metric["config"]["column"]: metric["value"] for metric in metrics if "column" in metric["config"]}
    accused_by_report = [p[column] <= 0.05 for column in columns]
    return accused_by_report == list(~np.isnan(evidently(values[:, : REFERENCE + WINDOW])))


def nanny(values: Floats) -> Floats:
    """Chunks of 100 by Jensen-Shannon distance, alerting above the mean of the reference's own chunks and three standard deviations."""
    said: list[float] = []
    for part in np.array_split(values, math.ceil(len(values) / 100)):
        columns = [f"stream{number}" for number in range(len(part))]
        frame = pd.DataFrame(part.T, columns=columns)
        calculator = nannyml.UnivariateDriftCalculator(column_names=columns, chunk_size=WINDOW).fit(frame[:REFERENCE])
        found = calculator.calculate(frame[REFERENCE:].reset_index(drop=True)).filter(period="analysis").to_df()
        for column in columns:
            alerts = found[(column, "jensen_shannon", "alert")].to_numpy(dtype=bool)
            said.append((alerts.argmax() + 1) * WINDOW if alerts.any() else math.nan)
    return np.asarray(said)


@cache
def _configured(ert: int, bootstraps: int) -> CVMDriftOnline:
    """Thresholds depend on the number of values of the reference only, says its documentation: they are simulated once."""
    np.random.seed(1)
    reference = np.random.default_rng(1).standard_normal((SMALL_REFERENCE, 1))
    return CVMDriftOnline(reference, ert, [20, 40], n_bootstraps=bootstraps, verbose=False)


def alibi(values: Floats, ert: int) -> Floats:
    """The online Cramér-von Mises detector with the windows of its documentation's example, at each value. Streams are its features."""
    said: list[Floats] = []
    one = _configured(ert, 10 * ert)
    for part in np.array_split(values, math.ceil(len(values) / 50)):
        detector = copy.copy(one)
        detector.x_ref, detector.n_features = part[:, REFERENCE - SMALL_REFERENCE : REFERENCE].T.copy(), len(part)
        detector._configure_ref()
        detector.reset_state()
        first = np.full(len(part), np.nan)
        for number, now in enumerate(part[:, REFERENCE:].T):
            statistics = detector.score(now)
            if number + 1 >= min(detector.window_sizes):
                over = np.nanmax(statistics, axis=0) > detector.get_threshold(number)
                first = np.where(np.isnan(first) & over, number + 1, first)
                if not np.isnan(first).any():
                    break
        said.append(first)
    return np.concatenate(said)


def frouros(values: Floats, alpha: float = 0.01) -> Floats:
    """The incremental Kolmogorov-Smirnov test over the last 100 values, at each value, at the level of its example for single features."""
    said = np.full(len(values), np.nan)
    for number, stream in enumerate(values):
        detector = IncrementalKSTest(window_size=WINDOW)
        detector.fit(X=stream[:REFERENCE])
        for place, value in enumerate(stream[REFERENCE:], 1):
            test, _ = detector.update(value=value)
            if test is not None and test.p_value <= alpha:
                said[number] = place
                break
    return said


TOOLS: Mapping[str, FirstAlarm] = {
    "Evidently 0.7.23": evidently,
    "NannyML 0.13.1": nanny,
    "Alibi Detect 0.13.0, ERT 150": partial(alibi, ert=150),
    "Alibi Detect 0.13.0, ERT 1,000": partial(alibi, ert=1000),
    "frouros 0.9.0": frouros,
}


def known(name: str, before: Sample, after: Sample) -> WatchedChange:
    """A change between two distributions that can be drawn from; the CUSUM knows both in cells."""
    rng = np.random.default_rng(1)
    one, other = before(rng, (400_000,)), after(rng, (400_000,))
    edges = np.unique(np.quantile(np.concatenate([one, other]), np.arange(1, _CELLS) / _CELLS))
    counts = [np.bincount(np.searchsorted(edges, drawn, side="right"), minlength=len(edges) + 1) + 0.5 for drawn in (one, other)]
    ratios = np.log(counts[1] / counts[0])
    return WatchedChange(name=name, before=before, after=after, ratio=lambda values: ratios[np.searchsorted(edges, values, side="right")])


def _of(values: Iterable[float]) -> Sample:
    """Draws with replacement."""
    from_them = np.asarray(list(values), dtype=np.float64)
    return lambda rng, size: rng.choice(from_them, size)


def documented() -> tuple[WatchedChange, ...]:
    """Drifts of the tools' own pages, of data that the packages carry: Evidently's iris flowers (first 100, last 50), NannyML's car loans
    (quickstart: reference, second half of the analysis), the second coordinate of Alibi Detect's simple example, frouros' noise on iris."""
    iris = load_iris().data[:, 0]
    loans, later, _ = nannyml.load_synthetic_car_loan_dataset()
    later = later[len(later) // 2 :]

    def mixed(mean: float) -> Sample:
        return lambda rng, size: np.where(rng.random(size) < 0.5, mean, 1.0) + 0.8 * rng.standard_normal(size)

    def noisy(rng: np.random.Generator, size: tuple[int, ...]) -> Floats:
        return rng.choice(iris, size) + rng.normal(0, 3, size)

    return (
        known("Evidently: iris, sepal length", _of(iris[:100]), _of(iris[100:])),
        known("NannyML: value of the car", _of(loans.car_value), _of(later.car_value)),
        known("NannyML: predicted probability", _of(loans.y_pred_proba), _of(later.y_pred_proba)),
        known("Alibi Detect: moved mixture", mixed(-1), mixed(-4)),
        known("frouros: noise on iris", _of(iris), noisy),
    )


def _said(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _null(name: str, streams: int, length: int, seed: int) -> None:
    began = time.process_time()
    values = watched_values(CHANGES[0], streams, length, length, np.random.default_rng([seed, 0]), REFERENCE)
    first = TOOLS[name](values)
    false = int((~np.isnan(first)).sum())
    half = f", half of them within {np.nanmedian(first):.0f} values" if false else ""
    _said(f"| {name} | {false:,} of {streams:,}{half} | {time.process_time() - began:.0f} s |")


def _delays(change: WatchedChange, number: int, tools: Iterable[str], streams: int, length: int, seed: int) -> None:
    onset = length // 2
    rng = np.random.default_rng([seed, 100 + number])
    values = watched_values(change, streams, length, onset, rng, REFERENCE)
    shortest = clairvoyant(change, 5 * streams, length, onset, rng)
    said = {"Headway": accused(change, streams, length, onset, rng), **{name: TOOLS[name](values) - onset for name in tools}}
    for name, after in said.items():
        late = after[after > 0]
        delay = f"{late.mean():.1f} ({late.mean() / shortest:.2f} times)" if len(late) else "-"
        _said(f"| {change.name} | {shortest:.1f} | {name} | {(after <= 0).mean():.1%} | {delay} | {np.isnan(after).mean():.1%} |")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=10_000, help="null streams; a fiftieth of them for each delay")
    parser.add_argument("--length", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--part", choices=("null", "delays"), help="only this; otherwise both")
    parser.add_argument("--tool", choices=TOOLS, action="append", help="only these; otherwise all")
    asked = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    tools = asked.tool or list(TOOLS)
    if "Evidently 0.7.23" in tools and asked.part != "delays":
        values = watched_values(CHANGES[0], 40, WINDOW, WINDOW, np.random.default_rng(asked.seed), REFERENCE)
        _said(f"Evidently's report and its test say the same of 40 streams: {'yes' if report_agrees(values) else 'NO'}")
    for name in tools if asked.part != "delays" else ():
        _null(name, asked.streams, asked.length, asked.seed)
    for number, change in enumerate((CHANGES[0], CHANGES[1], *documented()) if asked.part != "null" else ()):
        _delays(change, number, tools, max(10, asked.streams // 50), asked.length, asked.seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
