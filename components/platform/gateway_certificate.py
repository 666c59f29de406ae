"""Who makes the gateway's certificate, and for which names: an Issuer and a Certificate of cert-manager. Pure.

Both are in the gateway's namespace, so that nobody elsewhere can order by this issuer, and the secret is where the
gateway looks for it. A certificate is renewed after two thirds of its time, with a new key.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from components.labels import labels
from components.manifests import Manifest, object_
from headway.wire import GATEWAY_NAMESPACE

ISSUER = "gateway"
ACCOUNT_SECRET = "gateway-acme-account"  # noqa: S105  the name of a secret


def acme(*, server: str, email: str, zone: str, region: str) -> dict[str, Any]:
    """An Issuer's spec: an ACME server that is shown records in a zone of Route 53, for it takes no other proof of a
    wildcard (RFC 8555, section 8.4; Let's Encrypt, "Challenge Types").
    """
    solver = {"dns01": {"route53": {"hostedZoneID": zone, "region": region}}}
    return {"acme": {"server": server, "email": email, "privateKeySecretRef": {"name": ACCOUNT_SECRET}, "solvers": [solver]}}


def authority(secret: str) -> dict[str, Any]:
    """An Issuer's spec: an authority of your own, whose certificate and key are in `secret`."""
    return {"ca": {"secretName": secret}}


def manifests(*, secret: str, names: Sequence[str], issuer: Mapping[str, Any]) -> tuple[Manifest, ...]:
    """The Issuer with spec `issuer`, and the Certificate for `names` in `secret`."""
    spec = {
        "secretName": secret,
        "dnsNames": sorted(names),
        "issuerRef": {"group": "cert-manager.io", "kind": "Issuer", "name": ISSUER},
        "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"},
        "usages": ["digital signature", "server auth"],
    }
    found = (
        ("Issuer", "issuer", ISSUER, dict(issuer), ()),
        ("Certificate", "certificate", secret, spec, ("issuer",)),
    )
    return tuple(
        Manifest(
            role=role,
            after=after,
            body=object_("cert-manager.io/v1", kind, name, namespace=GATEWAY_NAMESPACE, labels=labels("gateway"), spec=each),
        )
        for kind, role, name, each, after in found
    )
