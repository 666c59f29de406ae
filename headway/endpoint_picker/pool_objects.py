"""Which endpoints a picker may pick, by what the API server says: the ready ones of EndpointSlices whose Service is marked. Pure.

The mesh makes its endpoints of the same slices, each under the Service's name; a Service's labels are on its slices too
(kubernetes/endpointslice 1.35, `reconciler.go`, `setEndpointSliceLabels`).
"""

from collections.abc import Iterable, Iterator
from ipaddress import ip_address
from itertools import zip_longest
from typing import Any

from headway.endpoint_picker.tracking import EngineFacts, namespace
from headway.problem import ODD
from headway.wire import ROUTING

QUERY = f"{ROUTING}=endpoint_picker"
"""Slices of Services whose endpoints are picked, as a label selector."""
SERVICE = "kubernetes.io/service-name"
MOST_ENGINES = 1000
"""Of a cluster; more are left out, of whoever has most."""


def engines_of(slices: Iterable[Any]) -> Iterator[tuple[str, EngineFacts]]:
    """Address and facts of each ready endpoint; a slice or an endpoint that cannot be read has none."""
    for found in slices:
        try:
            pool = f"{found['metadata']['labels'][SERVICE]}.{found['metadata']['namespace']}"
            ports = [port for each in found.get("ports") or () if 0 < (port := int(each["port"])) < 1 << 16]
            endpoints = list(found.get("endpoints") or ())
        except ODD:
            continue
        for each in endpoints:
            try:
                if (each.get("conditions") or {}).get("ready") is False:
                    continue
                ip, life = ip_address(each["addresses"][0]), str((each.get("targetRef") or {}).get("uid"))
            except ODD:
                continue
            for port in ports:
                yield (f"{ip}:{port}" if ip.version == 4 else f"[{ip}]:{port}"), EngineFacts(pool, life=life)


def shared(engines: Iterable[tuple[str, EngineFacts]], most: int = MOST_ENGINES) -> dict[str, EngineFacts]:
    """At most so many of them, of each namespace in its turn: deployers mark Services, with up to eight ports each."""
    owned: dict[str, dict[str, EngineFacts]] = {}
    for address, facts in engines:
        own = owned.setdefault(namespace(facts.pool), {})
        if len(own) < most:
            own.setdefault(address, facts)
    found: dict[str, EngineFacts] = {}
    for turn in zip_longest(*(own.items() for own in owned.values())):
        for each in filter(None, turn):
            if len(found) < most:
                found.setdefault(*each)
    return found
