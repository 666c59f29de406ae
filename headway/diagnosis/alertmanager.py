"""Alertmanager's API v2: what fires, which causes people know already, and new ones (`api/v2/openapi.yaml`: GET and POST `/alerts`)."""

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from headway import outgoing
from headway.bounded_json import bounded_json
from headway.diagnosis.episode import KnownCause
from headway.diagnosis.notification import FiringAlert, alerts_that_fire
from headway.wire import CAUSE_ALERT

SECONDS = 5.0
PAUSES = (1.0, 3.0)
"""Seconds before each try after the first."""
_LARGEST = 16 * 2**20
_Found = TypeVar("_Found")


class AlertmanagerError(Exception):
    """None of them takes or answers it."""


class Alertmanagers:
    """The replicas at `addresses`. Each is given every alert, as Prometheus does it; they tell one another what people were told."""

    def __init__(self, addresses: Callable[[], Sequence[str]], sleep: Callable[[float], None] = time.sleep) -> None:
        self._addresses, self._sleep = addresses, sleep

    def give(self, alerts: Sequence[Mapping[str, Any]]) -> None:
        """Raises AlertmanagerError where none took them, in about half a minute."""
        failure = "none is known"
        for pause in (*PAUSES, None):
            taken = 0
            for address in self._addresses():
                try:
                    self._asked(f"{address}/api/v2/alerts", json.dumps(alerts).encode())
                    taken += 1
                except OSError as error:
                    failure = _words(error)
            if taken:
                return
            if pause is not None:
                self._sleep(pause)
        raise AlertmanagerError(failure)

    def pages(self) -> tuple[FiringAlert, ...]:
        """What wakes somebody now, and is not silenced. Raises AlertmanagerError."""
        return self._read('severity="page"', alerts_that_fire, silenced=False)

    def firing(self) -> tuple[FiringAlert, ...]:
        """Every page and ticket, silenced or not. Raises AlertmanagerError."""
        return self._read('severity=~"page|ticket"', alerts_that_fire, silenced=True)

    def causes(self) -> dict[str, tuple[KnownCause, ...]]:
        """What people were told of each service, as long as it lasts, silenced or not. Raises AlertmanagerError."""

        def by_service(alerts: Sequence[Any]) -> dict[str, tuple[KnownCause, ...]]:
            found: dict[str, tuple[KnownCause, ...]] = {}
            for each in alerts:
                labels = each["labels"]
                if {"cause", "namespace", "model"} <= labels.keys():
                    chain = f"{labels['namespace']}/{labels['model']}"
                    kept = {name: each[name] for name in ("labels", "annotations", "startsAt") if name in each}
                    found[chain] = (*found.get(chain, ()), kept)
            return found

        return self._read(f'alertname="{CAUSE_ALERT}"', by_service, silenced=True)

    def _read(self, matcher: str, of: Callable[[Sequence[Any]], _Found], *, silenced: bool) -> _Found:
        shown = "true" if silenced else "false"
        query = urllib.parse.urlencode({"filter": matcher, "silenced": shown, "inhibited": shown})
        failure = "none is known"
        for address in self._addresses():
            try:
                return of(_list_of(bounded_json(self._asked(f"{address}/api/v2/alerts?{query}"), _LARGEST)))
            except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
                failure = _words(error)
        raise AlertmanagerError(failure)

    @staticmethod
    def _asked(url: str, body: bytes | None = None) -> bytes:
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})  # noqa: S310  its address is ours
        with outgoing.asked(request, SECONDS) as answer:
            return outgoing.body_of(answer, _LARGEST)


def _list_of(answer: Any) -> Sequence[Any]:
    """Raises ValueError for what is no list."""
    if not isinstance(answer, list):
        raise ValueError("it answers no list of alerts")
    return cast("list[Any]", answer)


def _words(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"status {error.code}: {outgoing.refusal_of(error)}"
    return str(error) or type(error).__name__
