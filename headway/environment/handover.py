"""What the layers of an environment in AWS have handed over: parameters that `components/handover.py` publishes.

Reading them takes one permission on one path, and no state of any stack.
"""

import json
from collections.abc import Mapping
from typing import Any

from headway.environment.aws import Clients, pages
from headway.problem import UserError
from headway.wire import handover_path


def handed_over(environment: str, clients: Clients) -> Mapping[str, Mapping[str, Any]]:
    """What each deployed layer published, by layer. Raises UserError where AWS does not answer."""
    from botocore.exceptions import BotoCoreError, ClientError

    path = handover_path(environment)
    try:
        found = list(pages(clients("ssm"), "get_parameters_by_path", "Parameters", Path=path))
    except (BotoCoreError, ClientError) as failure:
        raise UserError(
            f"What the layers of {environment} have handed over cannot be read: {failure}.",
            "Nothing was done.",
            f"Use credentials that may read the parameters below {path}: AWS_PROFILE, or `aws sso login`.",
        ) from None
    return {each["Name"].rpartition("/")[2]: json.loads(each["Value"]) for each in found}
