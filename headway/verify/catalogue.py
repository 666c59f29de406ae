"""The checks of a verification, in the order in which they run: first what only reads, last what takes longest."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from headway.problem import Exit, UserError
from headway.verify import alerts, dns, gpus, identity, mesh, packets, sample, scaling, scrapes
from headway.verify.outcome import Sighting
from headway.verify.site import Site


@dataclass(frozen=True, kw_only=True)
class VerifyCheck:
    """One check. `minutes` is what it takes at most where all is well."""

    name: str
    says: str
    minutes: int
    look: Callable[[Site], Sighting]


CHECKS = (
    VerifyCheck(name=scrapes.RULE, says="every monitor in the cluster has targets, and each is up", minutes=1, look=scrapes.look),
    VerifyCheck(name=gpus.MIG, says="nodes of divided GPUs have the layout of their pool", minutes=1, look=gpus.look_at_mig),
    VerifyCheck(name=identity.RULE, says="a tenant's pod reads its own artifact and no other's", minutes=1, look=identity.look),
    VerifyCheck(name=sample.RULE, says="the last release was promoted by evidence that still gives it", minutes=1, look=sample.look),
    VerifyCheck(name=dns.RULE, says="pods resolve a name of the cluster and one of the world", minutes=1, look=dns.look),
    VerifyCheck(name=mesh.RULE, says="plain text is refused and mutual TLS accepted", minutes=3, look=mesh.look),
    VerifyCheck(name=packets.RULE, says="packets between tenants are dropped, and an admitted one arrives", minutes=4, look=packets.look),
    VerifyCheck(
        name=alerts.RULE, says="an alert reaches each receiver; people get a message that says it is a test", minutes=3, look=alerts.look
    ),
    VerifyCheck(
        name=scaling.RULE, says="an empty pool gets a node and gives it back; costs that node's time", minutes=30, look=scaling.look
    ),
    VerifyCheck(name=gpus.POD, says="a pod in each pool gets a GPU and sees just that; may add a node a pool", minutes=15, look=gpus.look),
)


def chosen(names: Iterable[str]) -> tuple[VerifyCheck, ...]:
    """The checks of these names, in order; all where none is named. Raises UserError for a name that is none."""
    wanted = set(names)
    if unknown := sorted(wanted - {check.name for check in CHECKS}):
        raise UserError(
            f"There is no check {', '.join(unknown)}.",
            "Nothing was done.",
            f"Name one of {', '.join(check.name for check in CHECKS)}.",
            Exit.USAGE,
        )
    return tuple(check for check in CHECKS if not wanted or check.name in wanted)
