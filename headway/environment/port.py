"""The port: what Headway asks of the environment in which it works, as one interface. Whoever implements it decides how
it is answered.

Production's implementation is `production`; `selection` finds others by their name. Nothing is opened before it is
used, so that a command that only reads the ledger needs no cluster. A program that plans must see the ledger that the
driver writes: `stacks` hands its address to every operation.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from headway.contract.units import Duration
    from headway.environment.container_logs import LogQuery, LogReader
    from headway.environment.kubernetes import KubernetesApi
    from headway.environment.request_samples import RequestSamples
    from headway.environment.stacks import StackRunner
    from headway.ledger.witness import LedgerWitness


class OutOfReachError(Exception):
    """A part of the environment did not answer, or not in time. Nothing is concluded from that; it is asked again."""


class Facility(StrEnum):
    """What a check can see only where it is real: a stand-in may lack each, and says so (`Environment.cannot_show`)."""

    PACKETS = "packets"
    """A network between pods that keeps or drops packets by NetworkPolicies."""
    NAMES = "names"
    """A DNS server of the cluster that pods ask."""
    ENCRYPTION = "encryption"
    """Proxies that the mesh puts into whatever pod asks for one."""
    DEVICES = "devices"
    """GPUs, their driver and the operator that divides them."""
    IDENTITIES = "identities"
    """Credentials of the cloud by a pod's service account, and policies that bind them."""
    SCRAPES = "scrapes"
    """A Prometheus that is told of every monitor in the cluster."""


class Environment(Protocol):
    """One environment: where its ledger, stacks, cluster, metrics and files are, and how it differs from others in
    what can be promised."""

    name: str
    time_can_be_compressed: bool
    """Whether minutes of a release may pass faster than its contract says."""
    scrape_seconds: float
    """How often its Prometheus reads the counters that a release is judged by."""
    restart_hint: str
    """What to do when its API server does not answer: a sentence."""
    metrics_hint: str
    """How to have a Prometheus where there is none: the end of a sentence; empty where there is nothing to say."""
    requests_hint: str
    """What has requests where pods are simulated and get none: a sentence; empty where no pod is simulated."""

    @property
    def nodes_can_be_added(self) -> bool:
        """Whether an autoscaler adds nodes, up to the most that a pool may have."""
        ...

    @property
    def ledger_address(self) -> str:
        """Where its releases are recorded. Raises UserError where the environment has no ledger."""
        ...

    @property
    def ledger_witness(self) -> "LedgerWitness | None":
        """Who says, outside the ledger's store, which chains it had; None where nobody does."""
        ...

    @property
    def artifact_bucket(self) -> str:
        """The bucket of its artifacts. Raises UserError where the environment has none yet."""
        ...

    def object_store(self) -> Any:
        """A client of S3 that reaches its buckets. Raises UserError without usable credentials."""
        ...

    @property
    def stacks(self) -> "StackRunner":
        """Runs operations on its stacks."""
        ...

    @property
    def kubernetes(self) -> "KubernetesApi":
        """Its API server."""
        ...

    @property
    def metrics_address(self) -> str | None:
        """Addresses of its Prometheus, separated by commas, in order of preference; None where it has none."""
        ...

    @property
    def alertmanager_address(self) -> str | None:
        """Addresses of all replicas of its Alertmanager, separated by commas; None where it has none."""
        ...

    @property
    def logs(self) -> Path:
        """The folder for logs and for the details of internal errors. It may not exist yet."""
        ...

    def execute(self, pod: Mapping[str, Any], container: str, arguments: Sequence[str], seconds: float) -> str:
        """Run `python3 ARGUMENTS` in a container of `pod`; answers its standard output. Raises OutOfReachError."""
        ...

    def simulated(self, pods: Sequence[Mapping[str, Any]]) -> bool:
        """Whether any of `pods` only pretends to run. Raises OutOfReachError."""
        ...

    def cannot_show(self, facility: Facility) -> str | None:
        """Why it has no such thing, as the end of a sentence; None where it has."""
        ...

    def request_samples(self, tenant: str, model: str, retention: "Duration") -> "RequestSamples | None":
        """Where samples of a model's requests are kept for `retention`; None where none are."""
        ...

    def container_logs(self, query: "LogQuery") -> "LogReader":
        """What reads the lines that containers print. Raises UserError where nobody keeps any."""
        ...

    def start_release_guard(self, tenant: str, watching: Callable[[], bool]) -> bool:
        """Start a guard of the tenant's releases and wait until it is `watching`; False where one must be started
        elsewhere."""
        ...
