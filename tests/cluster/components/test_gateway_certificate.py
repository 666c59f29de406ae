"""cert-manager itself, with the platform's objects: the gateway's certificate is issued for every tenant, and renewed.

Runs where the controllers have been built (`make servers`, minutes of CPU once). Without ACME, for which it
would need a server and a zone: the authority is one of our own.
"""

import base64
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from components.platform import gateway_certificate
from headway.contract.gateway_names import certificate_names
from headway.gateway_certificate import certificate_problems, described, read
from headway.wire import GATEWAY_NAMESPACE
from sandbox.cluster.toolchain import ensure_toolchain
from sandbox.layout import Layout
from sandbox.progress import Silent
from tests.cluster.conftest import PROJECT, ControlPlane, eventually
from tests.cluster.definitions import define

LAYOUT = Layout.of(PROJECT)
NAMES = certificate_names(["models.example.com"], ["assist", "vision"])

pytestmark = pytest.mark.needs("cert-manager")


def authority() -> dict[str, Any]:
    """A secret with the certificate and key of an authority that is valid for a day."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "models root")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = {
        "tls.crt": made.public_bytes(Encoding.PEM),
        "tls.key": key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    }
    data = {file: base64.b64encode(content).decode() for file, content in files.items()}
    metadata = {"name": "models-ca", "namespace": GATEWAY_NAMESPACE}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "kubernetes.io/tls", "data": data}


@pytest.fixture(scope="module")
def manager(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane with cert-manager's definitions and its controllers."""
    toolchain = ensure_toolchain(LAYOUT, Silent(), ("cert-manager",))
    define(control_plane, "cert-manager")
    control_plane.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": GATEWAY_NAMESPACE}}, authority())
    log = tmp_path_factory.mktemp("cert-manager") / "log"
    program: Path = toolchain.binary("cert-manager")
    with log.open("w") as said, subprocess.Popen([program, "--kubeconfig", str(control_plane.kubeconfig)], stderr=said) as process:
        try:
            yield control_plane
            assert process.poll() is None, log.read_text()
        finally:
            process.terminate()


def order(plane: ControlPlane, secret: str, **changed: str) -> None:
    """What the platform registers, with `changed` fields of the Certificate."""
    issuer = gateway_certificate.authority("models-ca")
    for each in gateway_certificate.manifests(secret=secret, names=NAMES, issuer=issuer):
        body = {**each.body, "spec": {**each.body["spec"], **(changed if each.kind == "Certificate" else {})}}
        plane.resource(body).server_side_apply(body=body, namespace=GATEWAY_NAMESPACE, field_manager="test", force_conflicts=True)


def issued(plane: ControlPlane, secret: str) -> bytes:
    """The certificate in the secret; empty while there is none."""
    for each in plane.list("Secret", namespace=GATEWAY_NAMESPACE):
        if each["metadata"]["name"] == secret:
            return base64.b64decode((each.get("data") or {}).get("tls.crt", ""))
    return b""


def test_the_certificate_in_the_gateways_secret_covers_every_tenant(manager: ControlPlane) -> None:
    order(manager, "models-tls")
    pem = eventually(lambda: issued(manager, "models-tls"), within=60)
    assert described(read(pem)).names == NAMES
    # The authority of this test lives for a day, and so does what it signs.
    assert [each.rule for each in certificate_problems(pem, NAMES, datetime.now(UTC)) if each.blocking] == []


def test_a_certificate_is_renewed_with_a_new_key_before_it_expires(manager: ControlPlane) -> None:
    order(manager, "short-tls", duration="1h", renewBefore="59m45s")
    first = read(eventually(lambda: issued(manager, "short-tls"), within=60))[0]

    def renewed() -> bool:
        return read(issued(manager, "short-tls"))[0].serial_number != first.serial_number

    assert eventually(renewed, within=90)
    second = read(issued(manager, "short-tls"))[0]
    assert second.public_key() != first.public_key()
    assert datetime.now(UTC) < first.not_valid_after_utc
