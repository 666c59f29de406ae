"""What a tenant must know of the environment around it: names and addresses, nothing that a tenant may choose.

Plain values throughout, so that every object of a tenant can be read and judged before anything is deployed.
"""

from dataclasses import dataclass

from components.addons.istio import GATEWAY_LABELS
from components.addons.prometheus import NAMESPACE, SERVICE
from components.naming import bucket_name
from components.platform.mesh import GATEWAY
from headway.contract.batch import RELATIVE, Batch, located
from headway.wire import GATEWAY_NAMESPACE, MESH_NAMESPACE

RUNBOOKS = "docs/runbooks"
"""Where runbooks are: a folder of the repository."""


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """One environment as its tenants see it."""

    environment: str
    region: str
    account_id: str
    hosts: tuple[str, ...]
    """The gateway's host names; a model answers at `<model>.<tenant>.<host>` for each."""
    gateway_replicas: int
    """Proxies of the gateway at their minimum: each enforces its part of a tenant's rate."""
    batch_bucket: str | None = None
    """The tenant's own bucket for batch work, in which stores `batches://...` of contracts lie; None where it has none."""
    artifact_cache: bool = False
    """Whether nodes of latency pools keep artifacts for their pods (`components/platform/artifact_cache.py`)."""
    credentials: bool = False
    """Whether EKS writes credentials into pods. The sandbox has no such webhook."""
    sts: tuple[str, ...] | None = None
    """Ranges in which STS answers pods that bring their token to it (IRSA), none where it does so on the internet; None
    with Pod Identity.
    """
    sqs: tuple[str, ...] = ()
    """Ranges in which SQS answers, none where it does so on the internet."""
    runbooks: str = RUNBOOKS
    """Where runbooks are: a folder of the repository, or the address it is published at."""
    grafana: str | None = None
    """Where people reach Grafana; None links no dashboard."""
    gateway_namespace: str = GATEWAY_NAMESPACE
    gateway: str = f"{GATEWAY_NAMESPACE}/{GATEWAY}"
    """The mesh's Gateway object, as `<namespace>/<name>`."""
    gateway_labels: tuple[tuple[str, str], ...] = tuple(sorted(GATEWAY_LABELS.items()))
    """What picks the gateway's own pods."""
    mesh_namespace: str = MESH_NAMESPACE
    monitoring_namespace: str = NAMESPACE
    prometheus: str = SERVICE

    @property
    def artifact_bucket(self) -> str:
        """The environment's bucket of artifacts, in which URIs `artifacts://...` of contracts lie."""
        return bucket_name(self.environment, "artifacts", self.account_id)

    def store(self, batch: Batch) -> str:
        """Where the workers of a batch variant read and write: an absolute prefix."""
        assert self.batch_bucket or not batch.store.startswith(RELATIVE)  # noqa: S101  the contracts were checked against the environment
        return located(batch.store, self.batch_bucket or "")

    def public_hosts(self, tenant: str, model: str) -> list[str]:
        """Where applications reach the model; the same names whatever its releases."""
        return [f"{model}{ending}" for ending in self.guarded(tenant)]

    def guarded(self, tenant: str) -> list[str]:
        """How every host of the tenant ends: what its policies at the gateway judge requests by."""
        return [f".{tenant}.{host}" for host in self.hosts]
