"""Tells a webhook of a release: its beginning, trouble, a person's wish, its end. As JSON with a line of text that chat
tools show.

A thread of its own posts them in order, and tries each again. Nobody's chat may hold up a release; so the runner never
waits for a hook but at its own end, and then not for long. What is told holds names, figures and the reasons that
people gave, and never the address of the hook, which is a secret with most chat tools.
"""

import http.client
import json
import queue
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from time import sleep
from typing import Any
from urllib.parse import urlsplit

from headway.ledger.events import Event
from headway.outgoing import asked, is_private
from headway.problem import Exit, UserError
from headway.release import messages
from headway.release.driver.event_kinds import EventKind
from headway.release.driver.rollout_state import ServiceState
from headway.wire import RELEASE_FIELD_MANAGER

TOLD = frozenset(
    {
        EventKind.STARTED,
        EventKind.REFUSED,
        EventKind.FAILED,
        EventKind.LATE,
        EventKind.ASKED,
        EventKind.REGATED,
        EventKind.SHIFTED,
        EventKind.DRIFTED,
        EventKind.DUE,
        EventKind.ENDED,
    }
)
TIMEOUT_SECONDS = 3.0
PAUSES = (1.0, 4.0)
"""Seconds before the second and the third try of a message."""
LAST_SECONDS = 15.0
"""How long the end of a command waits for what is not posted yet."""


class Webhook:
    """One address. Raises UserError for one that is not HTTP."""

    def __init__(self, url: str, chain: str, pauses: tuple[float, ...] = PAUSES) -> None:
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            raise UserError("--notify is no web address.", "Nobody would be told.", "Write https://...", Exit.USAGE)
        if not is_private(url):
            raise UserError(
                "--notify is an http address.",
                "The address is a secret with most chat tools, and whoever is on the way would read it; nobody would be told.",
                "Write https://...",
                Exit.USAGE,
            )
        self._url, self._chain, self._pauses = url, chain, pauses
        self._waiting: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._thread: threading.Thread | None = None
        self._lost = 0
        self._why = ""

    def tell(self, event: Event, service: ServiceState) -> None:
        """Have it posted if it is worth it; returns at once."""
        if event.kind not in TOLD:
            return
        rollout = service.rollout
        self.post(
            {
                "release": rollout.release if rollout else None,
                "status": rollout.status if rollout else None,
                "event": event.kind,
                "number": event.number,
                "time": event.time,
                "actor": event.actor,
            },
            str(messages.said(event)),
        )

    def post(self, message: Mapping[str, Any], text: str) -> None:
        """Have a message posted with a line for people; returns at once."""
        self._waiting.put({"service": self._chain, **message, "text": f"{self._chain}: {text}"})
        if self._thread is None:
            self._thread = threading.Thread(target=self._post_all, daemon=True)
            self._thread.start()

    def close(self, seconds: float = LAST_SECONDS) -> str | None:
        """Wait for what is under way; a sentence when something was not taken."""
        if self._thread is None:
            return None
        self._waiting.put(None)
        self._thread.join(seconds)
        left = self._lost + sum(message is not None for message in self._waiting.queue) + self._thread.is_alive()
        return f"The webhook did not take {left} messages ({self._why or 'no answer in time'}); the ledger has them all." if left else None

    def _post_all(self) -> None:
        while (message := self._waiting.get()) is not None:
            failure = self._tried(json.dumps(message).encode())
            if failure:
                self._lost, self._why = self._lost + 1, failure

    def _tried(self, body: bytes) -> str | None:
        """Post; answers why not after the last try. What the hook itself refuses is not tried again."""
        for pause in (*self._pauses, None):
            try:
                self._post(body)
            except urllib.error.HTTPError as refusal:
                refusal.close()
                why = f"HTTP {refusal.code}"
                if refusal.code < 500 and refusal.code != 429:
                    return why
            except (OSError, ValueError, http.client.HTTPException) as failure:
                why = type(getattr(failure, "reason", failure)).__name__
            else:
                return None
            if pause is None:
                return why
            sleep(pause)
        return None

    def _post(self, body: bytes) -> None:
        headers = {"Content-Type": "application/json", "User-Agent": RELEASE_FIELD_MANAGER}
        request = urllib.request.Request(self._url, body, headers)  # noqa: S310  the scheme was checked
        with asked(request, TIMEOUT_SECONDS):
            return
