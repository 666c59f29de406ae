"""The Pulumi program: build the layer that this stack names."""

from datetime import UTC, datetime

import pulumi

from stacks import settings
from stacks.adoption import adopt
from stacks.settings import AccessLayerSettings, ClusterSettings, PlatformSettings

adopt(pulumi.get_stack())

match settings.of_this_run():
    case AccessLayerSettings() as found:
        from stacks.access import build as build_access

        build_access(found)
    case ClusterSettings() as found:
        from stacks.cluster import build as build_cluster

        build_cluster(found, datetime.now(UTC))
    case PlatformSettings() as found:
        from stacks.platform import build as build_platform

        build_platform(found)
    case found:
        from stacks.tenant import build as build_tenant

        build_tenant(found)
