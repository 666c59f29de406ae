"""Asks an AWS account what `account` judges: read-only, each question by itself, so that one refusal hides nothing else."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from headway.capacity.described import Described
from headway.contract.pool_parts import CapacityBlock, Reservation
from headway.doctor.account import SERVICE_LINKED_ROLES, AccountFacts, Caller, ReservationFacts, ServiceQuota
from headway.doctor.check import Unanswered
from headway.doctor.quotas import ADDRESSES, needs
from headway.environment.aws import Clients, pages

T = TypeVar("T")


def account_facts(layer: Described, addons: Iterable[str], kubernetes: str, clients: Clients) -> AccountFacts:
    """Everything at once; a question that is refused or not answered says why."""
    with ThreadPoolExecutor(max_workers=6, thread_name_prefix="doctor") as pool:
        caller = pool.submit(_answer, lambda: _caller(clients))
        roles = pool.submit(_answer, lambda: _roles(clients))
        quotas = pool.submit(_answer, lambda: _quotas(layer, clients))
        offerings = pool.submit(_answer, lambda: _offerings(layer, clients))
        offered = pool.submit(_answer, lambda: _addons(addons, kubernetes, clients))
        reservations = pool.submit(_answer, lambda: _reservations(layer, clients))
        return AccountFacts(
            caller=caller.result(),
            roles=roles.result(),
            quotas=quotas.result(),
            offerings=offerings.result(),
            addons=offered.result(),
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


def _roles(clients: Clients) -> frozenset[str]:
    iam = clients("iam")
    there = set[str]()
    for name in SERVICE_LINKED_ROLES:
        try:
            iam.get_role(RoleName=name)
        except iam.exceptions.NoSuchEntityException:
            continue
        there.add(name)
    return frozenset(there)


def _quotas(layer: Described, clients: Clients) -> Mapping[str, ServiceQuota]:
    codes = {*(need.code for need in needs(layer)), ADDRESSES}
    listed = {found["QuotaCode"]: found for found in pages(clients("service-quotas"), "list_service_quotas", "Quotas", ServiceCode="ec2")}
    in_use = len(clients("ec2").describe_addresses()["Addresses"])
    return {
        code: ServiceQuota(listed[code]["QuotaName"], listed[code]["Value"], in_use if code == ADDRESSES else 0)
        for code in sorted(codes & set(listed))
    }


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


def _reservations(layer: Described, clients: Clients) -> Mapping[str, ReservationFacts]:
    named = {pool.capacity.id for pool in layer.pools if isinstance(pool.capacity, Reservation | CapacityBlock)}
    if not named:
        return {}
    listed = pages(clients("ec2"), "describe_capacity_reservations", "CapacityReservations")
    return {
        each["CapacityReservationId"]: ReservationFacts(
            each["State"], each["InstanceType"], each["AvailabilityZone"], each["TotalInstanceCount"]
        )
        for each in listed
        if each["CapacityReservationId"] in named
    }
