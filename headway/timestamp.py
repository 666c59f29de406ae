"""Times as programs write them for one another. Pure."""

from datetime import UTC, datetime


def rfc3339(time: datetime | float, to: str = "seconds") -> str:
    """In UTC, such as `2026-11-29T12:00:00Z`. `time`: with its zone, or in Unix seconds; `to`: as `datetime.isoformat` takes its `timespec`."""
    moment = time if isinstance(time, datetime) else datetime.fromtimestamp(time, UTC)
    return moment.astimezone(UTC).isoformat(timespec=to).replace("+00:00", "Z")
