"""cert-manager: orders the gateway's certificate, proves that the names are ours, and renews it. Pure.

Only with `headway:gateway.authority`; without, whoever owns the certificate puts the secret there. The trap: an Issuer
of a namespace may not use the controller's own identity unless a flag says so
(cert-manager's documentation, "Route53").
"""

from collections.abc import Sequence
from typing import Any

from components.addons.placement import ON_SYSTEM_NODES, requests
from components.addons.service_account import Annotations, service_account
from components.permissions import Statement

NAMESPACE = "cert-manager"
SERVICE_ACCOUNT = "cert-manager"


def values(annotations: Annotations = None) -> dict[str, Any]:
    """Two of each part. Its definitions stay when the chart goes, or every Certificate would go with them."""
    part: dict[str, Any] = {
        "replicaCount": 2,
        "nodeSelector": dict(ON_SYSTEM_NODES),
        "podDisruptionBudget": {"enabled": True},
        "resources": requests("50m", "128Mi"),
    }
    return {
        **part,
        "cainjector": part,
        "crds": {"enabled": True, "keep": True},
        "extraArgs": ["--issuer-ambient-credentials"],
        "global": {"leaderElection": {"namespace": NAMESPACE}, "priorityClassName": "system-cluster-critical"},
        "prometheus": {"servicemonitor": {"enabled": True}},
        "serviceAccount": service_account(SERVICE_ACCOUNT, annotations),
        # A Job that ends the release only when the webhook answers; the first Certificate would else be refused.
        "startupapicheck": {"nodeSelector": dict(ON_SYSTEM_NODES), "resources": requests("10m", "32Mi")},
        "webhook": part,
    }


def permissions(zone: str, names: Sequence[str]) -> tuple[Statement, ...]:
    """Write the proofs for certificates of `names` into one zone of Route 53, and nothing else of it."""
    records = sorted({f"_acme-challenge.{name.removeprefix('*.')}" for name in names})
    return (
        Statement(
            sid="Prove",
            actions=["route53:ChangeResourceRecordSets"],
            resources=[f"arn:aws:route53:::hostedzone/{zone}"],
            conditions={
                "ForAllValues:StringEquals": {
                    "route53:ChangeResourceRecordSetsNormalizedRecordNames": records,
                    "route53:ChangeResourceRecordSetsRecordTypes": ["TXT"],
                }
            },
        ),
        Statement(sid="SeeProofs", actions=["route53:ListResourceRecordSets"], resources=[f"arn:aws:route53:::hostedzone/{zone}"]),
        Statement(sid="SeeChanges", actions=["route53:GetChange"], resources=["arn:aws:route53:::change/*"]),
    )
