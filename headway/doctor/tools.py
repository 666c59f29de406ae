"""The programs that an apply runs on this machine, and their versions."""

import re
import shutil
import subprocess
from collections.abc import Callable, Mapping

from headway.doctor.check import DoctorResult, judged
from headway.problem import Problem, ProblemLevel

Version = tuple[int, ...]

COMMANDS: Mapping[str, tuple[str, ...]] = {
    "aws": ("aws", "--version"),
    "kubectl": ("kubectl", "version", "--client"),
    "pulumi": ("pulumi", "version"),
}
"""Programs by name, with what makes each say its version."""

OLDEST_AWS: Mapping[int, Version] = {1: (1, 24, 0), 2: (2, 7, 0)}
"""By major version. pulumi-eks refuses older ones while it plans (pulumi/pulumi-eks, nodejs/eks/dependencies.ts)."""

_ANSWER_SECONDS = 20.0
_WRITTEN = re.compile(r"\d+(?:\.\d+)+")


def installed(run: Callable[..., "subprocess.CompletedProcess[str]"] = subprocess.run) -> dict[str, str | None]:
    """What each program prints as its version, by name; None where it is not on the PATH or does not answer."""
    return {name: _printed(words, run) for name, words in COMMANDS.items()}


def _printed(words: tuple[str, ...], run: Callable[..., "subprocess.CompletedProcess[str]"]) -> str | None:
    if shutil.which(words[0]) is None:
        return None
    try:
        ended = run(words, capture_output=True, text=True, check=False, timeout=_ANSWER_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return f"{ended.stdout}{ended.stderr}".strip() if ended.returncode == 0 else None


def version(printed: str) -> Version | None:
    """The first version in a text such as `aws-cli/2.31.2 Python/3.13.7` or `v3.208.0`."""
    found = _WRITTEN.search(printed)
    return tuple(int(part) for part in found.group().split(".")) if found else None


def judge_aws(printed: str | None) -> DoctorResult:
    """The AWS CLI, which pulumi-eks asks for while it plans."""
    needed = "pulumi-eks refuses to plan the cluster"
    found = version(printed) if printed else None
    if found is None:
        return judged("aws-cli", "", [_tool("There is no AWS CLI that answers on the PATH", needed, "Install AWS CLI 2.7 or newer")])
    oldest = OLDEST_AWS.get(found[0], OLDEST_AWS[max(OLDEST_AWS)])
    if found < oldest:
        fact = f"AWS CLI {_text(found)} is older than {_text(oldest)}"
        return judged("aws-cli", "", [_tool(fact, needed, "Install AWS CLI 2.7 or newer")])
    return judged("aws-cli", f"AWS CLI {_text(found)}.")


def judge_pulumi(printed: str | None, sdk: str) -> DoctorResult:
    """The engine. Older than the SDK of the program it may miss what the program asks for."""
    found, wanted = version(printed) if printed else None, version(sdk)
    if found is None:
        fact = "There is no `pulumi` that answers on the PATH"
        return judged("pulumi-cli", "", [_tool(fact, "Nothing can be planned or applied", f"Install Pulumi {sdk} or newer")])
    if wanted and found < wanted:
        fact = f"Pulumi {_text(found)} is older than the SDK {sdk} that the program uses"
        consequence = "The engine may refuse what the program asks for"
        return judged("pulumi-cli", "", [_tool(fact, consequence, f"Install Pulumi {sdk} or newer", level=ProblemLevel.WARNING)])
    return judged("pulumi-cli", f"Pulumi {_text(found)}.")


def judge_kubectl(printed: str | None, kubernetes: str) -> DoctorResult:
    """`kubectl`, with which people look and make secrets: no layer runs it. It may be one minor version older or newer than the API
    server (Kubernetes documentation, "Version Skew Policy"). `kubernetes`: the pinned version, such as 1.35.
    """
    needed, wanted = "The guide's steps on the cluster cannot be done from here, such as making the secrets of alerts", version(kubernetes)
    found, remedy = version(printed) if printed else None, f"Install kubectl {kubernetes}"
    if found is None or wanted is None:
        fact = "There is no `kubectl` that answers on the PATH"
        return judged("kubectl", "", [_tool(fact, needed, remedy, level=ProblemLevel.WARNING)])
    if found[0] != wanted[0] or abs(found[1] - wanted[1]) > 1:
        fact = f"kubectl {_text(found)} is more than one minor version from Kubernetes {kubernetes}"
        return judged(
            "kubectl", "", [_tool(fact, "What it does not know of the API it leaves out or refuses", remedy, level=ProblemLevel.WARNING)]
        )
    return judged("kubectl", f"kubectl {_text(found)}.")


def _tool(fact: str, consequence: str, remedy: str, level: ProblemLevel = ProblemLevel.ERROR) -> Problem:
    return Problem(rule="tool-installed", fact=fact, consequence=consequence, remedy=remedy, level=level)


def _text(found: Version) -> str:
    return ".".join(map(str, found))
