"""The cluster layer: network, keys, storage, control plane, add-ons, node pools."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime

import pulumi

from components.cluster.addons import BEFORE_NODES, ON_NODES, Addons, AddonsArgs
from components.cluster.control_plane import ControlPlane, ControlPlaneArgs
from components.handover import Handover, HandoverArgs, kubeconfig
from components.identity import ClusterIdentity
from components.keys import Keys, KeysArgs
from components.labels import tags
from components.naming import cluster_name
from components.network.network import Network, NetworkArgs
from components.nodes.gpu_pool import GpuPool, GpuPoolArgs
from components.nodes.role import NodeRole, NodeRoleArgs
from components.nodes.scaling import system_group, zone_group
from components.nodes.system_pool import SystemNodes, SystemNodesArgs
from components.storage.storage import Storage, StorageArgs
from components.versions import KUBERNETES
from headway.contract.arithmetic.month import BilledCluster, Estimate, cluster_month
from headway.contract.pool import Pool
from headway.wire import ARTIFACT_BUCKET_OUTPUT, KUBECONFIG_OUTPUT, LEDGER_BUCKET_OUTPUT, TELEMETRY_BUCKET_OUTPUT
from stacks import access
from stacks.live_cluster import control_plane_zones, live_cluster, refuse_failed, refuse_moved, refuse_shared_otherwise
from stacks.providers import aws_provider
from stacks.settings import CLUSTER, ClusterSettings


def build(settings: ClusterSettings, now: datetime) -> None:
    """Register the layer and export what the other layers stand on."""
    layer = _ClusterLayer(settings, now)
    layer.ground()
    layer.control_plane()
    layer.nodes()
    layer.hand_over()
    layer.export()


def _members(settings: ClusterSettings) -> tuple[tuple[str, ...], Mapping[str, Sequence[str]]]:
    """Administrators, and who is in which Kubernetes group: what the file names, and the roles of `headway:access`."""
    plane, found = settings.control_plane, defaultdict[str, set[str]](set)
    for group, members in plane.groups.items():
        found[group].update(members)
    if settings.access is None:
        return plane.administrators, plane.groups
    for group, arn in access.groups(settings.environment, settings.account, settings.access):
        found[group].add(arn)
    more = access.administrators(settings.environment, settings.account, settings.access)
    return (*plane.administrators, *more), {group: sorted(members) for group, members in sorted(found.items())}


class _ClusterLayer:
    """The layer while it is being registered: what the later parts need of the earlier ones is kept here."""

    def __init__(self, settings: ClusterSettings, now: datetime) -> None:
        self._settings, self._account, self._now = settings, settings.account, now
        self._cluster = cluster_name(settings.environment)
        self._boundary = access.boundary(settings.environment, self._account, settings.access)
        self._administrators, self._groups = _members(settings)
        self._tags = tags(settings.environment, CLUSTER)
        self._provider = aws_provider(self._account, self._tags)
        self._options = pulumi.ResourceOptions(provider=self._provider)
        self._live = live_cluster(self._cluster, self._provider)
        stack = f"{settings.environment}-{CLUSTER}"
        refuse_failed(self._cluster, self._live.failed, self._group_names(), stack)
        refuse_moved(settings.network.cidr, self._live.zones, stack)
        refuse_shared_otherwise(settings.pools, self._live.groups, stack)
        self._plane_zones = control_plane_zones(settings.network.zones, self._live.zones, stack)

    def _group_names(self) -> frozenset[str]:
        groups = {zone_group(pool.name, zone) for pool in self._settings.pools for zone in pool.zones}
        return frozenset({system_group(self._settings.system_pool.name), *groups})

    def ground(self) -> None:
        """Keys, network and storage: what stands before there is a cluster."""
        settings, account = self._settings, self._account
        self._keys = Keys(
            "keys",
            KeysArgs(
                cluster_name=self._cluster,
                account_id=account.id,
                region=account.region,
                disposable=settings.storage.disposable,
                deployer=access.cluster_deployer(settings.environment, account, settings.access),
            ),
            self._options,
        )
        self._network = Network(
            "network",
            NetworkArgs(
                cluster_name=self._cluster,
                account_id=account.id,
                region=account.region,
                cidr=settings.network.cidr,
                zones=settings.network.zones,
                nat=settings.network.nat.value,
                nat_zone=self._plane_zones[0],
                endpoints=settings.network.endpoints,
                boundary=self._boundary,
                deployers=(*self._administrators, *access.everybody(settings.environment, account, settings.access)),
                flow_log_days=settings.network.flow_log_days,
                logs_key_arn=self._keys.logs_arn,
            ),
            self._options,
        )
        self._storage = Storage(
            "storage",
            StorageArgs(
                environment=settings.environment,
                account_id=account.id,
                region=account.region,
                key_arn=self._keys.data_arn,
                ledger_lock_days=settings.storage.ledger_lock_days,
                superseded_days=settings.storage.superseded_days,
                telemetry_days=settings.storage.telemetry_days,
                repositories=settings.storage.repositories,
                disposable=settings.storage.disposable,
            ),
            self._options,
        )

    def control_plane(self) -> None:
        plane = self._settings.control_plane
        self._plane = ControlPlane(
            "control-plane",
            ControlPlaneArgs(
                cluster_name=self._cluster,
                kubernetes_version=KUBERNETES,
                vpc_id=self._network.vpc_id,
                subnet_ids=[self._network.intra_subnet_ids[zone] for zone in self._plane_zones],
                public_cidrs=plane.public_cidrs,
                private_cidrs=plane.private_cidrs,
                private_security_groups=plane.private_security_groups,
                administrators=self._administrators,
                groups=self._groups,
                boundary=self._boundary,
                creator_is_administrator=plane.creator_is_administrator,
                deletion_protection=plane.deletion_protection,
                log_days=plane.log_days,
                support=plane.support.value,
                secrets_key_arn=self._keys.secrets_arn,
                logs_key_arn=self._keys.logs_arn,
            ),
            self._options,
        )

    def nodes(self) -> None:
        """What nodes need to join, the system nodes, what runs on them, then the pools: an upgrade reaches GPUs
        last.
        """
        settings, account = self._settings, self._account
        joining = self._addons("joining", BEFORE_NODES, [])
        role = NodeRole(
            "nodes",
            NodeRoleArgs(cluster_name=self._cluster, account_id=account.id, region=account.region, boundary=self._boundary),
            self._options,
        )
        can_join: list[pulumi.Resource] = [*joining.all, *role.ready, *self._network.ready]
        system = SystemNodes(
            settings.system_pool.name,
            SystemNodesArgs(
                pool=settings.system_pool,
                cluster_name=self._plane.name,
                kubernetes_version=KUBERNETES,
                role_arn=role.arn,
                subnet_ids=[self._network.private_subnet_ids[zone] for zone in sorted(settings.system_pool.zones)],
                volumes_key_arn=self._keys.volumes_arn,
                tags=self._tags,
                live=self._live.groups,
                after=can_join,
            ),
            self._options,
        )
        running = self._addons("running", ON_NODES, [system.group])
        after = [*can_join, *running.all]
        pools = [self._gpu_pool(pool, role, after) for pool in sorted(settings.pools, key=lambda pool: pool.name)]
        self._stands = [system.group, *running.all, *pools]

    def _gpu_pool(self, pool: Pool, role: NodeRole, after: list[pulumi.Resource]) -> GpuPool:
        return GpuPool(
            pool.name,
            GpuPoolArgs(
                pool=pool,
                cluster_name=self._plane.name,
                kubernetes_version=KUBERNETES,
                role_arn=role.arn,
                subnet_ids={zone: self._network.private_subnet_ids[zone] for zone in pool.zones},
                volumes_key_arn=self._keys.volumes_arn,
                tags=self._tags,
                live=self._live.groups,
                after=after,
                now=self._now,
            ),
            self._options,
        )

    def _addons(self, name: str, names: tuple[str, ...], after: list[pulumi.Resource]) -> Addons:
        identity = ClusterIdentity(
            name=self._cluster,
            waiting_name=self._plane.name,
            account_id=self._account.id,
            region=self._account.region,
            binding=self._settings.workload_identity,
            oidc_issuer=self._plane.oidc_issuer,
            oidc_provider_arn=self._plane.oidc_provider_arn,
            boundary=self._boundary,
        )
        args = AddonsArgs(identity=identity, names=names, volumes_key_arn=self._keys.volumes_arn, volume_tags=self._tags, after=after)
        return Addons(name, args, self._options)

    def hand_over(self) -> None:
        """What the platform, the tenants and `headway` need, without this stack's state."""
        storage, plane, region = self._storage, self._plane, self._account.region
        way = pulumi.Output.all(plane.endpoint, plane.authority).apply(lambda found: kubeconfig(self._cluster, region, *found))
        values = {
            ARTIFACT_BUCKET_OUTPUT: storage.artifacts.name,
            "data_key_arn": self._keys.data_arn,
            KUBECONFIG_OUTPUT: way,
            LEDGER_BUCKET_OUTPUT: storage.ledger.name,
            "oidc_issuer": plane.oidc_issuer,
            "oidc_provider_arn": plane.oidc_provider_arn,
            TELEMETRY_BUCKET_OUTPUT: storage.telemetry.name,
            "volumes_key_arn": self._keys.volumes_arn,
            "vpc_id": self._network.vpc_id,
        }
        args = HandoverArgs(environment=self._settings.environment, layer=CLUSTER, values=values, after=self._stands)
        Handover("handover", args, self._options)

    def _month(self) -> Estimate:
        settings = self._settings
        return cluster_month(
            BilledCluster(
                zones=len(settings.network.zones),
                nat=settings.network.nat.value,
                endpoints=settings.network.endpoints,
                support=settings.control_plane.support.value,
                system_pool=settings.system_pool,
                pools=settings.pools,
            )
        )

    def export(self) -> None:
        storage, plane = self._storage, self._plane
        for output, value in {
            "account_id": self._account.id,
            ARTIFACT_BUCKET_OUTPUT: storage.artifacts.name,
            "batch_queue_arn": storage.batch.arn,
            "batch_queue_url": storage.batch.url,
            "cluster_name": plane.name,
            "cost_a_month": self._month().said,
            "data_key_arn": self._keys.data_arn,
            LEDGER_BUCKET_OUTPUT: storage.ledger.name,
            "oidc_issuer": plane.oidc_issuer,
            "oidc_provider_arn": plane.oidc_provider_arn,
            "region": self._account.region,
            "repositories": storage.registry.urls,
            TELEMETRY_BUCKET_OUTPUT: storage.telemetry.name,
            "volumes_key_arn": self._keys.volumes_arn,
        }.items():
            pulumi.export(output, value)
