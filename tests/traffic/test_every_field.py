"""Every field that Istio's published schemas give the objects which lead requests: it counts, or it is refused by its path.

A stand-in that ignores a field proves something about another configuration than the one that production runs.
"""

import copy
import json
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any

import pytest

from pulumi_embedded.providers.kubernetes import crds
from sandbox.cluster.toolchain import ensure_toolchain
from sandbox.layout import Layout
from sandbox.progress import Silent
from sandbox.traffic.mesh import envoy_configuration
from sandbox.traffic.mesh.listeners import ListenerPorts
from sandbox.traffic.mesh.snapshot import MeshSnapshot
from tests.traffic.bed import PROJECT

Schema = dict[str, Any]
Path = tuple[str, ...]
LIST, MAP = "[]", "{}"

HOST, OTHER = "a.n.svc.cluster.local", "b.n.svc.cluster.local"
PORTS = [{"name": "http", "port": 8000}, {"name": "grpc", "port": 8001}]
SELECTED = {"selector": {"matchLabels": {"istio": "g"}}}
DOORS = ListenerPorts(gateway={80: 1080}, mesh={8000: 1800, 8001: 1801}, log="/log")
KEYS = dict.fromkeys(("i", "one", "other"), "{}")


def of(kind: str, spec: Schema, **metadata: Any) -> Schema:
    return {"kind": kind, "metadata": {"name": kind.lower(), "namespace": "n", "uid": kind, **metadata}, "spec": spec}


OBJECTS = [
    of("Service", {"ports": PORTS}, name="a", uid="a"),
    of("Service", {"ports": PORTS}, name="b", uid="b"),
    {
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "n", "uid": "p", "labels": {"app": "x", "some-name": "one"}},
        "spec": {"containers": [{"name": "server", "ports": [{"name": "http", "containerPort": 8000}]}]},
        "status": {"podIP": "10.130.0.1"},
    },
    of(
        "Gateway",
        {
            "selector": {"istio": "g", "some-name": "one"},
            "servers": [{"port": {"number": 80, "name": "http", "protocol": "HTTP"}, "hosts": ["*"]}],
        },
    ),
    of(
        "VirtualService",
        {
            "hosts": ["h.example.com"],
            "gateways": ["gateway", "mesh"],
            "http": [{"match": [{}], "route": [{"destination": {"host": HOST, "port": {"number": 8000}}}]}],
        },
    ),
    of("DestinationRule", {"host": HOST, "trafficPolicy": {"connectionPool": {"tcp": {"connectTimeout": "9s"}}}}),
    of("AuthorizationPolicy", {**SELECTED, "action": "DENY", "rules": [{}]}),
    of("RequestAuthentication", {**SELECTED, "jwtRules": [{"issuer": "i", "audiences": ["m"]}]}),
    of("Sidecar", {"workloadSelector": {"labels": {"app": "x"}}, "inboundConnectionPool": {"http": {"http1MaxPendingRequests": 9}}}),
]
"""One of each kind that is judged, and what they lead to."""
KINDS = sorted({each["kind"] for each in OBJECTS} - {"Pod", "Service"})

AUDIENCE, CLAIM = {"key": "request.auth.audiences", "values": ["m"]}, {"claim": "c", "header": "x-h"}
BESIDE: dict[str, tuple[str, Any]] = {
    "VirtualService.http.[].mirror": ("http.[].mirror.host", OTHER),
    "VirtualService.http.[].mirrorPercentage": ("http.[].mirror.host", OTHER),
    "VirtualService.http.[].retries": ("http.[].retries.attempts", 2),
    "VirtualService.http.[].directResponse": ("http.[].directResponse.status", 200),
    "AuthorizationPolicy.rules.[].when": ("rules.[].when", [AUDIENCE]),
    "RequestAuthentication.jwtRules.[].outputClaimToHeaders": ("jwtRules.[].outputClaimToHeaders", [CLAIM]),
}
"""What must also be there for a field of that beginning to be valid, or to mean anything."""

VALUES: dict[str, list[Any]] = {
    "VirtualService.gateways.[]": ["gateway", "mesh"],
    "VirtualService.http.[].match.[].gateways.[]": ["n/gateway", "mesh"],
    "VirtualService.http.[].match.[].port": [80, 8000],
    "DestinationRule.host": [HOST, OTHER],
    "Gateway.servers.[].hosts.[]": ["h.example.com", "other.example.com"],
    "Gateway.servers.[].port.number": [80, 8080],
    "Gateway.servers.[].port.protocol": ["HTTP", "HTTP2", "GRPC", "HTTPS", "MONGO", "TCP", "TLS"],
}
"""Where a value of the kind's own would lead nowhere, or not be one of those that the documentation lists."""

WITHOUT_EFFECT = {
    "VirtualService.http.[].route.[].weight": "the only destination gets everything, whatever its weight",
    "DestinationRule.trafficPolicy.tls.mode": "mutual TLS is taken and not done",
    "DestinationRule.trafficPolicy.loadBalancer.simple": "UNSPECIFIED means LEAST_REQUEST",
    "RequestAuthentication.jwtRules.[].jwksUri": "keys are the sandbox's own",
    "Gateway.selector.{}": "one Envoy is every gateway",
    "Gateway.servers.[].name": "a name",
    "Gateway.servers.[].port.name": "a name",
    "Gateway.servers.[].port.protocol": "all that is taken is plain HTTP",
    "Sidecar.egress.[].hosts.[]": "no replica's calls pass a proxy",
}
"""Taken although two of its values come to the same, and why that is right here."""


@cache
def schemas() -> dict[str, Schema]:
    layout = Layout.of(PROJECT)
    found = crds.read(ensure_toolchain(layout, Silent(), ("crds",)).crds("istio"))
    return {each["spec"]["names"]["kind"]: _newest(each) for each in found}


def _newest(definition: Schema) -> Schema:
    versions = {each["name"]: each["schema"]["openAPIV3Schema"]["properties"]["spec"] for each in definition["spec"]["versions"]}
    return versions.get("v1") or next(iter(versions.values()))


def fields(schema: Schema, path: Path = ()) -> Iterator[tuple[Path, Schema]]:
    """Every field that holds no other, with its schema."""
    if schema.get("properties"):
        for name, each in sorted(schema["properties"].items()):
            yield from fields(each, (*path, name))
    elif isinstance(schema.get("additionalProperties"), dict):
        yield from fields(schema["additionalProperties"], (*path, MAP))
    elif schema.get("type") == "array":
        yield from fields(schema["items"], (*path, LIST))
    else:
        yield path, schema


def values(name: str, schema: Schema) -> list[Any]:
    """Two values that differ, or all of a list."""
    if name in VALUES:
        return VALUES[name]
    if schema.get("enum"):
        return list(schema["enum"])
    duration = "duration" in json.dumps(schema.get("x-kubernetes-validations", ""))
    by_type = {"integer": [3, 5], "number": [3.0, 5.0], "boolean": [True, False], "string": ["7s", "11s"] if duration else ["one", "other"]}
    return by_type.get(schema.get("type", ""), [{"unknown": 1}])


def put(spec: Schema, path: Path, value: Any) -> None:
    """Set the field; what is on the way to it is made where it is missing."""
    place: Any = spec
    for step, below in pairwise(path):
        empty: Any = [] if below == LIST else {}
        if step == LIST:
            place[:] = place or [empty]
            place = place[0]
        else:
            place = place.setdefault("some-name" if step == MAP else step, empty)
    if path[-1] == LIST:
        place[:] = [value]
    else:
        place["some-name" if path[-1] == MAP else path[-1]] = value


def compiled(objects: list[Schema]) -> envoy_configuration.EnvoyConfiguration:
    return envoy_configuration.compile_(MeshSnapshot.of(objects), DOORS, "/xds", {str(key): value for key, value in KEYS.items()})


def shown(path: Path) -> str:
    """As refusals name it."""
    return "spec" + "".join("[0]" if step == LIST else "[some-name]" if step == MAP else f".{step}" for step in path)


def judged(kind: str, path: Path, schema: Schema) -> str | None:
    """What is wrong with how the stand-in takes the field; None where it counts or is refused."""
    name = ".".join((kind, *path))
    base = copy.deepcopy(OBJECTS)
    spec = next(each["spec"] for each in base if each["kind"] == kind)
    for beginning, (beside, given) in BESIDE.items():
        if name.startswith(beginning):
            put(spec, tuple(beside.split(".")), copy.deepcopy(given))
    found = [compiled(base)]
    for value in values(name, schema):
        objects = copy.deepcopy(base)
        put(next(each["spec"] for each in objects if each["kind"] == kind), path, value)
        refused = envoy_configuration.judge(MeshSnapshot.of(objects)).get(kind)
        if refused and not any(shown(path).startswith(each.path) for each in refused):
            return f"{name}: {value!r} is refused, but by another path: {refused[0].path}"
        if not refused:
            found.append(compiled(objects))
    taken = found[1:]
    distinct = all(one != other for number, one in enumerate(taken) for other in taken[:number]) and any(one != found[0] for one in taken)
    if taken and distinct == (name in WITHOUT_EFFECT):
        return f"{name}: {'has an effect' if distinct else 'is taken, and what it says does not count'}"
    return None


@pytest.mark.parametrize("kind", KINDS)
def test_a_field_of_the_published_schema_counts_or_is_refused_by_its_path(kind: str) -> None:
    found = list(fields(schemas()[kind]))
    assert len(found) > 20
    assert [wrong for path, schema in found if (wrong := judged(kind, path, schema))] == []
