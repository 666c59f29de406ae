"""What istiod's validating webhook would refuse and the definitions of its kinds let pass: weights, subsets, empty routes.

Owns a small table of checks on VirtualService and DestinationRule; https://istio.io/latest/docs/reference/config/networking/ states
the rules. Everything else about those objects is left to the API server's schema.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from pulumi_embedded.engine.paths import Path, render
from pulumi_embedded.engine.provider import UNKNOWN, CheckFailure, Properties
from pulumi_embedded.providers.kubernetes.kinds import ObjectKind

_GROUP = "networking.istio.io"
_FULL = 100


def failures(kind: ObjectKind, inputs: Properties) -> tuple[CheckFailure, ...]:
    """Every rule that the object breaks, by path; unknown values are taken to be right."""
    spec = inputs.get("spec")
    if kind.group != _GROUP or not isinstance(spec, dict):
        return ()
    if kind.kind == "VirtualService":
        return tuple(_virtual_service(spec))
    if kind.kind == "DestinationRule":
        return tuple(_destination_rule(spec))
    return ()


def _virtual_service(spec: Mapping[str, Any]) -> Iterator[CheckFailure]:
    if not spec.get("hosts"):
        yield _failure(("spec", "hosts"), "is empty, so the routes would match no request; name at least one host")
    for protocol in ("http", "tcp", "tls"):
        for index, route in enumerate(_objects(spec.get(protocol))):
            at: Path = ("spec", protocol, index)
            destinations = route.get("route")
            if protocol == "http":
                yield from _actions(at, route)
            if isinstance(destinations, list) and len(destinations) > 0:
                yield from _weights((*at, "route"), list(_objects(destinations)))
            if isinstance(percentage := _member(route, "mirrorPercentage", "value"), int | float) and not 0 <= percentage <= _FULL:
                yield _failure((*at, "mirrorPercentage", "value"), f"is {percentage}; a percentage is between 0 and 100")


def _actions(at: Path, route: Mapping[str, Any]) -> Iterator[CheckFailure]:
    actions = [action for action in ("delegate", "directResponse", "redirect", "route") if route.get(action)]
    if not actions:
        yield _failure(at, "does nothing with a request; give it route, redirect, directResponse or delegate")
    if len(actions) > 1:
        yield _failure(at, f"has {' and '.join(actions)}, of which only one can happen; keep one")


def _weights(at: Path, destinations: list[Mapping[str, Any]]) -> Iterator[CheckFailure]:
    weights = [destination.get("weight", 0) for destination in destinations]
    for index, (destination, weight) in enumerate(zip(destinations, weights, strict=True)):
        if isinstance(weight, int | float) and weight < 0:
            yield _failure((*at, index, "weight"), f"is {weight}; a weight is between 0 and 100")
        if not _member(destination, "destination", "host"):
            yield _failure(
                (*at, index, "destination", "host"), "is missing, so the mesh does not know where to send; name the Service's host"
            )
    known = [weight for weight in weights if isinstance(weight, int) and not isinstance(weight, bool)]
    if len(destinations) > 1 and len(known) == len(weights) and min(known) >= 0 and sum(known) != _FULL:
        yield _failure(
            at, f"has weights {' + '.join(map(str, known))} = {sum(known)}; with more than one destination they must add up to 100"
        )


def _destination_rule(spec: Mapping[str, Any]) -> Iterator[CheckFailure]:
    if not spec.get("host"):
        yield _failure(("spec", "host"), "is missing, so the rule applies to nothing; name the Service's host")
    seen: dict[str, int] = {}
    for index, subset in enumerate(_objects(spec.get("subsets"))):
        name = subset.get("name")
        at: Path = ("spec", "subsets", index, "name")
        if not name:
            yield _failure(at, "is missing; routes choose a subset by its name")
        elif name != UNKNOWN and name in seen:
            yield _failure(at, f"is {name!r}, as in spec.subsets[{seen[name]}]; subset names are unique within a rule")
        else:
            seen.setdefault(name, index)


def _failure(at: Path, reason: str) -> CheckFailure:
    return CheckFailure(render(at), reason)


def _objects(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, list):
        for item in value:
            yield item if isinstance(item, dict) else {}


def _member(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value
