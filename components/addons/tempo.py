"""Tempo: traces, in the telemetry bucket. A single process, for traces are kept for days and sampled.

The traps: without a volume, traces that were not yet written to the bucket are lost with the pod; and Helm merges
the receivers given here with the chart's, so its Jaeger ports stay open in the pod (a release cannot carry the nulls
that remove them). Nobody sends there, and the namespace's network policy lets no other namespace in.
"""

from typing import Any

import pulumi

from components.addons.placement import ON_SYSTEM_NODES, requests
from components.addons.prometheus import STORAGE_CLASS
from components.addons.service_account import Annotations, service_account
from components.permissions import Statement, lists

SERVICE_ACCOUNT = "tempo"
PREFIX = "traces"
OTLP_PORT = 4317


def values(*, bucket: pulumi.Input[str], region: str, days: int, annotations: Annotations = None) -> dict[str, Any]:
    """Chart values; the collector speaks OTLP to it."""
    return {
        "tempo": {
            "reportingEnabled": False,
            # The default counts as live memory: garbage would be collected at 2 GiB, twice of what it asks for.
            "memBallastSizeMbs": 0,
            "resources": requests("250m", "1Gi"),
            "retention": f"{days * 24}h",
            "receivers": {"otlp": {"protocols": {"grpc": {"endpoint": f"0.0.0.0:{OTLP_PORT}"}}}},
            "storage": {
                "trace": {
                    "backend": "s3",
                    "s3": {"bucket": bucket, "endpoint": f"s3.{region}.amazonaws.com", "region": region, "prefix": PREFIX},
                }
            },
        },
        # The chart's own size, said because it is paid for.
        "persistence": {"enabled": True, "size": "10Gi", "storageClassName": STORAGE_CLASS},
        "nodeSelector": dict(ON_SYSTEM_NODES),
        "serviceAccount": service_account(SERVICE_ACCOUNT, annotations),
        "serviceMonitor": {"enabled": True},
    }


def permissions(bucket_arn: str) -> tuple[Statement, ...]:
    """Its own prefix of the telemetry bucket."""
    return (
        lists(bucket_arn, PREFIX),
        Statement(
            sid="ReadWrite",
            actions=["s3:DeleteObject", "s3:GetObject", "s3:GetObjectTagging", "s3:PutObject", "s3:PutObjectTagging"],
            resources=[f"{bucket_arn}/{PREFIX}/*"],
        ),
    )
