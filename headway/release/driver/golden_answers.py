"""Golden requests to replicas of the new version, asked where they run, and what their answers prove.

Each replica carries the requests of its own release, and the script that judges them (its startup probe). The driver
runs that script's parts inside the serving container, through the API server's `exec`, so that neither the mesh's
identities nor a hole in them is needed. A server that is busy or cannot be reached gave no answer, which is neither a
right one nor a wrong one.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from headway.bounded_json import bounded_json
from headway.environment.port import OutOfReachError
from headway.problem import count
from headway.release.driver.service_under_release import ProbeResult
from headway.wire import SCRIPTS_FOLDER, SERVER_CONTAINER

CONTAINER = SERVER_CONTAINER
REPLICAS_AT_MOST = 3
"""How many replicas are asked at a time; one of a fleet answers as the others do."""
GRACE_SECONDS = 30.0
"""For the last request, and for Python to begin."""
REQUESTS_AT_MOST = 25
"""To each replica in a minute: what is asked of one version only also loads only that one. They are asked in turn and
over again."""
JUDGING = """
import importlib.util, json, math, sys, time
folder, seconds = sys.argv[1], float(sys.argv[2])
found = importlib.util.spec_from_file_location("probe", folder + "/probe.py")
probe = importlib.util.module_from_spec(found)
found.loader.exec_module(probe)
config = json.load(open(folder + "/probe.json"))
until = time.monotonic() + seconds
def judged(request):
    answer = probe.exchange(config["base"], request)
    try:
        part = probe.at(answer, request["answer"])
        kind = request["expect"]["compare"]
        if kind in ("near", "top", "cosine"):
            numbers = probe.numbers(part)
            if not numbers or not all(map(math.isfinite, numbers)):
                return "invalid", "the answer holds no number, or one that is none"
            if kind != "top" and len(numbers) != len(request["expect"]["value"]):
                return "invalid", "the answer holds %d numbers, golden has %d" % (len(numbers), len(request["expect"]["value"]))
    except probe.Wrong as wrong:
        return "invalid", str(wrong)
    try:
        probe.COMPARISONS[kind](part, request["expect"])
    except probe.Wrong as wrong:
        return ("invalid" if kind == "schema" else "wrong"), str(wrong)
    return "right", ""
"""
"""What every script begins with: its first two arguments are the folder and how many seconds it has; `judged` asks one
request."""
SCRIPT = f"""{JUDGING}
first = int(sys.argv[4])
for number in range(first, first + int(sys.argv[3])):
    request = config["golden"][number % len(config["golden"])]
    if number > first and time.monotonic() > until:
        break
    try:
        outcome, why = judged(request)
    except probe.NotYet as silent:
        outcome, why = "silent", str(silent)
    print(json.dumps([request["name"], outcome, why]), flush=True)
"""

FAILURES = 10
"""So often in a row, a second apart, a server that says it is ready may fail to prove itself; waiting longer only
repeats it."""
FAILING = f"""{JUDGING}
from pathlib import Path
print(json.dumps(probe.Memory(Path(config["state"])).recall("failing", dict(times=0, why=""))))
"""
"""What the startup probe of a replica that is not ready yet has met so far; asks the server nothing."""

RunInPod = Callable[[Mapping[str, Any], Sequence[str], float], str]
"""Runs `python3 ARGUMENTS` in the serving container of a pod within so many seconds; answers its standard output.
Raises OutOfReachError."""


@dataclass(frozen=True, kw_only=True)
class GoldenAnswers:
    """What replicas answered. `examples`: what was wrong, in words."""

    replicas: int
    pairs: int
    """Answers that were compared with the expected ones."""
    mismatches: int
    """Of those, how many differed, malformed ones included."""
    invalid: int
    """Of those, how many were empty, not numbers, not as many as expected, or against the schema."""
    silent: int
    """Requests that got no answer to compare."""
    examples: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """As evidence of a tick."""
        counted = {"pairs": self.pairs, "mismatches": self.mismatches, "invalid": self.invalid}
        return {**counted, "silent": self.silent, "replicas": self.replicas, "examples": list(self.examples)}


def in_a_tick(seconds: float) -> int:
    """How many golden requests a tick of that length asks, at least one."""
    return max(1, math.ceil(REQUESTS_AT_MOST * min(1.0, seconds / 60)))


def asked(pods: Sequence[Mapping[str, Any]], run: RunInPod, seconds: float, most: int = REQUESTS_AT_MOST, first: int = 0) -> GoldenAnswers:
    """Ask some of these pods, together, for `seconds`, from request `first` on. Raises OutOfReachError when none could
    be asked."""
    chosen = sorted(pods, key=lambda pod: str(pod["metadata"]["name"]))[:REPLICAS_AT_MOST]
    if not chosen:
        raise OutOfReachError("no replica is ready to be asked")
    arguments = ("-I", "-c", SCRIPT, SCRIPTS_FOLDER, f"{seconds:g}", str(most), str(first))
    with ThreadPoolExecutor(max_workers=len(chosen)) as together:
        told = list(together.map(partial(_told, run, arguments, seconds), chosen))
    answered = [lines for lines in told if not isinstance(lines, OutOfReachError)]
    if not answered:
        raise next(failure for failure in told if isinstance(failure, OutOfReachError))
    outcomes = [outcome for lines in answered for outcome in lines]
    kinds = [outcome for _, outcome, _ in outcomes]
    examples = sorted({f"{name}: {why}" for name, outcome, why in outcomes if outcome != "right"})
    return GoldenAnswers(
        replicas=len(answered),
        pairs=len(kinds) - kinds.count("silent"),
        mismatches=kinds.count("wrong") + kinds.count("invalid"),
        invalid=kinds.count("invalid"),
        silent=kinds.count("silent"),
        examples=tuple(examples[:3]),
    )


def _told(
    run: RunInPod, arguments: Sequence[str], seconds: float, pod: Mapping[str, Any]
) -> "list[tuple[str, str, str]] | OutOfReachError":
    try:
        lines = run(pod, arguments, seconds + GRACE_SECONDS).splitlines()
        return [(str(name), str(outcome), str(why)) for name, outcome, why in map(bounded_json, filter(None, lines))]
    except OutOfReachError as failure:
        return failure
    except (TypeError, ValueError) as failure:
        return OutOfReachError(f"what {pod['metadata']['name']} said cannot be read ({failure})")


def failing(pods: Sequence[Mapping[str, Any]], run: RunInPod) -> str | None:
    """Why replicas that are not ready yet never will be; None unless each of those asked says so, or where none can be
    asked."""
    chosen = sorted(pods, key=lambda pod: str(pod["metadata"]["name"]))[:REPLICAS_AT_MOST]
    reasons: set[str] = set()
    for pod in chosen:
        try:
            said = bounded_json(run(pod, ("-I", "-c", FAILING, SCRIPTS_FOLDER, "0"), GRACE_SECONDS))
            times, why = int(said["times"]), str(said["why"])
        except (OutOfReachError, ValueError, KeyError, TypeError):  # it is being started, or ended, or says something else
            return None
        if times < FAILURES:
            return None
        reasons.add(f"{times} times in a row, though its server says that it is ready: {why}")
    return "; ".join(sorted(reasons)) or None


def judged(answers: GoldenAnswers, tolerated: float) -> ProbeResult:
    """Whether golden requests are passed. `tolerated`: share of answers that may differ, by the contract."""
    by = f"the driver, of {count(answers.replicas, 'replica')}"
    wrong = f": {'; '.join(answers.examples)}" if answers.examples else ""
    if answers.invalid:
        return ProbeResult(passed=False, reason=f"{answers.invalid} of {answers.pairs} answers are malformed{wrong}", by=by)
    if answers.mismatches > tolerated * answers.pairs:
        reason = f"{answers.mismatches} of {answers.pairs} answers differ, and {tolerated:.2%} may{wrong}"
        return ProbeResult(passed=False, reason=reason, by=by)
    if not answers.pairs:
        raise OutOfReachError(f"no golden request was answered{wrong}")
    return ProbeResult(passed=True, reason=f"{answers.pairs - answers.mismatches} of {answers.pairs} answers are right", by=by)
