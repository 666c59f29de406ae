"""The functions of the aws provider that a program may call while it plans: those whose answer needs no live account.

All others are refused by name: a plan that depends on live reads differs between two runs of the same commit.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pulumi_embedded.engine.provider import UNKNOWN, Properties, ProviderError
from pulumi_embedded.providers.aws import offerings
from pulumi_embedded.providers.aws.kind import PARTITION
from pulumi_embedded.providers.conform import closest, nonconformities
from pulumi_embedded.providers.schema import fields_of

CALLER = "user/sandbox"


@dataclass(frozen=True)
class _Where:
    region: str
    account: str
    tags: Mapping[str, str]


def answer(token: str, args: Properties, *, region: str, account: str, tags: Mapping[str, str]) -> Properties:
    """The result of `aws:module/function:function`; ProviderError for one that is not modelled or an argument that is not."""
    function = FUNCTIONS.get(token)
    if function is None:
        raise ProviderError(
            f"function {token} is not modelled by the embedded aws provider{closest(token, FUNCTIONS)}; it answers "
            f"{', '.join(sorted(FUNCTIONS))}. Pin the value in the program instead of reading it live"
        )
    given = {key: value for key, value in args.items() if value is not None}
    for key in given:
        if key not in function.args:
            legal = ", ".join(function.args) or "none"
            raise ProviderError(f"function {token} takes no argument {key} here{closest(key, function.args)}; legal are {legal}")
    chosen = str(given.get("region") or region)
    if not chosen:
        raise ProviderError(f"function {token} needs a region: set the configuration aws:region or the variable AWS_REGION")
    return function.run(given, _Where(chosen, account, tags))


@dataclass(frozen=True)
class _Function:
    run: Callable[[Properties, _Where], Properties]
    args: tuple[str, ...] = ()


def _caller(_: Properties, where: _Where) -> Properties:
    arn = f"arn:{PARTITION}:iam::{where.account}:{CALLER}"
    return {"accountId": where.account, "arn": arn, "id": where.account, "userId": "AIDASANDBOX"}


def _region(_: Properties, where: _Where) -> Properties:
    if where.region not in offerings.regions():
        raise ProviderError(f"region {where.region} is not known to the double; it knows {', '.join(offerings.regions())}")
    endpoint = f"ec2.{where.region}.amazonaws.com"
    return {"description": where.region, "endpoint": endpoint, "id": where.region, "name": where.region, "region": where.region}


def _zones(args: Properties, where: _Where) -> Properties:
    excluded = set(args.get("excludeNames") or [])
    names = [zone for zone in offerings.zones(where.region) if zone not in excluded]
    ids = {zone: offerings.zone_id(zone) for zone in names}
    dropped = set(args.get("excludeZoneIds") or [])
    names = [zone for zone in names if ids[zone] not in dropped and args.get("state", "available") == "available"]
    return {
        **args,
        "groupNames": [where.region],
        "id": where.region,
        "names": names,
        "region": where.region,
        "zoneIds": [ids[zone] for zone in names],
    }


def _partition(_: Properties, __: _Where) -> Properties:
    return {"dnsSuffix": "amazonaws.com", "id": PARTITION, "partition": PARTITION, "reverseDnsPrefix": "com.amazonaws"}


def _tags(_: Properties, where: _Where) -> Properties:
    return {"id": PARTITION, "tags": dict(where.tags)}


def _policy_document(args: Properties, _: _Where) -> Properties:
    fields = fields_of("aws:iam:GetPolicyDocumentStatementArgs")
    wrong = [
        f"statements[{index}].{failure.property}: {failure.reason}"
        for index, item in enumerate(args.get("statements") or [])
        for failure in nonconformities(item, fields, "a statement")
    ]
    if wrong:
        raise ProviderError("; ".join(wrong))
    statements = [_statement(item) for item in args.get("statements") or []]
    document: dict[str, Any] = {"Version": args.get("version") or "2012-10-17"}
    if args.get("policyId"):
        document["Id"] = args["policyId"]
    for source in args.get("sourcePolicyDocuments") or []:
        statements = [*json.loads(source).get("Statement", []), *statements]
    for source in args.get("overridePolicyDocuments") or []:
        statements = _overridden(statements, json.loads(source).get("Statement", []))
    if statements:
        document["Statement"] = statements
    text = json.dumps(document, indent=2)
    # An unknown inside makes the whole text unknown; the engine sees it by the value itself.
    text, short = (UNKNOWN, UNKNOWN) if UNKNOWN in text else (text, json.dumps(document, separators=(",", ":")))
    number = str(int(hashlib.sha256(text.encode()).hexdigest()[:8], 16))
    return {**args, "id": number, "json": text, "minifiedJson": short, "version": document["Version"]}


def _overridden(statements: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]]) -> list[Any]:
    by_sid = {item["Sid"]: item for item in others if item.get("Sid")}
    kept = [by_sid.pop(item.get("Sid", ""), item) for item in statements]
    return [*kept, *(item for item in others if not item.get("Sid") or item["Sid"] in by_sid)]


def _statement(item: Mapping[str, Any]) -> dict[str, Any]:
    written: dict[str, Any] = {"Sid": item["sid"]} if item.get("sid") else {}
    written["Effect"] = item.get("effect") or "Allow"
    for key, name in (("actions", "Action"), ("notActions", "NotAction"), ("resources", "Resource"), ("notResources", "NotResource")):
        if item.get(key):
            written[name] = _one_or_many(item[key])
    for key, name in (("principals", "Principal"), ("notPrincipals", "NotPrincipal")):
        if item.get(key):
            written[name] = _principals(item[key])
    conditions: dict[str, dict[str, Any]] = {}
    for condition in item.get("conditions") or []:
        conditions.setdefault(condition["test"], {})[condition["variable"]] = _one_or_many(condition["values"], ordered=True)
    if conditions:
        written["Condition"] = conditions
    return written


def _principals(items: Sequence[Mapping[str, Any]]) -> Any:
    gathered: dict[str, list[str]] = {}
    for item in items:
        gathered.setdefault(item["type"], []).extend(item["identifiers"])
    if gathered == {"*": ["*"]}:
        return "*"
    return {kind: _one_or_many(values) for kind, values in gathered.items()}


def _one_or_many(values: Sequence[str], *, ordered: bool = False) -> Any:
    """As the provider writes lists: sorted downwards (conditions keep their order), one element as text."""
    items = list(values) if ordered else sorted(values, reverse=True)
    return items[0] if len(items) == 1 else items


def _service_principal(args: Properties, where: _Where) -> Properties:
    name = f"{args['serviceName']}.amazonaws.com"
    return {"id": name, "name": name, "region": where.region, "serviceName": args["serviceName"], "suffix": "amazonaws.com"}


_POLICY_ARGS = ("statements", "version", "policyId", "sourcePolicyDocuments", "overridePolicyDocuments")

FUNCTIONS: Mapping[str, _Function] = {
    "aws:iam/getPolicyDocument:getPolicyDocument": _Function(_policy_document, _POLICY_ARGS),
    "aws:index/getAvailabilityZones:getAvailabilityZones": _Function(_zones, ("state", "excludeNames", "excludeZoneIds", "region")),
    "aws:index/getCallerIdentity:getCallerIdentity": _Function(_caller),
    "aws:index/getDefaultTags:getDefaultTags": _Function(_tags),
    "aws:index/getPartition:getPartition": _Function(_partition),
    "aws:index/getRegion:getRegion": _Function(_region, ("region",)),
    "aws:index/getServicePrincipal:getServicePrincipal": _Function(_service_principal, ("serviceName", "region")),
}
