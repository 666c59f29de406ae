"""The platform layer: what turns a bare GPU cluster into a platform. Definitions, then controllers, then what they
read.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as kubernetes

from components import versions
from components.addons import cluster_autoscaler, gpu_operator, istio, keda, loki, node_logs, otel, prometheus, tempo
from components.addons.release import AddOn, AddOnArgs
from components.identity import ClusterIdentity, WorkloadIdentity, WorkloadIdentityArgs
from components.labels import tags
from components.manifests import Manifest
from components.naming import batch_queue_name, bucket_arn, bucket_name, cluster_arn, cluster_name
from components.network.plan import subnets
from components.observability import manifests as observability
from components.permissions import Statement
from components.platform import admission, artifact_cache, capacity, limiter, mesh, namespaces, node_health, release_guard, volumes
from components.platform.objects import PlatformObjects, PlatformObjectsArgs
from components.tenant.surroundings import RUNBOOKS
from components.versions import HelmChart
from headway.contract.arithmetic import warm
from headway.contract.arithmetic.surge import pool_for
from headway.contract.model import Model
from headway.contract.reading.loader import load_tenant
from headway.contract.reading.tenants import tenants_of
from headway.wire import (
    ARTIFACT_BUCKET_OUTPUT,
    ARTIFACT_CACHE_NAMESPACE,
    GATEWAY_NAMESPACE,
    LEDGER_BUCKET_OUTPUT,
    MESH_NAMESPACE,
    NODE_HEALTH_NAMESPACE,
    PROMETHEUS_ADDRESS_OUTPUT,
    TELEMETRY_BUCKET_OUTPUT,
)
from stacks.settings import CLUSTER, FOLDER, PLATFORM, SANDBOX, PlatformSettings
from stacks.upstream import Upstream

STORES = ("kms:Decrypt", "kms:GenerateDataKey")
"""What storing in a bucket and reading it again needs of the key."""
CONTRACTS = Path(__file__).parents[1] / "tenants"


def build(settings: PlatformSettings, contracts: Path = CONTRACTS) -> None:
    """Register the layer and export what tenants stand on. `contracts` are the tenants' folders, which say what is
    kept warm.
    """
    layer = _PlatformLayer(settings, contracts)
    layer.ground()
    layer.observability()
    layer.gpus()
    layer.mesh()
    layer.scaling()
    layer.pins()
    layer.silence()
    layer.export()


class _PlatformLayer:
    """The layer while it is being registered. What every part needs is found here once."""

    def __init__(self, settings: PlatformSettings, contracts: Path) -> None:
        account = settings.account
        self._settings, self._account, self._contracts = settings, account, contracts
        self._mirror = settings.registry.mirror
        self._cluster = cluster_name(settings.environment)
        self._upstream = Upstream(settings.environment, CLUSTER)
        self._identity = ClusterIdentity(name=self._cluster, account_id=account.id, region=account.region)
        self._aws = pulumi.ResourceOptions(
            provider=aws.Provider(
                "aws",
                region=account.region,
                allowed_account_ids=[account.id],
                default_tags=aws.ProviderDefaultTagsArgs(tags=tags(settings.environment, PLATFORM)),
            )
        )
        self._kubernetes = pulumi.ResourceOptions(
            provider=kubernetes.Provider(
                "kubernetes",
                kubeconfig=self._upstream.require("kubeconfig"),
                # Without it a kubeconfig that is not known yet would plan to replace every object.
                cluster_identifier=cluster_arn(settings.environment, account.id, account.region),
                enable_server_side_apply=True,
                delete_unreachable=False,
            )
        )

    def ground(self) -> None:
        """Namespaces, priorities, volumes, admission: what everything else stands on."""
        zones = subnets(self._settings.network.cidr, self._settings.network.zones)
        self._namespaces = self._objects("namespaces", namespaces.manifests([zone.intra for zone in zones]))
        self._capacity = self._objects(
            "capacity", capacity.manifests(self._warm(), self._mirror), after=[self._namespace(namespaces.WARM_CAPACITY)]
        )
        self._objects("volumes", volumes.manifests(self._upstream.require("volumes_key_arn")))
        self._objects("admission", admission.manifests(self._settings.pools, self._settings.gateway.hosts, self._mirror))
        self._objects(
            node_health.SERVICE_ACCOUNT,
            node_health.manifests(self._settings.pools, self._mirror),
            after=[self._namespace(NODE_HEALTH_NAMESPACE)],
        )
        replaces = node_health.permissions(self._cluster, self._account.id, self._account.region)
        self._replaces = self._identify(node_health.SERVICE_ACCOUNT, NODE_HEALTH_NAMESPACE, node_health.SERVICE_ACCOUNT, replaces)

    def observability(self) -> None:
        """Metrics, logs and traces. First, for it brings the kinds by which all others are scraped."""
        retention = self._settings.observability
        bucket = bucket_name(self._settings.environment, "telemetry", self._account.id)
        stored: dict[str, Any] = {"bucket": self._upstream.require(TELEMETRY_BUCKET_OUTPUT), "region": self._account.region}
        self._definitions = self._addon(
            "prometheus-definitions", versions.PROMETHEUS_DEFINITIONS, prometheus.NAMESPACE, prometheus.definitions_values(), early=True
        )
        rights = self._objects("observability-rights", observability.rights())
        self._monitoring = self._addon(
            "prometheus",
            versions.PROMETHEUS_STACK,
            prometheus.NAMESPACE,
            prometheus.values(days=retention.metrics_days, storage_bytes=int(retention.metrics_storage)),
            after=[self._definitions, rights],
            early=True,
        )
        self._objects("observability", observability.platform_manifests(RUNBOOKS), after=[self._monitoring])
        logs = self._identify("loki", prometheus.NAMESPACE, loki.SERVICE_ACCOUNT, loki.permissions(bucket_arn(bucket)), uses_key=STORES)
        traces = self._identify(
            "tempo", prometheus.NAMESPACE, tempo.SERVICE_ACCOUNT, tempo.permissions(bucket_arn(bucket)), uses_key=STORES
        )
        store = self._addon("loki", versions.LOKI, prometheus.NAMESPACE, loki.values(**stored, days=retention.logs_days), after=[logs])
        self._addon("tempo", versions.TEMPO, prometheus.NAMESPACE, tempo.values(**stored, days=retention.traces_days), after=[traces])
        samples = self._identify(
            "otel", prometheus.NAMESPACE, otel.SERVICE_ACCOUNT, otel.permissions(bucket_arn(bucket)), uses_key=("kms:GenerateDataKey",)
        )
        self._addon("otel", versions.OTEL_COLLECTOR, prometheus.NAMESPACE, otel.values(**stored), release=otel.RELEASE, after=[samples])
        self._addon(
            "otel-logs",
            versions.OTEL_COLLECTOR,
            prometheus.NAMESPACE,
            node_logs.values(capacity.PLATFORM_PRIORITY),
            release=node_logs.RELEASE_NAME,
            after=[store, self._capacity.by_role["platform"]],
        )

    def gpus(self) -> None:
        """Device plugin, MIG, telemetry of the GPUs, and the loop that sets broken nodes apart."""
        self._addon("gpu-operator", versions.GPU_OPERATOR, gpu_operator.NAMESPACE, gpu_operator.values(self._settings.pools))
        if image := self._settings.loops.image:
            needs = [self._monitoring, self._replaces, self._namespace(NODE_HEALTH_NAMESPACE)]
            self._objects("node-health-loop", node_health.loop(image, self._account.region), after=needs)
            self.artifacts(image)

    def artifacts(self, image: str) -> None:
        """The nodes' own stores of artifacts: nodes of latency pools have what their models are made of before a
        replica asks.
        """
        pools = [pool for pool in self._settings.pools if artifact_cache.kept_on(pool)]
        models = {
            tenant: [model for model in found if pool_for(model, self._settings.pools) in pools] for tenant, found in self._models().items()
        }
        every = [model for found in models.values() for model in found]
        rooms = [artifact_cache.NodeCache(pool=pool, room=warm.artifact_room(pool, self._settings.pools, every)) for pool in pools]
        reads = artifact_cache.permissions(models, bucket_name(self._settings.environment, "artifacts", self._account.id))
        if not reads:
            return
        needs = [self._monitoring, self._namespace(ARTIFACT_CACHE_NAMESPACE), self._capacity.by_role["platform"]]
        needs.append(self._identify(artifact_cache.NAME, ARTIFACT_CACHE_NAMESPACE, artifact_cache.NAME, reads, uses_key=("kms:Decrypt",)))
        stores = artifact_cache.manifests(image, self._account.region, [store for store in rooms if int(store.room)])
        self._objects(artifact_cache.NAME, stores, after=needs)

    def mesh(self) -> None:
        """Istio, and the mesh's own rules."""
        gateway = self._settings.gateway
        base = self._addon("istio-base", versions.ISTIO_BASE, MESH_NAMESPACE, istio.base_values(), release="istio-base")
        agent = self._addon("istio-cni", versions.ISTIO_CNI, MESH_NAMESPACE, istio.node_agent_values(), release="istio-cni", after=[base])
        control = self._addon(
            "istiod", versions.ISTIOD, MESH_NAMESPACE, istio.control_plane_values(otel.HOST, otel.PORT), after=[base, agent]
        )
        values = istio.gateway_values(
            public=gateway.public,
            replicas_min=gateway.replicas_min,
            replicas_max=gateway.replicas_max,
            histogram_buckets=mesh.histogram_buckets(),
        )
        self._addon("istio-gateway", versions.ISTIO_GATEWAY, GATEWAY_NAMESPACE, values, release=istio.GATEWAY_RELEASE, after=[control])
        rules = mesh.manifests(hosts=gateway.hosts, certificate=gateway.certificate, region=self._account.region)
        # The control plane validates them; definitions alone would let a wrong one through.
        self._objects("mesh", rules, after=[control, self._monitoring, self._namespace(GATEWAY_NAMESPACE)])
        if image := self._settings.loops.image:
            # After the control plane, which defines the routes that it guards.
            self._objects("release-guard", release_guard.manifests(image), after=[base, self._namespace(namespaces.RELEASE_GUARD)])
        # After the control plane, which gives its pods their proxies.
        self._objects("rate-limit", limiter.manifests(self._mirror), after=[control, self._namespace(namespaces.RATE_LIMIT)])

    def scaling(self) -> None:
        """Pods by KEDA, nodes by the Cluster Autoscaler."""
        queues = f"arn:aws:sqs:{self._account.region}:{self._account.id}:{batch_queue_name(self._settings.environment)}-*"
        self._keda = self._identify("keda", keda.NAMESPACE, keda.SERVICE_ACCOUNT, (keda.reads_queues(queues),))
        self._addon("keda", versions.KEDA, keda.NAMESPACE, keda.values(self._cluster), after=[self._keda, self._monitoring])
        resizes = cluster_autoscaler.permissions(self._cluster, self._account.id, self._account.region)
        nodes = self._identify("cluster-autoscaler", cluster_autoscaler.NAMESPACE, cluster_autoscaler.SERVICE_ACCOUNT, resizes)
        self._addon(
            "cluster-autoscaler",
            versions.CLUSTER_AUTOSCALER,
            cluster_autoscaler.NAMESPACE,
            cluster_autoscaler.values(self._cluster, self._account.region, self._settings.pools),
            after=[nodes, self._monitoring],
        )

    def pins(self) -> None:
        """Say what no digest pins, at every preview: it is whatever its repository answers."""
        found = [f"{chart.chart} {chart.version}" for chart in versions.CHARTS if chart.digest is None]
        if found and self._settings.environment != SANDBOX:
            pulumi.log.warn(
                f"{len(found)} charts have no recorded digest: {', '.join(found)}. Whatever their repositories answer for these versions is "
                "installed. Pull them and run `headway mirror --charts FOLDER`, and record what it says in components/versions.py."
            )

    def silence(self) -> None:
        """Say what nobody does as long as no image of the loops is named, before the first apply and not after it."""
        if self._settings.loops.image is None and self._settings.environment != SANDBOX:
            pulumi.log.warn(
                "headway:loops names no image: no loop watches nodes, and `headway release start` finds no guard and refuses. Build "
                "one from the Containerfile, push it to a registry that the nodes reach, and name it by digest."
            )

    def export(self) -> None:
        passed_on = (
            ARTIFACT_BUCKET_OUTPUT,
            "batch_queue_arn",
            "batch_queue_url",
            "cluster_name",
            "data_key_arn",
            "kubeconfig",
            LEDGER_BUCKET_OUTPUT,
            "oidc_issuer",
            "oidc_provider_arn",
            "repositories",
        )
        for name in passed_on:
            pulumi.export(name, self._upstream.require(name))
        pulumi.export("gateway", f"{GATEWAY_NAMESPACE}/{mesh.GATEWAY}")
        pulumi.export("gateway_hosts", list(self._settings.gateway.hosts))
        pulumi.export("keda_role_arn", self._keda.role_arn)
        pulumi.export(PROMETHEUS_ADDRESS_OUTPUT, prometheus.SERVICE)
        pulumi.export("otel_endpoint", f"{otel.HOST}:{otel.PORT}")

    def _warm(self) -> list[capacity.Warm]:
        """Room and images for each pool: what the contracts of this environment's tenants need, and no less room
        than the settings say.
        """
        pools, least = self._settings.pools, {entry.pool: entry.replicas for entry in self._settings.warm}
        models = [model for found in self._models().values() for model in found]
        return [
            capacity.Warm(
                pool=pool,
                units=max(least.get(pool.name, 0), warm.warm_units(pool, pools, models)),
                images=warm.images(pool, pools, models),
            )
            for pool in pools
        ]

    def _models(self) -> Mapping[str, Sequence[Model]]:
        """The models of this environment's tenants, by tenant, as their contracts are now."""
        tenants = sorted(name for name in tenants_of(self._settings.environment, FOLDER) if (self._contracts / name).is_dir())
        found = {name: load_tenant(self._contracts / name, self._settings.pools).tenant(name) for name in tenants}
        return {name: contracts.models for name, contracts in found.items() if contracts}

    def _namespace(self, name: str) -> pulumi.Resource:
        return self._namespaces.by_role[name]

    def _objects(self, name: str, manifests: Sequence[Manifest], after: Sequence[pulumi.Resource] = ()) -> PlatformObjects:
        return PlatformObjects(name, PlatformObjectsArgs(manifests=manifests, after=_released(after)), self._kubernetes)

    def _addon(
        self,
        name: str,
        chart: HelmChart,
        namespace: str,
        values: Mapping[str, Any],
        *,
        release: str | None = None,
        after: Sequence[pulumi.Resource] = (),
        early: bool = False,
    ) -> AddOn:
        """Every add-on waits for the one that scrapes it, but those that come before that (`early`)."""
        needs = [self._namespace(namespace), *_released(after)]
        if not early:
            needs.append(self._monitoring.release)
        args = AddOnArgs(chart=chart, namespace=namespace, values=values, mirror=self._mirror, release=release, after=needs)
        return AddOn(name, args, self._kubernetes)

    def _identify(
        self, name: str, namespace: str, service_account: str, statements: Sequence[Statement], *, uses_key: Sequence[str] = ()
    ) -> WorkloadIdentity:
        """An add-on's identity; one that reads or stores in a bucket also uses the key of its contents."""
        policies: dict[str, Sequence[Statement]] = {"access": statements}
        if uses_key:
            policies["data-key"] = (Statement(sid="UseKey", actions=uses_key, resources=[self._upstream.require("data_key_arn")]),)
        args = WorkloadIdentityArgs(cluster=self._identity, namespace=namespace, service_account=service_account, policies=policies)
        return WorkloadIdentity(f"{name}-identity", args, self._aws)


def _released(after: Sequence[pulumi.Resource]) -> list[pulumi.Resource]:
    """A release is waited for itself: waiting for its component would wait for whatever that may hold one day."""
    return [needed.release if isinstance(needed, AddOn) else needed for needed in after]
