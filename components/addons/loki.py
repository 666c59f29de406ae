"""Loki: what containers print and what proxies write of each request, in the telemetry bucket.

One process type, three replicas. The trap: the chart refuses its own default of three readers, writers and backends
beside it, so those of the other mode are set to zero by name. And a label that grows with pods (their names, Loki's
own default) makes a stream of each pod: here those are kept beside the line, and can be asked for all the same.
"""

from typing import Any

import pulumi

from components.addons.placement import ON_SYSTEM_NODES, requests
from components.addons.prometheus import STORAGE_CLASS
from components.addons.service_account import Annotations, service_account
from components.permissions import Statement, lists

ONE_AT_A_TIME = {"maxUnavailable": 1}
"""What a drain may take. Without a number the chart makes no budget, whatever its `enabled` says (`loki.pdb` in its
templates/_pdb.tpl), and two of three away at once would be no quorum.
"""
GATEWAY_PORT = 8080
"""Where the gateway's pods listen, behind port 80 of its Service: the API server, asked for logs, connects to a pod."""
SERVICE_ACCOUNT = "loki"
PREFIX = "logs"
STREAM_LABELS = ("k8s.container.name", "k8s.namespace.name", "model", "release", "service.name", "tenant")
"""What distinguishes streams; Loki writes dots as underscores. All else is structured metadata."""
MAX_STREAMS = 5_000
"""Active ones. A hundred services, of which each runs two releases of five containers, have a thousand."""
INGESTION_MB, BURST_MB = 16, 32
"""A second, of all logs: ten times the access log of 2,000 requests a second."""
LINE_LIMIT = "64KB"

SCHEMA_FROM = "2026-01-01"
"""A day before the first deployment. Moving it makes older logs unreadable."""


def values(*, bucket: pulumi.Input[str], region: str, days: int, annotations: Annotations = None) -> dict[str, Any]:
    """Chart values. One tenant: who may read which logs is decided by Grafana's network, not here."""
    return {
        "deploymentMode": "Monolithic",
        "loki": _configuration(bucket, region, days),
        "singleBinary": {
            "replicas": 3,
            "nodeSelector": dict(ON_SYSTEM_NODES),
            "podDisruptionBudget": dict(ONE_AT_A_TIME),
            # The chart's own size, said because it is paid for.
            "persistence": {"size": "10Gi", "storageClass": STORAGE_CLASS},
            "resources": requests("250m", "1Gi"),
        },
        "backend": {"replicas": 0},
        "read": {"replicas": 0},
        "write": {"replicas": 0},
        # Its own line for each push of an agent would be the next push of the agent beside it.
        "gateway": {
            "containerPort": GATEWAY_PORT,
            "replicas": 2,
            "nodeSelector": dict(ON_SYSTEM_NODES),
            "resources": requests("50m", "64Mi"),
            "metrics": {"resources": requests("10m", "32Mi")},
            "podDisruptionBudget": dict(ONE_AT_A_TIME),
            "verboseLogging": False,
        },
        # A pod that is not ready has no address behind a Service, and one that finds nobody to join gives up in minutes (grafana/dskit,
        # `kv/memberlist/memberlist_client.go`): the first would wait for itself.
        "memberlist": {"service": {"publishNotReadyAddresses": True}},
        # Caches and canary are for installations many times this size.
        "chunksCache": {"enabled": False},
        "resultsCache": {"enabled": False},
        "lokiCanary": {"enabled": False},
        "test": {"enabled": False},
        # Would look for rules in every ConfigMap and Secret of the cluster, with the right to read them all.
        "sidecar": {"rules": {"enabled": False}},
        "monitoring": {"serviceMonitor": {"enabled": True}},
        "serviceAccount": service_account(SERVICE_ACCOUNT, annotations),
    }


def _configuration(bucket: pulumi.Input[str], region: str, days: int) -> dict[str, Any]:
    """Of Loki itself: limits, schema, and the bucket."""
    return {
        "auth_enabled": False,
        # Its default tells its maker about the installation.
        "analytics": {"reporting_enabled": False},
        "commonConfig": {"replication_factor": 3},
        "compactor": {"delete_request_store": "s3", "retention_enabled": True},
        "limits_config": {
            "retention_period": f"{days * 24}h",
            "ingestion_rate_mb": INGESTION_MB,
            "ingestion_burst_size_mb": BURST_MB,
            "max_global_streams_per_user": MAX_STREAMS,
            "max_line_size": LINE_LIMIT,
            "max_line_size_truncate": True,
            "otlp_config": {
                "resource_attributes": {
                    "ignore_defaults": True,
                    "attributes_config": [{"action": "index_label", "attributes": list(STREAM_LABELS)}],
                }
            },
        },
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
    }


def permissions(bucket_arn: str) -> tuple[Statement, ...]:
    """Its own prefix of the telemetry bucket."""
    return (
        lists(bucket_arn, PREFIX),
        Statement(sid="ReadWrite", actions=["s3:DeleteObject", "s3:GetObject", "s3:PutObject"], resources=[f"{bucket_arn}/{PREFIX}/*"]),
    )
