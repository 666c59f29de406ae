"""The sections of a stack file: each key below `headway:` with its fields, their ranges, and what they must have in
common.

Problems are told with their consequence and a remedy, like those of contracts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from ipaddress import IPv4Network
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from components.identity import Binding
from components.network.endpoints import ACTIONS, without_nat
from components.versions import KUBERNETES, NODE_RELEASES
from headway.contract.artifact import without_dots
from headway.contract.batch import PLATFORMS_BUCKETS, outside_the_platform
from headway.contract.crosscheck.image import reached_without_nat
from headway.contract.part import Count, CountOrNone, Flag, Name, Part
from headway.contract.pool import Pool, SystemPool
from headway.contract.pool_parts import MigSharing
from headway.contract.runtime import Image
from headway.contract.units import Bytes
from headway.problem import Problem, ProblemLevel, problem
from stacks.settings_error import refuse

WIDEST_PREFIX, NARROWEST_PREFIX = 16, 20
"""AWS makes no VPC wider than /16; below /20 a zone's nodes would have fewer than 510 addresses for pods."""

PRIVATE = (IPv4Network("10.0.0.0/8"), IPv4Network("172.16.0.0/12"), IPv4Network("192.168.0.0/16"))
"""RFC 1918. Python calls more ranges private, of which EC2 makes no network: loopback, link-local."""

WIDEST_PUBLIC_PREFIX = 16
"""No office or runner network is wider; what is wider is the internet by another name."""

MOST_LET_IN = 25
"""Ranges, and as many groups: each is a rule of the cluster's security group, beside EKS's own and the Load Balancer Controller's."""

SYSTEM_GROUPS = ("system:", "eks:", "aws:", "amazon:", "iam:")
"""Beginnings of names that Kubernetes and EKS keep for themselves."""

Days = Annotated[int, Field(ge=1, le=3653)]
LogDays = Literal[1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653]
"""Retentions that CloudWatch Logs knows."""
Arn = Annotated[str, Field(pattern=r"^arn:aws:iam::[0-9]{12}:(role|user)/[\w+=,.@/-]+$")]
SecurityGroup = Annotated[str, Field(pattern=r"^sg-([0-9a-f]{8}|[0-9a-f]{17})$")]
GroupName = Annotated[str, Field(pattern=r"^[^\s]+$", max_length=200)]
ZoneName = Annotated[str, Field(pattern=r"^[a-z]{2}(-[a-z]+)+-[0-9][a-f]$")]
Repository = Annotated[str, Field(pattern=r"^[a-z0-9]+([._-][a-z0-9]+)*(/[a-z0-9]+([._-][a-z0-9]+)*)*$", max_length=200)]


def _roomy(cidr: IPv4Network) -> IPv4Network:
    if not WIDEST_PREFIX <= cidr.prefixlen <= NARROWEST_PREFIX or not any(cidr.subnet_of(each) for each in PRIVATE):
        refuse(
            "network-range",
            str(cidr),
            fact=f"{cidr} is not a private range between /{WIDEST_PREFIX} and /{NARROWEST_PREFIX}",
            consequence="The subnets of six zones would not fit, or would hide public addresses from the nodes",
            remedy="Take a /16 of 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16 that no connected network uses",
        )
    return cidr


def _once(zones: tuple[str, ...]) -> tuple[str, ...]:
    twice = sorted({zone for zone in zones if zones.count(zone) > 1})
    if twice:
        refuse(
            "zone-once",
            twice[0],
            fact=f"{', '.join(twice)} stands more than once among the zones",
            consequence="Two subnets would claim the same addresses",
            remedy="Name each zone once",
        )
    return zones


def _known_endpoints(services: tuple[str, ...]) -> tuple[str, ...]:
    unknown = sorted(set(services) - set(ACTIONS))
    if unknown:
        refuse(
            "endpoint-known",
            unknown,
            fact=f"no endpoint policy is written for {', '.join(unknown)}",
            consequence="Anyone's credentials would pass through that endpoint",
            remedy=f"Use {', '.join(sorted(ACTIONS))}, or write its policy in components/network/endpoints.py",
        )
    return services


def _not_for_everyone(cidr: IPv4Network) -> IPv4Network:
    if cidr.prefixlen < WIDEST_PUBLIC_PREFIX:
        refuse(
            "endpoint-not-for-everyone",
            str(cidr),
            fact=f"{cidr} opens the API server to {cidr.num_addresses:,} addresses",
            consequence="Anyone there may try credentials and unpatched flaws against it",
            remedy="Name the ranges of your offices and runners, or none and run from inside the VPC",
        )
    return cidr


def _of_the_internet(cidr: IPv4Network) -> IPv4Network:
    """EKS user guide, "Configure network access to cluster API server endpoint": "The block cannot include reserved addresses"."""
    if any(cidr.overlaps(private) for private in PRIVATE):
        refuse(
            "public-endpoint-for-public-addresses",
            str(cidr),
            fact=f"{cidr} is a private range, from which nobody reaches the public endpoint",
            consequence="EKS refuses the cluster, after its network is made",
            remedy="Name it under private_cidrs, and here the addresses that your network shows to the internet",
        )
    return cidr


class Nat(StrEnum):
    """How private subnets reach the internet. Not the VPC endpoints, which carry AWS traffic whatever is chosen
    here.
    """

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


class AccountSettings(Part):
    """Where the resources live. The AWS provider refuses credentials of any other account."""

    id: Annotated[str, Field(pattern=r"^[0-9]{12}$")]
    region: Annotated[str, Field(pattern=r"^[a-z]{2}(-[a-z]+)+-[0-9]$")]


class NetworkSettings(Part):
    """The VPC. Every zone's subnets have their place in `cidr` whether the zone is used or not, so adding one moves
    nothing.
    """

    cidr: Annotated[IPv4Network, AfterValidator(_roomy)]
    """Private address range, /16 to /20."""
    zones: Annotated[tuple[ZoneName, ...], Field(min_length=2, max_length=6), AfterValidator(_once)]
    """Availability zones by name. EKS asks for two; three survive the loss of one with a majority left. Those of the first apply stay the
    control plane's; others may come and go, for nodes.
    """
    nat: Nat
    endpoints: Annotated[tuple[str, ...], AfterValidator(_known_endpoints)]
    """AWS services reached without leaving the VPC. Each interface endpoint is paid per zone and hour."""
    flow_log_days: LogDays


class ControlPlaneSettings(Part):
    """The EKS control plane: who reaches it, who administers it, how it is kept."""

    public_cidrs: Annotated[
        tuple[Annotated[IPv4Network, AfterValidator(_not_for_everyone), AfterValidator(_of_the_internet)], ...], Field(max_length=40)
    ]
    """Ranges that may reach the API server over the internet; empty keeps it inside the VPC. EKS takes no more than 40 (its user guide,
    "View and manage Amazon EKS and Fargate service quotas").
    """
    private_cidrs: Annotated[tuple[Annotated[IPv4Network, AfterValidator(_not_for_everyone)], ...], Field(max_length=MOST_LET_IN)] = ()
    """Ranges of runners and offices, in the VPC or connected to it, that may reach its private address. The trap: the way back to a connected
    network is yours to add, in the route table of the intra subnets too, for there its interfaces are (VPC user guide, "Example routing options").
    """
    private_security_groups: Annotated[tuple[SecurityGroup, ...], Field(max_length=MOST_LET_IN)] = ()
    """Security groups of runners in the VPC, or in a peered one, that may reach its private address."""
    groups: dict[GroupName, tuple[Arn, ...]] = {}  # noqa: RUF012
    """Who is in which Kubernetes group, by IAM roles and users: the groups that tenants' contracts name under `people`."""
    administrators: tuple[Arn, ...]
    """IAM roles and users with cluster administration through access entries."""
    creator_is_administrator: Flag
    """Whether whoever creates the cluster stays its administrator by an entry that EKS makes; then it may stand in no other field here. The
    first apply decides: the component ignores a later change (pulumi-eks, nodejs/eks/cluster/cluster.ts, ignoreChanges), and the entry stays.
    """
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
                remedy="Name the role that deploys the platform layer",
            )
        for group in sorted(group for group in self.groups if group.startswith(SYSTEM_GROUPS)):
            yield problem(
                "group-of-people",
                "groups",
                group,
                value=group,
                fact=f"{group} is a group of Kubernetes or of EKS itself",
                consequence="Its members would have rights that no contract and no setting names, such as those of a node",
                remedy="Name a group of your own; administrators stand under administrators",
            )
        # The cluster's security group lets in its own members: control plane, nodes and pods (EKS user guide, "Cluster API server endpoint").
        if not self.public_cidrs and not self.private_cidrs and not self.private_security_groups:
            yield Problem(
                rule="deployers-reach-the-cluster",
                path=("private_cidrs",),
                fact="nobody but the cluster's own nodes could reach the API server: no range and no security group is named",
                consequence="The platform layer and the tenants could not be deployed, and no release could be driven",
                remedy="Name the range or the security group of your runners (private_cidrs, private_security_groups), or public_cidrs",
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


def pool_problems(zones: tuple[str, ...], pools: tuple[tuple[tuple[str | int, ...], Pool | SystemPool], ...]) -> Iterator[Problem]:
    for path, pool in pools:
        for zone in sorted(set(pool.zones) - set(zones)):
            yield problem(
                "pool-in-network",
                *path,
                "zones",
                value=zone,
                fact=f"pool {pool.name} wants nodes in {zone}, where the network has no subnet",
                consequence="Its node group could not be created",
                remedy=f"Use {', '.join(sorted(zones))}, or add the zone to network.zones",
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
                remedy=f"Use {', '.join(sorted(NODE_RELEASES))}, or read the release's changelog and add it there",
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
                remedy=f"Write {NODE_RELEASES[release]}",
            )
    names = [pool.name for _, pool in pools]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield problem(
            "pool-named-once",
            "pools",
            value=name,
            fact=f"two pools are named {name}",
            consequence="Their node groups would claim the same names",
            remedy="Give each a name of its own",
        )


class AcmeAuthority(Part):
    """A public authority that is asked by ACME and shown records in a zone of Route 53."""

    kind: Literal["acme"]
    server: Annotated[str, Field(pattern=r"^https://[^\s]+$", max_length=200)]
    """Its directory, such as https://acme-v02.api.letsencrypt.org/directory."""
    email: Annotated[str, Field(pattern=r"^[^@\s]+@[^@\s]+$", max_length=254)]
    """Who is told of trouble with the account."""
    zone: Annotated[str, Field(pattern=r"^Z[A-Z0-9]{5,31}$")]
    """Id of the public hosted zone that holds the gateway's hosts."""


class OwnAuthority(Part):
    """An authority of your own."""

    kind: Literal["own"]
    secret: Name
    """Secret of type kubernetes.io/tls in the gateway's namespace, with the authority's certificate and key."""


GatewayHost = Annotated[str, Field(pattern=r"^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?$", max_length=171)]
"""In lower case, as Envoy compares it, and short enough for the longest names of a tenant and a model before it: 253 less 82 (RFC 1035)."""


class GatewaySettings(Part):
    """Where requests enter the mesh."""

    hosts: Annotated[tuple[GatewayHost, ...], Field(min_length=1)]
    """Host names served; a model answers at `<model>.<tenant>.<host>`."""
    public: Flag
    """Whether the load balancer faces the internet; otherwise it is reachable from the VPC and what is connected to
    it.
    """
    clients: Annotated[tuple[IPv4Network, ...], Field(min_length=1)]
    """Ranges from which the load balancer takes connections. Each is a rule for each of its ports, 80 and with a certificate 443
    (aws-load-balancer-controller, pkg/service/model_build_managed_sg.go, buildManagedSecurityGroupIngressPermissions).
    """
    certificate: Name | None
    """Secret of type kubernetes.io/tls in the gateway's namespace; None serves plain HTTP, inside the VPC only."""
    authority: Annotated[AcmeAuthority | OwnAuthority, Field(discriminator="kind")] | None
    """Who makes that secret and renews it, by cert-manager. None: you do."""
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
                remedy="Name the secret that holds the certificate, or set public to false",
            )
        if self.authority and self.certificate is None:
            yield problem(
                "authority-has-a-secret",
                "certificate",
                fact="an authority is set, and no secret for what it issues",
                consequence="No certificate would be ordered, and the gateway would answer without TLS",
                remedy="Name the secret, such as models-tls, or set authority to null",
            )
        for index, host in enumerate(self.hosts):
            if host in self.hosts[:index]:
                yield problem(
                    "host-named-once",
                    "hosts",
                    index,
                    value=host,
                    fact=f"{host} is named twice",
                    consequence="Istio refuses every model's route: it takes no host of a VirtualService twice",
                    remedy="Name each host once",
                )
        if self.replicas_min > self.replicas_max:
            yield problem(
                "size-in-order",
                "replicas_max",
                value=self.replicas_max,
                fact=f"at most {self.replicas_max} replicas is less than at least {self.replicas_min}",
                consequence="Kubernetes refuses the autoscaler",
                remedy=f"Use at least {self.replicas_min}",
            )


Published = Annotated[str, Field(pattern=r"^https?://[^\s?#]+[^/\s?#]$", max_length=200)]
"""An address without a slash at its end, to which paths are added."""


class ObservabilitySettings(Part):
    """How long signals are kept and how much room they get; and where alerts lead people."""

    metrics_days: Days
    metrics_storage: Bytes
    """Volume of each Prometheus replica. The trap: one that is there keeps its size (prometheus-operator, "Storage", "Resizing volumes"), while
    `retentionSize` follows this; so first patch the replicas' claims to more, and only then raise it.
    """
    logs_days: Days
    traces_days: Days
    runbooks: Published | None = None
    """Where people read `docs/runbooks`, such as its folder in your git server's pages; None links paths of the
    repository."""
    grafana: Published | None = None
    """Where people reach Grafana; None links no dashboard."""


class WarmCapacity(Part):
    """Room kept free on a pool by pods of the lowest priority, paid for and given up at once."""

    pool: Name
    replicas: CountOrNone
    """At least; what the contracts of the tenants need beyond that is kept all the same."""


class LoopSettings(Part):
    """The platform's own loops (node health, the guard of releases, the nodes' stores of artifacts), which run in an
    image of headway that `headway loops push` makes.
    """

    image: Image | None
    """By digest. None deploys none of them: they run where somebody runs the command."""


class BatchSettings(Part):
    """Where the tenant keeps requests and answers of batch work in this environment."""

    bucket: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$")]
    """A bucket of the tenant's own in the same account and region, encrypted with S3's own keys: contracts mean it by `batches://`."""

    def violations(self) -> Iterator[Problem]:
        for found in without_dots("bucket", uri=f"s3://{self.bucket}/"):
            yield replace(found, value=self.bucket)
        if self.bucket.startswith(PLATFORMS_BUCKETS):
            yield outside_the_platform("bucket", value=self.bucket)


class RegistrySettings(Part):
    """Where charts and images come from."""

    mirror: Annotated[str, Field(pattern=r"^[a-z0-9.-]+(:[0-9]+)?(/[a-z0-9]+([._-][a-z0-9]+)*)+$", max_length=200)] | None
    """Registry and prefix of your own, filled by `headway mirror --push`; None pulls from their makers' registries."""


USUAL_RULES = 60
"""Inward ones of a security group, until Service Quotas grants more (VPC user guide, "Amazon VPC quotas": adjustable)."""


def many_rules(gateway: GatewaySettings) -> tuple[Problem, ...]:
    """What an account with AWS's own quota could not make; only a warning, for the file does not say what the account was granted."""
    ports = 1 if gateway.certificate is None else 2
    rules = len(gateway.clients) * ports
    if rules <= USUAL_RULES:
        return ()
    return (
        Problem(
            rule="clients-fit-a-security-group",
            path=("headway:gateway", "clients"),
            value=len(gateway.clients),
            level=ProblemLevel.WARNING,
            fact=f"{len(gateway.clients)} ranges for each of {ports} ports are {rules} rules, and a security group takes {USUAL_RULES} by default",
            consequence="The Load Balancer Controller puts all into one group: below such a quota the gateway gets no address, and the update fails",
            remedy=f"Name at most {USUAL_RULES // ports} ranges, neighbours joined, or have Service Quotas grant more "
            "`Inbound or outbound rules per security group` first",
        ),
    )


def endpoint_problems(network: NetworkSettings, binding: Binding) -> Iterator[Problem]:
    """What nodes and pods ask of the endpoints where there is no other way to AWS."""
    missing = sorted(without_nat(binding) - set(network.endpoints))
    if network.nat is Nat.NONE and missing:
        yield problem(
            "a-way-to-aws",
            "network",
            "endpoints",
            value=list(network.endpoints),
            fact=f"without NAT, nodes reach {', '.join(missing)} by endpoints only, and these are missing",
            consequence="No node could join the cluster or pull an image",
            remedy="Add them, or choose another nat",
        )


def host_problems(gateway: GatewaySettings, tenant: str) -> Iterator[Problem]:
    """Hosts at which the tenant's ending would also be the ending of other tenants' models."""
    for index, host in enumerate(gateway.hosts):
        for above in gateway.hosts:
            if f".{host}".endswith(f".{tenant}.{above}"):
                yield problem(
                    "host-is-no-tenants",
                    "gateway",
                    "hosts",
                    index,
                    value=host,
                    fact=f"all names below {host} end as those of tenant {tenant} below {above}",
                    consequence="Its issuers would judge the callers of every tenant there, and its deployers could take their routes",
                    remedy=f"Name the tenant or the host otherwise: none of the hosts may end with .{tenant}.{above}",
                )


def authority_problems(gateway: GatewaySettings, network: NetworkSettings) -> Iterator[Problem]:
    """What a certificate authority asks of the network."""
    if isinstance(gateway.authority, AcmeAuthority) and network.nat is Nat.NONE:
        yield problem(
            "acme-needs-a-way-out",
            "gateway",
            "authority",
            value=gateway.authority.server,
            fact="without NAT cert-manager reaches neither the ACME server nor Route 53, which has no endpoint in a VPC",
            consequence="The certificate would never be issued, and the gateway would answer nothing by TLS",
            remedy="Choose another nat, an authority of kind own, or null and a certificate of your own",
        )


def loops_problems(loops: LoopSettings, pools: Sequence[Pool], environment: str) -> Iterator[Problem]:
    """What pools ask of the loops."""
    cut = sorted(pool.name for pool in pools if isinstance(pool.sharing, MigSharing))
    if cut and loops.image is None:
        yield problem(
            "mig-needs-the-loops",
            "loops",
            "image",
            value=None,
            fact=f"MIG cuts the GPUs of {', '.join(cut)}, and no image of the loops is named",
            consequence="Each of their nodes is born with a taint that only the loop of node health takes off: no model would ever be placed there",
            remedy=f"Deploy the cluster layer and run `headway loops push --environment {environment} --base python:3.12-slim@sha256:<digest> "
            "--write`; or share these GPUs in another mode",
        )


def witness_problems(loops: LoopSettings, network: NetworkSettings) -> Iterator[Problem]:
    """What loops that read the ledger, and write down what they found, ask of the network: its witness is in Systems Manager."""
    if loops.image and network.nat is Nat.NONE and "ssm" not in network.endpoints:
        yield problem(
            "loops-reach-their-witness",
            "network",
            "endpoints",
            value=list(network.endpoints),
            fact="without NAT, the loops of evaluation, drift and diagnosis reach the ledger's witness by the endpoint ssm only",
            consequence="They would wait for it at each look, and what they write down of a service would have no witness",
            remedy="Add ssm, or choose another nat",
        )


def registry_problems(registry: RegistrySettings, network: NetworkSettings, loops: LoopSettings, region: str) -> Iterator[Problem]:
    """What a mirror and a network without NAT ask of each other."""
    mirror = registry.mirror
    if network.nat is Nat.NONE and (mirror is None or not reached_without_nat(mirror, region)):
        yield problem(
            "no-nat-needs-a-mirror",
            "registry",
            "mirror",
            value=mirror,
            fact=f"without NAT no node reaches {mirror or 'a public registry'}",
            consequence="Not one image of the platform could be pulled, and the first release would fail after its timeout",
            remedy=f"Write <account>.dkr.ecr.{region}.amazonaws.com/<prefix> and fill it with `headway mirror --push`, or choose another nat",
        )
    if mirror and loops.image and loops.image.partition("/")[0] != mirror.partition("/")[0]:
        yield problem(
            "loops-from-the-mirror",
            "loops",
            "image",
            value=loops.image,
            fact=f"charts and images come from {mirror}, and the loops' image from {loops.image.partition('/')[0]}",
            consequence="Nodes may not reach that registry, and nobody copied the image",
            remedy=f"Push the image to {mirror.partition('/')[0]} and name it there",
        )
