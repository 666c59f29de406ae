"""What a cluster layer's stack file describes, as far as commands need it that run without Pulumi: account, network, pools.

`stacks.settings` is what the program reads and judges; this takes the same sections with the same models for pools, and of the others only
what is paid for or searched by. The trap: what this does not read may still be wrong, and only a preview says so.
"""

from pathlib import Path
from typing import Any, Literal

from headway.contract.arithmetic.month import BilledCluster
from headway.contract.part import Part
from headway.contract.pool import Pool, SystemPool
from headway.contract.reading.document import Document, Place, read_file
from headway.contract.reading.validation import contract_from
from headway.environment.checkout import described as file_of
from headway.problem import Exit, UserError

CLUSTER = "cluster"

_READ = {
    "account_id": ("account", "id"),
    "administrators": ("control_plane", "administrators"),
    "creator_is_administrator": ("control_plane", "creator_is_administrator"),
    "cidr": ("network", "cidr"),
    "endpoints": ("network", "endpoints"),
    "groups": ("control_plane", "groups"),
    "nat": ("network", "nat"),
    "pools": ("pools",),
    "private_cidrs": ("control_plane", "private_cidrs"),
    "public_cidrs": ("control_plane", "public_cidrs"),
    "region": ("account", "region"),
    "support": ("control_plane", "support"),
    "system_pool": ("system_pool",),
    "workload_identity": ("workload_identity",),
    "zones": ("network", "zones"),
}
"""Where each field of `Described` stands in the file, below its section."""


class Described(Part):
    """The cluster layer of one environment."""

    account_id: str
    """Of the AWS account."""
    region: str
    """Where everything is."""
    zones: tuple[str, ...]
    """Availability zones of the network."""
    nat: Literal["none", "single", "per-zone", "regional"]
    """How private subnets reach the internet."""
    endpoints: tuple[str, ...]
    """AWS services reached without leaving the network."""
    support: Literal["STANDARD", "EXTENDED"]
    """What EKS does when a Kubernetes version leaves standard support."""
    system_pool: SystemPool
    """Nodes without GPUs."""
    pools: tuple[Pool, ...]
    """Nodes with GPUs."""
    administrators: tuple[str, ...] = ()
    """ARNs of the IAM roles and users that administer the cluster."""
    creator_is_administrator: bool = False
    """Whether whoever creates the cluster administers it too."""
    cidr: str = ""
    """The network's own range."""
    groups: dict[str, tuple[str, ...]] = {}  # noqa: RUF012
    """Who is in which Kubernetes group, by ARNs."""
    trusted: tuple[str, ...] = ()
    """ARNs of the IAM roles that the access layer's roles let in; of that layer's file, and so of no section here."""
    generated: tuple[str, ...] = ()
    """ARNs of the roles that the access layer makes and the cluster layer names."""
    public_cidrs: tuple[str, ...] = ()
    """Ranges that reach the API server's public address; without any it has none."""
    private_cidrs: tuple[str, ...] = ()
    """Ranges beyond the network that reach its private address."""
    workload_identity: Literal["pod-identity", "irsa"] = "pod-identity"
    """How pods get their roles of AWS."""

    @property
    def billed(self) -> BilledCluster:
        """What of it is paid for."""
        return BilledCluster(
            zones=len(self.zones),
            nat=self.nat,
            endpoints=self.endpoints,
            support=self.support,
            system_pool=self.system_pool,
            pools=self.pools,
        )


def cluster_name(environment: str) -> str:
    """The EKS cluster of an environment, and what the names of its resources begin with."""
    return f"headway-{environment}"


def described(project: Path, stack: str) -> tuple[str, Described]:
    """Environment and description of `<environment>-cluster`. Raises UserError for another layer, no file, or a file that cannot stand."""
    environment, _, layer = stack.rpartition("-")
    folder = project / "stacks"
    known = sorted(f.stem.removeprefix("Pulumi.") for f in folder.glob(f"Pulumi.*-{CLUSTER}.yaml"))
    if layer != CLUSTER:
        raise UserError(
            f"{stack} is not the stack of a cluster layer.",
            "Only a cluster layer says which network, pools and account an environment has.",
            f"Use one of {', '.join(known)}." if known else "Describe an environment in stacks/ first.",
            Exit.USAGE,
        )
    file = file_of(project, environment)
    document = read_file(file)
    found, findings = contract_from(_sections(document), Described)
    problems = (*document.findings, *findings)
    if found is None or problems:
        raise UserError(
            "\n".join(problem.brief for problem in problems) or f"{file.name} describes no cluster layer.",
            "Nothing was calculated or searched, because the description of the cluster is not valid.",
            f"Correct it; `pulumi preview -s {stack}` tells every problem of the file.",
            Exit.REFUSED,
        )
    return environment, found


def _sections(document: Document) -> Document:
    """The fields of `Described` as one flat document; places stay those of the file."""
    data: dict[str, Any] = {}
    places: dict[tuple[str | int, ...], Place] = {}
    for field, (section, *below) in _READ.items():
        path = ("config", f"headway:{section}", *below)
        node: Any = document.data
        for part in path:
            node = node.get(part) if isinstance(node, dict) else None
        if node is not None:
            data[field] = node
        places |= {(field, *key[len(path) :]): place for key, place in document.places.items() if key[: len(path)] == path}
    return Document(document.file, data, places, ())
