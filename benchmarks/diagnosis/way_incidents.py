"""Faults of callers and of the way from them to a replica; and neighbours that ask more and are innocent."""

from collections.abc import Iterator
from dataclasses import replace

from benchmarks.diagnosis.played import ONSET, says
from benchmarks.diagnosis.played_service import Incident, Play
from benchmarks.diagnosis.server_incidents import One
from headway.diagnosis.facts import Change, ChangeKind, StateKind

OWN = ("route-astray", "route-written-by-hand", "new-version-refuses")
"""Faults that are changes themselves, or that a change of the route would explain."""
_BUSIER = {"neighbours": {"": 1500.0}}


def faults(calm: Play, one: One) -> Iterator[Incident]:
    slow = {"fixed": calm.fixed * 2.5, "each": calm.each * 2.5}
    throttled = {"gateway_throttled": {"": 0.5}}
    astray = (says(StateKind.ROUTE_ASTRAY, "defects"),)
    written = Change(kind=ChangeKind.ROUTE, time=ONSET, who="kubectl-edit", words="the VirtualService defects was written")
    began = Change(kind=ChangeKind.RELEASE, time=ONSET - 40, who="ci", words="release r0123456789 began", release="r0123456789")
    yield one("model-fails and callers ask again", truth="model-fails", failing=0.4, again=0.9)
    yield one("model-slower and callers ask again", truth="model-slower", **slow, patience=0.060, again=0.9)
    yield one("malformed-requests", malformed=0.3)
    yield one("new-version-refuses", truth="new-version", malformed=0.3, changes=(began,), fresh=frozenset(range(calm.replicas)))
    yield one("replicas-full", overflow=0.1)
    yield one("pool-full", pool_overflow=0.1)
    yield one("limiter-slow", limiter=0.050)
    yield one("gateway-throttled", way=calm.way + 0.040, around=throttled)
    yield one("noisy-neighbour", way=calm.way + 0.040, around={**throttled, **_BUSIER})
    yield one("gateway-full", around={"gateway_closed": {"": 5.0}})
    yield one("mesh-authority-over", unreached=0.9, around={"mesh_authority_left": {"": -600.0}})
    yield one("certificate-invalid", states=(says(StateKind.CERTIFICATE_INVALID, "gateway"),))
    yield one("route-astray", states=astray)
    yield one("route-written-by-hand", states=astray, changes=(written,))
    away = one("limiter-away", requests=500.0, around={"limiter_ready": {"": 0.0}})
    yield replace(away, before=replace(calm, requests=500.0, limited=1 - calm.requests / 500.0))
    # Neighbours that ask more of a gateway that has room for it.
    yield one("way-longer beside busier neighbours", truth="way-longer", way=calm.way + 0.040, around=_BUSIER)
    yield one("model-slower beside busier neighbours", truth="model-slower", **slow, around=_BUSIER)
