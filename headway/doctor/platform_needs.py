"""What the platform layer needs that no layer makes: an image of the loops, and secrets with addresses and keys in them.

Pure. Without them the apply succeeds, and then nobody is called at night and no release begins; so they are warnings, said
before the first apply. Secrets can exist only once their namespace does: before that, what will be needed is said.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headway.contract.gateway_names import certificate_names
from headway.contract.pool import Pool
from headway.contract.pool_parts import MigSharing
from headway.doctor.check import DoctorResult, Unanswered, judged, unknown, wrong
from headway.gateway_certificate import certificate_problems
from headway.problem import Problem, ProblemLevel
from headway.wire import GATEWAY_NAMESPACE, MONITORING_NAMESPACE

LOOPS, SECRETS, CERTIFICATE = "loops-image", "secrets", "certificate"
_OF_SAMPLES = re.compile(r"([0-9])\1{11}\.dkr\.ecr\.")
"""Registries of the accounts of the sample files."""
PLATFORM_RECEIVERS = ("heartbeat", "platform-oncall", "platform-tickets")
"""Of `components/observability/routes.py`; a test holds them to it."""


@dataclass(frozen=True, kw_only=True)
class PlatformNeeds:
    """What the platform's stack file says of images and certificates."""

    image: str | None
    mirror: str | None
    certificate: str | None
    """The secret of the gateway's certificate."""
    hosts: tuple[str, ...] = ()
    issued: bool = False
    """Whether cert-manager makes that secret."""
    authority: str | None = None
    """The secret of an authority of one's own, with which it does."""

    @classmethod
    def read(cls, config: dict[str, Any]) -> "PlatformNeeds":
        """Of the section `config` of the stack file."""

        def at(section: str, key: str) -> str | None:
            found = (config.get(f"headway:{section}") or {}).get(key)
            return str(found) if found else None

        gateway = config.get("headway:gateway") or {}
        issuing = gateway.get("authority") or {}
        return cls(
            image=at("loops", "image"),
            mirror=at("registry", "mirror"),
            certificate=at("gateway", "certificate"),
            hosts=tuple(map(str, gateway.get("hosts") or ())),
            issued=bool(issuing),
            authority=issuing.get("secret"),
        )


@dataclass(frozen=True, kw_only=True, order=True)
class NeededSecret:
    """A secret that a person makes, and who misses it."""

    namespace: str
    name: str
    keys: tuple[str, ...]
    without: str


def judge_loops(needs: PlatformNeeds, pools: Sequence[Pool]) -> DoctorResult:
    """Whether an image of the loops is named, and one of one's own. `pools`: those of the environment."""
    if needs.image and not _OF_SAMPLES.match(needs.image):
        return judged(LOOPS, f"The loops run from {needs.image}.")
    cut = any(isinstance(pool.sharing, MigSharing) for pool in pools)
    return wrong(
        Problem(
            rule=LOOPS,
            path=("loops", "image"),
            fact=f"headway:loops names {'the image of the sample files' if needs.image else 'no image'} in the platform's stack file",
            consequence="No loop watches nodes, and `headway release start` finds no guard and refuses"
            + ("; no node that MIG cuts is ever admitted" if cut else ""),
            remedy="Make and name one: `headway loops push --environment NAME --base python:3.12-slim@sha256:<digest> --write`",
            level=ProblemLevel.WARNING,
        )
    )


def secrets(needs: PlatformNeeds, receivers: Sequence[tuple[str, str]]) -> tuple[NeededSecret, ...]:
    """Every secret that the environment needs. `receivers`: (tenant, receiver) as the models' contracts name them."""
    platform = [(MONITORING_NAMESPACE, name) for name in PLATFORM_RECEIVERS]
    found = {
        NeededSecret(namespace=namespace, name=f"alerts-{name}", keys=("url",), without=f"No alert reaches {name}, and nothing says so")
        for namespace, name in (*platform, *receivers)
    }
    given = needs.authority if needs.issued else needs.certificate
    if needs.certificate and given:
        missing = "The gateway takes no connection on port 443"
        found.add(NeededSecret(namespace=GATEWAY_NAMESPACE, name=given, keys=("tls.crt", "tls.key"), without=missing))
    return tuple(sorted(found))


def judge_secrets(needed: Sequence[NeededSecret], there: dict[tuple[str, str], frozenset[str]] | Unanswered) -> DoctorResult:
    """Whether each exists with its keys. `there`: the keys of secrets that exist, by namespace and name."""
    known = {} if isinstance(there, Unanswered) else there
    problems = [
        Problem(
            rule=SECRETS,
            subject=f"secret {secret.namespace}/{secret.name}",
            fact=_fact(secret, there),
            consequence=secret.without,
            remedy=_remedy(secret),
            level=ProblemLevel.WARNING,
        )
        for secret in needed
        if not set(secret.keys) <= known.get((secret.namespace, secret.name), frozenset())
    ]
    return judged(SECRETS, f"All {len(needed)} secrets that people make are there.", problems)


def judge_certificate(needs: PlatformNeeds, tenants: Sequence[str], pem: bytes | Unanswered | None, now: datetime) -> DoctorResult:
    """Whether the gateway's certificate is in time and holds a name for every tenant's models. `pem`: None where its
    secret is not there, which the check of secrets says."""
    if needs.certificate is None:
        return judged(CERTIFICATE, "The gateway serves plain HTTP, inside the network only: no certificate is named.")
    if pem is None:
        return unknown(CERTIFICATE, Unanswered(f"there is no secret {GATEWAY_NAMESPACE}/{needs.certificate} yet"))
    if isinstance(pem, Unanswered):
        return unknown(CERTIFICATE, pem)
    names = certificate_names(needs.hosts, tenants)
    problems = certificate_problems(pem, names, now, f"{GATEWAY_NAMESPACE}/{needs.certificate}")
    return judged(CERTIFICATE, f"The gateway's certificate is in time and holds {', '.join(names)}.", problems)


def _fact(secret: NeededSecret, there: dict[tuple[str, str], frozenset[str]] | Unanswered) -> str:
    whole = f"{secret.namespace}/{secret.name}"
    if isinstance(there, Unanswered):
        return f"Secret {whole} will be needed, and could not be looked for ({there.why})"
    found = there.get((secret.namespace, secret.name))
    if found is None:
        return f"There is no secret {whole}"
    return f"Secret {whole} has no {', '.join(sorted(set(secret.keys) - found))}"


def _remedy(secret: NeededSecret) -> str:
    if "url" in secret.keys:
        return f"Once its namespace is there: `kubectl -n {secret.namespace} create secret generic {secret.name} --from-literal=url=https://...`"
    return f"Once its namespace is there: `kubectl -n {secret.namespace} create secret tls {secret.name} --cert=FILE --key=FILE`"
