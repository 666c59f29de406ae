"""The batch variant of a service: workers on spot capacity that feed a server of the primary release from the queue.

Workers are a Deployment and not Jobs, because loading a model takes longer than most messages; KEDA takes them from
zero to the contract's maximum by the length of the queue. Their release label has an ending of its own: signals and
gates judge online replicas only, and no Service picks them. Their configuration is an object of its own. In the
release's ConfigMap a changed deadline would restart online replicas.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.labels import labels, selector
from components.manifests import Manifest, object_
from components.model_service import configuration, pod, routing
from components.model_service.release import Release
from components.model_service.scaling import FALLBACK_FAILURES
from components.model_service.serving import Serving
from components.model_service.workload import SKIP_AWAIT, progress_seconds
from components.naming import physical
from components.nodes.gpu_node import NO_DEVICES, SAFE_TO_EVICT, use_is_seen
from components.tenant.priority import priority_class
from components.tenant.queues import BATCH, queue_url
from components.tenant.surroundings import Surroundings
from headway.contract.arithmetic.replica import WORKER_CPU, WORKER_MEMORY
from headway.contract.batch import Batch
from headway.contract.batching import ContinuousBatching, DynamicBatching
from headway.contract.model import Model
from headway.contract.placement import WorkloadClass
from headway.contract.pool import Pool
from headway.contract.runtime import Triton
from headway.wire import ARM, RELEASE, SCRIPTS_FOLDER, WORKLOAD_CLASS

SCRIPT, CONFIG = "worker.py", "worker.json"
WORKER_FOLDER = "/etc/headway-worker"
CHECK_SECONDS, PAUSE_SECONDS = 60, 5
"""A golden answer counts for a minute; after a failure the worker looks again soon."""
DEADLINE_MARGIN = 10
"""Seconds by which a request ends before its message would be handed to another worker."""
AT_ONCE_AT_MOST = 64
"""Requests of one worker, each a thread."""
COOLDOWN_SECONDS = 300
"""An empty queue keeps the last worker that long: a start costs more."""
POLL_SECONDS = 30


@dataclass(frozen=True, kw_only=True)
class BatchWorker:
    """The batch variant of one service. `pool` is a batch pool; `release` what most online requests get."""

    tenant: str
    model: Model
    release: Release
    pool: Pool
    surroundings: Surroundings
    serving: Serving
    service_account: str

    @property
    def batch(self) -> Batch:
        assert self.model.batch is not None  # noqa: S101  made for contracts with a batch variant only
        return self.model.batch

    @property
    def name(self) -> str:
        return physical(self.model.name, BATCH)

    def manifests(self) -> Iterator[Manifest]:
        """Configuration, workers, scaler."""
        files = self._files()
        settings = physical(self.name, configuration.digest(files))
        found = labels(BATCH, tenant=self.tenant, model=self.model.name)
        yield Manifest(
            role="batch-configuration",
            body=object_("v1", "ConfigMap", settings, namespace=self.tenant, labels=found, immutable=True, data=files),
        )
        needed = ("batch-configuration", f"{self.release.id}-configuration")
        yield Manifest(role="batch-workers", body=self._deployment(settings), after=needed)
        yield Manifest(role="batch-autoscaler", body=self._scaled_object(), after=("batch-workers",))

    def _files(self) -> dict[str, str]:
        script = Path(__file__).parent / "scripts" / SCRIPT
        return {SCRIPT: script.read_text(), CONFIG: json.dumps(self.settings(), sort_keys=True, indent=1) + "\n"}

    def settings(self) -> dict[str, Any]:
        """What the worker's script reads; see its own text for the words."""
        asked, *_ = self.serving.golden
        drain = self.release.model.health.drain.whole_seconds
        return {
            "region": self.surroundings.region,
            "queue_url": queue_url(self.tenant, self.model.name, self.surroundings),
            "store": self.surroundings.store(self.batch),
            "base": self.serving.base,
            "release": self.release.id,
            "golden": {**asked, "timeout_seconds": self.release.model.health.liveness.timeout.seconds},
            "path": self.serving.asks.path,
            "paths": dict(self.serving.asks.by_model),
            "path_by_key": dict(self.serving.asks.by_key),
            "defaults": dict(self.serving.asks.defaults),
            "at_once": requests_at_once(self.release.model),
            "timeout_seconds": max(1, self.batch.message_timeout.whole_seconds - DEADLINE_MARGIN),
            "message_seconds": self.batch.message_timeout.whole_seconds,
            "grace_seconds": pod.grace_seconds(drain) - pod.KILL_MARGIN_SECONDS,
            "check_seconds": CHECK_SECONDS,
            "pause_seconds": PAUSE_SECONDS,
        }

    def _deployment(self, settings: str) -> dict[str, Any]:
        model, release = self.model, self.release
        picks = {ARM: BATCH, **selector(tenant=self.tenant, model=model.name)}
        files = configuration.files(release.model, self.serving, self.surroundings.region, self.surroundings.artifact_bucket)
        name = routing.configuration_name(release.model, release, configuration.digest(files))
        template = pod.template(self.tenant, release, self.pool, self.serving, name, self.service_account)
        return object_(
            "apps/v1",
            "Deployment",
            self.name,
            namespace=self.tenant,
            labels=labels(BATCH, tenant=self.tenant, model=model.name, workload_class=WorkloadClass.BATCH.value),
            # Nobody awaits a worker: spot capacity may be gone for hours, and an empty queue wants none.
            annotations={f"{pod.PREFIX}/description": model.description, f"{pod.PREFIX}/owner": model.owner, SKIP_AWAIT: "true"},
            spec={
                "selector": {"matchLabels": picks},
                # Nobody waits for a worker: a new release takes the place of the old one, and needs no spare GPU.
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": "50%"}},
                "progressDeadlineSeconds": progress_seconds(release.model, self.pool),
                "revisionHistoryLimit": 2,
                "template": self._template(template, picks, settings),
            },
        )

    def _template(self, template: dict[str, Any], picks: Mapping[str, str], settings: str) -> dict[str, Any]:
        """The replica's pod, as a batch worker: its class, its priority, what feeds it, and no place in any Service
        or signal.
        """
        found = {
            **template["metadata"]["labels"],
            **picks,
            "app.kubernetes.io/component": BATCH,
            RELEASE: f"{self.release.id}-{BATCH}",
            WORKLOAD_CLASS: WorkloadClass.BATCH.value,
        }
        annotations = {**template["metadata"]["annotations"], SAFE_TO_EVICT: str(use_is_seen(self.pool)).lower()}
        spec = {key: value for key, value in template["spec"].items() if key != "topologySpreadConstraints"}
        accelerator = self.release.model.envelope.gpu.accelerator
        return {
            "metadata": {"labels": dict(sorted(found.items())), "annotations": annotations},
            "spec": {
                **spec,
                "priorityClassName": priority_class(self.tenant, WorkloadClass.BATCH, accelerator),
                "containers": [*spec["containers"], self._feeder()],
                "volumes": [*spec["volumes"], {"name": "worker", "configMap": {"name": settings, "defaultMode": 0o444}}],
            },
        }

    def _feeder(self) -> dict[str, Any]:
        amounts = {"cpu": str(WORKER_CPU), "memory": WORKER_MEMORY.kubernetes, "ephemeral-storage": "64Mi"}
        return {
            "name": "worker",
            "image": self.release.model.runtime.image,
            "imagePullPolicy": "IfNotPresent",
            "command": ["python3", "-I", f"{WORKER_FOLDER}/{SCRIPT}", f"{WORKER_FOLDER}/{CONFIG}"],
            "env": [dict(NO_DEVICES)],
            "resources": {"requests": dict(amounts), "limits": dict(amounts)},
            "securityContext": dict(pod.SECURITY),
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "volumeMounts": [
                {"name": "artifact", "mountPath": pod.MODELS, "readOnly": True},
                {"name": "configuration", "mountPath": SCRIPTS_FOLDER, "readOnly": True},
                {"name": "worker", "mountPath": WORKER_FOLDER, "readOnly": True},
            ],
        }

    def _scaled_object(self) -> dict[str, Any]:
        return object_(
            "keda.sh/v1alpha1",
            "ScaledObject",
            self.name,
            namespace=self.tenant,
            labels=labels("autoscaler", tenant=self.tenant, model=self.model.name, workload_class=WorkloadClass.BATCH.value),
            spec={
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": self.name},
                "minReplicaCount": 0,
                "maxReplicaCount": self.batch.max_replicas,
                "pollingInterval": POLL_SECONDS,
                "cooldownPeriod": COOLDOWN_SECONDS,
                # Not zero: KEDA would then take every worker away at the first question that a queue does not answer, once nothing was active
                # for `cooldownPeriod`. While it falls back it keeps one in any case (kedacore/keda 2.20.2, `RequestScale` in
                # pkg/scaling/executor/scale_scaledobjects.go and `getScalerState` in pkg/scaling/scale_handler.go).
                "fallback": {"failureThreshold": FALLBACK_FAILURES, "replicas": 1, "behavior": "currentReplicasIfHigher"},
                "triggers": [
                    {
                        "type": "aws-sqs-queue",
                        "name": "queue-length",
                        "metricType": "AverageValue",
                        "metadata": {
                            "awsRegion": self.surroundings.region,
                            # With the operator's own role: that of a workload cannot be had by Pod Identity (kedacore/keda#6418).
                            "identityOwner": "operator",
                            "queueLength": str(self.batch.messages_per_replica),
                            "queueURL": queue_url(self.tenant, self.model.name, self.surroundings),
                            # Messages in work count too, or the last worker would be taken away while it computes.
                            "scaleOnInFlight": "true",
                        },
                    }
                ],
            },
        )


def requests_at_once(model: Model) -> int:
    """Requests that a worker keeps in its server: enough to fill batches, within what a replica takes before it says
    503.
    """
    batching = model.batching
    if isinstance(batching, ContinuousBatching):
        filled = batching.max_sequences
    elif isinstance(batching, DynamicBatching) and isinstance(model.runtime, Triton):
        filled = sum(2 * max(1, served.max_batch) * served.instances for served in model.runtime.models)
    else:
        filled = getattr(batching, "max_concurrent", 1)
    return max(1, min(filled, model.degradation.overload_at, AT_ONCE_AT_MOST))
