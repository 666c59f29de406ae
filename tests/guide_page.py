"""`docs/guide/aws.md` as its tests read it: the commands of each step, and what it shows of their outputs.

Tests in several rooms run the steps, each where the step can be run, and hold the page to what was said.
"""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "guide" / "aws.md"
STEP = re.compile(r"^```\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
"""Commands, and what the sandbox said, if that is shown."""
_ACTION = r"no violations|could not be evaluated|^ +\+ \d+ (to create|created)$"
KEPT: Mapping[str, str] = {
    # Of EKS's two moto makes up names that AWS does not give.
    "aws iam create-service-linked-role ": r'"(RoleName|Arn)":.*AWSServiceRoleForAutoScaling',
    "headway cost ": r"^(\w+, in |USD a month|control plane|NAT gateways|together)",
    "headway artifact push ": r" uploaded|  uri: |- \{path: ",
    "headway doctor ": r"^\S (sample-values|reservations|certificate): ",
    "headway verify --environment ": r"^\S [\w-]+: ",
    "headway verify show ": r"^sandbox, ",
    "pulumi preview ": _ACTION,
    "pulumi up ": _ACTION,
}
"""Lines that the page shows of commands that say much, or what depends on the machine."""
ANEW = (
    (r"/id/[0-9A-F]{32}", "/id/0123..."),
    (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "2026-..."),
    (r"sha256:[0-9a-f]{64}", "sha256:0123..."),
    (r", \d+ s$", ""),
    (r":(\d+\.\d+\.\d+)-[0-9a-f]{12}@", r":\1-0123...@"),
    (r"127\.0\.0\.1:\d+", "REGISTRY"),
    (r"-r[0-9a-f]{10}\b", "-r0123..."),
    (r'"data":\[[^]]*\]', '"data":[...]'),
)
"""What each run makes up anew, and what the page shows in its place."""
UPDATE = "HEADWAY_UPDATE_GOLDEN"


def text() -> str:
    return PAGE.read_text(encoding="utf-8")


def commands() -> list[str]:
    """The page's commands, in order."""
    return [line for step in STEP.finditer(text()) for line in step[1].splitlines() if line.strip()]


def starting(line: str, table: Mapping[str, object]) -> str | None:
    return next((start for start in table if line.startswith(start)), None)


def hold(answers: Mapping[str, str]) -> None:
    """Fails unless the page shows of these commands what they said: their outputs by their lines on the page."""
    now = shown(text(), answers)
    if os.environ.get(UPDATE):
        PAGE.write_text(now, encoding="utf-8")
    else:
        assert text() == now, f"run it again with {UPDATE}=1, and look at the diff"


def shown(page: str, answers: Mapping[str, str]) -> str:
    """The page with what was said in this run by each step below which it shows an output; what others run stays."""

    def step(found: re.Match[str]) -> str:
        if found[2] is None:
            return found[0]
        before: dict[str, list[list[str]]] = {}
        for title, group in _groups(found[2]):
            before.setdefault(title, []).append(group)
        lines = found[1].splitlines()
        said = [_titled(line, answers[line]) if line in answers else _next(before, _title(line)) for line in lines]
        return f"```\n{found[1]}```\n\n```text\n" + "".join(f"{each}\n" for group in said for each in group) + "```\n"

    return STEP.sub(step, page)


def _next(groups: dict[str, list[list[str]]], title: str) -> list[str]:
    """What stood there of a command; of several with one title in their order."""
    return groups[title].pop(0) if groups.get(title) else []


def _groups(block: str) -> Iterator[tuple[str, list[str]]]:
    """Each title of a text block, with its lines."""
    for group in re.split(r"^(?=\$ )", block, flags=re.MULTILINE):
        if lines := group.splitlines():
            yield lines[0], lines


def _title(line: str) -> str:
    """A command as far as its first option."""
    return f"$ {re.split(' -', line)[0]}"


def _titled(line: str, output: str) -> list[str]:
    """The output below its command; nothing where nothing was said."""
    start = starting(line, KEPT)
    lines = [each.rstrip() for each in output.splitlines()]
    chosen = [each for each in lines if start is None or re.search(KEPT[start], each)]
    for made, shown_as in ANEW:
        chosen = [re.sub(made, shown_as, each) for each in chosen]
    return [_title(line), *dict.fromkeys(chosen)] if chosen else []
