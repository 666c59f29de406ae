"""The tenant's stack of a soak: what the program renders from contracts and ledger, applied by the server's own apply.

Stands in for the Pulumi engine, which needs seconds for each update: `stacks.live` reads the ledger as in a plan, and
`ServicePlan` renders. An object that is what it was at the last update is not sent, unless the update refreshes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from components.model_service.manifests import ServicePlan
from components.model_service.release import Release
from headway.contract.arithmetic.surge import pool_for
from headway.contract.crosscheck import TenantContracts
from headway.environment.kubernetes import APPLY_PATCH, KubernetesApi
from headway.environment.port import OutOfReachError
from headway.ledger.store import LedgerStore
from headway.ledger.witness import LedgerWitness
from headway.wire import MODEL
from stacks.live import live
from tests.components.contracts import POOLS, SURROUNDINGS

MANAGER = "pulumi"
ENVIRONMENT = "sandbox"


class Objects:
    """Objects of an API server by what they say they are."""

    def __init__(self, api: KubernetesApi) -> None:
        self._api = api
        self._plurals: dict[str, Mapping[str, str]] = {}

    def forget_kinds(self) -> None:
        self._plurals.clear()

    def path(self, body: Mapping[str, Any]) -> str:
        """Raises OutOfReachError, also for a kind that the server does not know."""
        group, head = str(body["apiVersion"]), body["metadata"]
        root = f"/apis/{group}" if "/" in group else f"/api/{group}"
        if group not in self._plurals:
            listed = (self._api.get(root) or {}).get("resources", ())
            self._plurals[group] = {each["kind"]: each["name"] for each in listed if "/" not in each["name"]}
        plural = self._plurals[group].get(str(body["kind"]))
        if plural is None:
            del self._plurals[group]
            raise OutOfReachError(f"there is no {body['kind']} yet")
        inside = f"/namespaces/{head['namespace']}" if "namespace" in head else ""
        return f"{root}{inside}/{plural}/{head['name']}"

    def apply(self, body: Mapping[str, Any], manager: str = MANAGER) -> str:
        """Server-side apply, by force; answers the object's path. Raises OutOfReachError, UserError."""
        path = self.path(body)
        self._api.request("PATCH", path, {"fieldManager": manager, "force": "true"}, dict(body), APPLY_PATCH)
        return path

    def delete(self, path: str) -> None:
        self._api.request("DELETE", path, None, {"propagationPolicy": "Background"})


class Stack:
    """Of one tenant."""

    def __init__(self, contracts: TenantContracts, store: LedgerStore, witness: LedgerWitness) -> None:
        self.contracts, self._store, self._witness = contracts, store, witness
        self.applied: dict[str, Mapping[str, Any]] = {}
        """By path, what the last updates applied."""
        self.sent = 0

    def planned(self) -> Sequence[Mapping[str, Any]]:
        """Every object of the tenant's services, by the ledger. Raises SettingsError."""
        found = live(self.contracts, self._store, ENVIRONMENT, self._witness)
        made: list[Mapping[str, Any]] = []
        for model in self.contracts.models:
            known = found.get(model.name)
            now = known.contract if known else model
            pool = pool_for(now, POOLS)
            assert pool is not None, model.name
            if known is None:
                made += (each.body for each in ServicePlan.of(self.contracts.tenant.name, now, pool, SURROUNDINGS).manifests())
                continue
            releases: Mapping[str, Release] = known.releases
            plan = ServicePlan(
                tenant=self.contracts.tenant.name,
                model=now,
                releases=releases,
                traffic=known.traffic,
                pool=pool,
                surroundings=SURROUNDINGS,
            )
            made += (each.body for each in plan.manifests())
        return made

    def update(self, objects: Objects, *, refresh: bool) -> None:
        """Bring the cluster to what is planned. Raises SettingsError, OutOfReachError, UserError; what was applied until
        then is."""
        planned = {objects.path(body): body for body in self.planned()}
        for path, body in planned.items():
            route = body["kind"] == "VirtualService"
            if refresh or route or self.applied.get(path) != body:
                objects.apply(body)
                self.sent += 1
                self.applied[path] = body
        for path in [path for path in self.applied if path not in planned]:
            objects.delete(path)
            del self.applied[path]

    def names(self, kind: str) -> frozenset[str]:
        """Of the services' objects of a kind, as they were applied."""
        return frozenset(
            str(body["metadata"]["name"])
            for body in self.applied.values()
            if body["kind"] == kind and MODEL in body["metadata"].get("labels", {})
        )
