"""How strict each policy of a pack is and with which settings: defaults, the pack's own configuration and the user's, in this order.

Pure. The trap: on the wire a level that was not given reads as `advisory`, so an entry of the pack's own configuration that only gives
settings would disarm a mandatory policy; such an entry keeps the policy's level.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from jsonschema import Draft7Validator

from pulumi_embedded.engine.values import Properties

LEVELS: Final = ("advisory", "mandatory", "disabled", "remediate")
"""By their number on the wire."""


class PolicyConfigError(Exception):
    """The configuration of a pack is wrong; the text names every fault."""


@dataclass(frozen=True, slots=True)
class Declared:
    """A policy as its pack declares it. `properties` and `required` are the parts of its JSON schema."""

    name: str
    level: str
    properties: Properties = field(default_factory=dict)
    required: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Settled:
    level: str
    properties: Properties = field(default_factory=dict)


def settle(policies: Sequence[Declared], initial: Mapping[str, Settled], user: Mapping[str, Any]) -> dict[str, Settled]:
    """Level and settings of every policy: schema default < pack's own < `all` of the user (a level only) < the user's entry.

    Raises PolicyConfigError with all faults at once: unknown policies and levels, values that break a schema, what is missing.
    """
    faults: list[str] = []
    known = {policy.name for policy in policies}
    faults.extend(f"{name}: no such policy; the pack has {', '.join(sorted(known))}" for name in sorted(user.keys() - known - {"all"}))
    everyone, more = _entry("all", user.get("all"), faults)
    if more:
        faults.append("all: only an enforcement level can be set for every policy")
    result: dict[str, Settled] = {}
    for policy in policies:
        level = policy.level
        values = {key: schema["default"] for key, schema in policy.properties.items() if isinstance(schema, dict) and "default" in schema}
        own = initial.get(policy.name)
        if own is not None:
            level = policy.level if own.level == LEVELS[0] and own.properties else own.level
            values.update(own.properties)
        mine, settings = _entry(policy.name, user.get(policy.name), faults)
        values.update(settings)
        faults.extend(f"{policy.name}: {fault}" for fault in _violations(policy, values))
        result[policy.name] = Settled(mine or everyone or level, values)
    if faults:
        raise PolicyConfigError("; ".join(faults))
    return result


def _entry(name: str, value: Any, faults: list[str]) -> tuple[str, Properties]:
    """Level (empty if not given) and settings of one entry."""
    settings: Properties = {}
    if isinstance(value, dict):
        settings = {str(key): inner for key, inner in value.items() if key != "enforcementLevel"}
        value = value.get("enforcementLevel")
    if value is None:
        return "", settings
    if value not in LEVELS:
        faults.append(f"{name}: enforcement level {value!r} is not one of {', '.join(LEVELS)}")
        return "", settings
    return str(value), settings


def _violations(policy: Declared, values: Properties) -> list[str]:
    schema = {"type": "object", "properties": policy.properties, "required": list(policy.required)}
    found = sorted(Draft7Validator(schema).iter_errors(values), key=lambda error: [str(part) for part in error.absolute_path])
    return [f"{'.'.join(map(str, error.absolute_path)) or 'configuration'}: {error.message}" for error in found]
