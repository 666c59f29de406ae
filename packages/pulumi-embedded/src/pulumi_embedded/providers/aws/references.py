"""References between objects of the account: who is found under which name, who holds whom, and whether what is named exists."""

import re
from collections.abc import Iterator

from pulumi_embedded.engine.provider import UNKNOWN, Properties, ProviderError
from pulumi_embedded.providers.aws.account import Handle, Link, SimulatedAccount
from pulumi_embedded.providers.aws.kind import AwsKind, Facts, Ref, at, each

_SHOWN = 5


def handles(kind: AwsKind, id: str, outputs: Properties) -> list[Handle]:
    """Under which names others find an object with these outputs."""
    known = {**outputs, "id": id}
    found: list[Handle] = []
    for of, paths in kind.handles.items():
        for path in paths:
            values = [_filled(path[1:], outputs)] if path.startswith("=") else [value for _, value in each(known, path)]
            found += [Handle(of, value) for value in values if isinstance(value, str) and value]
    return list(dict.fromkeys(found))


def links(kind: AwsKind, facts: Facts) -> list[Link]:
    """What the object behind `facts` names."""
    named = ((path, value, ref) for path, value, ref in _named(kind, facts.inputs) if not _is_external(ref, value, facts.account))
    return [Link(ref.to, _key(ref, value), path, ref.deletion) for path, value, ref in named]


def check(account: SimulatedAccount, kind: AwsKind, facts: Facts) -> None:
    """ProviderError with everything that is named and does not exist, as AWS would answer a create or update."""
    region = "" if kind.is_global else facts.region
    missing = [
        _missing(account, path, value, ref, region)
        for path, value, ref in _named(kind, facts.inputs)
        if not _is_external(ref, value, facts.account) and account.find(Handle(ref.to, _key(ref, value)), region) is None
    ]
    if missing:
        raise ProviderError("; ".join(missing))


def _named(kind: AwsKind, inputs: Properties) -> Iterator[tuple[str, str, Ref]]:
    for path, ref in kind.references.items():
        found = [(path[1:], _filled(path[1:], inputs))] if path.startswith("=") else each(inputs, path)
        for here, value in found:
            if isinstance(value, str) and value and UNKNOWN not in value:
                yield here, value, ref


def _missing(account: SimulatedAccount, path: str, value: str, ref: Ref, region: str) -> str:
    there = account.handles(ref.to, region)
    known = f"there are {', '.join(there[:_SHOWN])}{', …' if len(there) > _SHOWN else ''}" if there else "there is none"
    where = f" in {region}" if region else ""
    return (
        f"{ref.error}: {path} names the {ref.to} {value}, which does not exist{where} in the simulated account ({known}); create it first"
    )


def _is_external(ref: Ref, value: str, account: str) -> bool:
    return bool(ref.external) and re.fullmatch(ref.external.replace("{account}", account), value) is not None


def _key(ref: Ref, value: str) -> str:
    match = re.match(ref.key, value) if ref.key else None
    return next((group for group in match.groups() if group), value) if match else value


def _filled(template: str, values: Properties) -> str:
    parts = {name: at(values, name) for name in re.findall(r"{([^}]+)}", template)}
    if UNKNOWN in parts.values() or None in parts.values():
        return UNKNOWN
    return re.sub(r"{([^}]+)}", lambda match: str(parts[match[1]]), template)
