"""Requests to a Kubernetes API server, by the official client's credentials and connections, with short timeouts and no retries.

Whoever asks decides what a missing answer means. Two traps: importing the client takes a second, so that happens with the first request; and
a server that has just been started refuses everybody until it has read the roles, so a refusal counts only from one that is ready.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlencode

from headway.environment.kubeconfig import connected
from headway.problem import Exit, UserError
from headway.release.driver.clocks import Apart
from headway.release.driver.world import OutOfReachError

MANAGER = "headway-release"
"""Field manager of what is written besides a route's weights, which are written in their owner's name."""
TIMEOUT_SECONDS = 5.0
_GONE = 404
_LATER = (409, 429)
_REFUSED = (401, 403)
_READY = "/readyz"
"""May be asked by whoever can connect, whatever roles say (`--authorization-always-allow-paths`)."""


class Api:
    """An API server. `kubeconfig`: its content, or the path of its file; None inside a pod. `clock`: this machine's, in Unix seconds."""

    def __init__(self, kubeconfig: Mapping[str, Any] | str | None, clock: Callable[[], float] = time.time) -> None:
        self._kubeconfig, self._clock = kubeconfig, clock
        self._client: Any = None

    def get(self, path: str) -> dict[str, Any] | None:
        """The object, or None. Raises OutOfReachError, UserError."""
        return self.request("GET", path)

    def items(self, path: str) -> list[dict[str, Any]]:
        """Objects of a list; none of a kind that the cluster does not know. Raises OutOfReachError, UserError."""
        return (self.get(path) or {}).get("items", [])

    def request(
        self, method: str, path: str, query: Mapping[str, str] | None = None, body: Any = None, content_type: str = "application/json"
    ) -> dict[str, Any] | None:
        """The answer; None for what is not there. Raises OutOfReachError, and UserError for what is not allowed."""
        status, content, _ = self._asked(method, path, query, body, content_type)
        if status in _REFUSED:
            if self._asked("GET", _READY)[0] != 200:
                raise OutOfReachError(f"HTTP {status} of a server that is not ready")
            status, content, _ = self._asked(method, path, query, body, content_type)
        if status >= 500 or status in _LATER:
            raise OutOfReachError(f"HTTP {status}")
        if status == _GONE:
            return None
        document: dict[str, Any] = json.loads(content)
        if status >= 400:
            raise UserError(
                f"The API server refuses {method} {path}: {document.get('message', f'HTTP {status}')}",
                "The release cannot be carried out with these rights; traffic stays where it is.",
                "Use an identity that may read the tenant's namespace and patch its VirtualServices.",
                Exit.REFUSED,
            )
        return document

    def apart(self) -> Apart:
        """How far this machine's clock is from the server's. Raises OutOfReachError."""
        asked = self._clock()
        told = self._asked("GET", _READY)[2]
        answered = self._clock()
        if told is None:
            raise OutOfReachError("it does not say what time it is")
        return Apart.read(asked, answered, parsedate_to_datetime(told).timestamp(), resolution=1.0)

    def now(self) -> datetime:
        """The time by the server's clock, as far as it can be told from here. Raises OutOfReachError."""
        return datetime.fromtimestamp(self._clock() - self.apart().certain, UTC)

    def _asked(
        self, method: str, path: str, query: Mapping[str, str] | None = None, body: Any = None, content_type: str = "application/json"
    ) -> tuple[int, bytes, str | None]:
        """Status, content and date of one answer. Raises OutOfReachError."""
        import urllib3

        api = self._connected()
        headers = {"Accept": "application/json", "Content-Type": content_type, "User-Agent": MANAGER}
        api.update_params_for_auth(headers, [], ["BearerToken"])
        url = api.configuration.host + path + (f"?{urlencode(query)}" if query else "")
        sent = json.dumps(body) if body is not None else None
        try:
            answer = api.rest_client.pool_manager.request(method, url, body=sent, headers=headers, timeout=TIMEOUT_SECONDS, retries=False)
        except urllib3.exceptions.HTTPError as failure:
            raise OutOfReachError(type(failure).__name__) from None
        return answer.status, answer.data, answer.headers.get("date")

    def executed(self, namespace: str, pod: str, container: str, command: Sequence[str], seconds: float) -> str:
        """Standard output of a command in a pod's container. Raises OutOfReachError."""
        from headway.environment.execution import executed

        return executed(self._connected().configuration, namespace, pod, container, command, seconds)

    def _connected(self) -> Any:
        if self._client is None:
            from kubernetes import config

            try:
                self._client = connected(self._kubeconfig)
            except (config.ConfigException, OSError):
                raise OutOfReachError("no usable kubeconfig") from None
        return self._client
