"""What an AWS account must have before the layers can be applied, judged from what it answered. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from headway.capacity.described import Described, cluster_name
from headway.contract.pool_parts import CapacityBlock, Reservation
from headway.doctor.check import DoctorResult, Unanswered, judged, unknown, wrong
from headway.doctor.endpoints import EndpointFacts, judge_endpoints
from headway.doctor.launches import judge_launches
from headway.doctor.quotas import ServiceQuota, judge_quotas
from headway.doctor.zones import judge_zones
from headway.problem import Problem, ProblemLevel

SCALING_ROLE, SPOT_ROLE = "AWSServiceRoleForAutoScaling", "AWSServiceRoleForEC2Spot"
EKS_ROLE, EKS_NODES_ROLE = "AWSServiceRoleForAmazonEKS", "AWSServiceRoleForAmazonEKSNodegroup"
SERVICE_LINKED_ROLES: Mapping[str, tuple[str, str, ProblemLevel]] = {
    SCALING_ROLE: (
        "autoscaling.amazonaws.com",
        "KMS refuses the key of the nodes' volumes, whose policy names this role (EC2 Auto Scaling user guide, key policy requirements)",
        ProblemLevel.ERROR,
    ),
    SPOT_ROLE: (
        "spot.amazonaws.com",
        "Auto Scaling makes it itself (AutoScalingServiceRolePolicy, EC2SpotManagement) unless your organisation forbids it; deployers may not",
        ProblemLevel.WARNING,
    ),
    EKS_ROLE: (
        "eks.amazonaws.com",
        "EKS makes it itself for an account's first cluster, and has refused that one, as the role came too late (aws/aws-k8s-tester#232)",
        ProblemLevel.WARNING,
    ),
    EKS_NODES_ROLE: (
        "eks-nodegroup.amazonaws.com",
        "EKS makes it itself if who deploys may see it and make it, and refuses node groups if not (terraform-aws-modules/terraform-aws-eks#823)",
        ProblemLevel.WARNING,
    ),
}
"""Service-linked roles, with the service that they belong to, what becomes of the apply without them, and how bad that is."""


@dataclass(frozen=True)
class Caller:
    """Whose credentials these are: account and ARN as STS says them."""

    account: str
    arn: str

    @property
    def principal(self) -> str:
        """`role/NAME` or `user/NAME`; STS leaves out a role's path."""
        kind, _, rest = self.arn.rsplit(":", 1)[-1].partition("/")
        return f"role/{rest.partition('/')[0]}" if kind == "assumed-role" else f"{kind}/{rest.rpartition('/')[2]}"


@dataclass(frozen=True)
class ReservationFacts:
    """A capacity reservation as EC2 describes it."""

    state: str
    instance_type: str
    zone: str
    total: int
    owner: str
    """The account that pays for it; others see it where it is shared with them."""
    ends: str = ""
    """As a pool writes it; empty for one without an end."""


@dataclass(frozen=True, kw_only=True)
class AccountFacts:
    """What the account answered, or why it did not. Mappings are by what was asked for; what does not exist is absent."""

    caller: Caller | Unanswered
    roles: frozenset[str] | Unanswered
    """Service-linked roles that exist, of those that the environment needs."""
    principals: frozenset[str] | Unanswered
    """ARNs of roles that exist, of those that its file lets into the cluster."""
    zones: Mapping[str, str] | Unanswered
    """Ids of the zones that the account can use, by name."""
    quotas: Mapping[str, ServiceQuota] | Unanswered
    """By quota code."""
    launched: bool | Unanswered
    """Whether an instance runs in the region, or was started of late."""
    offerings: Mapping[str, frozenset[str]] | Unanswered
    """Instance types by zone."""
    addons: Mapping[str, frozenset[str]] | Unanswered
    """Versions of EKS add-ons that the cluster's Kubernetes version is offered, by add-on."""
    installed: Mapping[str, str] | Unanswered
    """What EKS says of the add-ons that the cluster has: status by name; none before there is a cluster."""
    endpoints: Mapping[str, EndpointFacts] | Unanswered
    """By the endpoint's name in the stack file."""
    reservations: Mapping[str, ReservationFacts] | Unanswered


def generated_roles(environment: str) -> Mapping[str, str]:
    """Roles of the environment's access layer (`components/access/duty.py`), and what each is to the cluster."""
    cluster = cluster_name(environment)
    return {
        f"role/{cluster}-cluster-deployer": "deploys the cluster layer, and nothing inside the cluster.",
        f"role/{cluster}-platform-deployer": "will administer the cluster.",
    }


def generated_arns(layer: Described, environment: str) -> tuple[str, ...]:
    """The same by their ARNs in the environment's account."""
    path = f"arn:aws:iam::{layer.account_id}:role/{cluster_name(environment)}/access"
    return tuple(f"{path}/{role.partition('/')[2]}" for role in generated_roles(environment))


def judge(
    layer: Described, facts: AccountFacts, addons: Mapping[str, str], kubernetes: str, *, generated: Mapping[str, str] | None = None
) -> tuple[DoctorResult, ...]:
    """Every check of the account, in the order in which they matter. `addons` and `kubernetes` are the pinned versions;
    `generated` are the roles of the environment's access layer, if it has one.
    """
    return (
        _identity(layer, facts.caller),
        _administrator(layer, facts.caller, generated or {}),
        _roles(layer, facts.roles),
        _principals(layer, facts.principals),
        judge_zones(layer, facts.zones),
        judge_quotas(layer, facts.quotas),
        judge_launches(layer, facts.launched),
        _offerings(layer, facts.offerings),
        _addons(facts.addons, _installed(layer, addons), kubernetes),
        _whole(facts.installed),
        judge_endpoints(layer, facts.endpoints),
        _reservations(layer, facts.reservations),
    )


def _identity(layer: Described, caller: Caller | Unanswered) -> DoctorResult:
    if isinstance(caller, Unanswered):
        return unknown("identity", caller)
    if caller.account == layer.account_id:
        return judged("identity", f"The credentials are of account {caller.account}, as {caller.principal}.")
    return wrong(
        Problem(
            rule="identity",
            path=("account", "id"),
            value=layer.account_id,
            fact=f"The credentials are of account {caller.account}, and the environment is in account {layer.account_id}",
            consequence="The AWS provider refuses every resource",
            remedy="Choose credentials of the account (AWS_PROFILE), or correct headway:account in the stack file",
        )
    )


def _administrator(layer: Described, caller: Caller | Unanswered, generated: Mapping[str, str]) -> DoctorResult:
    if isinstance(caller, Unanswered):
        return unknown("administrator", caller)
    if caller.principal in generated:
        return judged("administrator", f"{caller.principal} {generated[caller.principal]}")
    names, members = _principal_names(layer.administrators), _principal_names(arn for arns in layer.groups.values() for arn in arns)
    if layer.creator_is_administrator and caller.principal in names | members:
        # pulumi/pulumi-eks#2373, from a run; botocore's model of CreateAccessConfigRequest: the creator "was set as a cluster admin access entry".
        return wrong(
            Problem(
                rule="administrator",
                path=("control_plane", "creator_is_administrator"),
                value=True,
                fact=f"{caller.principal} would create the cluster and stay its administrator, and the file lets it in once more",
                consequence="EKS makes an entry for the creator itself, and refuses a second one for the same principal",
                remedy="Set control_plane.creator_is_administrator to false: the file's entries let it in. Where the cluster is there already, "
                "first delete the entry that EKS made, for it stays (`aws eks delete-access-entry`)",
            )
        )
    if caller.principal in names:
        return judged("administrator", f"{caller.principal} will administer the cluster.")
    return wrong(
        Problem(
            rule="administrator",
            path=("control_plane", "administrators"),
            value=list(layer.administrators),
            fact=f"{caller.principal} is not among the cluster's administrators",
            consequence="These credentials can create the cluster, and then not deploy the platform layer into it",
            remedy="Add it to control_plane.administrators, with creator_is_administrator: false, or assume one of the roles that stand there",
            level=ProblemLevel.WARNING if layer.creator_is_administrator else ProblemLevel.ERROR,
        )
    )


def _principal_names(arns: Iterable[str]) -> frozenset[str]:
    """`role/NAME` or `user/NAME` of each, without its path."""
    return frozenset(arn.rsplit(":", 1)[-1].partition("/")[0] + "/" + arn.rpartition("/")[2] for arn in arns)


def _roles(layer: Described, roles: frozenset[str] | Unanswered) -> DoctorResult:
    if isinstance(roles, Unanswered):
        return unknown("service-linked-roles", roles)
    needed = roles_of(layer)
    missing = [
        Problem(
            rule="service-linked-roles",
            subject=name,
            fact=f"The account has no role {name}",
            consequence=consequence,
            remedy=f"Create it once: `aws iam create-service-linked-role --aws-service-name {service}`",
            level=level,
        )
        for name, (service, consequence, level) in sorted(SERVICE_LINKED_ROLES.items())
        if name in needed and name not in roles
    ]
    return judged("service-linked-roles", f"There is {' and '.join(sorted(needed))}.", missing)


def roles_of(layer: Described) -> frozenset[str]:
    """Service-linked roles that the environment needs: that of spot instances with a spot pool only."""
    spot = any(pool.capacity.kind == "spot" for pool in layer.pools)
    return frozenset(SERVICE_LINKED_ROLES) - frozenset(() if spot else (SPOT_ROLE,))


def named_roles(layer: Described) -> tuple[str, ...]:
    """ARNs of the roles of the environment's account that its files let into the cluster, or into the roles of its access layer."""
    found = _entered(layer) | {*layer.trusted, *layer.generated}
    return tuple(sorted(arn for arn in found if arn.startswith(f"arn:aws:iam::{layer.account_id}:role/")))


def _entered(layer: Described) -> set[str]:
    """ARNs of whom the cluster's access entries let in."""
    return {*layer.administrators, *(member for members in layer.groups.values() for member in members)}


def _principals(layer: Described, there: frozenset[str] | Unanswered) -> DoctorResult:
    """EKS looks each up (CreateAccessEntry: "The specified principalArn is invalid: invalid principal",
    terraform-aws-modules/terraform-aws-eks#2969), by its ARN with the path; so does IAM of a trust policy ("MalformedPolicyDocument: Invalid
    principal in policy", hashicorp/terraform-provider-aws#8905).
    """
    if isinstance(there, Unanswered):
        return unknown("principals", there)
    named = named_roles(layer)
    entered = _entered(layer)
    missing = [
        Problem(
            rule="principals",
            path=("control_plane", "administrators" if arn in layer.administrators else "groups") if arn in entered else ("access",),
            value=arn,
            fact=f"The account has no role {arn}",
            consequence="EKS refuses its access entry, and the cluster layer stays half made"
            if arn in entered
            else "IAM refuses the role that trusts it, and the access layer stays half made",
            remedy="Create the role, or write its ARN as IAM shows it, with its path; SSO's roles have one, too",
        )
        for arn in named
        if arn not in there and arn not in layer.generated
    ]
    missing += [
        Problem(
            rule="principals",
            path=("access",),
            value=arn,
            fact=f"The account has no role {arn}, which the environment's access layer makes",
            consequence="KMS refuses the keys whose policies name it, and EKS its access entry: the cluster layer stays half made",
            remedy="Apply the access layer before the cluster layer",
        )
        for arn in layer.generated
        if arn not in there
    ]
    return judged("principals", f"Each of {len(named)} roles that the files let in exists.", missing)


def _offerings(layer: Described, offerings: Mapping[str, frozenset[str]] | Unanswered) -> DoctorResult:
    if isinstance(offerings, Unanswered):
        return unknown("offerings", offerings)
    problems = [
        Problem(
            rule="offerings",
            subject=f"pool {pool.name}",
            value=zone,
            fact=f"{zone} offers none of {', '.join(pool.instance_types)}",
            consequence="The pool's node group of that zone can never have a node",
            remedy=f"Take the zone from the pool, or choose types that it offers: {_where(pool.instance_types, offerings)}",
        )
        for pool in (layer.system_pool, *layer.pools)
        for zone in pool.zones
        if not offerings.get(zone, frozenset()) & set(pool.instance_types)
    ]
    return judged("offerings", "Every pool's instance types are offered in each of its zones.", problems)


def _installed(layer: Described, pinned: Mapping[str, str]) -> Mapping[str, str]:
    left_out = {"eks-pod-identity-agent"} if layer.workload_identity == "irsa" else frozenset[str]()
    return {name: version for name, version in pinned.items() if name not in left_out}


def _addons(offered: Mapping[str, frozenset[str]] | Unanswered, pinned: Mapping[str, str], kubernetes: str) -> DoctorResult:
    if isinstance(offered, Unanswered):
        return unknown("add-on-versions", offered)
    problems = [
        Problem(
            rule="add-on-versions",
            subject=name,
            value=version,
            fact=f"EKS does not offer version {version} of {name} for Kubernetes {kubernetes}",
            consequence="The add-on cannot be created, and nodes wait for it",
            remedy=f"Pin one that is offered in components/versions.py: {_newest(offered.get(name, frozenset()))}",
        )
        for name, version in sorted(pinned.items())
        if version not in offered.get(name, frozenset())
    ]
    return judged(
        "add-on-versions", f"EKS offers all {len(pinned)} add-ons in their pinned versions for Kubernetes {kubernetes}.", problems
    )


def _whole(status: Mapping[str, str] | Unanswered) -> DoctorResult:
    """Of an add-on whose creation fails the provider has already told the id, as of a node group (`stacks/live_cluster.py`), and no data
    source of it tells the status (hashicorp/terraform-provider-aws, `internal/service/eks/addon.go`).
    """
    if isinstance(status, Unanswered):
        return unknown("add-ons", status)
    problems = [
        Problem(
            rule="add-ons",
            subject=name,
            value="CREATE_FAILED",
            fact=f"EKS gave up making add-on {name}",
            consequence="Pulumi takes it for made, and no update makes it whole",
            remedy="Look why (`aws eks describe-addon`), delete it (`aws eks delete-addon`), wait until it is gone; then `pulumi refresh` and "
            "`pulumi up` of the cluster's stack make it again",
        )
        for name, found in sorted(status.items())
        if found == "CREATE_FAILED"
    ]
    return judged("add-ons", f"None of the {len(status)} add-ons that the cluster has is half made.", problems)


def _reservations(layer: Described, found: Mapping[str, ReservationFacts] | Unanswered) -> DoctorResult:
    if isinstance(found, Unanswered):
        return unknown("reservations", found)
    problems = list(_unusable(layer, found))
    if not any(isinstance(pool.capacity, Reservation | CapacityBlock) for pool in layer.pools):
        return judged("reservations", "No pool names a reservation.")
    return judged("reservations", "Every reservation that a pool names is active, in its zone, and large enough.", problems)


def _unusable(layer: Described, found: Mapping[str, ReservationFacts]) -> Iterator[Problem]:
    for pool in layer.pools:
        if not isinstance(pool.capacity, Reservation | CapacityBlock):
            continue
        id, reserved = pool.capacity.id, found.get(pool.capacity.id)
        if reserved is not None and reserved.owner != layer.account_id:
            yield Problem(
                rule="reservations",
                subject=f"pool {pool.name}",
                value=id,
                fact=f"Reservation {id} is of account {reserved.owner}, which shares it",
                consequence="A generated deployer may start instances with resources of its own account only, and EC2 may refuse it this one",
                remedy="Name a reservation of the environment's own account, or make the pool's node groups as an administrator",
                level=ProblemLevel.WARNING,
            )
        if reserved is None:
            fact = f"The account has no capacity reservation {id}"
        elif reserved.state not in _usable_states(pool.capacity):
            fact = f"Reservation {id} is {reserved.state}, not active"
        elif reserved.instance_type not in pool.instance_types or reserved.zone not in pool.zones:
            fact = f"Reservation {id} is for {reserved.instance_type} in {reserved.zone}, which the pool does not use"
        elif reserved.total < pool.size.min:
            fact = f"Reservation {id} holds {reserved.total} instances, and the pool has at least {pool.size.min}"
        elif isinstance(pool.capacity, CapacityBlock) and pool.capacity.ends != reserved.ends:
            fact = f"Block {id} ends {reserved.ends or 'never'}, and the pool is emptied before {pool.capacity.ends}"
        else:
            continue
        yield Problem(
            rule="reservations",
            subject=f"pool {pool.name}",
            value=id,
            fact=fact,
            consequence="Nodes of the pool cannot start in it",
            remedy="Name a reservation that fits in the pool's capacity.id, or buy the capacity another way",
        )


def _usable_states(capacity: Reservation | CapacityBlock) -> frozenset[str]:
    """A block is bought ahead, and a group without nodes may wait for it (EKS user guide, "Create a managed node group with Capacity
    Blocks for ML"; EC2 API reference, CapacityReservation, State).
    """
    return frozenset({"active", "scheduled"} if isinstance(capacity, CapacityBlock) else {"active"})


def _where(types: Sequence[str], offerings: Mapping[str, frozenset[str]]) -> str:
    there = sorted(zone for zone, offered in offerings.items() if offered & set(types))
    return f"{', '.join(there)} offers one of them" if there else "no zone of the region offers them"


def _newest(versions: frozenset[str]) -> str:
    return ", ".join(sorted(versions)[-3:]) if versions else "none is offered, so ask for another Kubernetes version"
