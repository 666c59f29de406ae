"""Whether IAM allows a request: identity policies within a boundary, a denial before everything.

By the IAM user guide, "Policy evaluation logic" and "IAM JSON policy elements: Condition operators", for the operators
that our policies use; an operator that is not here fails the test instead of passing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from components.permissions import Statement


@dataclass(frozen=True)
class Request:
    """One call: the action, the resource it is about, and the keys of its context; a key that is absent is not sent."""

    action: str
    resource: str
    context: Mapping[str, str | Sequence[str]] = field(default_factory=dict)


def allowed(request: Request, policies: Iterable[Statement], boundary: Iterable[Statement]) -> bool:
    """Whether the policies and the boundary both allow it, and neither denies it."""
    given, limit = [each.wire() for each in policies], [each.wire() for each in boundary]
    denied = any(each["Effect"] == "Deny" and _applies(each, request) for each in (*given, *limit))
    return not denied and all(any(each["Effect"] == "Allow" and _applies(each, request) for each in every) for every in (given, limit))


_LATE = ("aws:ResourceTag/", "kms:ResourceAliases")


def of_new_key(request: Request) -> Request:
    """The same request while the key is new: "It might take up to five minutes for tag and alias changes to affect KMS key authorization.
    Recent changes might be visible in API operations before they affect authorization" (AWS KMS developer guide, "ABAC for AWS KMS").
    """
    return replace(request, context={key: value for key, value in request.context.items() if not key.startswith(_LATE)})


def key_allowed(
    request: Request, role: str, key: Sequence[Mapping[str, Any]], policies: Sequence[Statement], boundary: Sequence[Statement]
) -> bool:
    """Whether KMS allows it to a role, by its ARN, with a key whose policy has these statements.

    A statement that names the role allows by itself, within the role's boundary and what its own policies deny; one that names the account lets
    those decide (AWS KMS developer guide, "Troubleshooting key access"; IAM user guide, "Permissions boundaries for IAM entities").
    """

    def named(who: str) -> bool:
        return any(each["Effect"] == "Allow" and who in _principals(each) and _applies(each, request) for each in key)

    if any(each["Effect"] == "Deny" for each in key):
        raise AssertionError("denials of a key's policy are not evaluated here: write what KMS makes of them")
    account = ":".join((*role.split(":")[:5], "root"))
    if named(role):
        policies = [*policies, Statement(sid="Named", actions=["kms:*"], resources=["*"], reason="the key's policy has said which")]
    return (named(role) or named(account)) and allowed(request, policies, boundary)


def _principals(statement: Mapping[str, Any]) -> list[str]:
    found = statement["Principal"].get("AWS", [])
    return [found] if isinstance(found, str) else list(found)


def _applies(statement: Mapping[str, Any], request: Request) -> bool:
    if not any(fnmatchcase(request.action.lower(), pattern.lower()) for pattern in statement["Action"]):
        return False
    if "Resource" in statement and not any(_like(request.resource, pattern) for pattern in statement["Resource"]):
        return False
    if "NotResource" in statement and any(_like(request.resource, pattern) for pattern in statement["NotResource"]):
        return False
    return all(
        _holds(operator, request.context.get(key), [wanted] if isinstance(wanted, str) else list(wanted))
        for operator, keys in statement.get("Condition", {}).items()
        for key, wanted in keys.items()
    )


def _holds(operator: str, found: str | Sequence[str] | None, wanted: Sequence[str]) -> bool:
    if operator == "Null":
        return (found is None) == (wanted[0] == "true")
    if operator.startswith("ForAnyValue:"):
        values = [found] if isinstance(found, str) else found or []
        return any(_holds(operator.removeprefix("ForAnyValue:"), value, wanted) for value in values)
    if operator.startswith("ForAllValues:"):
        values = [found] if isinstance(found, str) else found or []
        return all(_holds(operator.removeprefix("ForAllValues:"), value, wanted) for value in values)
    if operator.endswith("IfExists"):
        return found is None or _holds(operator.removesuffix("IfExists"), found, wanted)
    if operator == "StringNotEquals":
        return found not in wanted
    if found is None:
        return False
    match operator:
        case "StringEquals" | "Bool":
            return found in wanted
        case "StringLike" | "ArnLike":
            return any(_like(str(found), pattern) for pattern in wanted)
        case "NumericLessThanEquals":
            return float(str(found)) <= float(wanted[0])
        case _:
            raise AssertionError(f"{operator} is not evaluated here: write what IAM makes of it")


def _like(text: str, pattern: str) -> bool:
    """Only `*` and `?` are special in a policy."""
    return fnmatchcase(text, pattern.replace("[", "[[]"))
