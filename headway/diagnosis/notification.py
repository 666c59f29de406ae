"""A notification as Alertmanager sends it to a webhook: which service it is about, and since when (Alertmanager, "Webhook receiver")."""

from datetime import UTC, datetime

from headway.bounded_json import bounded_json
from headway.problem import Exit, UserError

LARGEST_BYTES = 2**20


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
