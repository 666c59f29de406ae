"""Times as programs write them for one another."""

from datetime import UTC, datetime, timedelta, timezone

from headway.timestamp import rfc3339

NOON = datetime(2026, 11, 29, 12, 0, 0, 250_000, tzinfo=UTC)


def test_a_time_is_written_in_utc_whatever_its_zone() -> None:
    assert rfc3339(NOON) == rfc3339(NOON.astimezone(timezone(timedelta(hours=5)))) == "2026-11-29T12:00:00Z"


def test_unix_seconds_are_written_like_the_time_that_they_are() -> None:
    assert rfc3339(NOON.timestamp(), "milliseconds") == rfc3339(NOON, "milliseconds") == "2026-11-29T12:00:00.250Z"
