"""The dead man's switch: takes traffic back from a release whose runner no longer says that it watches.

A runner writes on the live route until when it watches, and which release is safe; once that time is over, the guard
gives the safe release everything. It needs the API server and nothing else: no ledger, no metrics, no stack. It says
that it lives in a Lease, without which no release begins. A guard on the runner's machine dies with it; run it where
the runner is not.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from headway.contract.rollout import LONGEST_UNWATCHED
from headway.environment.kubernetes import KubernetesApi
from headway.environment.port import OutOfReachError
from headway.ledger.traffic_split import EVERYTHING, TrafficSplit
from headway.problem import ODD, UserError
from headway.release.driver.live_service import ROUTES, patch, promise, route_of
from headway.timestamp import rfc3339
from headway.wire import RELEASE_FIELD_MANAGER, RELEASE_GUARD_LEASE, SAFE_RELEASE, TENANT, WATCHED_UNTIL

LOOK_SECONDS = 5.0
LEASE_SECONDS = 60
"""How long a guard that fell silent counts as alive."""
TENANT_SECONDS = 10.0
"""What one tenant's routes may take of a look, so that the others have their turn before the Lease of theirs is over."""
PAGE, LARGEST_PAGE = 4, 16 << 20
"""Routes in memory at once, and their bytes: one has up to 1.5 MiB, whatever a tenant writes."""
_KIND = {"apiVersion": "networking.istio.io/v1", "kind": "VirtualService"}
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"


@dataclass(frozen=True)
class GuardLook:
    """Models whose traffic was taken back, and routes of which that could not be said or done, each with the reason."""

    taken: tuple[str, ...]
    missed: tuple[str, ...]


class ReleaseGuard:
    """Guards every service of a tenant."""

    def __init__(self, api: KubernetesApi, tenant: str, holder: str, now: Callable[[], datetime], monotonic: Callable[[], float]) -> None:
        self._api, self._tenant, self._holder, self._now, self._monotonic = api, tenant, holder, now, monotonic

    def look(self) -> GuardLook:
        """Say that somebody looks, and take back what nobody watches, within `TENANT_SECONDS`. Raises OutOfReachError and
        UserError where the routes cannot be listed, all of them and in time; a route that is odd, or cannot be changed,
        leaves the others guarded."""
        until = self._monotonic() + TENANT_SECONDS
        self._live()
        taken, missed = list[str](), list[str]()
        for listed in self._api.each(ROUTES.format(self._tenant), page=PAGE, largest=LARGEST_PAGE, until=until):
            if self._monotonic() > until:
                missed.append(f"the other routes: after {TENANT_SECONDS:g} s it is the next tenant's turn")
                break
            live: dict[str, Any] = {**_KIND, **listed}  # a list says the kind of its items once, for all
            name = str(live["metadata"]["name"])
            try:
                if overdue(live, self._now()):
                    patch(self._api, live, safe(live))
                    taken.append(name)
            except (OutOfReachError, UserError) as failure:
                missed.append(f"{name}: {failure}")
            except ODD as odd:
                missed.append(f"{name}: nobody of ours writes a route like it ({type(odd).__name__}: {odd})")
        return GuardLook(tuple(sorted(taken)), tuple(sorted(missed)))

    def _live(self) -> None:
        moment = rfc3339(self._now(), "microseconds")
        spec = {"holderIdentity": self._holder, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": moment}
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": RELEASE_GUARD_LEASE, "namespace": self._tenant},
            "spec": spec,
        }
        path = f"{_LEASES.format(self._tenant)}/{RELEASE_GUARD_LEASE}"
        self._api.request("PATCH", path, {"fieldManager": RELEASE_FIELD_MANAGER, "force": "true"}, body, "application/apply-patch+yaml")


def tenants(api: KubernetesApi) -> tuple[str, ...]:
    """Every tenant of the cluster, sorted: the namespaces that carry a tenant's label. Raises OutOfReachError."""
    with_tenant = api.items(f"/api/v1/namespaces?{urlencode({'labelSelector': TENANT})}")
    return tuple(sorted(str(namespace["metadata"]["name"]) for namespace in with_tenant))


def guarded(api: KubernetesApi, tenant: str, now: datetime) -> str | None:
    """Who guards the tenant's releases; None if nobody does, or nobody who keeps to our term. Raises OutOfReachError."""
    lease = api.get(f"{_LEASES.format(tenant)}/{RELEASE_GUARD_LEASE}")
    spec: Mapping[str, Any] = (lease or {}).get("spec") or {}
    renewed = promise(spec.get("renewTime"))
    if renewed is None or not abs(now - renewed) < timedelta(seconds=LEASE_SECONDS):
        return None
    return str(spec.get("holderIdentity"))


def overdue(live: Mapping[str, Any], now: datetime) -> bool:
    """Whether a route gives something to a release that nobody watches any more. A promise that cannot be read, or that
    reaches further than any contract allows, is none."""
    notes = live["metadata"].get("annotations") or {}
    until, release = promise(notes.get(WATCHED_UNTIL)), notes.get(SAFE_RELEASE)
    if (
        WATCHED_UNTIL not in notes
        or not release
        or (until is not None and now < until <= now + LONGEST_UNWATCHED + timedelta(seconds=LOOK_SECONDS))
    ):
        return False
    route = route_of(live)
    return release in route.weights and (route.weights[release] < EVERYTHING or route.mirrored is not None or route.led is not None)


def safe(live: Mapping[str, Any]) -> TrafficSplit:
    """Everything to the safe release."""
    release = str(live["metadata"]["annotations"][SAFE_RELEASE])
    return TrafficSplit.only(release)
