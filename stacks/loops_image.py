"""Where an environment's image of the loops belongs, and what stays off as long as none is named; `python -m stacks.loops_image ENVIRONMENT`
prints the former as JSON for `headway loops push`.
"""

import json
import sys
from pathlib import Path

from components.naming import cluster_name
from headway.problem import Problem, ProblemLevel
from stacks.settings import CLUSTER, NAMESPACE, PLATFORM, SANDBOX, PlatformSettings, config_of

REPOSITORY = "headway"
"""Its repository, below the mirror or the environment's own prefix."""


def place(environment: str, folder: Path) -> dict[str, object]:
    """The repository as `host/path`, whether it is the mirror's, whether the cluster layer makes it otherwise, and whether loops run there."""
    cluster = config_of(folder, environment, CLUSTER)
    mirror = (config_of(folder, environment, PLATFORM).get(f"{NAMESPACE}:registry") or {}).get("mirror")
    if mirror:
        return {"repository": f"{mirror}/{REPOSITORY}", "mirror": True, "declared": True, "runs": True}
    account = cluster[f"{NAMESPACE}:account"]
    host = f"{account['id']}.dkr.ecr.{account['region']}.amazonaws.com"
    declared = REPOSITORY in cluster[f"{NAMESPACE}:storage"]["repositories"]
    return {
        "repository": f"{host}/{cluster_name(environment)}/{REPOSITORY}",
        "mirror": False,
        "declared": declared,
        "runs": environment != SANDBOX,
    }


def unnamed(settings: PlatformSettings) -> tuple[Problem, ...]:
    """What an environment goes without, before it is deployed and not after."""
    if settings.loops.image is not None or settings.environment == SANDBOX:
        return ()
    return (
        Problem(
            rule="loops-image-named",
            path=(f"{NAMESPACE}:loops", "image"),
            level=ProblemLevel.WARNING,
            fact=f"{NAMESPACE}:loops names no image",
            consequence="Nothing watches nodes or replaces faulty ones, no node keeps artifacts, nothing asks what serves whether it is "
            "still right, and `headway release start` finds no guard and refuses",
            remedy=f"Run `headway loops push --environment {settings.environment} --base python:3.12-slim@sha256:<digest> --write`",
        ),
    )


if __name__ == "__main__":
    print(json.dumps(place(sys.argv[1], Path(__file__).parent)))  # noqa: T201
