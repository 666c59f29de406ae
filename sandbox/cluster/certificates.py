"""Keys and certificates of one sandbox: three authorities that do not trust each other, and who they vouch for.

`cluster` vouches for the API server and its clients, `etcd` for the datastore and its one client, `front-proxy` for the
API server towards extension API servers. Keys are made once, mode 0600, and never leave their folder. A file that
exists is complete: it is renamed into place, the key before its certificate.

Written with `cryptography` rather than trustme, whose authorities have neither a name nor dates of their own, whose
certificates always serve and are clients, and which has no bare key pair; Kubernetes tells its clients apart by these
fields.
"""

import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# A sandbox is not renewed, and a laptop's clock may be anywhere: the dates are no line of defence here, the file modes are.
_NOT_BEFORE = datetime(2020, 1, 1, tzinfo=UTC)
_NOT_AFTER = datetime(2049, 12, 31, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Paths of a certificate and its private key, both PEM."""

    certificate: Path
    key: Path


@dataclass(frozen=True, kw_only=True)
class Subject:
    """Whom a certificate names. For Kubernetes the common name is the user, the organizations are the groups."""

    common_name: str
    organizations: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    """Names and addresses under which it serves; empty for a certificate that only its client shows."""


def authority(folder: Path, name: str) -> Pair:
    """The authority called `name`, made if there is none."""
    pair = _pair(folder, name)
    if not pair.certificate.exists():
        key = _write_key(pair.key)
        subject = _name(Subject(common_name=f"headway-sandbox-{name}"))
        builder = _builder(subject, subject, key.public_key()).add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        usage = _usage(sign=True)
        write_private(pair.certificate, builder.add_extension(usage, critical=True).sign(key, hashes.SHA256()).public_bytes(_PEM))
    return pair


def issue(folder: Path, name: str, subject: Subject, issuer: Pair) -> Pair:
    """The certificate called `name` for `subject`, made if there is none. It serves and is a client, as far as it has
    hosts to serve."""
    pair = _pair(folder, name)
    if not pair.certificate.exists():
        issuer_key = serialization.load_pem_private_key(issuer.key.read_bytes(), None)
        if not isinstance(issuer_key, ec.EllipticCurvePrivateKey):
            raise TypeError(f"{issuer.key} holds no elliptic curve key")
        issuer_certificate = x509.load_pem_x509_certificate(issuer.certificate.read_bytes())
        key = _write_key(pair.key)
        purposes = [ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = _builder(_name(subject), issuer_certificate.subject, key.public_key())
        if subject.hosts:
            purposes.append(ExtendedKeyUsageOID.SERVER_AUTH)
            builder = builder.add_extension(x509.SubjectAlternativeName(_alternative_names(subject.hosts)), critical=False)
        certificate = (
            builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(sign=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
            .sign(issuer_key, hashes.SHA256())
        )
        write_private(pair.certificate, certificate.public_bytes(_PEM))
    return pair


def signing_key(folder: Path, name: str) -> Pair:
    """A bare key pair (no certificate, only the public key), for service account tokens."""
    pair = Pair(certificate=folder / f"{name}.pub", key=folder / f"{name}.key")
    if not pair.certificate.exists():
        key = _write_key(pair.key)
        write_private(pair.certificate, key.public_key().public_bytes(_PEM, serialization.PublicFormat.SubjectPublicKeyInfo))
    return pair


_PEM = serialization.Encoding.PEM


def _pair(folder: Path, name: str) -> Pair:
    return Pair(certificate=folder / f"{name}.crt", key=folder / f"{name}.key")


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(_NOT_BEFORE)
        .not_valid_after(_NOT_AFTER)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _name(subject: Subject) -> x509.Name:
    organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in subject.organizations]
    return x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, subject.common_name)])


def _alternative_names(hosts: Sequence[str]) -> list[x509.GeneralName]:
    def one(host: str) -> x509.GeneralName:
        try:
            return x509.IPAddress(ipaddress.ip_address(host))
        except ValueError:
            return x509.DNSName(host)

    return [one(host) for host in hosts]


def _usage(*, sign: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=sign,
        crl_sign=sign,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _write_key(path: Path) -> ec.EllipticCurvePrivateKey:
    key = ec.generate_private_key(ec.SECP256R1())
    write_private(path, key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    return key


def write_private(path: Path, data: bytes) -> None:
    """Write `path` whole or not at all, readable by its owner alone from the first byte on."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    new.replace(path)
