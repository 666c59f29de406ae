"""Which commits of the checkout changed a service's contract, its tenant's, or the environment, and what each of them wrote. Reads git alone.

What a branch brought is written by its merge, and then: from there on everybody applies it (git-log(1) of git 2.39, `--first-parent` and
`--diff-merges`). Who applies a branch before that is told by what the cluster's objects say alone. A commit is what somebody wants; that it was
applied, and when, is for those to show whom it should explain. What git does not keep (a contract that was applied and never committed) is not
seen.
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headway.bounded_yaml import bounded_yaml
from headway.contract.reading.tenants import LAYERS, stack_file
from headway.contract.secret_names import masked
from headway.diagnosis.changes import touched_fields
from headway.diagnosis.facts import Change, ChangeKind, TouchedField
from headway.environment.port import OutOfReachError
from headway.problem import on_one_line, shown

MOST_COMMITS = 20
"""Of those, the newest."""
_SECONDS = 10.0
_FIELDS = 4


def of_checkout(project: Path, environment: str, tenant: str, model: str, *, since: float, until: float) -> tuple[Change, ...]:
    """Those between these Unix seconds on the branch that is checked out, newest first. Raises OutOfReachError where git cannot say."""
    contracts = tuple(f"tenants/{tenant}/{name}.yaml" for name in (model, "tenant"))
    settings = tuple(f"stacks/{stack_file(environment, each)}" for each in (*sorted(LAYERS), tenant))
    asked = ("log", f"--max-count={MOST_COMMITS}", f"--since={since:.0f}", f"--until={until:.0f}", "--format=%x00%H%x1f%ct%x1f%an%x1f%s")
    asked += ("--first-parent", "--diff-merges=first-parent")
    listed = _git(project, *asked, "--name-only", "--relative", "--", *contracts, *settings).decode(errors="replace")
    found: list[Change] = []
    for each in listed.split("\0")[1:]:
        head, _, names = each.partition("\n")
        commit, time, who, subject = head.split("\x1f", _FIELDS - 1)
        for name in filter(None, names.split("\n")):
            kind = ChangeKind.CONTRACT if name in contracts else ChangeKind.PLATFORM
            words = f"commit {commit[:10]} ({shown(masked(subject))}) wrote {name}"
            touched = tuple(_touched(project, commit, name))
            found.append(Change(kind=kind, time=float(time), who=on_one_line(masked(who)), words=words, touched=touched))
    return tuple(found)


def _touched(project: Path, commit: str, name: str) -> Iterator[TouchedField]:
    before, after = (_document(project, f"{revision}:./{name}") for revision in (f"{commit}^", commit))
    return touched_fields(before, after)


def _document(project: Path, place: str) -> Any:
    """What a file said then; nothing where it was not there, or is no YAML."""
    try:
        return bounded_yaml(_git(project, "show", place))
    except (OutOfReachError, ValueError):
        return {}


def _git(project: Path, *arguments: str) -> bytes:
    try:
        words = {**os.environ, "LC_ALL": "C"}
        done = subprocess.run(["git", "-C", str(project), *arguments], env=words, capture_output=True, timeout=_SECONDS, check=False)
    except FileNotFoundError:
        raise OutOfReachError("git is not installed") from None
    except (OSError, subprocess.TimeoutExpired) as failure:
        raise OutOfReachError(f"git does not answer ({type(failure).__name__})") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        if said and "not a git repository" in said[-1]:
            raise OutOfReachError(f"{project} is no git repository, so who changed a contract or the environment in place is not known")
        raise OutOfReachError(f"git says: {masked(said[-1]) if said else 'nothing'}")
    return done.stdout
