"""Tells a webhook of a release: its beginning, trouble, a person's wish, its end. As JSON with a line of text that chat tools show.

The trap: nobody's chat may hold up a release; a hook that does not answer is given up on quickly and said once.
"""

import json
import urllib.error
import urllib.request
from urllib.parse import urlsplit

from headway.errors import Exit, UserError
from headway.release import words
from headway.release.driver.kinds import Kind
from headway.release.driver.rollout import Service
from headway.release.ledger.events import Event

TOLD = frozenset({Kind.STARTED, Kind.REFUSED, Kind.FAILED, Kind.LATE, Kind.ASKED, Kind.SHIFTED, Kind.DRIFTED, Kind.ENDED})
TIMEOUT_SECONDS = 3.0


class Webhook:
    """One address. Raises UserError for one that is not HTTP."""

    def __init__(self, url: str, chain: str) -> None:
        if urlsplit(url).scheme not in ("http", "https"):
            raise UserError("--notify is no web address.", "Nobody would be told.", "Write https://...", Exit.USAGE)
        self._url, self._chain = url, chain
        self._given_up = False

    def tell(self, event: Event, service: Service) -> str | None:
        """Post what is worth it; a sentence when the hook did not take it, once."""
        if event.kind not in TOLD or self._given_up:
            return None
        rollout = service.rollout
        body = {
            "service": self._chain,
            "release": rollout.release if rollout else None,
            "status": rollout.status if rollout else None,
            "event": event.kind,
            "number": event.number,
            "time": event.time,
            "actor": event.actor,
            "text": f"{self._chain}: {words.said(event)}",
        }
        request = urllib.request.Request(  # noqa: S310  the scheme was checked
            self._url, json.dumps(body).encode(), {"Content-Type": "application/json", "User-Agent": "headway-release"}
        )
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS):  # noqa: S310
                return None
        except (urllib.error.URLError, OSError) as failure:
            self._given_up = True
            return f"The webhook did not take the message ({type(failure).__name__}); it is not tried again."
