"""`docs/guide/day-two.md`, "Definitions, certificates, keys": the gateway's certificate is replaced in its secret, under an Envoy that serves.

The secret lies in a real API server. What istiod makes of it stands here: one secret of Envoy's, sent again when it changes
(istio/istio 1.30, pilot/pkg/xds/sds.go, `toEnvoyTLSSecret`; pilot/pkg/credentials/kube/secrets.go), as a file that Envoy watches.
"""

import base64
import http.client
import json
import ssl
import urllib.request
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from typer.testing import CliRunner

from components.platform import mesh
from headway.cli.main import app
from headway.contract.gateway_names import certificate_names
from headway.doctor import asking
from headway.doctor.platform_needs import PlatformNeeds, judge_certificate
from headway.environment.kubernetes import KubernetesApi
from headway.wire import GATEWAY_NAMESPACE
from tests import day_two_page
from tests.cluster.conftest import ControlPlane, eventually
from tests.cluster.conftest import running as planes
from tests.traffic.proxied import envoy, free_port

HOST, SECRET, TENANTS = "models.dev.example.com", "models-tls", ("hello",)
NAMES = certificate_names([HOST], TENANTS)
NEEDS = PlatformNeeds(image=None, mirror=None, certificate=SECRET, hosts=(HOST,))
TLS = "envoy.extensions.transport_sockets.tls.v3"


@dataclass(frozen=True)
class Pair:
    """A certificate for every tenant, and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def made(cls, days: int) -> "Pair":
        key, name, now = ec.generate_private_key(ec.SECP256R1()), _name("gateway"), datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=2))
            .not_valid_after(now + timedelta(days=days))
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(each) for each in NAMES]), critical=False)
        )
        return cls(builder.sign(key, hashes.SHA256()), key)

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    def secret(self, key: ec.EllipticCurvePrivateKey | None = None) -> dict[str, Any]:
        """As `kubectl create secret tls` makes it."""
        private = (key or self.key).private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
        data = {"tls.crt": base64.b64encode(self.pem).decode(), "tls.key": base64.b64encode(private).decode()}
        metadata = {"name": SECRET, "namespace": GATEWAY_NAMESPACE}
        return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "kubernetes.io/tls", "data": data}


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


@dataclass
class Gateway:
    """One Envoy with the TLS settings of our Gateway; `tell` sends it the secret as it is now."""

    plane: ControlPlane
    folder: Path
    port: int
    admin: int

    def put(self, secret: Mapping[str, Any]) -> None:
        """Replace the secret, whole, and have it sent."""
        self.plane.resource(dict(secret)).replace(body=secret, namespace=GATEWAY_NAMESPACE)
        self.tell()

    def tell(self) -> None:
        found = self.plane.get("Secret", SECRET, namespace=GATEWAY_NAMESPACE)
        chain, key = ({"inline_bytes": found["data"][name]} for name in ("tls.crt", "tls.key"))
        sent = {
            "@type": f"type.googleapis.com/{TLS}.Secret",
            "name": SECRET,
            "tls_certificate": {"certificate_chain": chain, "private_key": key},
        }
        new = self.folder / "sent"
        new.write_text(json.dumps({"version_info": found["metadata"]["resourceVersion"], "resources": [sent]}))
        new.rename(self.folder / "secret.json")

    def presented(self) -> bytes:
        """The certificate that a new connection is shown."""
        with closing(self.connected()) as connection:
            return shown_by(connection)

    def connected(self) -> http.client.HTTPSConnection:
        """An open connection that looks at no name and no issuer."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        found = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=10, context=context)
        found.connect()
        return found

    def counted(self, name: str) -> int:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/stats?filter={name}", timeout=10) as answer:
            return sum(int(line.rpartition(": ")[2]) for line in answer.read().decode().splitlines())


def shown_by(connection: http.client.HTTPSConnection) -> bytes:
    assert isinstance(connection.sock, ssl.SSLSocket)
    return connection.sock.getpeercert(binary_form=True) or b""


def der(pair: Pair) -> bytes:
    return pair.certificate.public_bytes(Encoding.DER)


def status(connection: http.client.HTTPSConnection) -> int:
    connection.request("GET", "/")
    answer = connection.getresponse()
    answer.read()
    return answer.status


def configuration(folder: Path, port: int, admin: int) -> dict[str, Any]:
    """A listener with the TLS settings of the platform's Gateway, as istiod writes them."""
    found = next(each.body for each in mesh.manifests(hosts=[HOST], certificate=SECRET, region="us-west-2") if each.kind == "Gateway")
    (tls,) = (server["tls"] for server in found["spec"]["servers"] if server["port"]["protocol"] == "HTTPS")
    assert (tls["mode"], tls["credentialName"]) == ("SIMPLE", SECRET)
    watched = {"path_config_source": {"path": str(folder / "secret.json"), "watched_directory": {"path": str(folder)}}}
    parameters = {"tls_minimum_protocol_version": tls["minProtocolVersion"].replace("TLSV", "TLSv")}
    common = {"tls_params": parameters, "tls_certificate_sds_secret_configs": [{"name": SECRET, "sds_config": watched}]}
    socket = {"@type": f"type.googleapis.com/{TLS}.DownstreamTlsContext", "common_tls_context": common}
    served = {"prefix": "/"}, {"status": 200, "body": {"inline_string": "served"}}
    manager = {
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "gateway",
        "route_config": {
            "virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [{"match": served[0], "direct_response": served[1]}]}]
        },
        "http_filters": [
            {"name": "router", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}
        ],
    }
    chain = {
        "transport_socket": {"name": "tls", "typed_config": socket},
        "filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}],
    }
    at = {"socket_address": {"address": "127.0.0.1", "port_value": port}}
    return {
        "node": {"id": "gateway", "cluster": "gateway"},
        "admin": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": admin}}},
        "static_resources": {"listeners": [{"name": "https", "address": at, "filter_chains": [chain]}]},
    }


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    for each in planes(tmp_path_factory.mktemp("plane")):
        each.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": GATEWAY_NAMESPACE}})
        yield each


@contextmanager
def serving(plane: ControlPlane, folder: Path, first: Pair) -> Generator[Gateway]:
    """A gateway that serves `first`, from the secret that a person has made."""
    plane.create(first.secret())
    gateway = Gateway(plane, folder, free_port(), free_port())
    gateway.tell()
    try:
        with envoy(folder, configuration(folder, gateway.port, gateway.admin), gateway.port):
            yield gateway
    finally:
        plane.resource(first.secret()).delete(name=SECRET, namespace=GATEWAY_NAMESPACE)


def doctor(plane: ControlPlane) -> list[str]:
    """The rules that `headway doctor` finds broken by the secret as it is."""
    pem = asking.certificate(NEEDS, lambda: KubernetesApi(str(plane.kubeconfig)))
    return [each.rule for each in judge_certificate(NEEDS, TENANTS, pem, datetime.now(UTC)).problems]


def test_new_connections_get_the_new_certificate_and_open_ones_go_on(plane: ControlPlane, tmp_path: Path) -> None:
    old, new = Pair.made(days=20), Pair.made(days=90)
    with serving(plane, tmp_path, old) as gateway, closing(gateway.connected()) as opened:
        assert (shown_by(opened), status(opened)) == (der(old), 200)
        assert doctor(plane) == ["certificate-valid-for-long"]
        gateway.put(new.secret())
        eventually(lambda: gateway.presented() == der(new), within=30)
        assert doctor(plane) == []
        assert (shown_by(opened), status(opened)) == (der(old), 200)


def test_a_key_that_is_anothers_is_not_taken_and_the_old_certificate_stays(plane: ControlPlane, tmp_path: Path) -> None:
    """kubectl refuses such a pair by itself (`kubectl create secret tls`); what else writes secrets may not."""
    old, new = Pair.made(days=90), Pair.made(days=120)
    with serving(plane, tmp_path, old) as gateway:
        gateway.put(new.secret(key=old.key))
        eventually(lambda: gateway.counted("sds.*update_rejected") > 0, within=30)
        assert gateway.presented() == der(old)
        gateway.put(new.secret())
        eventually(lambda: gateway.presented() == der(new), within=30)


def test_the_pages_command_judges_the_certificate_before_it_is_put_in_place(tmp_path: Path) -> None:
    (line,) = [each for each in day_two_page.sections()["Definitions, certificates, keys"] if each.startswith("headway certificate ")]
    for names_the_file, days, code in (("tls.crt", 90, 0), ("tls.crt", -1, 1)):
        (tmp_path / "tls.crt").write_bytes(Pair.made(days).pem)
        words = line.replace(names_the_file, str(tmp_path / "tls.crt")).split()[1:]
        assert CliRunner().invoke(app, words).exit_code == code
