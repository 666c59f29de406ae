"""The sandbox's issuers of tokens: one key pair for each issuer that a contract names, made at first use. Owns the
keys' folder.

No real issuer can be reached, and none may be impersonated: these keys open nothing but this sandbox's gateway. A token
is a secret like any other; it is printed only by the command that is asked for one.
"""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from sandbox.cluster.certificates import write_private

_COORDINATE_BYTES = 32


class TokenIssuers:
    """Key pairs by issuer, as files in `folder` that only this user can read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keys(self, issuer: str) -> str:
        """The issuer's key set (RFC 7517), as its `jwks_uri` would answer it."""
        numbers = self._key(issuer).public_key().public_numbers()
        key = {
            "kty": "EC",
            "crv": "P-256",
            "alg": "ES256",
            "use": "sig",
            "kid": _name(issuer),
            "x": _encoded(numbers.x.to_bytes(_COORDINATE_BYTES)),
            "y": _encoded(numbers.y.to_bytes(_COORDINATE_BYTES)),
        }
        return json.dumps({"keys": [key]}, sort_keys=True)

    def token(self, issuer: str, audiences: Sequence[str], subject: str, *, now: float, seconds: float, claims: Mapping[str, Any]) -> str:
        """A signed token (RFC 7519) of `subject`, valid from now for `seconds`; negative ones make an expired token."""
        head = {"alg": "ES256", "kid": _name(issuer), "typ": "JWT"}
        body = {**claims, "iss": issuer, "aud": list(audiences), "sub": subject, "iat": int(now), "exp": int(now + seconds)}
        signed = f"{_encoded(json.dumps(head).encode())}.{_encoded(json.dumps(body).encode())}"
        r, s = decode_dss_signature(self._key(issuer).sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{signed}.{_encoded(r.to_bytes(_COORDINATE_BYTES) + s.to_bytes(_COORDINATE_BYTES))}"

    def _key(self, issuer: str) -> ec.EllipticCurvePrivateKey:
        path = self._folder / f"{_name(issuer)}.pem"
        if not path.exists():
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            made = ec.generate_private_key(ec.SECP256R1())
            form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
            write_private(path, made.private_bytes(*form))
        found = serialization.load_pem_private_key(path.read_bytes(), None)
        assert isinstance(found, ec.EllipticCurvePrivateKey), path  # noqa: S101  we wrote it
        return found


def _name(issuer: str) -> str:
    return hashlib.sha256(issuer.encode()).hexdigest()[:16]


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
