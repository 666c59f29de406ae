"""The two addresses of a served pod: the one Kubernetes knows and the one its processes listen on.

The API server refuses loopback addresses in EndpointSlices, and any 127.x.y.z answers on Linux without configuration.
So a served pod's simulated IP is 10.x.y.z and its processes own 127.x.y.z: either follows from the other. Kwok's
simulated pods have addresses too (10.244.0.0/16 and 10.0.0.0/24), hence a range of our own.
"""

import hashlib
from ipaddress import IPv4Address, IPv4Network

from headway.wire import PREFIX

POD_RANGE = IPv4Network("10.128.0.0/10")
ADDRESS = f"sandbox.{PREFIX}/address"
"""Annotation of a served pod: where its processes listen; read by whoever scrapes it."""
_HOST_BITS = 32 - POD_RANGE.prefixlen


def pod_ip(uid: str) -> str:
    """The simulated IP of the pod with this uid; the same whenever asked. Two of a thousand pods share one with a
    chance of 1 in 8."""
    number = int.from_bytes(hashlib.sha256(uid.encode()).digest()[:4], "big") % (2**_HOST_BITS - 2) + 1
    return str(POD_RANGE.network_address + number)


def is_served(ip: str) -> bool:
    """Whether processes stand behind this pod IP; kwok's pods have none."""
    return bool(ip) and IPv4Address(ip) in POD_RANGE


def loopback(ip: str) -> str:
    """Where the processes of the pod with this simulated IP listen. ValueError for a pod that has none."""
    if not is_served(ip):
        raise ValueError(f"{ip} is no address of a served pod ({POD_RANGE})")
    return f"127.{ip.split('.', 1)[1]}"
