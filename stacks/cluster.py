"""The cluster layer: network, keys, storage, control plane, add-ons, node pools."""

import pulumi
import pulumi_aws as aws

from components.cluster.addons import BEFORE_NODES, ON_NODES, Addons, AddonsArgs
from components.cluster.control_plane import ControlPlane, ControlPlaneArgs
from components.identity import ClusterIdentity
from components.keys import Keys, KeysArgs
from components.labels import tags
from components.naming import cluster_name
from components.network.network import Network, NetworkArgs
from components.nodes.gpu_pool import GpuPool, GpuPoolArgs
from components.nodes.role import NodeRole, NodeRoleArgs
from components.nodes.system_pool import SystemNodes, SystemNodesArgs
from components.storage.storage import Storage, StorageArgs
from components.versions import KUBERNETES
from stacks.settings import CLUSTER, ClusterSettings


def build(settings: ClusterSettings) -> None:
    """Register the layer and export what the other layers stand on."""
    account, plane = settings.account, settings.control_plane
    physical = cluster_name(settings.environment)
    default_tags = tags(settings.environment, CLUSTER)
    provider = aws.Provider(
        "aws",
        region=account.region,
        allowed_account_ids=[account.id],
        default_tags=aws.ProviderDefaultTagsArgs(tags=default_tags),
    )
    inside = pulumi.ResourceOptions(provider=provider)

    keys = Keys(
        "keys",
        KeysArgs(
            cluster_name=physical,
            account_id=account.id,
            region=account.region,
            disposable=settings.storage.disposable,
        ),
        inside,
    )
    network = Network(
        "network",
        NetworkArgs(
            cluster_name=physical,
            account_id=account.id,
            region=account.region,
            cidr=settings.network.cidr,
            zones=settings.network.zones,
            nat=settings.network.nat.value,
            endpoints=settings.network.endpoints,
            deployers=plane.administrators,
            flow_log_days=settings.network.flow_log_days,
            logs_key_arn=keys.logs_arn,
        ),
        inside,
    )
    storage = Storage(
        "storage",
        StorageArgs(
            environment=settings.environment,
            account_id=account.id,
            region=account.region,
            key_arn=keys.data_arn,
            ledger_lock_days=settings.storage.ledger_lock_days,
            superseded_days=settings.storage.superseded_days,
            telemetry_days=settings.storage.telemetry_days,
            repositories=settings.storage.repositories,
            disposable=settings.storage.disposable,
        ),
        inside,
    )
    control_plane = ControlPlane(
        "control-plane",
        ControlPlaneArgs(
            cluster_name=physical,
            kubernetes_version=KUBERNETES,
            vpc_id=network.vpc_id,
            subnet_ids=network.intra_subnet_ids,
            public_cidrs=plane.public_cidrs,
            administrators=plane.administrators,
            creator_is_administrator=plane.creator_is_administrator,
            deletion_protection=plane.deletion_protection,
            log_days=plane.log_days,
            support=plane.support.value,
            secrets_key_arn=keys.secrets_arn,
            logs_key_arn=keys.logs_arn,
        ),
        inside,
    )
    identity = ClusterIdentity(name=physical, waiting_name=control_plane.name, account_id=account.id, region=account.region)

    def addons(name: str, names: tuple[str, ...], after: list[pulumi.Resource]) -> Addons:
        args = AddonsArgs(identity=identity, names=names, volumes_key_arn=keys.volumes_arn, volume_tags=default_tags, after=after)
        return Addons(name, args, inside)

    joining = addons("joining", BEFORE_NODES, [])
    role = NodeRole("nodes", NodeRoleArgs(cluster_name=physical, account_id=account.id, region=account.region), inside)
    can_join: list[pulumi.Resource] = [*joining.all, *role.ready, *network.ready]
    system = SystemNodes(
        settings.system_pool.name,
        SystemNodesArgs(
            pool=settings.system_pool,
            cluster_name=control_plane.name,
            kubernetes_version=KUBERNETES,
            role_arn=role.arn,
            subnet_ids=[network.private_subnet_ids[zone] for zone in sorted(settings.system_pool.zones)],
            volumes_key_arn=keys.volumes_arn,
            tags=default_tags,
            after=can_join,
        ),
        inside,
    )
    running = addons("running", ON_NODES, [system.group])
    for pool in sorted(settings.pools, key=lambda pool: pool.name):
        GpuPool(
            pool.name,
            GpuPoolArgs(
                pool=pool,
                cluster_name=control_plane.name,
                kubernetes_version=KUBERNETES,
                role_arn=role.arn,
                subnet_ids={zone: network.private_subnet_ids[zone] for zone in pool.zones},
                volumes_key_arn=keys.volumes_arn,
                cluster_security_group_id=control_plane.security_group_id if pool.efa else None,
                tags=default_tags,
                # An upgrade reaches GPUs last: control plane, add-ons, system nodes, what runs on them, then the pools.
                after=[*can_join, *running.all],
            ),
            inside,
        )

    for output, value in {
        "account_id": account.id,
        "artifact_bucket": storage.artifacts.name,
        "batch_queue_arn": storage.batch.arn,
        "batch_queue_url": storage.batch.url,
        "cluster_name": control_plane.name,
        "data_key_arn": keys.data_arn,
        "kubeconfig": control_plane.kubeconfig,
        "ledger_bucket": storage.ledger.name,
        "oidc_issuer": control_plane.oidc_issuer,
        "oidc_provider_arn": control_plane.oidc_provider_arn,
        "region": account.region,
        "repositories": storage.registry.urls,
        "telemetry_bucket": storage.telemetry.name,
        "volumes_key_arn": keys.volumes_arn,
    }.items():
        pulumi.export(output, value)
