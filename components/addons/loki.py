"""Loki: logs of everything, in the telemetry bucket.

One process type, three replicas. The trap: the chart refuses its own default of three readers, writers and backends beside it, so those of
the other mode are set to zero by name.
"""

from typing import Any

import pulumi

from components.addons.placement import ON_SYSTEM_NODES
from components.addons.prometheus import STORAGE_CLASS
from components.permissions import Statement

SERVICE_ACCOUNT = "loki"
PREFIX = "logs"
SCHEMA_FROM = "2026-01-01"
"""A day before the first deployment. Moving it makes older logs unreadable."""


def values(*, bucket: pulumi.Input[str], region: str, days: int) -> dict[str, Any]:
    """Chart values. One tenant: who may read which logs is decided by Grafana's network, not here."""
    return {
        "deploymentMode": "Monolithic",
        "loki": {
            "auth_enabled": False,
            "commonConfig": {"replication_factor": 3},
            "compactor": {"delete_request_store": "s3", "retention_enabled": True},
            "limits_config": {"retention_period": f"{days * 24}h"},
            "schemaConfig": {
                "configs": [
                    {
                        "from": SCHEMA_FROM,
                        "store": "tsdb",
                        "object_store": "s3",
                        "schema": "v13",
                        "index": {"prefix": f"{PREFIX}_index_", "period": "24h"},
                    }
                ]
            },
            "storage": {
                "type": "s3",
                "use_thanos_objstore": True,
                "bucketNames": {"chunks": bucket, "ruler": bucket},
                "object_store": {
                    "type": "s3",
                    "storage_prefix": PREFIX,
                    "s3": {"region": region, "endpoint": f"s3.{region}.amazonaws.com"},
                },
            },
        },
        "singleBinary": {
            "replicas": 3,
            "nodeSelector": dict(ON_SYSTEM_NODES),
            "persistence": {"storageClass": STORAGE_CLASS},
        },
        "backend": {"replicas": 0},
        "read": {"replicas": 0},
        "write": {"replicas": 0},
        "gateway": {"replicas": 2, "nodeSelector": dict(ON_SYSTEM_NODES)},
        # Caches and canary are for installations many times this size.
        "chunksCache": {"enabled": False},
        "resultsCache": {"enabled": False},
        "lokiCanary": {"enabled": False},
        "test": {"enabled": False},
        "monitoring": {"serviceMonitor": {"enabled": True}},
        "serviceAccount": {"name": SERVICE_ACCOUNT},
    }


def permissions(bucket_arn: str) -> tuple[Statement, ...]:
    """Its own prefix of the telemetry bucket."""
    return (
        Statement(
            sid="List", actions=["s3:ListBucket"], resources=[bucket_arn], conditions={"StringLike": {"s3:prefix": [PREFIX, f"{PREFIX}/*"]}}
        ),
        Statement(sid="ReadWrite", actions=["s3:DeleteObject", "s3:GetObject", "s3:PutObject"], resources=[f"{bucket_arn}/{PREFIX}/*"]),
    )
