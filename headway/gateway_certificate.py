"""Whether a certificate is good for the model gateway of an environment: what it covers, for how long, and with what
chain. Pure.

Clients compare DNS names among the subject's alternative names and nothing else (RFC 9525, section 6.3). The trap:
the secret in the gateway's namespace is made by nobody but you, unless an authority is set.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise

from cryptography import x509

from headway.problem import Problem, ProblemLevel
from headway.timestamp import rfc3339

RENEW_BEFORE = timedelta(days=30)
"""Less than this left is told: time to order, to receive and to roll out another one."""
_BEGIN = "-----BEGIN CERTIFICATE-----"


@dataclass(frozen=True, kw_only=True)
class GatewayCertificate:
    """The first certificate of a file, as far as clients look at it. Times are UTC."""

    names: tuple[str, ...]
    """DNS names among the alternative names of the subject, in lower case, sorted."""
    not_before: datetime
    not_after: datetime
    chain: int
    """How many certificates follow it in the file."""


def read(pem: bytes) -> tuple[x509.Certificate, ...]:
    """The certificates in `pem`, in their order; none where there is no valid one."""
    try:
        return tuple(x509.load_pem_x509_certificates(pem))
    except ValueError:
        return ()


def described(chain: Sequence[x509.Certificate]) -> GatewayCertificate:
    """What clients see of a `chain` that has at least one certificate."""
    leaf = chain[0]
    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(x509.DNSName)
    except x509.ExtensionNotFound:
        names = []
    return GatewayCertificate(
        names=tuple(sorted({name.lower() for name in names})),
        not_before=leaf.not_valid_before_utc,
        not_after=leaf.not_valid_after_utc,
        chain=len(chain) - 1,
    )


def certificate_problems(pem: bytes, wanted: Sequence[str], now: datetime, file: str = "") -> tuple[Problem, ...]:
    """All that is wrong with the certificate in `pem` for names `wanted` at `now` (aware). A warning does not stop."""
    chain = read(pem)
    if not chain:
        return (
            Problem(
                rule="certificate-readable",
                file=file,
                fact="there is no PEM certificate in it" if _BEGIN not in pem.decode(errors="replace") else "its PEM cannot be decoded",
                consequence="The gateway would answer no request by TLS",
                remedy="Give the certificate with its chain, as `tls.crt` of the secret holds it",
            ),
        )
    found = described(chain)
    return tuple(replace(each, file=file) for each in (*_names(found, wanted), *_validity(found, now), *_chain(chain)))


def _names(found: GatewayCertificate, wanted: Sequence[str]) -> Iterator[Problem]:
    missing = [name for name in wanted if name.lower() not in found.names]
    if missing:
        yield Problem(
            rule="certificate-covers-tenants",
            value=list(found.names),
            fact=f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not among its names; a wildcard covers one label only",
            consequence="Clients refuse the connection to every model of such a tenant",
            remedy="Order a certificate with these names as subject alternative names of type DNS: " + ", ".join(wanted),
        )


def _validity(found: GatewayCertificate, now: datetime) -> Iterator[Problem]:
    left = found.not_after - now
    if now < found.not_before:
        yield Problem(
            rule="certificate-valid-now",
            fact=f"it is valid only from {rfc3339(found.not_before)}",
            consequence="Clients refuse every connection until then",
            remedy="Use it from then on, or correct the clock of who issued it",
        )
    if left <= timedelta(0):
        yield Problem(
            rule="certificate-valid-now",
            fact=f"it expired at {rfc3339(found.not_after)}",
            consequence="Clients refuse every connection",
            remedy="Renew it and replace the secret; the gateway takes the new one without a restart",
        )
    elif left < RENEW_BEFORE:
        yield Problem(
            rule="certificate-valid-for-long",
            level=ProblemLevel.WARNING,
            fact=f"it expires at {rfc3339(found.not_after)}, in {left.days} days",
            consequence="From then on clients refuse every connection",
            remedy="Renew it now and replace the secret; the gateway takes the new one without a restart",
        )


def _chain(chain: Sequence[x509.Certificate]) -> Iterator[Problem]:
    for number, (one, next_one) in enumerate(pairwise(chain), 1):
        if one.issuer != next_one.subject:
            yield Problem(
                rule="certificate-chain-in-order",
                fact=f"certificate {number} was issued by {one.issuer.rfc4514_string()}, and {number + 1} is {next_one.subject.rfc4514_string()}",
                consequence="Clients that do not know the authority in between refuse the connection",
                remedy="Put the certificate first, and after each one that of its issuer",
            )
    if len(chain) == 1 and chain[0].issuer != chain[0].subject:
        yield Problem(
            rule="certificate-has-its-chain",
            level=ProblemLevel.WARNING,
            fact=f"the certificate of its issuer, {chain[0].issuer.rfc4514_string()}, is not in the file",
            consequence="Clients that do not know this issuer itself refuse the connection",
            remedy="Append the certificates between it and the root, unless its issuer is a root that all clients trust",
        )
