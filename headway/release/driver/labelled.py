"""Golden requests of the new contract to both versions, each once in a release: which of the two answers what is right
more often.

The new version's replica hands out its requests, and a replica of the stable version is asked the same by its own copy
of the script. The trap: a version that cannot be asked a request has not got it wrong, so only a pair of answers that
can be compared counts.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headway.bounded_json import bounded_json
from headway.environment.port import OutOfReachError
from headway.release.driver.golden_answers import GRACE_SECONDS, JUDGING, RunInPod
from headway.wire import SCRIPTS_FOLDER

CHARACTERS_AT_MOST = 32_768
"""Of requests in one call, as JSON: they travel in the address of the API server's `exec`. A larger request is not
compared."""
_OF_THE_NEW = f"""{JUDGING}
over, most = set(json.loads(sys.argv[3])), int(sys.argv[4])
asked, length = 0, 2
for request in config["golden"]:
    sent = {{key: value for key, value in request.items() if key != "file"}}
    if "file" in request:
        sent["body"] = json.load(open(request["file"]))
    more = len(json.dumps(sent)) + 2
    if request["name"] in over or more + 2 > most:
        continue
    if length + more > most or (asked and time.monotonic() > until):
        break
    asked, length = asked + 1, length + more
    try:
        outcome, _ = judged(request)
    except probe.NotYet:
        outcome = "silent"
    print(json.dumps([request["name"], outcome, sent]), flush=True)
"""
_OF_THE_STABLE = f"""{JUDGING}
for number, request in enumerate(json.loads(sys.argv[3])):
    if number and time.monotonic() > until:
        break
    try:
        outcome, _ = judged(request)
    except Exception:
        outcome = "silent"
    print(json.dumps([request["name"], outcome]), flush=True)
"""


@dataclass(frozen=True, kw_only=True)
class LabelledComparison:
    """What both versions answered to the same requests."""

    names: tuple[str, ...]
    """Of the requests that both answered, sorted."""
    pairs: int
    """Of these, those where the stable version's answer has the form that the new contract asks for."""
    only_new_right: int
    only_stable_right: int

    def document(self) -> dict[str, Any]:
        """As evidence of a tick, beside `Answers.document`."""
        counted = {"only_canary_right": self.only_new_right, "only_stable_right": self.only_stable_right}
        return {"labelled": self.pairs, **counted, "compared": list(self.names)}


def compared(
    new: Sequence[Mapping[str, Any]], stable: Sequence[Mapping[str, Any]], over: Collection[str], run: RunInPod, seconds: float
) -> LabelledComparison:
    """Ask a replica of each version, for `seconds` each, what is not in `over` yet. Raises OutOfReachError when one
    cannot be asked."""
    names = json.dumps(sorted(over))
    lines = said_by_one(new, run, (_OF_THE_NEW, SCRIPTS_FOLDER, f"{seconds:g}", names, str(CHARACTERS_AT_MOST)), seconds, 3)
    answered = {name: (outcome == "right", request) for name, outcome, request in lines if outcome != "silent"}
    if not answered:
        return LabelledComparison(names=(), pairs=0, only_new_right=0, only_stable_right=0)
    requests = json.dumps([request for _, request in answered.values()])
    told = said_by_one(stable, run, (_OF_THE_STABLE, SCRIPTS_FOLDER, f"{seconds:g}", requests), seconds, 2)
    both = {name: outcome for name, outcome in told if outcome != "silent"}
    pairs = [(answered[name][0], outcome == "right") for name, outcome in both.items() if outcome != "invalid"]
    return LabelledComparison(
        names=tuple(sorted(both)), pairs=len(pairs), only_new_right=pairs.count((True, False)), only_stable_right=pairs.count((False, True))
    )


def said_by_one(
    pods: Sequence[Mapping[str, Any]], run: RunInPod, words: Sequence[str], seconds: float, length: int, named: type = str
) -> list[Any]:
    """What a script said in the first of these pods, a list of `length` a line: a name of the type `named`, an outcome,
    and what else it says. Raises OutOfReachError."""
    if not pods:
        raise OutOfReachError("a version has no replica that is ready to be asked")
    pod = min(pods, key=lambda pod: str(pod["metadata"]["name"]))
    said = run(pod, ("-I", "-c", *words), seconds + GRACE_SECONDS)
    try:
        return [_outcome(line, length, named) for line in filter(None, said.splitlines())]
    except (TypeError, ValueError) as failure:
        raise OutOfReachError(f"what {pod['metadata']['name']} said cannot be read ({failure})") from None


def _outcome(line: str, length: int, named: type) -> list[Any]:
    """Name, outcome and what the script says beside them. Raises TypeError and ValueError."""
    name, outcome, *rest = bounded_json(line)
    if len(rest) != length - 2 or type(name) is not named or not isinstance(outcome, str):
        raise ValueError("it is no outcome of a request")
    return [name, outcome, *rest]
