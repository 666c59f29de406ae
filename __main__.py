"""The Pulumi program: build the layer that this stack names."""

from stacks import settings
from stacks.settings import ClusterSettings, PlatformSettings

match settings.of_this_run():
    case ClusterSettings() as found:
        from stacks.cluster import build as build_cluster

        build_cluster(found)
    case PlatformSettings() as found:
        from stacks.platform import build as build_platform

        build_platform(found)
    case found:
        from stacks.tenant import build as build_tenant

        build_tenant(found)
