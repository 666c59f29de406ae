"""Environments of production: what the stacks of an account have exported, read by the Pulumi CLI of this machine."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.environment.checkout import described
from headway.problem import UserError
from headway.wire import ARTIFACT_BUCKET_OUTPUT, LEDGER_BUCKET_OUTPUT, LEDGER_VARIABLE, PROMETHEUS_ADDRESS_OUTPUT, TELEMETRY_BUCKET_OUTPUT

if TYPE_CHECKING:
    from headway.contract.units import Duration
    from headway.environment.kubernetes import KubernetesApi
    from headway.environment.request_samples import RequestSamples
    from headway.environment.stacks import StackRunner

SCRAPE_SECONDS = 15.0
"""What the platform's monitors ask for."""


class Production:
    """An environment of which the checkout describes the cluster, in an account of its own."""

    time_can_be_compressed = False
    nodes_can_be_added = True
    scrape_seconds = SCRAPE_SECONDS
    restart_hint = "Check the network and try again."
    metrics_hint = ""

    def __init__(self, name: str, project: Path) -> None:
        self.name, self._project = name, project

    @property
    def ledger_address(self) -> str:
        return self._ledger_address

    @cached_property
    def _ledger_address(self) -> str:
        from headway.ledger.location import place

        address = place(None) or place(self._outputs("cluster").get(LEDGER_BUCKET_OUTPUT))
        if address is None:
            raise UserError(
                f"Environment {self.name} has no release ledger.",
                "Without it nobody knows which release has which traffic.",
                f"Deploy its cluster layer: `pulumi up -s {self.name}-cluster`; or set HEADWAY_LEDGER.",
            )
        return address

    @property
    def artifact_bucket(self) -> str:
        bucket = self._outputs("cluster").get(ARTIFACT_BUCKET_OUTPUT)
        if not bucket:
            raise UserError(
                f"Environment {self.name} has no bucket for artifacts.",
                "Nothing was uploaded.",
                f"Deploy its cluster layer: `pulumi up -s {self.name}-cluster`.",
            )
        return str(bucket)

    def object_store(self) -> Any:
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError

        config = Config(connect_timeout=10, read_timeout=60, retries={"total_max_attempts": 6, "mode": "standard"}, max_pool_connections=20)
        try:
            session: Any = boto3.Session()
            return session.client("s3", config=config)
        except BotoCoreError as failure:
            raise UserError(
                f"There is no client of S3 ({failure}).", "Nothing was uploaded.", "Name region and profile: AWS_REGION, AWS_PROFILE."
            ) from None

    @property
    def stacks(self) -> "StackRunner":
        return self._stacks

    @cached_property
    def _stacks(self) -> "StackRunner":
        from headway.environment.stacks import StackRunner

        return StackRunner(self._project, environment={LEDGER_VARIABLE: self.ledger_address} if LEDGER_VARIABLE in os.environ else {})

    @property
    def kubernetes(self) -> "KubernetesApi":
        return self._kubernetes

    @cached_property
    def _kubernetes(self) -> "KubernetesApi":
        from headway.environment.kubernetes import KubernetesApi

        kubeconfig = self._outputs("platform").get("kubeconfig")
        return KubernetesApi(json.loads(kubeconfig) if isinstance(kubeconfig, str) else dict(kubeconfig or {}))

    @property
    def metrics_address(self) -> str | None:
        address = self._outputs("platform").get(PROMETHEUS_ADDRESS_OUTPUT)
        return str(address) if address else None

    @property
    def logs(self) -> Path:
        return state_folder() / "logs"

    def execute(self, pod: Mapping[str, Any], container: str, arguments: Sequence[str], seconds: float) -> str:
        head = pod["metadata"]
        return self.kubernetes.execute(str(head["namespace"]), str(head["name"]), container, ("python3", *arguments), seconds)

    def simulated(self, pods: Sequence[Mapping[str, Any]]) -> bool:
        return False

    def request_samples(self, tenant: str, model: str, retention: "Duration") -> "RequestSamples | None":
        from headway.contract.sampling import prefix
        from headway.environment.request_samples import SampleBucket
        from headway.ledger.store import client

        bucket = self._outputs("cluster").get(TELEMETRY_BUCKET_OUTPUT)
        return SampleBucket(client(), str(bucket), prefix(tenant, model, retention)) if bucket else None

    def start_release_guard(self, tenant: str, watching: Callable[[], bool]) -> bool:
        """A guard beside the runner would die with it: one must be started on another machine."""
        return False

    def _outputs(self, layer: str) -> Mapping[str, Any]:
        return _outputs(self._project, self.name, layer)


def state_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Where Headway keeps files of its own on a machine of production: `headway` in the user's state folder, by the
    XDG specification."""
    given = environment.get("XDG_STATE_HOME")
    return (Path(given) if given else Path(environment.get("HOME") or "~").expanduser() / ".local" / "state") / "headway"


@cache
def _outputs(project: Path, environment: str, layer: str) -> Mapping[str, Any]:
    """What a layer of the environment exported, asked once: the real engine takes seconds for it. Raises UserError
    without an answer."""
    from pulumi.automation import CommandError

    from headway.environment.stacks import StackRunner

    described(project, environment)
    stack = f"{environment}-{layer}"
    try:
        return StackRunner(project).outputs(stack)
    except FileNotFoundError:
        why, remedy = "there is no `pulumi` on the PATH", "Install the Pulumi CLI, or set HEADWAY_LEDGER and HEADWAY_PROMETHEUS"
    except CommandError as failure:
        said = [line.strip() for line in str(failure).splitlines() if "error:" in line]
        why, remedy = said[0] if said else "pulumi failed", f"Try `pulumi stack output -s {stack}`: it says the same, and more"
    raise UserError(f"What stack {stack} exported cannot be read: {why}.", "Nothing was done.", f"{remedy}.")
