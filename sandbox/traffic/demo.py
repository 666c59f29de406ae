"""The demonstration: tenants under load, a good release promoted, three bad ones caught, each with its report.

`python -m sandbox.traffic.demo [--language] [--speed N] [--traffic-only] [RELEASE ...]`, or `make demo`, `make demo-traffic`, `make
demo-llm`, `make demo-llm-traffic`. Minutes of a rollout pass `--speed` times as fast, which the ledger and every report say; the gate is
the one of production and needs the same evidence. Interrupted, it ends all that it started. A faster clock gives each tick fewer requests,
not the gate less proof, so the load is what decides how long a release takes.
"""

import argparse
import os
import shutil
import signal
import sys
import textwrap
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import FrameType

from headway.problem import UserError
from sandbox.cluster.locks import exclusive
from sandbox.layout import Layout
from sandbox.progress import Silent
from sandbox.traffic import command_records, load_process, workspace
from sandbox.traffic.release_trials import CLASSIFIER, ReleaseTrials, TrialResult, forget, layout_of, stop
from sandbox.traffic.steady_load import RATES, SteadyLoad
from sandbox.traffic.tried_models import TRIED, TriedModel, place

LOG_COLUMNS = 140
CHECKOUT = Path(__file__).resolve().parents[2]
"""Not the workspace, whose `sandbox/` is a link."""
PAGE = "docs/guide/own-release.md"
FIRST_LINES = ('eval "$(.venv/bin/headway sandbox env --demo)"', "cd .headway/demo/checkout", "headway status -e sandbox")
"""What a person types first; the page has the same."""
INTERRUPTED = 130
"""Exit code of a program that Ctrl-C has ended, as shells count it."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="make demo", description="Serve real traffic, promote a good release, and catch three bad ones.")
    parser.add_argument("--language", action="store_true", help="a language model on vLLM, in place of classifiers on Triton")
    parser.add_argument("--speed", type=float, help="by which factor the minutes of a rollout pass faster")
    parser.add_argument("--traffic-only", action="store_true", help="keep the load up and release nothing: that is yours to do")
    parser.add_argument("releases", nargs="*", help="the releases to try; without any, those of the demonstration")
    given = parser.parse_args(arguments)
    tried = TRIED["language" if given.language else "releases"]
    if unknown := sorted(set(given.releases) - set(tried.wanted)):
        parser.error(f"the {tried.served[0].model} has no release {', '.join(unknown)}; choose from {', '.join(tried.wanted)}")
    layout = layout_of(CHECKOUT)
    stop_on_signals()
    try:
        with alone(layout):
            try:
                forget(layout)
                command_records.record(layout, os.getpid())
                say(f"Starting {tried.title}")
                trials = tried.trials(CHECKOUT, layout, given.speed or tried.speed, Told())
                return keep_traffic(tried, trials) if given.traffic_only else demonstrate(tried, trials, given.releases or tried.story)
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


def demonstrate(tried: TriedModel, trials: ReleaseTrials, story: Sequence[str]) -> int:
    """Play the story; 0 when every release ended as it should."""
    began = time.monotonic()
    if not trials.up():
        return 1
    loads = trials.loads()
    loads.start()
    trials.measured()
    ended = [_release(tried, trials, loads, name) for name in story]
    loads.stop()
    reports = [trials.report(each.number, each.release) if each.number else None for each in ended]
    _summary(tried, trials, loads, ended, reports, time.monotonic() - began)
    return 0 if all(tried.wanted[each.release].met(each) for each in ended) else 1


def keep_traffic(tried: TriedModel, trials: ReleaseTrials) -> int:
    """Bring the tenants up with their load in a process that stays, and say where to go on."""
    own = trials.served == CLASSIFIER
    if own:
        workspace.lay_out_model(trials.layout.project, trials.artifacts)
    if not trials.up():
        return 1
    load_process.start(trials.layout, Silent())
    trials.measured()
    rates = ", ".join(f"{RATES[each.model]:g} requests a second to {each.model}" for each in tried.served)
    say(f"Users ask without a break: {rates}. {f'Release something yourself, as {PAGE} says' if own else 'Look at it and ask it'}:")
    _commands((*FIRST_LINES, *tried.questions(trials.layout)))
    say_line("`make demo-down` ends everything.")
    return 0


def _release(tried: TriedModel, trials: ReleaseTrials, loads: SteadyLoad, name: str) -> TrialResult:
    should = tried.wanted[name]
    say(f"Releasing {name} of {trials.chain}, which should be {should}. The minutes of a rollout pass {trials.speed:g} times as fast")
    return trials.release(name, loads.tallies[trials.served.model])


def _summary(
    tried: TriedModel,
    trials: ReleaseTrials,
    loads: SteadyLoad,
    ended: Sequence[TrialResult],
    reports: Sequence[Path | None],
    seconds: float,
) -> None:
    good = sum(tried.wanted[each.release].met(each) for each in ended)
    say(
        f"{good} of {len(ended)} releases ended as they should, in {minutes(seconds)} from an empty start; "
        f"the rollout clock ran {trials.speed:g} times as fast"
    )
    for each, report in zip(ended, reports, strict=True):
        should = tried.wanted[each.release]
        met = "as it should" if should.met(each) else f"NOT as it should ({should})"
        where = f" at {place(each.where)}" if each.outcome == "rolled back" else ""
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
    _commands((*FIRST_LINES, *tried.questions(trials.layout)))
    if trials.served == CLASSIFIER:
        say_line(f"Release something yourself: {PAGE}.")


def minutes(seconds: float) -> str:
    return f"{int(seconds) // 60} min {int(seconds) % 60} s"


class Told(Silent):
    """Progress as lines of a demonstration."""

    def step(self, key: str, text: str) -> None:
        say_line(f"{key}: {text}")


def say(text: str) -> None:
    _print("\n== ", text)


def say_line(text: str) -> None:
    _print("   ", text)


def _commands(lines: Sequence[str]) -> None:
    """Never folded: they are to be copied."""
    sys.stdout.write("".join(f"     {each}\n" for each in lines))


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
