"""A notification as Alertmanager sends it to a webhook: which service it is about, and since when (Alertmanager, "Webhook receiver"). Pure."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from headway.bounded_json import bounded_json
from headway.diagnosis.objects import seconds
from headway.problem import Exit, UserError

LARGEST_BYTES = 2**20
_VERIFIES = "verification"
"""Label of an alert that `headway verify` makes, of which nothing is wrong (`headway/verify/alerts.py`)."""
_TICKET = "ticket"


@dataclass(frozen=True, kw_only=True)
class FiringAlert:
    """Whose it is; empty where its labels name none. Labels are what the rule of a tenant may write: they are compared with names that are
    known, and go nowhere."""

    tenant: str = ""
    model: str = ""
    page: bool = True
    """Whether it wakes somebody, or is a ticket."""
    began: float = 0.0
    """In Unix seconds; 0 where it does not say."""


@dataclass(frozen=True, kw_only=True)
class AskedServices:
    """As `tenant/model`, sorted. `named`: alerts are about these; `suspected`: an alert may be, for it names no model."""

    named: tuple[str, ...]
    suspected: tuple[str, ...]


def read(body: bytes) -> tuple[tuple[FiringAlert, ...], tuple[FiringAlert, ...]]:
    """The alerts of a notification that fire, and those that have ended. Raises ValueError for what is no notification."""
    try:
        alerts = bounded_json(body, LARGEST_BYTES)["alerts"]
        return alerts_that_fire(alerts), _alerts(each for each in alerts if each["status"] == "resolved")
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"it is no notification of Alertmanager ({type(error).__name__})") from None


def alerts_that_fire(alerts: Iterable[Any]) -> tuple[FiringAlert, ...]:
    """Of alerts as a notification or Alertmanager's API has them: only the former says `firing`. Raises TypeError, LookupError or
    AttributeError for what are none."""
    return _alerts(each for each in alerts if each["status"] != "resolved")


def _alerts(alerts: Iterable[Any]) -> tuple[FiringAlert, ...]:
    found = list[FiringAlert]()
    for each in alerts:
        labels = each["labels"]
        if _VERIFIES not in labels:
            tenant, model = _text(labels.get("tenant") or labels.get("namespace")), _text(labels.get("model"))
            page, began = labels.get("severity") != _TICKET, seconds(each.get("startsAt")) or 0.0
            found.append(FiringAlert(tenant=tenant, model=model, page=page, began=began))
    return tuple(dict.fromkeys(found))


def asked(alerts: Iterable[FiringAlert], known: Collection[str]) -> AskedServices:
    """Which of the `known` services to ask. An alert of a service that is not known asks nobody; one of no model, every service of its tenant;
    one of no tenant that is known, such as a node's, every service."""
    tenants = {chain.partition("/")[0] for chain in known}
    about = {(each.tenant, each.model) for each in alerts}
    named = {chain for tenant, model in about if model and (chain := f"{tenant}/{model}") in known}
    suspected = set[str]()
    for tenant in {tenant for tenant, model in about if not model}:
        suspected |= {chain for chain in known if tenant not in tenants or chain.startswith(f"{tenant}/")}
    return AskedServices(named=tuple(sorted(named)), suspected=tuple(sorted(suspected - named)))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def service_of(body: bytes, file: str) -> tuple[str, datetime]:
    """The service (`tenant/model`) of the first alert that names one, and when that began. Raises UserError for what is no notification, or
    names none."""
    try:
        if len(body) > LARGEST_BYTES:
            raise ValueError(f"more than {LARGEST_BYTES} bytes")
        for each in bounded_json(body)["alerts"]:
            labels = each["labels"]
            tenant, model = labels.get("tenant") or labels.get("namespace"), labels.get("model")
            if tenant and model:
                return f"{tenant}/{model}", datetime.fromisoformat(str(each["startsAt"])).astimezone(UTC)
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
        raise UserError(
            f"{file} is no notification of Alertmanager: {error}.", "Nothing was read.", "Give the JSON that a webhook got.", Exit.USAGE
        ) from None
    raise UserError(
        f"No alert in {file} names a service.",
        "Nothing was read.",
        "Run the command without --alert: it looks at every service.",
        Exit.USAGE,
    )
