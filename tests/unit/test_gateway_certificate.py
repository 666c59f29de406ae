"""The model gateway's certificate: names by tenant, validity and chain, judged from a file."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from headway.contract.gateway_names import certificate_names
from headway.gateway_certificate import certificate_problems
from headway.problem import Problem

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
WANTED = ("*.assist.models.example.com", "*.vision.models.example.com")


def named(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def certificate(
    names: Sequence[str], *, common: str = "gateway", issuer: str = "root", days: int = 90, begins: datetime = NOW - timedelta(days=1)
) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        x509.CertificateBuilder()
        .subject_name(named(common))
        .issuer_name(named(issuer))
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(begins)
        .not_valid_after(max(NOW + timedelta(days=days), begins + timedelta(days=1)))
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


ROOT = certificate([], common="root")


def found(pem: bytes, wanted: Sequence[str] = WANTED) -> list[tuple[str, bool]]:
    return [(each.rule, each.blocking) for each in certificate_problems(pem, wanted, NOW, "tls.crt")]


def only(pem: bytes) -> Problem:
    (problem,) = certificate_problems(pem, WANTED, NOW, "tls.crt")
    return problem


def test_each_tenant_and_host_needs_a_wildcard_of_its_own() -> None:
    assert certificate_names(["models.example.com", "m.example.net"], ["vision", "assist"]) == (
        "*.assist.m.example.net",
        "*.assist.models.example.com",
        "*.vision.m.example.net",
        "*.vision.models.example.com",
    )


def test_a_certificate_with_every_wildcard_and_its_chain_is_good() -> None:
    assert found(certificate(WANTED) + ROOT) == []


def test_names_are_compared_without_regard_to_case() -> None:
    assert found(certificate([name.upper() for name in WANTED]) + ROOT) == []


def test_a_wildcard_above_the_tenants_covers_no_model() -> None:
    problem = only(certificate(["*.models.example.com", "models.example.com"]) + ROOT)
    assert problem.rule == "certificate-covers-tenants"
    assert "*.assist.models.example.com, *.vision.models.example.com are not among its names" in problem.fact
    assert problem.file == "tls.crt"


def test_the_missing_tenant_is_named_and_the_covered_one_is_not() -> None:
    problem = only(certificate(["*.vision.models.example.com"]) + ROOT)
    assert problem.fact.startswith("*.assist.models.example.com is not among its names")


def test_the_common_name_is_no_name_that_clients_compare() -> None:
    assert ("certificate-covers-tenants", True) in found(certificate([], common=WANTED[1]) + ROOT, [WANTED[1]])


@pytest.mark.parametrize(
    ("days", "rule", "stops"),
    [(-1, "certificate-valid-now", True), (29, "certificate-valid-for-long", False)],
)
def test_an_expired_certificate_stops_and_an_expiring_one_warns(days: int, rule: str, stops: bool) -> None:
    assert found(certificate(WANTED, days=days, begins=NOW - timedelta(days=60)) + ROOT) == [(rule, stops)]


def test_a_certificate_with_thirty_days_left_is_not_warned_of() -> None:
    assert found(certificate(WANTED, days=30) + ROOT) == []


def test_a_certificate_of_tomorrow_is_not_valid_today() -> None:
    assert found(certificate(WANTED, begins=NOW + timedelta(days=1)) + ROOT) == [("certificate-valid-now", True)]


def test_a_certificate_without_its_issuers_is_warned_of() -> None:
    assert found(certificate(WANTED)) == [("certificate-has-its-chain", False)]


def test_a_chain_in_the_wrong_order_is_refused() -> None:
    stranger = certificate([], common="other", issuer="other")
    assert found(certificate(WANTED) + stranger) == [("certificate-chain-in-order", True)]


@pytest.mark.parametrize(
    ("pem", "fact"),
    [
        (b"", "there is no PEM certificate in it"),
        (b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "there is no PEM certificate in it"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "its PEM cannot be decoded"),
        (b"\xff\xfe", "there is no PEM certificate in it"),
    ],
)
def test_what_is_no_certificate_is_said_so(pem: bytes, fact: str) -> None:
    assert only(pem).fact == fact
