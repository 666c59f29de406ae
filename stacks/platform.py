"""The platform layer: what turns a bare GPU cluster into a platform. Definitions, then controllers, then what they
read.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pulumi
import pulumi_kubernetes as kubernetes

from components import versions
from components.addons import (
    cert_manager,
    cluster_autoscaler,
    gpu_operator,
    istio,
    keda,
    load_balancer,
    loki,
    node_logs,
    otel,
    prometheus,
    tempo,
)
from components.addons.release import TIMEOUT_SECONDS, AddOn, AddOnArgs
from components.addons.service_account import Annotations
from components.handover import Handover, HandoverArgs
from components.identity import WorkloadIdentity, WorkloadIdentityArgs
from components.labels import tags
from components.manifests import Manifest
from components.mirror import listing
from components.naming import batch_queue_name, bucket_arn, bucket_name, cluster_name
from components.network.plan import subnet_name, subnets
from components.observability import manifests as observability
from components.permissions import Statement
from components.platform import (
    activator,
    admission,
    artifact_cache,
    capacity,
    credentials,
    diagnosis,
    endpoint_picker,
    evaluation,
    gateway_certificate,
    gateway_service,
    limiter,
    mesh,
    namespaces,
    node_health,
    release_guard,
    token_issuers,
    volumes,
)
from components.platform.objects import PlatformObjects, PlatformObjectsArgs
from components.tenant.surroundings import RUNBOOKS
from components.versions import HelmChart
from headway.contract.arithmetic import warm
from headway.contract.arithmetic.surge import pool_for
from headway.contract.gateway_names import certificate_names
from headway.contract.model import Model
from headway.contract.reading.loader import load_tenant
from headway.contract.reading.tenants import tenants_of
from headway.problem import Problem, problem
from headway.wire import (
    ACTIVATOR_NAMESPACE,
    ARTIFACT_CACHE_NAMESPACE,
    DIAGNOSIS_NAMESPACE,
    ENDPOINT_PICKER_NAMESPACE,
    EVALUATION_NAMESPACE,
    GATEWAY_NAMESPACE,
    KUBECONFIG_OUTPUT,
    MESH_NAMESPACE,
    NODE_HEALTH_NAMESPACE,
    PROMETHEUS_ADDRESS_OUTPUT,
    TELEMETRY_BUCKET_OUTPUT,
    witness_path,
)
from stacks import footprint
from stacks.loops_image import unnamed
from stacks.providers import aws_provider, kubernetes_provider
from stacks.sections import AcmeAuthority, OwnAuthority, many_rules
from stacks.settings import CLUSTER, FOLDER, PLATFORM, SANDBOX, PlatformSettings
from stacks.settings_error import SettingsError
from stacks.upstream import Upstream, cluster_identity

STORES = ("kms:Decrypt", "kms:GenerateDataKey")
"""What storing in a bucket and reading it again needs of the key."""
NAMES_OF_A_CERTIFICATE = 100
"""Let's Encrypt, "Rate Limits", and others who speak ACME; the gateway has one certificate."""
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
    layer.certificate()
    layer.scaling()
    layer.evaluation()
    layer.diagnosis()
    layer.pins()
    layer.warnings()
    layer.hand_over()
    layer.export()


class _PlatformLayer:
    """The layer while it is being registered. What every part needs is found here once."""

    def __init__(self, settings: PlatformSettings, contracts: Path) -> None:
        account = settings.account
        self._settings, self._account, self._contracts = settings, account, contracts
        self._mirror = settings.registry.mirror
        self._stands: list[pulumi.Resource] = []
        self._refusals: dict[pulumi.Resource, PlatformObjects] = {}
        self._cluster = cluster_name(settings.environment)
        provider = aws_provider(account, tags(settings.environment, PLATFORM))
        self._aws = pulumi.ResourceOptions(provider=provider)
        self._upstream = Upstream(settings.environment, CLUSTER, provider)
        self._identity = cluster_identity(settings, self._upstream)
        self._kubernetes = pulumi.ResourceOptions(provider=kubernetes_provider(settings.environment, account, self._upstream))

    def ground(self) -> None:
        """Namespaces, priorities, volumes, admission: what everything else stands on."""
        zones = subnets(self._settings.network.cidr, self._settings.network.zones)
        self._namespaces = self._objects("namespaces", namespaces.manifests([zone.intra for zone in zones]))
        self._capacity = self._objects(
            "capacity", capacity.manifests(self._warm(), self._mirror), after=[self._namespace(namespaces.WARM_CAPACITY)]
        )
        self._objects("volumes", volumes.manifests(self._upstream.require("volumes_key_arn")))
        self._objects("admission", admission.manifests(self._settings.pools, self._settings.gateway.hosts, self._mirror))
        replaces = node_health.permissions(self._cluster, self._account.id, self._account.region)
        self._replaces = self._identify(node_health.SERVICE_ACCOUNT, NODE_HEALTH_NAMESPACE, node_health.SERVICE_ACCOUNT, replaces)
        self._objects(
            node_health.SERVICE_ACCOUNT,
            node_health.manifests(self._settings.pools, self._mirror, self._replaces.annotations),
            after=[self._namespace(NODE_HEALTH_NAMESPACE)],
        )

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
        watched = observability.platform_manifests(
            retention.runbooks or RUNBOOKS,
            retention.grafana,
            environment=self._settings.environment,
            # The sandbox runs that loop as a process.
            diagnosed=self._settings.loops.image is not None or self._settings.environment == SANDBOX,
        )
        self._objects("observability", watched, after=[self._monitoring])
        logs = self._identify("loki", prometheus.NAMESPACE, loki.SERVICE_ACCOUNT, loki.permissions(bucket_arn(bucket)), uses_key=STORES)
        traces = self._identify(
            "tempo", prometheus.NAMESPACE, tempo.SERVICE_ACCOUNT, tempo.permissions(bucket_arn(bucket)), uses_key=STORES
        )
        kept = loki.values(**stored, days=retention.logs_days, annotations=logs.annotations)
        store = self._addon("loki", versions.LOKI, prometheus.NAMESPACE, kept, after=[logs])
        traced = tempo.values(**stored, days=retention.traces_days, annotations=traces.annotations)
        self._addon("tempo", versions.TEMPO, prometheus.NAMESPACE, traced, after=[traces])
        samples = self._identify(
            "otel", prometheus.NAMESPACE, otel.SERVICE_ACCOUNT, otel.permissions(bucket_arn(bucket)), uses_key=("kms:GenerateDataKey",)
        )
        collected = otel.values(**stored, annotations=samples.annotations)
        self._addon("otel", versions.OTEL_COLLECTOR, prometheus.NAMESPACE, collected, release=otel.RELEASE, after=[samples])
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
        identity = self._identify(artifact_cache.NAME, ARTIFACT_CACHE_NAMESPACE, artifact_cache.NAME, reads, uses_key=("kms:Decrypt",))
        needs.append(identity)
        roomy = [store for store in rooms if int(store.room)]
        stores = artifact_cache.manifests(image, self._account.region, roomy, identity.annotations)
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
            replicas_min=gateway.replicas_min,
            replicas_max=gateway.replicas_max,
            histogram_buckets=mesh.histogram_buckets(),
        )
        # The way in first: pods that a balancer already knows become ready only when it has found them healthy.
        after = [control, self._way_in()]
        # A few at a time, and each waits until the balancer, which may be a new one, has found it healthy.
        self._addon(
            "istio-gateway",
            versions.ISTIO_GATEWAY,
            GATEWAY_NAMESPACE,
            values,
            release=istio.GATEWAY_RELEASE,
            seconds=2 * TIMEOUT_SECONDS,
            after=after,
        )
        rules = mesh.manifests(hosts=gateway.hosts, certificate=gateway.certificate, region=self._account.region)
        # After the definitions of its parameters.
        self._objects("token-issuers", token_issuers.manifests(), after=[base])
        # The control plane validates them; definitions alone would let a wrong one through.
        self._objects("mesh", rules, after=[control, self._monitoring, self._namespace(GATEWAY_NAMESPACE)])
        if image := self._settings.loops.image:
            # After the control plane, which defines the routes that it guards.
            self._objects("release-guard", release_guard.manifests(image), after=[base, self._namespace(namespaces.RELEASE_GUARD)])
            meshed = [control, self._monitoring, self._namespace(ACTIVATOR_NAMESPACE)]
            self._objects("activator", activator.manifests(image), after=meshed)
            meshed = [control, self._monitoring, self._namespace(ENDPOINT_PICKER_NAMESPACE)]
            self._objects(ENDPOINT_PICKER_NAMESPACE, endpoint_picker.manifests(image), after=meshed)
        # After the control plane, which gives its pods their proxies.
        self._objects(namespaces.RATE_LIMIT, limiter.manifests(self._mirror), after=[control, self._namespace(namespaces.RATE_LIMIT)])

    def _way_in(self) -> pulumi.Resource:
        """The gateway's Service with its load balancer, and the controller that makes one of it."""
        gateway, account = self._settings.gateway, self._account
        makes = load_balancer.permissions(self._cluster, account.id, account.region)
        identity = self._identify("load-balancer", load_balancer.NAMESPACE, load_balancer.SERVICE_ACCOUNT, makes)
        controller = self._addon(
            "load-balancer",
            versions.LOAD_BALANCER_CONTROLLER,
            load_balancer.NAMESPACE,
            load_balancer.values(
                self._cluster,
                account.region,
                self._upstream.require("vpc_id"),
                tags(self._settings.environment, PLATFORM),
                identity.annotations,
            ),
            after=[identity],
        )
        tier = "public" if gateway.public else "private"
        service = gateway_service.manifest(
            public=gateway.public,
            encrypted=gateway.certificate is not None,
            clients=gateway.clients,
            subnets=[subnet_name(self._cluster, tier, zone) for zone in sorted(self._settings.network.zones)],
        )
        # The controller stays until the Service is gone, for only it can take the balancer away.
        made = self._objects("gateway", [service], after=[controller, self._namespace(GATEWAY_NAMESPACE)])
        self._service = cast(kubernetes.core.v1.Service, made.by_role[service.role])
        return self._service

    def certificate(self) -> None:
        """The gateway's certificate: ordered and renewed by cert-manager, or a secret that somebody else makes."""
        gateway, names = self._settings.gateway, self._certificate_names()
        if gateway.certificate is None:
            return
        if gateway.authority is None:
            if self._settings.environment != SANDBOX:
                pulumi.log.warn(
                    f"No layer makes the secret {gateway.certificate} in namespace {GATEWAY_NAMESPACE}. Without it the gateway accepts no "
                    f"connection by TLS. It must hold {', '.join(names) or 'the names of tenants to come'}: `headway certificate check "
                    f"FILE --environment {self._settings.environment}` says whether a certificate does; or set headway:gateway.authority."
                )
            return
        if not names:
            # cert-manager's webhook refuses one that names nobody (internal/apis/certmanager/validation/certificate.go).
            pulumi.log.warn(
                "The environment has no tenant, so the gateway has no name to prove: no certificate is ordered until there is one."
            )
            return
        after: list[pulumi.Resource] = []
        annotations: Annotations = None
        match gateway.authority:
            case AcmeAuthority() as asked:
                if len(names) > NAMES_OF_A_CERTIFICATE:
                    raise SettingsError(f"Pulumi.{self._settings.environment}-{PLATFORM}.yaml", [_too_many(len(names), asked.server)])
                proves = cert_manager.permissions(asked.zone, names)
                identity = self._identify("cert-manager", cert_manager.NAMESPACE, cert_manager.SERVICE_ACCOUNT, proves)
                after.append(identity)
                annotations = identity.annotations
                issuer = gateway_certificate.acme(server=asked.server, email=asked.email, zone=asked.zone, region=self._account.region)
            case OwnAuthority() as asked:
                issuer = gateway_certificate.authority(asked.secret)
        manager = self._addon("cert-manager", versions.CERT_MANAGER, cert_manager.NAMESPACE, cert_manager.values(annotations), after=after)
        made = gateway_certificate.manifests(secret=gateway.certificate, names=names, issuer=issuer)
        self._objects("certificate", made, after=[manager, self._namespace(GATEWAY_NAMESPACE)])

    def _certificate_names(self) -> tuple[str, ...]:
        return certificate_names(self._settings.gateway.hosts, tenants_of(self._settings.environment, FOLDER))

    def scaling(self) -> None:
        """Pods by KEDA, nodes by the Cluster Autoscaler."""
        queues = f"arn:aws:sqs:{self._account.region}:{self._account.id}:{batch_queue_name(self._settings.environment)}-*"
        self._keda = self._identify("keda", keda.NAMESPACE, keda.SERVICE_ACCOUNT, (keda.reads_queues(queues),))
        values = keda.values(self._cluster, self._keda.annotations)
        self._addon("keda", versions.KEDA, keda.NAMESPACE, values, after=[self._keda, self._monitoring])
        resizes = cluster_autoscaler.permissions(self._cluster, self._account.id, self._account.region)
        nodes = self._identify("cluster-autoscaler", cluster_autoscaler.NAMESPACE, cluster_autoscaler.SERVICE_ACCOUNT, resizes)
        self._addon(
            "cluster-autoscaler",
            versions.CLUSTER_AUTOSCALER,
            cluster_autoscaler.NAMESPACE,
            cluster_autoscaler.values(self._cluster, self._account.region, self._settings.pools, nodes.annotations),
            after=[nodes, self._monitoring],
        )

    def evaluation(self) -> None:
        """The loops that ask what serves its labelled requests and watch what users send and get, as the contracts of this environment's
        tenants say now."""
        image, account, environment = self._settings.loops.image, self._account, self._settings.environment
        if image is None:
            return
        models = {f"{tenant}/{model.name}": model for tenant, found in self._models().items() for model in found}
        looked_at = evaluation.LookedAt(
            asked={chain: model.evaluation for chain, model in models.items() if model.evaluation},
            watched={chain: model.watched_traffic for chain, model in models.items() if model.watched_traffic},
            **{role: bucket_name(environment, role, account.id) for role in ("artifacts", "ledger", "telemetry")},
        )
        needs: list[pulumi.Resource] = [self._monitoring, self._namespace(EVALUATION_NAMESPACE)]
        annotations: Annotations = None
        witnesses = f"arn:aws:ssm:{account.region}:{account.id}:parameter{witness_path(environment)}"
        if reads := evaluation.permissions(looked_at, witnesses=witnesses):
            identity = self._identify(evaluation.NAME, EVALUATION_NAMESPACE, evaluation.NAME, reads, uses_key=STORES)
            needs.append(identity)
            annotations = identity.annotations
        known = evaluation.settings(environment, account.region, looked_at)
        self._objects(evaluation.NAME, evaluation.manifests(image, account.region, known, annotations), after=needs)

    def diagnosis(self) -> None:
        """The loop that Alertmanager asks why an alert fires; it knows the services of this environment's tenants and their receivers."""
        image, account, environment = self._settings.loops.image, self._account, self._settings.environment
        if image is None:
            return
        receivers = {f"{tenant}/{model.name}": model.observability.receiver for tenant, found in self._models().items() for model in found}
        ledger = bucket_name(environment, "ledger", account.id)
        witnesses = f"arn:aws:ssm:{account.region}:{account.id}:parameter{witness_path(environment)}"
        reads = diagnosis.permissions(ledger, witnesses=witnesses)
        identity = self._identify(diagnosis.NAME, DIAGNOSIS_NAMESPACE, diagnosis.NAME, reads, uses_key=("kms:Decrypt",))
        places = self._settings.observability
        loop = diagnosis.manifests(
            image,
            account.region,
            diagnosis.settings(environment, account.region, ledger, receivers),
            runbooks=places.runbooks or RUNBOOKS,
            grafana=places.grafana,
            annotations=identity.annotations,
        )
        homes = [self._namespace(each) for each in (DIAGNOSIS_NAMESPACE, GATEWAY_NAMESPACE)]
        self._objects(diagnosis.NAME, loop, after=[self._monitoring, *homes, identity])

    def pins(self) -> None:
        """Say what no digest pins, at every preview: it is whatever its repository answers."""
        found = [f"{chart['chart']} {chart['version']}" for chart in listing()["charts"] if chart["digest"] is None]
        if found and self._settings.environment != SANDBOX:
            pulumi.log.warn(
                f"{len(found)} charts have no recorded digest: {', '.join(found)}. Whatever their repositories answer for these versions is "
                "installed. Run `headway mirror --pin`, compare what it writes with what their makers state, and commit it."
            )

    def warnings(self) -> None:
        """Say before the first apply, and not after it, what nobody does as long as no image of the loops is named, and what AWS may refuse."""
        for found in (*unnamed(self._settings), *many_rules(self._settings.gateway)):
            pulumi.log.warn(" ".join(found.sentences))

    def hand_over(self) -> None:
        """What tenants and `headway` need, without this stack's state or the cluster's."""
        passed_on = ("data_key_arn", KUBECONFIG_OUTPUT, "oidc_issuer", "oidc_provider_arn")
        values: dict[str, Any] = {name: self._upstream.require(name) for name in passed_on}
        values[PROMETHEUS_ADDRESS_OUTPUT] = prometheus.SERVICE
        args = HandoverArgs(environment=self._settings.environment, layer=PLATFORM, values=values, after=self._stands)
        Handover("handover", args, self._aws)

    def export(self) -> None:
        settings = self._settings
        pulumi.export("cost_a_month", footprint.month(settings).said)
        pulumi.export("gateway", f"{GATEWAY_NAMESPACE}/{mesh.GATEWAY}")
        pulumi.export("gateway_address", pulumi.Output.from_input(self._service.status).apply(gateway_service.address))
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
        found = PlatformObjects(name, PlatformObjectsArgs(manifests=manifests, after=self._ready(after)), self._kubernetes)
        self._stands.append(found)
        return found

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
        seconds: int = TIMEOUT_SECONDS,
    ) -> AddOn:
        """Every add-on waits for the one that scrapes it, but those that come before that (`early`)."""
        needs = [self._namespace(namespace), *self._ready(after)]
        if not early:
            needs.append(self._monitoring.release)
        args = AddOnArgs(
            chart=chart, namespace=namespace, values=values, mirror=self._mirror, release=release, seconds=seconds, after=needs
        )
        found = AddOn(name, args, self._kubernetes)
        self._stands.append(found.release)
        return found

    def _identify(
        self, name: str, namespace: str, service_account: str, statements: Sequence[Statement], *, uses_key: Sequence[str] = ()
    ) -> WorkloadIdentity:
        """An add-on's identity; one that reads or stores in a bucket also uses the key of its contents."""
        policies: dict[str, Sequence[Statement]] = {"access": statements}
        if uses_key:
            policies["data-key"] = (Statement(sid="UseKey", actions=uses_key, resources=[self._upstream.require("data_key_arn")]),)
        args = WorkloadIdentityArgs(cluster=self._identity, namespace=namespace, service_account=service_account, policies=policies)
        identity = WorkloadIdentity(f"{name}-identity", args, self._aws)
        # Nobody gives the sandbox's pods credentials.
        if self._settings.environment != SANDBOX:
            self._refusals[identity] = self._objects(f"{name}-credentials", credentials.manifests(namespace, service_account))
        return identity

    def _ready(self, after: Sequence[pulumi.Resource]) -> list[pulumi.Resource]:
        """A release is waited for itself: waiting for its component would wait for whatever that may hold one day. With an identity comes
        what refuses pods that it does not reach yet."""
        released = [needed.release if isinstance(needed, AddOn) else needed for needed in after]
        return [*released, *(self._refusals[needed] for needed in after if needed in self._refusals)]


def _too_many(names: int, server: str) -> Problem:
    return problem(
        "certificate-has-room",
        "headway:gateway",
        "authority",
        value=server,
        fact=f"the gateway's certificate must hold {names} names, one for each tenant and host, and ACME servers give {NAMES_OF_A_CERTIFICATE}",
        consequence="It would not be issued, and when the present one has expired, no tenant would be reached by TLS",
        remedy="Divide the tenants between two environments, serve fewer hosts, or use an authority of kind own",
    )
