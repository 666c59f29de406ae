"""The tenant contract, `tenants/<tenant>/tenant.yaml`: who a team is, what it may use, who may call and who may touch it.

Quotas are charged at the maximum replicas of every model, not at what happens to run. The trap: a whole GPU, a MIG instance and a share
of a GPU are three resources with a quota each; none converts into another.
"""

from collections import Counter
from collections.abc import Iterator
from enum import StrEnum, unique
from typing import Annotated, Literal

from pydantic import Field

from headway.contract.accelerators import MIG_PROFILES, Accelerator
from headway.contract.part import CountOrNone, Name, Part, Text, between
from headway.contract.runtime import Engine
from headway.contract.secret_names import secret_in
from headway.contract.units import Bytes, MilliCpu, Money, Rate
from headway.problem import Problem, problem
from headway.wire import (
    ACTIVATOR_NAMESPACE,
    ARTIFACT_CACHE_NAMESPACE,
    DIAGNOSIS_NAMESPACE,
    ENDPOINT_PICKER_NAMESPACE,
    EVALUATION_NAMESPACE,
    LEDGER_LEASES,
    LEDGER_VERIFICATIONS,
    NODE_HEALTH_NAMESPACE,
    RATE_LIMIT_NAMESPACE,
    WARM_CAPACITY_NAMESPACE,
)

RESERVED_NAMES = ("default", "kube-", "istio-", "headway-", "gpu-operator", "keda", "monitoring")
"""How namespaces of the cluster and of its add-ons begin."""
TAKEN = frozenset(
    (
        *(ACTIVATOR_NAMESPACE, ARTIFACT_CACHE_NAMESPACE, ENDPOINT_PICKER_NAMESPACE, EVALUATION_NAMESPACE, NODE_HEALTH_NAMESPACE),
        *(DIAGNOSIS_NAMESPACE, RATE_LIMIT_NAMESPACE, WARM_CAPACITY_NAMESPACE),
        *("aws-load-balancer-controller", "cert-manager", "cluster-autoscaler", "release-guard"),
        # An environment's other stacks; the guard's role, which is called as a tenant's; the ledger's places.
        *("access", "cluster", "platform", "guard", "probe", LEDGER_LEASES.rstrip("/"), LEDGER_VERIFICATIONS.rstrip("/")),
    )
)
"""Names of the platform's own. pulumi-kubernetes takes nothing over that is there already (its CHANGELOG, 4.29.0)."""

MODELS_AT_MOST = 25
"""Models of one tenant: about 425 resources, which one stack updates in reasonable time."""


RESERVED_GROUPS = ("system:", "eks:")
"""How no group of people begins: Kubernetes' own ("Using RBAC Authorization": the prefix is reserved), and those of EKS's own parts."""


@unique
class TenantPriority(StrEnum):
    """Whose pods yield when GPUs are short. Not the priority of a request, which the degradation ladder knows."""

    CRITICAL = "critical"
    STANDARD = "standard"


class Quota(Part):
    """What all models of the tenant together may use, at their maximum replicas."""

    gpus: dict[Accelerator, CountOrNone] = {}  # noqa: RUF012
    """Whole GPUs by kind, such as `l4: 8`; a kind that is not named is not allowed."""
    mig: dict[str, CountOrNone] = {}  # noqa: RUF012
    """MIG instances by profile, such as `1g.10gb: 4`; a profile that is not named is not allowed."""
    shared: CountOrNone = 0
    """Shares of GPUs divided by MPS or time slicing."""
    gpu_memory: Annotated[Bytes, between(Bytes(2**30), Bytes(2**60))]
    """GPU memory of all devices that the tenant holds; a whole GPU counts entirely."""
    cpu: Annotated[MilliCpu, between(MilliCpu(1000), MilliCpu(10**9))]
    """CPU of all pods."""
    memory: Annotated[Bytes, between(Bytes(2**30), Bytes(2**60))]
    """RAM of all pods."""
    requests: Annotated[Rate, between(Rate(1), Rate.parse("10000000/s"))]
    """Requests that the gateway lets through; it answers 429 to further ones."""
    tokens: Annotated[Rate, between(Rate(1), Rate.parse("100000000/s"))] | None = None
    """Tokens, of prompts and answers together, that the gateway lets through; needed by tenants of language models."""
    monthly_budget: Annotated[Money, between(Money(10**6), Money(10**15))]
    """Monthly cost, of the GPUs that its pods hold at list price, above which the receivers of its models' alerts are told; forecasts are checked
    against it too. What AWS bills, with discounts and all else, is in no alarm: the payer finds it in the Cost and Usage Report."""

    def violations(self) -> Iterator[Problem]:
        for profile in sorted(self.mig):
            if profile not in MIG_PROFILES:
                yield problem(
                    "mig-profile-exists",
                    "mig",
                    profile,
                    value=profile,
                    fact=f"there is no MIG profile {profile}",
                    consequence="The quota would count a resource that no node offers",
                    remedy=f"Use one of {', '.join(MIG_PROFILES)}",
                )


class Issuer(Part):
    """An identity provider of callers: an OpenID Connect issuer."""

    issuer: Annotated[str, Field(pattern=r"^https://[^\s?#]+$", max_length=300, examples=["https://login.example.com/realms/staff"])]
    """The `iss` claim, to the letter."""
    audiences: Annotated[tuple[Annotated[str, Field(min_length=1, max_length=200)], ...], Field(min_length=1, max_length=20)]
    """Accepted `aud` claims."""
    jwks_uri: Annotated[str, Field(pattern=r"^https://[^\s#]+$", max_length=300, examples=["https://login.example.com/realms/staff/certs"])]
    """The address of its public keys."""

    def violations(self) -> Iterator[Problem]:
        for name, value in (("issuer", self.issuer), ("jwks_uri", self.jwks_uri)):
            if found := secret_in(value):
                yield problem(
                    "no-secret-in-contract",
                    name,
                    fact=f"{name} is {found}",
                    consequence="Many people read contracts, and they are kept for ever; a secret in one is no longer secret",
                    remedy="Publish the keys at an address that anybody may read, as OpenID Connect does",
                )


class People(Part):
    """Groups of the identity provider, and what they may do in the tenant's namespace."""

    deployers: Annotated[tuple[Text, ...], Field(min_length=1, max_length=20)]
    """Groups that may release: read everything, change what a release changes."""
    runners: Annotated[tuple[Text, ...], Field(max_length=20)] = ()
    """Groups of those that drive releases, such as CI: they may do what deployers may, and send golden requests to replicas by `pods/exec`."""
    viewers: Annotated[tuple[Text, ...], Field(max_length=20)] = ()
    """Groups that may read."""

    def violations(self) -> Iterator[Problem]:
        for field in ("deployers", "runners", "viewers"):
            for number, group in enumerate(getattr(self, field)):
                if group.startswith(RESERVED_GROUPS):
                    yield problem(
                        "group-is-of-people",
                        field,
                        number,
                        value=group,
                        fact=f"the group {group} is not of the identity provider, but of the cluster itself",
                        consequence="Everybody in the cluster, or one of its parts, would have these rights in the tenant's namespace",
                        remedy=f"Name a group of your people; none begins with {', '.join(RESERVED_GROUPS)}",
                    )


class Tenant(Part):
    """A team with its own namespace, identity, quotas and limits."""

    contract: Literal["tenant/v1"]
    """The version of this schema: `tenant/v1`."""
    name: Name
    """The tenant's name: that of its folder, and of its namespace."""
    description: Text
    """What the team does, for people who find it in a list."""
    owner: Annotated[str, Field(pattern=r"^[^@\s]+@[^@\s]+\.[^@\s]+$", max_length=254, examples=["team@example.com"])]
    """The address that alarms of the budget name, and to which those of batch queues are sent."""
    priority: TenantPriority
    """Whose pods are evicted first when GPUs are scarce."""
    runtimes: Annotated[tuple[Engine, ...], Field(min_length=1, max_length=3)]
    """Which runtimes its models may use."""
    quota: Quota
    """What it may use."""
    issuers: Annotated[tuple[Issuer, ...], Field(min_length=1, max_length=10)]
    """The identity providers of its callers; nobody calls models anonymously."""
    people: People
    """Who may release, and who may only read."""

    def violations(self) -> Iterator[Problem]:
        if self.name in TAKEN:
            yield problem(
                "tenant-name-is-free",
                "name",
                value=self.name,
                fact=f"{self.name} is what the platform calls something of its own: a namespace, a stack, a role or a place of the ledger",
                consequence="The tenant's first update would stop at what is there already, or its rules would apply to the platform",
                remedy=f"Choose another name than {', '.join(sorted(TAKEN))}",
            )
        if self.name.startswith(RESERVED_NAMES):
            yield problem(
                "tenant-name-is-free",
                "name",
                value=self.name,
                fact=f"{self.name} begins like a namespace of the platform",
                consequence="The tenant's isolation rules would apply to the platform's own pods",
                remedy=f"Choose a name that begins with none of {', '.join(RESERVED_NAMES)}",
            )
        for index, (issuer, times) in enumerate(Counter(i.issuer for i in self.issuers).items()):
            if times > 1:
                yield problem(
                    "issuer-named-once",
                    "issuers",
                    index,
                    value=issuer,
                    fact=f"issuer {issuer} is named {times} times",
                    consequence="The gateway uses the first one's keys only and would refuse the other's callers",
                    remedy="Put their audiences into one entry",
                )
        for engine, times in Counter(self.runtimes).items():
            if times > 1:
                yield problem(
                    "runtime-named-once",
                    "runtimes",
                    value=engine,
                    fact=f"{engine} is listed {times} times",
                    consequence="The second entry has no effect",
                    remedy="List it once",
                )
