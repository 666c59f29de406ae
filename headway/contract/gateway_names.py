"""The names that the gateway's certificate must hold: arithmetic on an environment's hosts and tenants.

A model answers at `<model>.<tenant>.<host>`. The trap: a wildcard stands for one label only (RFC 6125, section
6.4.3; RFC 9525, section 6.3), so `*.<host>` covers no model, and each tenant needs a wildcard of its own.
"""

from collections.abc import Iterable


def certificate_names(hosts: Iterable[str], tenants: Iterable[str]) -> tuple[str, ...]:
    """One wildcard for each tenant and host, sorted."""
    named = sorted(tenants)
    return tuple(sorted(f"*.{tenant}.{host}" for host in hosts for tenant in named))
