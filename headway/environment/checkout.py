"""The checkout that a command is about: where it is, and which environments it describes."""

import re
from pathlib import Path

from headway.bounded_yaml import bounded_yaml
from headway.problem import Exit, UserError

ENVIRONMENT_VARIABLE = "HEADWAY_ENVIRONMENT"
"""Names the environment that commands mean where none is told."""
SANDBOX = "sandbox"
"""The environment in which nothing can be broken."""
_LONGEST = 63
"""Of a name of a Kubernetes namespace; what a path of a file takes is longer."""
_NAME = re.compile("[a-z]([a-z0-9-]*[a-z0-9])?")


def is_name(text: str) -> bool:
    """Whether an environment, a tenant or a model may be called that: it becomes part of paths, of keys and of
    objects' names."""
    return len(text) <= _LONGEST and _NAME.fullmatch(text) is not None


def find(start: Path | None = None) -> Path:
    """The nearest folder upwards from `start` (the working folder) that holds Headway's Pulumi.yaml. Raises
    UserError if there is none."""
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        file = folder / "Pulumi.yaml"
        if file.is_file() and "name: headway" in file.read_text(encoding="utf-8").splitlines():
            return folder
    raise UserError(
        f"{here} is not inside a checkout of Headway.",
        "The command needs its Pulumi.yaml, stacks and tenants.",
        "Change into the checkout; a command with --project may be told where it is.",
        Exit.USAGE,
    )


def environments(project: Path) -> tuple[str, ...]:
    """The environments that the checkout describes, sorted."""
    return _with(project, "cluster")


def _with(project: Path, layer: str) -> tuple[str, ...]:
    files = (project / "stacks").glob(f"Pulumi.*-{layer}.yaml")
    return tuple(sorted(file.stem.removeprefix("Pulumi.").removesuffix(f"-{layer}") for file in files))


def described(project: Path, environment: str, layer: str = "cluster") -> Path:
    """The file that describes the environment's cluster, or another layer of it. Raises UserError where there is none:
    asking for its stack would make one."""
    file = project / "stacks" / f"Pulumi.{environment}-{layer}.yaml"
    if is_name(environment) and file.is_file():
        return file
    from difflib import get_close_matches

    names = _with(project, layer)
    known, near = ", ".join(names), next(iter(get_close_matches(environment, names, n=1)), None)
    raise UserError(
        f"There is no environment {environment}.",
        "Nothing was done.",
        (f"Did you mean {near}? Environments are" if near else "Name one of") + f" {known}."
        if known
        else "Describe an environment in stacks/ first.",
        Exit.USAGE,
    )


def region_of(project: Path, environment: str) -> str:
    """Where the environment is, as its cluster's file says. Raises UserError where that says nothing."""
    file = described(project, environment)
    try:
        return str(bounded_yaml(file.read_bytes())["config"]["headway:account"]["region"])
    except (ValueError, LookupError, TypeError):
        raise UserError(
            f"{file.name} names no region.", "Nothing was done.", "Write headway:account with id and region below config.", Exit.USAGE
        ) from None
