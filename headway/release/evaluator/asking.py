"""Labelled requests to replicas of the serving version, asked where they run and judged by their own script, as golden requests are.

A request that a replica did not answer, because it is busy or going, is neither right nor wrong.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from headway.contract.evaluation import Evaluation
from headway.environment.port import OutOfReachError
from headway.release.driver.golden_answers import JUDGING, RunInPod
from headway.release.driver.labelled import CHARACTERS_AT_MOST, said_by_one
from headway.release.evaluation.holdout import HoldoutSet
from headway.wire import SCRIPTS_FOLDER

SECONDS_AT_MOST = 60.0
"""For the requests of one call; what is not asked by then is left out."""
_SCRIPT = f"""{JUDGING}
like = next((each for each in config["golden"] if each["name"] == sys.argv[3]), None)
if like is None:
    sys.exit("this release has no golden request " + sys.argv[3])
like = {{key: value for key, value in like.items() if key != "file"}}
if sys.argv[4]:
    like["answer"] = sys.argv[4]
for place, (number, line) in enumerate(json.loads(sys.argv[5])):
    if place and time.monotonic() > until:
        break
    try:
        outcome, _ = judged({{**like, "body": line["request"], "expect": line["expect"]}})
    except Exception:
        outcome = "silent"
    print(json.dumps([number, outcome]), flush=True)
"""


@dataclass(frozen=True, kw_only=True)
class LabelledAnswers:
    """Whether the answer to each drawn line was right, in the order of asking; and how many got none."""

    right: Sequence[tuple[int, bool]]
    silent: int


def ask_lines(
    pods: Sequence[Mapping[str, Any]], run: RunInPod, evaluation: Evaluation, holdout: HoldoutSet, drawn: Sequence[int], chance: Random
) -> LabelledAnswers:
    """Ask the drawn lines, each part of them of a replica chosen at random. Raises OutOfReachError when none can be asked."""
    if not pods:
        raise OutOfReachError("the serving version has no replica that is ready to be asked")
    right: list[tuple[int, bool]] = []
    seconds = min(SECONDS_AT_MOST, evaluation.every.seconds / 4)
    for part in _parts(holdout, drawn):
        words = (_SCRIPT, SCRIPTS_FOLDER, f"{seconds:g}", evaluation.like, evaluation.answer or "", part)
        told = said_by_one([chance.choice(pods)], run, words, seconds, 2, int)
        right += [(number, outcome == "right") for number, outcome in told if outcome != "silent"]
    # What says so is a program of the tenant's image.
    if Counter(number for number, _ in right) - Counter(drawn):
        raise OutOfReachError("a replica answers what it was not asked")
    return LabelledAnswers(right=right, silent=len(drawn) - len(right))


def _parts(holdout: HoldoutSet, drawn: Sequence[int]) -> Iterator[str]:
    """The lines as JSON lists, none longer than one call holds."""
    part: list[str] = []
    length = 2
    for number in drawn:
        line = json.dumps([number, holdout.lines[number].sent()])
        if part and length + len(line) + 2 > CHARACTERS_AT_MOST:
            yield f"[{', '.join(part)}]"
            part, length = [], 2
        part.append(line)
        length += len(line) + 2
    if part:
        yield f"[{', '.join(part)}]"
