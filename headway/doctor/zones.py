"""Whether EKS can put the control plane's interfaces into each zone of the network, which has a subnet for them in every
one. Pure.

The trap: three zones take none, and each account has names of its own for them; an id means the same in all accounts.
Source: EKS user guide, "Amazon EKS networking requirements for VPC and subnets", Subnet requirements for clusters.
"""

from collections.abc import Iterator, Mapping

from headway.capacity.described import Described
from headway.doctor.check import DoctorResult, Unanswered, judged, unknown
from headway.problem import Problem

ZONES = "zones"
WITHOUT_CONTROL_PLANES = frozenset({"cac1-az3", "use1-az3", "usw1-az2"})


def judge_zones(layer: Described, ids: Mapping[str, str] | Unanswered) -> DoctorResult:
    """`ids` of the zones in which the account can have subnets, by name."""
    if isinstance(ids, Unanswered):
        return unknown(ZONES, ids)
    return judged(ZONES, f"EKS makes control planes in {' and '.join(layer.zones)}.", list(_faults(layer, ids)))


def _faults(layer: Described, ids: Mapping[str, str]) -> Iterator[Problem]:
    usable = ", ".join(sorted(zone for zone, id in ids.items() if id not in WITHOUT_CONTROL_PLANES)) or "none"
    for zone in layer.zones:
        if zone not in ids:
            fact, consequence = f"The account has no zone {zone}", "The network fails in the middle of its creation"
        elif ids[zone] in WITHOUT_CONTROL_PLANES:
            fact, consequence = (
                f"EKS makes no control plane in {zone}, which is {ids[zone]}",
                "EKS refuses the cluster after its network is made",
            )
        else:
            continue
        yield Problem(
            rule=ZONES,
            path=("network", "zones"),
            value=zone,
            fact=fact,
            consequence=consequence,
            remedy=f"Take it out of network.zones and of the pools; usable are {usable}",
        )
