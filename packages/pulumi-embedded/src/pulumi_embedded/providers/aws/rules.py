"""Checks that neither the SDK nor the service model can make: combinations, addresses, documents. Each tolerates unknown values."""

import ipaddress
import json
import re
from collections.abc import Collection, Iterator
from typing import Any, Literal

from pulumi_embedded.engine.provider import UNKNOWN, CheckFailure, Properties
from pulumi_embedded.providers.aws import offerings
from pulumi_embedded.providers.aws.kind import Rule, at, each
from pulumi_embedded.providers.conform import closest, describe

Failures = Iterator[CheckFailure]


def exclusive(*names: str) -> Rule:
    """At most one of these inputs."""

    def check(inputs: Properties, _: str) -> Failures:
        given = [name for name in names if at(inputs, name) is not None]
        if len(given) > 1:
            yield CheckFailure(given[1], f"conflicts with {given[0]}; give only one of {', '.join(names)}")

    return check


def one_of(*names: str) -> Rule:
    """Exactly one of these inputs."""

    def check(inputs: Properties, _: str) -> Failures:
        given = [name for name in names if at(inputs, name) is not None]
        if len(given) != 1:
            what = f"{' and '.join(given)} exclude each other" if given else "none is given"
            yield CheckFailure(given[1] if given else names[0], f"{what}; give exactly one of {', '.join(names)}")

    return check


def required(path: str, why: str) -> Rule:
    """An input that the SDK lets a program leave out and AWS does not."""

    def check(inputs: Properties, _: str) -> Failures:
        if at(inputs, path) is None:
            yield CheckFailure(path, f"is missing: {why}")

    return check


def between(path: str, low: float, high: float, source: str) -> Rule:
    """A number's range where the service model has none; `source` says where it is documented."""

    def check(inputs: Properties, _: str) -> Failures:
        for here, value in each(inputs, path):
            if isinstance(value, (int, float)) and not low <= value <= high:
                yield CheckFailure(here, f"must be between {low:g} and {high:g} ({source}), not {value}")

    return check


def among(path: str, legal: Collection[str], source: str) -> Rule:
    """An enumeration where the service model has none."""

    def check(inputs: Properties, _: str) -> Failures:
        for here, value in each(inputs, path):
            if isinstance(value, str) and value not in legal and value != UNKNOWN:
                known = ", ".join(sorted(legal)) if len(legal) <= 40 else f"one of {len(legal)} values"
                yield CheckFailure(here, f"{describe(value)} is not legal{closest(value, legal)}; {source} allows {known}")

    return check


def numbers_among(path: str, legal: Collection[int], source: str) -> Rule:
    """A number out of a list."""

    def check(inputs: Properties, _: str) -> Failures:
        for here, value in each(inputs, path):
            if isinstance(value, (int, float)) and value not in legal:
                yield CheckFailure(here, f"{value:g} is not legal; {source} allows {', '.join(map(str, sorted(legal)))}")

    return check


def matches(path: str, pattern: str, what: str) -> Rule:
    """Text of a form that the service model does not state."""

    def check(inputs: Properties, _: str) -> Failures:
        for here, value in each(inputs, path):
            if isinstance(value, str) and value != UNKNOWN and not re.fullmatch(pattern, value):
                yield CheckFailure(here, f"{describe(value)} is not {what}")

    return check


def network(path: str, shortest: int, longest: int) -> Rule:
    """An IPv4 network in CIDR notation without host bits and with a prefix of `shortest` to `longest` bits."""

    def check(inputs: Properties, _: str) -> Failures:
        for here, value in each(inputs, path):
            if not isinstance(value, str) or value == UNKNOWN:
                continue
            try:
                prefix = ipaddress.IPv4Network(value).prefixlen
            except ValueError as error:
                yield CheckFailure(here, f"{describe(value)} is not an IPv4 network in CIDR notation: {error}")
                continue
            if not shortest <= prefix <= longest:
                yield CheckFailure(here, f"{value} has a prefix of {prefix} bits; AWS allows /{shortest} to /{longest} here")

    return check


def zone(path: str) -> Rule:
    """A zone of the resource's region."""

    def check(inputs: Properties, region: str) -> Failures:
        legal = offerings.zones(region)
        for here, value in each(inputs, path):
            if region and isinstance(value, str) and value != UNKNOWN and value not in legal:
                yield CheckFailure(here, f"{describe(value)} is no zone of {region}; its zones are {', '.join(legal)}")

    return check


def instance_type(path: str) -> Rule:
    """An EC2 instance type, from the EC2 service model."""

    def check(inputs: Properties, _: str) -> Failures:
        legal = offerings.instance_types()
        for here, value in each(inputs, path):
            if isinstance(value, str) and value != UNKNOWN and value not in legal:
                yield CheckFailure(here, f"{describe(value)} is no EC2 instance type{closest(value, legal)}")

    return check


def json_text(path: str) -> Rule:
    """A JSON object as text."""

    def check(inputs: Properties, _: str) -> Failures:
        for here, value in each(inputs, path):
            if isinstance(value, str) and value != UNKNOWN and not isinstance(_parsed(value), dict):
                yield CheckFailure(here, f"must be a JSON object as text, not {describe(value)}")

    return check


def policy(path: str, kind: Literal["identity", "resource", "trust"], longest: int = 0) -> Rule:
    """An IAM policy document, as text or object: version, statements, effect, actions, and the element its kind needs or forbids."""

    def check(inputs: Properties, _: str) -> Failures:
        for here, value in each(inputs, path):
            if value == UNKNOWN or (isinstance(value, str) and UNKNOWN in value):
                continue
            document = _parsed(value) if isinstance(value, str) else value
            if not isinstance(document, dict):
                yield CheckFailure(here, "MalformedPolicyDocument: must be a JSON object")
                continue
            text = json.dumps(document, separators=(",", ":"))
            if longest and len(text) > longest:
                yield CheckFailure(here, f"LimitExceeded: {len(text)} characters without white space; AWS allows {longest}")
            yield from _document(document, here, kind)

    return check


_ELEMENTS = {"Sid", "Effect", "Action", "NotAction", "Resource", "NotResource", "Principal", "NotPrincipal", "Condition"}
_ASSUMES = frozenset(
    f"sts:{name}".lower()
    for name in ("AssumeRole", "AssumeRoleWithSAML", "AssumeRoleWithWebIdentity", "SetContext", "SetSourceIdentity", "TagSession")
)
"""What a trust policy may allow (IAM user guide, "Create a role using custom trust policies")."""
_FEDERATED = re.compile(r"arn:aws[a-z-]*:iam::\d{12}:(saml|oidc)-provider/\S+|([a-z0-9-]+\.)+[a-z]+")
_ACTION = re.compile(r"\*|[a-z0-9-]+:[A-Za-z0-9*?]+")


def _document(document: dict[str, Any], here: str, kind: str) -> Failures:
    if document.get("Version") not in ("2012-10-17", "2008-10-17", None):
        yield CheckFailure(here, f"MalformedPolicyDocument: Version {document['Version']!r} is none of 2012-10-17, 2008-10-17")
    for key in sorted(document.keys() - {"Version", "Id", "Statement"}):
        yield CheckFailure(here, f"MalformedPolicyDocument: {key} is no element of a policy; legal are Version, Id, Statement")
    given: Any = document.get("Statement")
    statements: Any = [given] if isinstance(given, dict) else given
    if not isinstance(statements, list) or not statements:
        yield CheckFailure(here, "MalformedPolicyDocument: Statement is missing or empty")
        return
    for index, statement in enumerate(statements):
        where = f"MalformedPolicyDocument: Statement[{index}]"
        if statement == UNKNOWN:
            continue
        if not isinstance(statement, dict):
            yield CheckFailure(here, f"{where} must be an object")
            continue
        for reason in _statement(statement, kind):
            yield CheckFailure(here, f"{where}{reason}")


def _statement(statement: dict[str, Any], kind: str) -> Iterator[str]:
    for key in sorted(statement.keys() - _ELEMENTS):
        yield f".{key} is no element of a statement{closest(key, _ELEMENTS)}"
    if statement.get("Effect") not in ("Allow", "Deny", UNKNOWN):
        yield ".Effect must be Allow or Deny"
    actions = statement.get("Action", statement.get("NotAction"))
    if not actions:
        yield " has neither Action nor NotAction"
    for action in actions if isinstance(actions, list) else [actions] if actions else []:
        if action != UNKNOWN and not (isinstance(action, str) and _ACTION.fullmatch(action)):
            yield f".Action {action!r} is not of the form service:Action"
    has_resource = "Resource" in statement or "NotResource" in statement
    has_principal = "Principal" in statement or "NotPrincipal" in statement
    if kind == "identity" and not has_resource:
        yield " has neither Resource nor NotResource"
    if kind == "identity" and has_principal:
        yield ".Principal is not allowed in a policy attached to an identity"
    if kind == "trust" and has_resource:
        yield ".Resource is not allowed in a trust policy"
    if kind != "identity" and not has_principal:
        yield " has no Principal"
    if kind == "trust":
        yield from _trust(statement)


def _trust(statement: dict[str, Any]) -> Iterator[str]:
    """In IAM's own words (hashicorp/terraform-provider-aws#32872, terraform-aws-modules/terraform-aws-iam#202). Whether a provider of that
    ARN exists, IAM is not known to ask.
    """
    for action in _several(statement.get("Action")):
        if action != UNKNOWN and "*" not in action and action.lower() not in _ASSUMES:
            yield f".Action {action!r}: AssumeRole policy may only specify STS AssumeRole actions"
    principal = statement.get("Principal")
    for one in _several(principal.get("Federated")) if isinstance(principal, dict) else []:
        if one != UNKNOWN and not _FEDERATED.fullmatch(one):
            yield f".Principal {one!r}: Federated principals must be valid domain names or SAML metadata ARNs"


def _several(given: Any) -> list[str]:
    return [str(each) for each in given] if isinstance(given, list) else [] if given is None else [str(given)]


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
