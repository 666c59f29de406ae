"""What an environment's pods can read of a bucket that a contract names for all environments. Pure.

Artifacts of the platform are encrypted with the key of their environment, which no identity of another one may use, and an S3 endpoint admits
buckets of its own account only (`components/network/endpoints.py`).
"""

import re
from collections.abc import Iterator

from headway.contract.artifact import RELATIVE
from headway.contract.batch import PLATFORMS_BUCKETS
from headway.contract.model import Model
from headway.problem import Problem, problem

_ARTIFACTS = re.compile(rf"{PLATFORMS_BUCKETS}.+-artifacts-[0-9]{{12}}")
"""How an environment's bucket of artifacts is called (`components/naming.py`); others that begin alike may be anybody's."""


def of_another_environment(model: Model, environment: str, account_id: str) -> Iterator[Problem]:
    """Places in a bucket of the platform that is not the one of this environment, in this account."""
    places: list[tuple[tuple[str, ...], str]] = [(("artifact", "uri"), model.artifact.uri)]
    if model.evaluation:
        places.append((("evaluation", "holdout", "uri"), model.evaluation.holdout.uri))
    for path, uri in places:
        bucket = uri.removeprefix("s3://").partition("/")[0]
        own = f"{PLATFORMS_BUCKETS}{environment}-artifacts-{account_id}"
        if uri.startswith("s3://") and _ARTIFACTS.fullmatch(bucket) and bucket != own:
            yield problem(
                "artifact-of-this-environment",
                *path,
                value=uri,
                fact=f"{bucket} is an environment's bucket of artifacts, and not {own}, where {environment} keeps artifacts",
                consequence="Its objects are encrypted with another environment's key: S3 would answer 403, and no replica would start",
                remedy=f"Write {RELATIVE}, which each environment resolves, and push the files there: `headway artifact push`",
            )
