"""The demonstration: two tenants under load, a good release promoted, three bad ones caught, each with its report.

`python -m sandbox.traffic.demo [--speed N] [--traffic-only] [RELEASE ...]`, or `make demo`, `make demo-traffic`. Minutes of a rollout pass `--speed` times as
fast, which the ledger and every report say; the gate is the one of production and needs the same evidence. Interrupted,
it ends all that it started. A faster clock gives each tick fewer requests, not the gate less proof, so the load is what
decides how long a release takes.
"""

import argparse
import os
import shutil
import signal
import sys
import textwrap
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from headway.problem import UserError
from sandbox.cluster.locks import exclusive
from sandbox.layout import Layout
from sandbox.progress import Silent
from sandbox.traffic import command_records, load_process, workspace
from sandbox.traffic.release_trials import BEFORE_TRAFFIC, CHAIN, ReleaseTrials, TrialResult, layout_of, stop
from sandbox.traffic.steady_load import RATES, SteadyLoad

SPEED = 15.0
LOG_COLUMNS = 140
CHECKOUT = Path(__file__).resolve().parents[2]
"""Not the workspace, whose `sandbox/` is a link."""
PAGE = "docs/guide/own-release.md"
FIRST_LINES = ('eval "$(.venv/bin/headway sandbox env --demo)"', "cd .headway/demo/checkout", "headway status -e sandbox")
"""What a person types first; the page has the same."""
INTERRUPTED = 130
"""Exit code of a program that Ctrl-C has ended, as shells count it."""


@dataclass(frozen=True)
class Wanted:
    """How a release should end, and where that should be decided; `where` is the beginning of the stage's name, empty for
    any."""

    outcome: str
    where: str

    def met(self, found: TrialResult) -> bool:
        return found.outcome == self.outcome and found.where.startswith(self.where)

    def __str__(self) -> str:
        return self.outcome if self.outcome == "promoted" or not self.where else f"{self.outcome} at {_place(self.where)}"


PROMOTED = Wanted("promoted", "all traffic")
CAUGHT_DARK = Wanted("rolled back", BEFORE_TRAFFIC)
CAUGHT_ON_COPIES = Wanted("rolled back", "mirror")
CAUGHT_IN_BAKE = Wanted("rolled back", "95% while it bakes")
CAUGHT = Wanted("rolled back", "")
WANTED: Mapping[str, Wanted] = {
    "identical": PROMOTED,
    "better": PROMOTED,
    "slow-tail": CAUGHT_ON_COPIES,
    "tail": CAUGHT,
    "errors": CAUGHT_ON_COPIES,
    "late": CAUGHT_IN_BAKE,
    "wrong": CAUGHT_DARK,
    "leak": CAUGHT_ON_COPIES,
    "crash-at-maximum": CAUGHT_DARK,
    "slow-start": PROMOTED,
    "dead": CAUGHT_ON_COPIES,
}
"""Of every release that the classifier has beside its stable one. A slow start within the contract's budget harms
nobody."""
STORY = ("identical", "wrong", "errors", "dead")
"""Releases in their order."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="make demo", description="Serve real traffic, promote a good release, and catch three bad ones.")
    parser.add_argument("--speed", type=float, default=SPEED, help="by which factor the minutes of a rollout pass faster")
    parser.add_argument("--traffic-only", action="store_true", help="keep the load up and release nothing: that is yours to do")
    parser.add_argument("releases", nargs="*", help="the releases of the classifier to try; without any, those of the demonstration")
    given = parser.parse_args(arguments)
    unknown = sorted(set(given.releases) - set(WANTED))
    if unknown:
        parser.error(f"the classifier has no release {', '.join(unknown)}; choose from {', '.join(WANTED)}")
    layout = layout_of(CHECKOUT)
    stop_on_signals()
    try:
        with alone(layout):
            try:
                forget(layout)
                command_records.record(layout, os.getpid())
                trials = ReleaseTrials.of(CHECKOUT, layout, given.speed)
                return keep_traffic(trials) if given.traffic_only else demonstrate(trials, tuple(given.releases) or STORY)
            except KeyboardInterrupt:
                say("Interrupted: stopping everything that was started")
                stop(layout)
                return INTERRUPTED
    except (UserError, OSError) as error:
        return refused(error)


def alone(layout: Layout, timeout_seconds: float = 0.0) -> AbstractContextManager[None]:
    """Hold the workspace of the demonstration, which two would wreck for each other. Raises UserError (BUSY) after
    `timeout_seconds`."""
    return exclusive(
        layout.state.parent / "demo.lock", what="plays the demonstration of this checkout", waiting=say, timeout=timeout_seconds
    )


def refused(error: UserError | OSError) -> int:
    """Say why a demonstration ends here; its exit code."""
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        remedy = "Put that right (free some space, or correct the permissions) and run the command again."
        error = UserError(f"{where}{error.strerror or error}.", "The demonstration has stopped; `make demo-down` ends what runs.", remedy)
    sys.stderr.write(f"error: {error}\n")
    return int(error.exit)


def stop_on_signals() -> None:
    """Let SIGTERM, a closed terminal (unless by `nohup`), and SIGINT even where the shell had it ignored, end this by
    KeyboardInterrupt.

    By one: whoever presses Ctrl-C twice would else interrupt what ends everything.
    """
    ending = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN else [])]

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        for each in ending:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    for number in ending:
        signal.signal(number, interrupt)


def demonstrate(trials: ReleaseTrials, story: Sequence[str]) -> int:
    """Play the story; 0 when every release ended as it should."""
    began = time.monotonic()
    say("Starting the demonstration: two tenants, served by Triton behind Envoy and measured by Prometheus")
    if not trials.up():
        return 1
    loads = trials.loads()
    loads.start()
    trials.measured()
    ended = [_release(trials, loads, name) for name in story]
    loads.stop()
    reports = [trials.report(each.number, each.release) if each.number else None for each in ended]
    _summary(trials, loads, ended, reports, time.monotonic() - began)
    return 0 if all(WANTED[each.release].met(each) for each in ended) else 1


def keep_traffic(trials: ReleaseTrials) -> int:
    """Bring the tenants up with their load in a process that stays, and say where to go on."""
    say("Starting two tenants, served by Triton behind Envoy and measured by Prometheus")
    workspace.lay_out_model(trials.layout.project, trials.artifacts)
    if not trials.up():
        return 1
    load_process.start(trials.layout, Silent())
    trials.measured()
    rates = ", ".join(f"{rate:g} requests a second to {model}" for model, rate in RATES.items())
    say(f"Users ask without a break: {rates}. Release something yourself, as {PAGE} says:")
    for line in FIRST_LINES:
        _print("    ", line)
    say_line("`make demo-down` ends everything.")
    return 0


def _release(trials: ReleaseTrials, loads: SteadyLoad, name: str) -> TrialResult:
    say(f"Releasing {name} of {CHAIN}, which should be {WANTED[name]}. The minutes of a rollout pass {trials.speed:g} times as fast")
    return trials.release(name, loads.tallies["classifier"])


def _summary(
    trials: ReleaseTrials, loads: SteadyLoad, ended: Sequence[TrialResult], reports: Sequence[Path | None], seconds: float
) -> None:
    good = sum(WANTED[each.release].met(each) for each in ended)
    say(
        f"{good} of {len(ended)} releases ended as they should, in {minutes(seconds)} from an empty start; "
        f"the rollout clock ran {trials.speed:g} times as fast"
    )
    for each, report in zip(ended, reports, strict=True):
        met = "as it should" if WANTED[each.release].met(each) else f"NOT as it should ({WANTED[each.release]})"
        where = f" at {_place(each.where)}" if each.outcome == "rolled back" else ""
        say_line(f"{each.release}: {each.outcome}{where} after {minutes(each.seconds)}, {met}")
        say_line(f"  {each.verdict}")
        if each.outcome == "rolled back":
            say_line(f"  requests of users that it answered: {each.users}")
        if report is not None:
            say_line(f"  report: {report}")
    for model, tally in sorted(loads.tallies.items()):
        sent, lost = tally.statuses.total(), len(tally.lost)
        say_line(f"{model}: {sent} requests of users, {lost} lost, p99 {tally.quantile(0.99) * 1000:.0f} ms")
    say_line(f"The control plane, Prometheus, the proxies and the pods use {trials.memory() / 2**30:.1f} GiB of memory.")
    say_line("Everything still runs, so that you can look at it (docs/guide/traffic.md). Stop it with `make demo-down`.")
    say_line(f"Release something yourself: {PAGE}.")


def _place(where: str) -> str:
    if where == BEFORE_TRAFFIC:
        return "its own checks, before any traffic"
    return "the mirror stage, on copies of requests" if where.startswith("mirror") else where


def minutes(seconds: float) -> str:
    return f"{int(seconds) // 60} min {int(seconds) % 60} s"


def forget(layout: Layout) -> None:
    """Begin from nothing: a release that an earlier demonstration promoted would be no new one. Its reports stay."""
    if layout.state.exists():
        stop(layout)
        shutil.rmtree(layout.state)


def say(text: str) -> None:
    _print("\n== ", text)


def say_line(text: str) -> None:
    _print("   ", text)


def _print(head: str, text: str) -> None:
    """What follows `head`, folded to the terminal; addresses are not cut."""
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else LOG_COLUMNS
    inner = " " * len(head.lstrip("\n"))
    inner += text[: len(text) - len(text.lstrip())]
    folded = textwrap.fill(text, columns, initial_indent=head, subsequent_indent=inner, break_long_words=False, break_on_hyphens=False)
    sys.stdout.write(f"{folded}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
