"""Asks an AWS account what `account` judges: read-only, each question by itself, so that one refusal hides nothing else."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, TypeVar

from headway.capacity.described import Described, cluster_name
from headway.contract.pool_parts import CapacityBlock, Reservation
from headway.doctor.account import AccountFacts, Caller, ReservationFacts, named_roles, roles_of
from headway.doctor.check import Unanswered
from headway.doctor.endpoints import EndpointFacts, kind, service_name
from headway.doctor.quotas import ADDRESSES, GATEWAYS, NETWORKS, SERVICES, STORAGE, ServiceQuota, counted, needs
from headway.environment.aws import Clients, pages
from headway.wire import ENVIRONMENT

T = TypeVar("T")


def account_facts(layer: Described, addons: Iterable[str], kubernetes: str, clients: Clients, environment: str = "") -> AccountFacts:
    """Everything at once; a question that is refused or not answered says why. What is tagged with `environment` is its own, and
    not in others' use."""
    with ThreadPoolExecutor(max_workers=8, thread_name_prefix="doctor") as pool:
        caller = pool.submit(_answer, lambda: _caller(clients))
        roles = pool.submit(
            lambda: (
                _answer(lambda: frozenset(_roles(roles_of(layer), clients))),
                _answer(lambda: frozenset(_roles((arn.rpartition("/")[2] for arn in named_roles(layer)), clients).values())),
            )
        )
        zones = pool.submit(_answer, lambda: _zones(clients))
        quotas = pool.submit(_answer, lambda: _quotas(layer, clients, environment))
        launched = pool.submit(_answer, lambda: _launched(clients))
        offerings = pool.submit(_answer, lambda: _offerings(layer, clients))
        offered = pool.submit(
            lambda: (
                _answer(lambda: _addons(addons, kubernetes, clients)),
                _answer(lambda: _installed(cluster_name(environment), clients)),
            )
        )
        endpoints = pool.submit(_answer, lambda: _endpoints(layer, clients))
        reservations = pool.submit(_answer, lambda: _reservations(layer, clients))
        return AccountFacts(
            caller=caller.result(),
            roles=roles.result()[0],
            principals=roles.result()[1],
            zones=zones.result(),
            quotas=quotas.result(),
            launched=launched.result(),
            offerings=offerings.result(),
            addons=offered.result()[0],
            installed=offered.result()[1],
            endpoints=endpoints.result(),
            reservations=reservations.result(),
        )


def _answer(ask: Callable[[], T]) -> T | Unanswered:
    from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

    try:
        return ask()
    except NoCredentialsError:
        return Unanswered("there are no AWS credentials on this machine (set AWS_PROFILE, or sign in)")
    except ClientError as error:
        return Unanswered(f"AWS refused {error.operation_name} ({error.response.get('Error', {}).get('Code', 'no code')})")
    except BotoCoreError as error:
        return Unanswered(f"AWS did not answer ({error})")


def _caller(clients: Clients) -> Caller:
    found = clients("sts").get_caller_identity()
    return Caller(found["Account"], found["Arn"])


def _roles(names: Iterable[str], clients: Clients) -> Mapping[str, str]:
    """ARNs of those that exist, by name."""
    iam = clients("iam")
    there = dict[str, str]()
    for name in sorted(set(names)):
        try:
            there[name] = iam.get_role(RoleName=name)["Role"]["Arn"]
        except iam.exceptions.NoSuchEntityException:
            continue
    return there


def _zones(clients: Clients) -> Mapping[str, str]:
    asked = {"Filters": [{"Name": "state", "Values": ["available"]}, {"Name": "zone-type", "Values": ["availability-zone"]}]}
    return {each["ZoneName"]: each["ZoneId"] for each in clients("ec2").describe_availability_zones(**asked)["AvailabilityZones"]}


def _quotas(layer: Described, clients: Clients, environment: str) -> Mapping[str, ServiceQuota]:
    """Each quota's applied value, or AWS's default where the account has none."""
    codes = {need.code: "ec2" for need in needs(layer)} | {need.code: SERVICES[need.code] for need in counted(layer)}
    service_quotas, found = clients("service-quotas"), dict[str, ServiceQuota]()
    used = _used(clients("ec2"), environment)
    for service in sorted(set(codes.values())):
        listed = {each["QuotaCode"]: each for each in pages(service_quotas, "list_service_quotas", "Quotas", ServiceCode=service)}
        for code in sorted(code for code, of in codes.items() if of == service):
            quota = listed.get(code) or service_quotas.get_aws_default_service_quota(ServiceCode=service, QuotaCode=code)["Quota"]
            found[code] = ServiceQuota(quota["QuotaName"], quota["Value"], used.get(code, 0))
    return found


def _used(ec2: Any, environment: str) -> Mapping[str, float]:
    """How much of the counted quotas is in use by others, by code; of the gateways, in the zone that has most."""

    def others(found: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        own = {"Key": ENVIRONMENT, "Value": environment}
        return [each for each in found if own not in each.get("Tags", ())]

    zones = {each["SubnetId"]: each["AvailabilityZone"] for each in pages(ec2, "describe_subnets", "Subnets")}
    gateways = pages(
        ec2, "describe_nat_gateways", "NatGateways", Filters=[{"Name": "state", "Values": ["pending", "available", "deleting"]}]
    )
    by_zone = Counter(zones.get(each.get("SubnetId", "")) for each in others(gateways))
    volumes = others(pages(ec2, "describe_volumes", "Volumes", Filters=[{"Name": "volume-type", "Values": ["gp3"]}]))
    return {
        ADDRESSES: len(others(ec2.describe_addresses()["Addresses"])),
        GATEWAYS: max(by_zone.values(), default=0),
        NETWORKS: len(others(pages(ec2, "describe_vpcs", "Vpcs"))),
        STORAGE: sum(each["Size"] for each in volumes) / 1024,
    }


def _launched(clients: Clients) -> bool:
    """EC2 shows an instance until an hour after its end, and CloudTrail its start for 90 days (CloudTrail user guide, "Working with CloudTrail
    event history"); an event that AWS refused has an `errorCode` (there, "CloudTrail record contents")."""
    if clients("ec2").describe_instances(MaxResults=5)["Reservations"]:
        return True
    started = [{"AttributeKey": "EventName", "AttributeValue": "RunInstances"}]
    found = clients("cloudtrail").lookup_events(LookupAttributes=started, MaxResults=50)["Events"]
    return any('"errorCode"' not in each.get("CloudTrailEvent", "") for each in found)


def _offerings(layer: Described, clients: Clients) -> Mapping[str, frozenset[str]]:
    types = sorted({name for pool in (layer.system_pool, *layer.pools) for name in pool.instance_types})
    found: dict[str, set[str]] = {}
    asked = {"LocationType": "availability-zone", "Filters": [{"Name": "instance-type", "Values": types}]}
    for each in pages(clients("ec2"), "describe_instance_type_offerings", "InstanceTypeOfferings", **asked):
        found.setdefault(each["Location"], set()).add(each["InstanceType"])
    return {zone: frozenset(offered) for zone, offered in sorted(found.items())}


def _addons(names: Iterable[str], kubernetes: str, clients: Clients) -> Mapping[str, frozenset[str]]:
    wanted, offered = frozenset(names), dict[str, frozenset[str]]()
    for each in pages(clients("eks"), "describe_addon_versions", "addons", kubernetesVersion=kubernetes):
        if each["addonName"] in wanted:
            offered[each["addonName"]] = frozenset(version["addonVersion"] for version in each["addonVersions"])
    return offered


def _installed(cluster: str, clients: Clients) -> Mapping[str, str]:
    eks = clients("eks")
    try:
        names = list(pages(eks, "list_addons", "addons", clusterName=cluster))
    except eks.exceptions.ResourceNotFoundException:
        return {}
    return {name: eks.describe_addon(clusterName=cluster, addonName=name)["addon"]["status"] for name in names}


def _endpoints(layer: Described, clients: Clients) -> Mapping[str, EndpointFacts]:
    names = {service_name(layer.region, endpoint): endpoint for endpoint in layer.endpoints}
    # By a filter: asked by name, EC2 refuses all of them for one that the region lacks.
    asked = {"Filters": [{"Name": "service-name", "Values": sorted(names)}]}
    return {
        names[each["ServiceName"]]: EndpointFacts(frozenset(each["AvailabilityZones"]), each["VpcEndpointPolicySupported"])
        for each in (pages(clients("ec2"), "describe_vpc_endpoint_services", "ServiceDetails", **asked) if names else ())
        if kind(names[each["ServiceName"]]) in {offered["ServiceType"] for offered in each["ServiceType"]}
    }


def _reservations(layer: Described, clients: Clients) -> Mapping[str, ReservationFacts]:
    named = {pool.capacity.id for pool in layer.pools if isinstance(pool.capacity, Reservation | CapacityBlock)}
    if not named:
        return {}
    listed = pages(clients("ec2"), "describe_capacity_reservations", "CapacityReservations")
    return {
        each["CapacityReservationId"]: ReservationFacts(
            each["State"],
            each["InstanceType"],
            each["AvailabilityZone"],
            each["TotalInstanceCount"],
            each["OwnerId"],
            _minute(each.get("EndDate")),
        )
        for each in listed
        if each["CapacityReservationId"] in named
    }


def _minute(ends: datetime | None) -> str:
    """In the form of a pool's `ends`."""
    return f"{ends.astimezone(UTC):%Y-%m-%dT%H:%M:00Z}" if ends else ""
