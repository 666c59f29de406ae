"""The holdout set of a contract, brought from object storage and proven by its digest before anything of it is asked."""

import hashlib
from typing import Any
from urllib.parse import urlsplit

from headway.contract.evaluation import Evaluation
from headway.environment.port import Environment, OutOfReachError
from headway.problem import Exit, UserError
from headway.release.evaluation.holdout import HoldoutSet, labelled_requests


def labelled_set(environment: Environment, evaluation: Evaluation) -> HoldoutSet:
    """The set. Raises UserError for one that is missing, refused or another, OutOfReachError where storage does not answer."""
    address = evaluation.holdout.located(environment.artifact_bucket)
    content = _read(environment.object_store(), address, int(evaluation.holdout.size))
    if len(content) != int(evaluation.holdout.size) or hashlib.sha256(content).hexdigest() != evaluation.holdout.sha256:
        raise UserError(
            f"{address} is not the holdout set of the contract: its size or its SHA-256 differs.",
            "Nothing was asked: a version would be judged by labels that nobody has agreed to.",
            "Write its size and digest into evaluation.holdout (`stat -c %s`, `sha256sum`), or restore the file from its versions.",
            Exit.REFUSED,
        )
    return labelled_requests(content, evaluation)


def _read(client: Any, address: str, size: int) -> bytes:
    """At most one byte more than `size`."""
    from botocore.exceptions import BotoCoreError, ClientError

    parts = urlsplit(address)
    try:
        return client.get_object(Bucket=parts.netloc, Key=parts.path.lstrip("/"))["Body"].read(size + 1)
    except ClientError as refusal:
        code = str(refusal.response.get("Error", {}).get("Code", "no reason"))
        raise UserError(
            f"The holdout set {address} cannot be read ({code}).",
            "Nothing was asked.",
            "Upload it there, or have the identity that evaluates read the tenant's artifacts.",
            Exit.ENVIRONMENT,
        ) from None
    except BotoCoreError as failure:
        raise OutOfReachError(f"object storage does not answer ({type(failure).__name__})") from None
