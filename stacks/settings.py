"""What a stack file says, typed, checked and complete: the only reader of `pulumi.Config`.

A stack's name says its environment and its layer: `<environment>-cluster`, `<environment>-platform`, else `<environment>-<tenant>`.
Each top-level key of the file (`headway:network`) is one section here. What describes the whole environment (account, pools) stands in
its cluster stack's file only; the other layers read it there, so that planning a tenant never waits for a deployed cluster. The trap:
`pulumi.Config` cannot list its keys, so a misspelt section would go unnoticed; `of_this_run` therefore reads the whole map.
"""

import json
from collections.abc import Iterator, Mapping
from enum import StrEnum
from ipaddress import IPv4Network
from pathlib import Path
from typing import Annotated, Any, Literal

import pulumi
import yaml
from pulumi.runtime import config as pulumi_config
from pydantic import AfterValidator, Field, ValidationError

from components.network.endpoints import ACTIONS, WITHOUT_NAT
from components.versions import KUBERNETES, NODE_RELEASES
from headway.contract.part import Count, CountOrNone, Flag, Name, Part
from headway.contract.pool import Pool, SystemPool
from headway.contract.runtime import Image
from headway.contract.units import Bytes
from headway.problem import Problem, problem
from stacks.settings_error import SettingsError, problems_in, refuse

NAMESPACE = "headway"
CLUSTER = "cluster"
PLATFORM = "platform"
SANDBOX = "sandbox"
"""The environment in which charts are not installed and nothing is AWS's."""
SHARED: Mapping[str, Mapping[str, str]] = {
    PLATFORM: {"account": CLUSTER, "network": CLUSTER, "pools": CLUSTER},
    "tenant": {"account": CLUSTER, "gateway": PLATFORM, "loops": PLATFORM, "pools": CLUSTER},
}
"""For each layer, the sections that it reads from another layer's file of the same environment."""

WIDEST_PREFIX, NARROWEST_PREFIX = 16, 20
"""AWS makes no VPC wider than /16; below /20 a zone's nodes would have fewer than 510 addresses for pods."""

WIDEST_PUBLIC_PREFIX = 16
"""No office or runner network is wider; what is wider is the internet by another name."""

FOLDER = Path(__file__).parent

Days = Annotated[int, Field(ge=1, le=3653)]
LogDays = Literal[1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653]
"""Retentions that CloudWatch Logs knows."""
Arn = Annotated[str, Field(pattern=r"^arn:aws:iam::[0-9]{12}:(role|user)/[\w+=,.@/-]+$")]
Zone = Annotated[str, Field(pattern=r"^[a-z]{2}(-[a-z]+)+-[0-9][a-f]$")]
Repository = Annotated[str, Field(pattern=r"^[a-z0-9]+([._-][a-z0-9]+)*(/[a-z0-9]+([._-][a-z0-9]+)*)*$", max_length=200)]


def _roomy(cidr: IPv4Network) -> IPv4Network:
    if not WIDEST_PREFIX <= cidr.prefixlen <= NARROWEST_PREFIX or not cidr.is_private:
        refuse(
            Problem(
                rule="network-range",
                path=(),
                value=str(cidr),
                fact=f"{cidr} is not a private range between /{WIDEST_PREFIX} and /{NARROWEST_PREFIX}",
                consequence="The subnets of six zones would not fit, or would hide public addresses from the nodes",
                remedy="take a /16 of 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16 that no connected network uses",
            )
        )
    return cidr


def _once(zones: tuple[str, ...]) -> tuple[str, ...]:
    twice = sorted({zone for zone in zones if zones.count(zone) > 1})
    if twice:
        refuse(
            Problem(
                rule="zone-once",
                path=(),
                value=twice[0],
                fact=f"{', '.join(twice)} stands more than once among the zones",
                consequence="Two subnets would claim the same addresses",
                remedy="name each zone once",
            )
        )
    return zones


def _known_endpoints(services: tuple[str, ...]) -> tuple[str, ...]:
    unknown = sorted(set(services) - set(ACTIONS))
    if unknown:
        refuse(
            Problem(
                rule="endpoint-known",
                path=(),
                value=unknown,
                fact=f"no endpoint policy is written for {', '.join(unknown)}",
                consequence="Anyone's credentials would pass through that endpoint",
                remedy=f"use {', '.join(sorted(ACTIONS))}, or write its policy in components/network/endpoints.py",
            )
        )
    return services


def _not_for_everyone(cidr: IPv4Network) -> IPv4Network:
    if cidr.prefixlen < WIDEST_PUBLIC_PREFIX:
        refuse(
            Problem(
                rule="endpoint-not-for-everyone",
                path=(),
                value=str(cidr),
                fact=f"{cidr} opens the API server to {cidr.num_addresses:,} addresses",
                consequence="Anyone there may try credentials and unpatched flaws against it",
                remedy="name the ranges of your offices and runners, or none and run from inside the VPC",
            )
        )
    return cidr


class Nat(StrEnum):
    """How private subnets reach the internet. Not the VPC endpoints, which carry AWS traffic whatever is chosen here."""

    NONE = "none"
    """Not at all: every image and artifact comes through an endpoint."""
    SINGLE = "single"
    """One gateway: the outage of its zone cuts every zone off. For environments that may be down."""
    PER_ZONE = "per-zone"
    """One gateway a zone: no zone depends on another, and no cross-zone traffic is paid."""
    REGIONAL = "regional"
    """One gateway that AWS spreads over the zones in use."""


class Support(StrEnum):
    """What EKS does when a Kubernetes version leaves standard support."""

    STANDARD = "STANDARD"
    """Upgrades the control plane by itself."""
    EXTENDED = "EXTENDED"
    """Keeps the version, at six times the control plane's price."""


class Account(Part):
    """Where the resources live. The AWS provider refuses credentials of any other account."""

    id: Annotated[str, Field(pattern=r"^[0-9]{12}$")]
    region: Annotated[str, Field(pattern=r"^[a-z]{2}(-[a-z]+)+-[0-9]$")]


class NetworkSettings(Part):
    """The VPC. Every zone's subnets have their place in `cidr` whether the zone is used or not, so adding one moves nothing."""

    cidr: Annotated[IPv4Network, AfterValidator(_roomy)]
    """Private address range, /16 to /20."""
    zones: Annotated[tuple[Zone, ...], Field(min_length=2, max_length=6), AfterValidator(_once)]
    """Availability zones by name. EKS asks for two; three survive the loss of one with a majority left."""
    nat: Nat
    endpoints: Annotated[tuple[str, ...], AfterValidator(_known_endpoints)]
    """AWS services reached without leaving the VPC. Each interface endpoint is paid per zone and hour."""
    flow_log_days: LogDays

    def violations(self) -> Iterator[Problem]:
        missing = sorted(WITHOUT_NAT - set(self.endpoints))
        if self.nat is Nat.NONE and missing:
            yield problem(
                "a-way-to-aws",
                "endpoints",
                value=list(self.endpoints),
                fact=f"without NAT, nodes reach {', '.join(missing)} by endpoints only, and these are missing",
                consequence="No node could join the cluster or pull an image",
                remedy="add them, or choose another nat",
            )


class ControlPlaneSettings(Part):
    """The EKS control plane: who reaches it, who administers it, how it is kept."""

    public_cidrs: tuple[Annotated[IPv4Network, AfterValidator(_not_for_everyone)], ...]
    """Ranges that may reach the API server over the internet; empty keeps it inside the VPC."""
    administrators: tuple[Arn, ...]
    """IAM roles and users with cluster administration through access entries."""
    creator_is_administrator: Flag
    """Whether whoever creates the cluster stays its administrator, unseen in the access entries."""
    deletion_protection: Flag
    log_days: LogDays
    """Retention of the control plane's logs, audit included."""
    support: Support

    def violations(self) -> Iterator[Problem]:
        if not self.administrators and not self.creator_is_administrator:
            yield Problem(
                rule="cluster-has-an-administrator",
                path=("administrators",),
                fact="No one may administer the cluster: the list is empty and its creator is not kept either",
                consequence="The platform layer could not connect, and no one could repair that",
                remedy="name the role that deploys the platform layer",
            )


class StorageSettings(Part):
    """Buckets, image repositories and what becomes of them."""

    ledger_lock_days: Days
    """How long no one may change or delete a release event (Object Lock, governance mode)."""
    superseded_days: Days
    """How long a superseded or deleted artifact version is kept."""
    telemetry_days: Days
    """How long logs and traces are kept in their bucket, whatever the platform layer keeps them for."""
    disposable: Flag
    """Whether destroying the stack also destroys what the buckets and repositories hold."""
    repositories: tuple[Repository, ...]
    """Image repositories, under the environment's own prefix."""


class ClusterSettings(Part):
    """One environment's cluster layer."""

    environment: Name
    account: Account
    network: NetworkSettings
    control_plane: ControlPlaneSettings
    system_pool: SystemPool
    pools: tuple[Pool, ...]
    storage: StorageSettings

    def violations(self) -> Iterator[Problem]:
        yield from _pools_in(self.network.zones, ((("system_pool",), self.system_pool),))
        yield from _pools_in(self.network.zones, tuple((("pools", n), pool) for n, pool in enumerate(self.pools)))
        for zone in self.network.zones:
            if zone[:-1] != self.account.region:
                yield Problem(
                    rule="zone-in-region",
                    path=("network", "zones"),
                    value=zone,
                    fact=f"{zone} is not a zone of {self.account.region}",
                    consequence="AWS refuses the subnet after half the layer has been created",
                    remedy=f"write zones such as {self.account.region}a, or change account.region",
                )


def _pools_in(zones: tuple[str, ...], pools: tuple[tuple[tuple[str | int, ...], Pool | SystemPool], ...]) -> Iterator[Problem]:
    for path, pool in pools:
        for zone in sorted(set(pool.zones) - set(zones)):
            yield problem(
                "pool-in-network",
                *path,
                "zones",
                value=zone,
                fact=f"pool {pool.name} wants nodes in {zone}, where the network has no subnet",
                consequence="Its node group could not be created",
                remedy=f"use {', '.join(sorted(zones))}, or add the zone to network.zones",
            )
        release = pool.ami.release if isinstance(pool, Pool) else pool.release
        if release not in NODE_RELEASES:
            yield problem(
                "node-release-known",
                *path,
                "ami" if isinstance(pool, Pool) else "release",
                value=release,
                fact=f"AMI release {release} is not among those that components/versions.py was tested with for Kubernetes {KUBERNETES}",
                consequence="Nodes might not join, or run a driver that no contract was checked against",
                remedy=f"use {', '.join(sorted(NODE_RELEASES))}, or read the release's changelog and add it there",
            )
        elif isinstance(pool, Pool) and pool.ami.driver != NODE_RELEASES[release]:
            yield problem(
                "driver-of-its-release",
                *path,
                "ami",
                "driver",
                value=pool.ami.driver,
                fact=f"release {release} brings driver {NODE_RELEASES[release]}, not {pool.ami.driver}",
                consequence="Contracts would be checked against a driver that no node has",
                remedy=f"write {NODE_RELEASES[release]}",
            )
    names = [pool.name for _, pool in pools]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield problem(
            "pool-named-once",
            "pools",
            value=name,
            fact=f"two pools are named {name}",
            consequence="Their node groups would claim the same names",
            remedy="give each a name of its own",
        )


class GatewaySettings(Part):
    """Where requests enter the mesh."""

    hosts: Annotated[tuple[str, ...], Field(min_length=1)]
    """Host names served; tenants get paths or subdomains of these."""
    public: Flag
    """Whether the load balancer faces the internet; otherwise it is reachable from the VPC and what is connected to it."""
    certificate: Name | None
    """Secret of type kubernetes.io/tls in the gateway's namespace; None serves plain HTTP, inside the VPC only."""
    replicas_min: Count
    """Each replica enforces its part of a tenant's rate limit."""
    replicas_max: Count

    def violations(self) -> Iterator[Problem]:
        if self.public and self.certificate is None:
            yield problem(
                "public-means-tls",
                "certificate",
                fact="the gateway faces the internet without a certificate",
                consequence="Requests, answers and tokens would cross the internet in the clear",
                remedy="name the secret that holds the certificate, or set public to false",
            )
        if self.replicas_min > self.replicas_max:
            yield problem(
                "size-in-order",
                "replicas_max",
                value=self.replicas_max,
                fact=f"at most {self.replicas_max} replicas is less than at least {self.replicas_min}",
                consequence="Kubernetes refuses the autoscaler",
                remedy=f"use at least {self.replicas_min}",
            )


class ObservabilitySettings(Part):
    """How long signals are kept and how much room they get."""

    metrics_days: Days
    metrics_storage: Bytes
    """Volume of each Prometheus replica."""
    logs_days: Days
    traces_days: Days


class WarmCapacity(Part):
    """Room kept free on a pool by pods of the lowest priority, paid for and given up at once."""

    pool: Name
    replicas: CountOrNone
    """At least; what the contracts of the tenants need beyond that is kept all the same."""


class LoopSettings(Part):
    """The platform's own loops (node health, the guard of releases, the nodes' stores of artifacts), which run in an image of headway that you
    build from its Containerfile.
    """

    image: Image | None
    """By digest. None deploys none of them: they run where somebody runs the command."""


class PlatformSettings(Part):
    """One environment's platform layer."""

    environment: Name
    account: Account
    network: NetworkSettings
    pools: tuple[Pool, ...]
    gateway: GatewaySettings
    loops: LoopSettings
    observability: ObservabilitySettings
    warm: tuple[WarmCapacity, ...]

    def violations(self) -> Iterator[Problem]:
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
                    remedy=f"use {', '.join(known) or 'none: there are no pools'}",
                )


class TenantSettings(Part):
    """One tenant's stack. What it deploys stands in `tenants/<tenant>/`."""

    environment: Name
    account: Account
    pools: tuple[Pool, ...]
    gateway: GatewaySettings
    loops: LoopSettings
    tenant: Name


Settings = ClusterSettings | PlatformSettings | TenantSettings


def load(stack: str, config: Mapping[str, str], folder: Path = FOLDER, secrets: frozenset[str] = frozenset()) -> Settings:
    """The settings of `stack` from its `config` (full key to raw text, as the engine passes it).

    `folder` holds the stack files, `secrets` the keys whose values are never shown. Raises SettingsError with every problem.
    """
    environment, _, layer = stack.partition("-")
    given = {key.removeprefix(f"{NAMESPACE}:"): _value(text) for key, text in config.items() if key.startswith(f"{NAMESPACE}:")}
    match layer:
        case "cluster":
            model = ClusterSettings
        case "platform":
            model, given = PlatformSettings, given | _shared(environment, PLATFORM, folder)
        case _:
            model, given = TenantSettings, given | _shared(environment, "tenant", folder) | {"tenant": layer}
    try:
        return model.model_validate({**given, "environment": environment})
    except ValidationError as error:
        hidden = frozenset(key.removeprefix(f"{NAMESPACE}:") for key in secrets)
        raise SettingsError(f"Pulumi.{stack}.yaml", problems_in(error, hidden)) from None


def of_this_run() -> Settings:
    """The settings of the stack that the engine is running."""
    found: dict[str, str] = {**pulumi_config.get_config_env(), **pulumi_config.CONFIG.get()}
    secrets = frozenset(key for key in found if pulumi_config.is_config_secret(key))
    return load(pulumi.get_stack(), found, secrets=secrets)


def tenants_of(environment: str, folder: Path = FOLDER) -> list[str]:
    """Tenants that have a stack file in `environment`, sorted."""
    layers = {path.stem.removeprefix(f"Pulumi.{environment}-") for path in folder.glob(f"Pulumi.{environment}-*.yaml")}
    return sorted(layers - {CLUSTER, PLATFORM})


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _shared(environment: str, layer: str, folder: Path) -> dict[str, Any]:
    """The sections that `layer` reads from the files of other layers; what is not there is left out, and then refused as missing."""
    files = {owner: _config(folder / f"Pulumi.{environment}-{owner}.yaml") for owner in sorted(set(SHARED[layer].values()))}
    keys = {section: f"{NAMESPACE}:{section}" for section in SHARED[layer]}
    return {section: files[owner][keys[section]] for section, owner in SHARED[layer].items() if keys[section] in files[owner]}


def _config(path: Path) -> dict[str, Any]:
    read: Any = yaml.load(path.read_text(), Loader=yaml.CSafeLoader) if path.exists() else None
    return (read or {}).get("config") or {}
