"""What Amazon ECR asks beyond the API of registries: a password that lasts twelve hours, and repositories that exist before a push.

Not run against AWS yet. Source: botocore's service model of `ecr` (GetAuthorizationToken, CreateRepository).
"""

import base64
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from headway.bounded_json import bounded_json
from headway.problem import Exit, UserError

ECR_HOST = re.compile(r"(?P<account>[0-9]{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com")
Result = TypeVar("Result")


def credentials_of(host: str, client: Callable[[str], Any], docker: Path) -> str:
    """`user:password` for a registry: of ECR by AWS's own credentials, of others as `docker login` left them; empty for none."""
    if match := ECR_HOST.fullmatch(host):
        answer = _asked(host, "ecr:GetAuthorizationToken", lambda: client(match["region"]).get_authorization_token())
        return base64.b64decode(answer["authorizationData"][0]["authorizationToken"]).decode()
    if not docker.is_file():
        return ""
    try:
        kept = bounded_json(docker.read_bytes()).get("auths", {}).get(host, {}).get("auth", "")
        return base64.b64decode(kept).decode()
    except (AttributeError, TypeError, ValueError):  # what it says may be a password
        raise UserError(
            f"{docker} is no configuration of Docker that can be read.",
            f"Nobody knows with which credentials {host} is asked.",
            "Correct it, or run `docker login` anew.",
        ) from None


def ensure_repository(host: str, repository: str, client: Callable[[str], Any]) -> None:
    """Make the repository in ECR, with tags that never move; elsewhere a push makes it."""
    match = ECR_HOST.fullmatch(host)
    if not match:
        return

    def make() -> None:
        ecr = client(match["region"])
        try:
            ecr.create_repository(
                registryId=match["account"],
                repositoryName=repository,
                imageTagMutability="IMMUTABLE",
                imageScanningConfiguration={"scanOnPush": True},
            )
        except ecr.exceptions.RepositoryAlreadyExistsException:
            return

    _asked(host, f"ecr:CreateRepository on {repository}", make)


def _asked(host: str, right: str, act: Callable[[], Result]) -> Result:
    """Raises UserError, with no more of the answer than its code."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        return act()
    except ClientError as refusal:
        why = str(refusal.response.get("Error", {}).get("Code", "an answer without a code"))
    except BotoCoreError as failure:
        why = str(failure)
    raise UserError(
        f"{host} refuses this identity, or does not answer ({why}).",
        "What has arrived there stays; nothing more is sent.",
        f"Use credentials that may do {right} (AWS_PROFILE); then run the command again.",
        Exit.ENVIRONMENT,
    )
