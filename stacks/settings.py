"""What a stack file says, typed, checked and complete: the only reader of `pulumi.Config`.

A stack's name says its environment and its layer: `<environment>-cluster`, `<environment>-platform`, else
`<environment>-<tenant>`. Each top-level key of the file (`headway:network`) is one section here. What describes the
whole environment (account, pools) stands in its cluster stack's file only; the other layers read it there, so that
planning a tenant never waits for a deployed cluster. `pulumi.Config` cannot list its keys, so a misspelt section
would go unnoticed; `of_this_run` therefore reads the whole map.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pulumi
from pulumi.runtime import config as pulumi_config
from pydantic import ValidationError

from components.identity import Binding
from components.naming import cluster_name
from components.storage.registry import CACHE_LIMIT, cache_prefix
from components.versions import CACHED_REGISTRIES
from headway.bounded_yaml import bounded_yaml
from headway.contract.part import Name, Part
from headway.contract.pool import Pool, SystemPool
from headway.problem import Problem, problem
from stacks import footprint
from stacks.access_settings import AccessSettings
from stacks.sections import (
    AccountSettings,
    BatchSettings,
    ControlPlaneSettings,
    GatewaySettings,
    LoopSettings,
    NetworkSettings,
    ObservabilitySettings,
    RegistrySettings,
    StorageSettings,
    WarmCapacity,
    authority_problems,
    endpoint_problems,
    host_problems,
    loops_problems,
    pool_problems,
    registry_problems,
    witness_problems,
)
from stacks.settings_error import SettingsError, problems_in

NAMESPACE = "headway"
ACCESS = "access"
CLUSTER = "cluster"
PLATFORM = "platform"
SANDBOX = "sandbox"
"""The environment in which charts are not installed and nothing is AWS's."""
SHARED: Mapping[str, Mapping[str, str]] = {
    ACCESS: {"account": CLUSTER, "storage": CLUSTER, "workload_identity": CLUSTER},
    CLUSTER: {"access": ACCESS},
    PLATFORM: {
        "access": ACCESS,
        "account": CLUSTER,
        "network": CLUSTER,
        "pools": CLUSTER,
        "system_pool": CLUSTER,
        "workload_identity": CLUSTER,
    },
    "tenant": {
        "access": ACCESS,
        "account": CLUSTER,
        "gateway": PLATFORM,
        "loops": PLATFORM,
        "network": CLUSTER,
        "observability": PLATFORM,
        "pools": CLUSTER,
        "workload_identity": CLUSTER,
    },
}
"""For each layer, the sections that it reads from another layer's file of the same environment."""

CLUSTERS_CONCERN = (f"{NAMESPACE}:registry", f"{NAMESPACE}:system_pool")
"""Sections of the platform layer without which a cluster is not worth planning: nodes and networks come first."""

FOLDER = Path(__file__).parent


class AccessLayerSettings(Part):
    """One environment's access layer."""

    environment: Name
    account: AccountSettings
    access: AccessSettings
    storage: StorageSettings
    workload_identity: Binding = Binding.POD_IDENTITY


class ClusterSettings(Part):
    """One environment's cluster layer."""

    environment: Name
    access: AccessSettings | None = None
    account: AccountSettings
    network: NetworkSettings
    control_plane: ControlPlaneSettings
    system_pool: SystemPool
    pools: tuple[Pool, ...]
    storage: StorageSettings
    workload_identity: Binding = Binding.POD_IDENTITY
    """How every pod of the environment that asks AWS gets its role."""

    def violations(self) -> Iterator[Problem]:
        longest = max((cache_prefix(cluster_name(self.environment), upstream) for upstream in CACHED_REGISTRIES), key=len)
        if len(longest) > CACHE_LIMIT:
            yield Problem(
                rule="environment-names-caches",
                path=("environment",),
                value=self.environment,
                fact=f"it would call a cache of ECR {longest}, of {len(longest)} characters, and ECR takes {CACHE_LIMIT}",
                consequence="ECR refuses the cache after half the layer has been created",
                remedy=f"Choose a name of at most {len(self.environment) - len(longest) + CACHE_LIMIT} characters",
            )
        yield from endpoint_problems(self.network, self.workload_identity)
        yield from pool_problems(self.network.zones, ((("system_pool",), self.system_pool),))
        yield from pool_problems(self.network.zones, tuple((("pools", n), pool) for n, pool in enumerate(self.pools)))
        for zone in self.network.zones:
            if zone[:-1] != self.account.region:
                yield Problem(
                    rule="zone-in-region",
                    path=("network", "zones"),
                    value=zone,
                    fact=f"{zone} is not a zone of {self.account.region}",
                    consequence="AWS refuses the subnet after half the layer has been created",
                    remedy=f"Write zones such as {self.account.region}a, or change account.region",
                )


class PlatformSettings(Part):
    """One environment's platform layer."""

    environment: Name
    access: AccessSettings | None = None
    account: AccountSettings
    network: NetworkSettings
    pools: tuple[Pool, ...]
    system_pool: SystemPool
    gateway: GatewaySettings
    loops: LoopSettings
    observability: ObservabilitySettings
    registry: RegistrySettings
    warm: tuple[WarmCapacity, ...]
    workload_identity: Binding = Binding.POD_IDENTITY

    def violations(self) -> Iterator[Problem]:
        yield from endpoint_problems(self.network, self.workload_identity)
        for found in footprint.room(self).problems:
            yield replace(found, path=("system_pool", *found.path))
        yield from authority_problems(self.gateway, self.network)
        yield from registry_problems(self.registry, self.network, self.loops, self.account.region)
        if self.environment != SANDBOX:
            yield from loops_problems(self.loops, self.pools, self.environment)
        yield from witness_problems(self.loops, self.network)
        known = sorted(pool.name for pool in self.pools)
        for number, warm in enumerate(self.warm):
            if warm.pool not in known:
                yield problem(
                    "warm-pool-exists",
                    "warm",
                    number,
                    "pool",
                    value=warm.pool,
                    fact=f"environment {self.environment} has no pool {warm.pool}",
                    consequence="No node would ever be kept warm by it",
                    remedy=f"Use {', '.join(known) or 'none: there are no pools'}",
                )


class TenantSettings(Part):
    """One tenant's stack. What it deploys stands in `tenants/<tenant>/`."""

    environment: Name
    access: AccessSettings | None = None
    account: AccountSettings
    network: NetworkSettings
    pools: tuple[Pool, ...]
    gateway: GatewaySettings
    loops: LoopSettings
    observability: ObservabilitySettings
    tenant: Name
    batch: BatchSettings | None = None
    workload_identity: Binding = Binding.POD_IDENTITY

    def violations(self) -> Iterator[Problem]:
        yield from host_problems(self.gateway, self.tenant)


StackSettings = AccessLayerSettings | ClusterSettings | PlatformSettings | TenantSettings
_LAYERS: Mapping[str, type[AccessLayerSettings | ClusterSettings | PlatformSettings]] = {
    ACCESS: AccessLayerSettings,
    CLUSTER: ClusterSettings,
    PLATFORM: PlatformSettings,
}
"""All others are tenants."""


def load(stack: str, config: Mapping[str, str], folder: Path = FOLDER, secrets: frozenset[str] = frozenset()) -> StackSettings:
    """The settings of `stack` from its `config` (full key to raw text, as the engine passes it).

    `folder` holds the stack files, `secrets` the keys whose values are never shown. Raises SettingsError with every
    problem.
    """
    environment, _, layer = stack.partition("-")
    given = {key.removeprefix(f"{NAMESPACE}:"): _value(text) for key, text in config.items() if key.startswith(f"{NAMESPACE}:")}
    kind = layer if layer in _LAYERS else "tenant"
    shared = _shared(environment, kind, folder)
    if strays := sorted(given.keys() & SHARED[kind].keys() - shared.keys()):
        raise SettingsError(f"Pulumi.{stack}.yaml", [_stray(environment, section, SHARED[kind][section]) for section in strays])
    model, given = _LAYERS.get(kind, TenantSettings), given | shared | ({} if kind in _LAYERS else {"tenant": layer})
    hidden = frozenset(key.removeprefix(f"{NAMESPACE}:") for key in secrets)
    try:
        found = model.model_validate({**given, "environment": environment})
    except ValidationError as error:
        raise SettingsError(f"Pulumi.{stack}.yaml", problems_in(error, hidden)) from None
    if isinstance(found, ClusterSettings) and (problems := _for_the_platform(environment, given, folder)):
        raise SettingsError(f"Pulumi.{stack}.yaml", problems)
    return found


def _stray(environment: str, section: str, owner: str) -> Problem:
    return problem(
        "section-in-its-layer",
        f"{NAMESPACE}:{section}",
        fact=f"this section is read from Pulumi.{environment}-{owner}.yaml, where it does not stand",
        consequence="This layer would go by it, and the others of the environment would not",
        remedy=f"Move it to Pulumi.{environment}-{owner}.yaml",
    )


def _for_the_platform(environment: str, given: Mapping[str, Any], folder: Path) -> tuple[Problem, ...]:
    """What the platform layer, where there is one, will say of this cluster layer's nodes and network."""
    platform = {key.removeprefix(f"{NAMESPACE}:"): value for key, value in config_of(folder, environment, PLATFORM).items()}
    if not platform:
        return ()
    shared = {section: given[section] for section in SHARED[PLATFORM] if section in given}
    try:
        PlatformSettings.model_validate({**platform, **shared, "environment": environment})
    except ValidationError as error:
        # Its other problems are told where they stand, when that layer is planned.
        return tuple(found for found in problems_in(error) if found.path[0] in CLUSTERS_CONCERN)
    return ()


def of_this_run() -> StackSettings:
    """The settings of the stack that the engine is running."""
    found: dict[str, str] = {**pulumi_config.get_config_env(), **pulumi_config.CONFIG.get()}
    secrets = frozenset(key for key in found if pulumi_config.is_config_secret(key))
    return load(pulumi.get_stack(), found, secrets=secrets)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _shared(environment: str, layer: str, folder: Path) -> dict[str, Any]:
    """The sections that `layer` reads from the files of other layers; what is not there is left out, and then
    refused as missing.
    """
    files = {owner: config_of(folder, environment, owner) for owner in sorted(set(SHARED[layer].values()))}
    keys = {section: f"{NAMESPACE}:{section}" for section in SHARED[layer]}
    return {section: files[owner][keys[section]] for section, owner in SHARED[layer].items() if keys[section] in files[owner]}


def config_of(folder: Path, environment: str, layer: str) -> dict[str, Any]:
    """What a layer's stack file says below `config`; nothing where there is none. Raises SettingsError for a file that cannot be read."""
    path = folder / f"Pulumi.{environment}-{layer}.yaml"
    if not path.exists():
        return {}
    try:
        found = (bounded_yaml(path.read_bytes()) or {}).get("config") or {}
        if not isinstance(found, dict):
            raise ValueError("its `config` is no mapping")
    except (ValueError, AttributeError) as odd:
        remedy = "Write `config:` with the sections of this layer, as stacks/sections.py describes them"
        unread = problem(
            "stack-file-readable", fact=f"it cannot be read: {odd}", consequence="Nothing of this layer is known", remedy=remedy
        )
        raise SettingsError(path.name, [unread]) from None
    return cast(dict[str, Any], found)
