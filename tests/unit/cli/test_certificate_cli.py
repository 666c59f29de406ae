"""`headway certificate`: names from an environment's stack files, a verdict on a file, exit codes."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from typer.testing import CliRunner, Result

from headway.cli.main import app
from headway.problem import Exit, UserError

PROJECT = Path(__file__).parents[3]
NAMES = ["*.assist.models.example.com", "*.vision.models.example.com"]


def asked(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["certificate", *arguments, "--project", str(PROJECT)])


def written(folder: Path, names: list[str]) -> str:
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "own")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=100))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(each) for each in names]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = folder / "tls.crt"
    path.write_bytes(made.public_bytes(Encoding.PEM))
    return str(path)


def test_the_names_are_those_of_the_environments_tenants() -> None:
    said = asked("names", "-e", "prod")
    assert (said.exit_code, said.output.split()) == (Exit.OK, NAMES)
    assert json.loads(asked("names", "-e", "prod", "-o", "json").output)["names"] == NAMES


def test_a_certificate_that_covers_all_tenants_passes(tmp_path: Path) -> None:
    said = asked("check", written(tmp_path, NAMES), "--environment", "prod")
    assert said.exit_code == Exit.OK
    assert "covers *.assist.models.example.com, *.vision.models.example.com until" in said.output


def test_a_certificate_that_misses_a_tenant_is_refused(tmp_path: Path) -> None:
    said = asked("check", written(tmp_path, NAMES[:1]), "-e", "prod", "-o", "json")
    assert said.exit_code == Exit.REFUSED
    assert [each["rule"] for each in json.loads(said.output)["problems"]] == ["certificate-covers-tenants"]


def test_an_environment_without_a_platform_is_wrong_use() -> None:
    error = asked("names", "-e", "moon").exception
    assert isinstance(error, UserError) and error.exit is Exit.USAGE
    assert "dev, prod, sandbox, staging" in error.remedy
