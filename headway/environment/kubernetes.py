"""The one way to a Kubernetes API server: by the official client's credentials and connections, as JSON, with short
timeouts and no retries.

Whoever asks decides what a missing answer means. Importing the client takes a second, so that happens with the first
request. A server that has just been started refuses everybody until it has read the roles, so a refusal counts only
from one that is ready.
"""

import json
import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from headway.environment.api_answer import LARGEST_EVENT, ApiAnswer, Object, event_of, page_of, within
from headway.environment.clock import ClockOffset
from headway.environment.port import OutOfReachError
from headway.problem import Exit, UserError
from headway.wire import RELEASE_FIELD_MANAGER

TIMEOUT_SECONDS = 5.0
PAGE = 500
"""Objects that a list gives at once, as kubectl asks for them; the rest by its `continue` (Kubernetes API concepts)."""
MOST_OBJECTS = 500_000
"""Of a list. Clusters have at most 150,000 pods (Kubernetes documentation, "Considerations for large clusters")."""
LARGEST_OUTPUT = 16 << 20
"""Characters of a command in a pod: a line for each question. The program that runs it is of the tenant's image."""
LARGEST_ANSWER = 256 << 20
"""Bytes. What tenants write is in lists, and an object has up to 1.5 MiB; whoever asks in little memory says less."""
JSON, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH = (
    "application/json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
NOT_FOUND, CONFLICT, EXPIRED = 404, 409, 410
_TRY_LATER = (CONFLICT, 429)
_REFUSED = (401, 403)
_READY = "/readyz"
"""May be asked by whoever can connect, whatever roles say (`--authorization-always-allow-paths`)."""
_LOADING = threading.Lock()


class UnusableKubeconfigError(OutOfReachError):
    """No server could be asked, because the kubeconfig names none that can be reached. `reason` never quotes the file."""

    def __init__(self, reason: str, said: str = "no usable kubeconfig") -> None:
        super().__init__(said)
        self.reason = reason


@dataclass(frozen=True, kw_only=True)
class ApiClient:
    """Who asks an API server: the name in its audit log, and what a refusal means to who reads of it."""

    name: str
    if_refused: str
    remedy: str


RELEASE_CLIENT = ApiClient(
    name=RELEASE_FIELD_MANAGER,
    if_refused="The release cannot be carried out with these rights; traffic stays where it is.",
    remedy="Use an identity that may read the tenant's namespace and patch its VirtualServices.",
)


class KubernetesApi:
    """An API server. `kubeconfig`: its content, or the path of its file; None inside a pod. `clock`: this machine's,
    in Unix seconds."""

    def __init__(
        self,
        kubeconfig: Mapping[str, Any] | str | None,
        clock: Callable[[], float] = time.time,
        *,
        client: ApiClient = RELEASE_CLIENT,
    ) -> None:
        self._kubeconfig, self._clock, self._who = kubeconfig, clock, client
        self._client: Any = None

    def connect(self) -> None:
        """Read the kubeconfig now, not with the first request. Raises UnusableKubeconfigError."""
        self._connected()

    @property
    def address(self) -> str:
        """Where the API server is. Raises UnusableKubeconfigError."""
        return str(self._connected().configuration.host)

    # -- objects ---------------------------------------------------------------------------------------------------------------

    def get(self, path: str) -> Object | None:
        """The object, or None. Raises OutOfReachError, UserError."""
        return self.request("GET", path)

    def items(self, path: str) -> list[Object]:
        """Objects of a list; none of a kind that the cluster does not know. Raises OutOfReachError, UserError."""
        return list(self.each(path))

    def each(self, path: str, *, page: int = PAGE, largest: int = LARGEST_ANSWER, until: float = math.inf) -> Iterator[Object]:
        """Objects of a list, `page` of them in memory at once, and a page of at most `largest` bytes. `until`, by
        `time.monotonic`, the last is there. Raises OutOfReachError, UserError."""
        after: str | None = None
        seen = 0
        while after != "":
            if seen > MOST_OBJECTS:
                raise OutOfReachError(f"a list of more than {MOST_OBJECTS} objects")
            left = until - time.monotonic()
            if left <= 0:
                raise OutOfReachError("the time for this list is over")
            query = {"limit": str(page), **({"continue": after} if after else {})}
            found = self.request("GET", path, query, seconds=min(left, TIMEOUT_SECONDS), largest=largest) or {}
            items, after = page_of(found)
            seen += max(page, len(items))
            yield from items

    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = JSON,
        seconds: float = TIMEOUT_SECONDS,
        largest: int = LARGEST_ANSWER,
    ) -> Object | None:
        """The answer; None for what is not there. Raises OutOfReachError, and UserError for what is not allowed."""
        answer = self.answer(method, path, query, body, content_type, seconds, largest)
        if answer.status in _REFUSED:
            if self.answer("GET", _READY).status != 200:
                raise OutOfReachError(f"HTTP {answer.status} of a server that is not ready")
            answer = self.answer(method, path, query, body, content_type, seconds, largest)
        if answer.status >= 500 or answer.status in _TRY_LATER or answer.status == EXPIRED:
            raise OutOfReachError(f"HTTP {answer.status}")
        if answer.status == NOT_FOUND:
            return None
        if not answer.ok:
            raise UserError(
                f"The API server refuses {method} {path}: {answer.message}", self._who.if_refused, self._who.remedy, Exit.REFUSED
            )
        return answer.document

    def answer(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = JSON,
        seconds: float = TIMEOUT_SECONDS,
        largest: int = LARGEST_ANSWER,
    ) -> ApiAnswer:
        """One answer, whatever its status. Raises OutOfReachError where there is none, or one of more than `largest`
        bytes."""
        response = self._sent(method, path, query, body, content_type, seconds)
        headers = response.headers
        content = within(response, largest, seconds)
        return ApiAnswer(status=response.status, content=content, date=headers.get("date"), kind=headers.get("content-type"))

    def watch(self, path: str, version: str, seconds: int, query: Mapping[str, str] | None = None) -> Iterator[tuple[str, Object]]:
        """Events since `version` (`ADDED`, `MODIFIED`, `DELETED` or `BOOKMARK`, and the object), until the server
        ends the watch, which it does after `seconds` at the latest. A version that it has forgotten ends it too:
        list anew. Raises OutOfReachError."""
        import urllib3

        parameters = {
            **(query or {}),
            "watch": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(seconds),
            "allowWatchBookmarks": "true",
        }
        response = self._sent("GET", path, parameters, None, JSON, seconds + 2 * TIMEOUT_SECONDS)
        rest = b""
        try:
            if response.status >= 400:
                if response.status == EXPIRED:
                    return
                raise OutOfReachError(ApiAnswer(status=response.status, content=within(response, LARGEST_EVENT, TIMEOUT_SECONDS)).message)
            for piece in response.stream(amt=None, decode_content=True):
                *lines, rest = (rest + piece).split(b"\n")
                if len(rest) > LARGEST_EVENT:
                    raise OutOfReachError(f"an event of more than {LARGEST_EVENT} bytes")
                for kind, found in map(event_of, filter(None, lines)):
                    if kind != "ERROR":
                        yield kind, found
                    elif found.get("code") == EXPIRED:
                        return
                    else:
                        raise OutOfReachError(str(found.get("message")))
        except urllib3.exceptions.HTTPError as failure:
            raise OutOfReachError(type(failure).__name__) from None
        finally:
            response.close()

    # -- pods ------------------------------------------------------------------------------------------------------------------

    def execute(self, namespace: str, pod: str, container: str, command: Sequence[str], seconds: float) -> str:
        """Standard output of a command in a pod's container. Raises OutOfReachError."""
        return execute(self._connected().configuration, namespace, pod, container, command, seconds)

    # -- time ------------------------------------------------------------------------------------------------------------------

    def clock_offset(self) -> ClockOffset:
        """How far this machine's clock is from the server's. Raises OutOfReachError."""
        sent = self._clock()
        told = self.answer("GET", _READY).date
        answered = self._clock()
        if told is None:
            raise OutOfReachError("it does not say what time it is")
        try:
            there = parsedate_to_datetime(told).timestamp()
        except (OverflowError, TypeError, ValueError):
            raise OutOfReachError("it says a time that is none") from None
        return ClockOffset.read(sent, answered, there, resolution=1.0)

    def now(self) -> datetime:
        """The time by the server's clock, as far as it can be told from here. Raises OutOfReachError."""
        return datetime.fromtimestamp(self._clock() - self.clock_offset().certain, UTC)

    # -- the connection --------------------------------------------------------------------------------------------------------

    def _sent(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: Any,
        content_type: str,
        seconds: float,
    ) -> Any:
        import urllib3

        api = self._connected()
        headers = {"Accept": "application/json", "Content-Type": content_type, "User-Agent": self._who.name}
        api.update_params_for_auth(headers, [], ["BearerToken"])
        url = api.configuration.host + path + (f"{'&' if '?' in path else '?'}{urlencode(query)}" if query else "")
        sent = json.dumps(body) if body is not None else None
        try:
            return api.rest_client.pool_manager.request(
                method, url, body=sent, headers=headers, timeout=seconds, retries=False, preload_content=False
            )
        except urllib3.exceptions.HTTPError as failure:
            raise OutOfReachError(type(failure).__name__) from None

    def _connected(self) -> Any:
        if self._client is None:
            from kubernetes import client, config

            if isinstance(self._kubeconfig, str) and os.pathsep not in self._kubeconfig and not Path(self._kubeconfig).exists():
                missing = f"there is no kubeconfig {self._kubeconfig}"
                raise UnusableKubeconfigError(missing, missing)
            try:
                self._client = client.ApiClient(settings(self._kubeconfig))
            except (config.ConfigException, OSError) as failure:
                raise UnusableKubeconfigError(str(failure)) from None
        return self._client


def settings(kubeconfig: Mapping[str, Any] | str | None, context: str | None = None) -> Any:
    """A client `Configuration` of a kubeconfig's content, or of the file at a path; None inside a pod.

    Raises the client's ConfigException for a kubeconfig that it cannot use.

    The client keeps certificates of a kubeconfig in temporary files that it finds again by a table without a lock, and
    enters a file there before it has written it: a second thread then trusts an empty file, and its TLS handshake
    fails. The table is the process's, so the lock is too: nobody else makes a client of a kubeconfig.
    """
    from kubernetes import client, config
    from yaml import YAMLError

    made: Any = client.Configuration()
    with _LOADING:
        try:
            if kubeconfig is None:
                config.load_incluster_config(client_configuration=made)
            elif isinstance(kubeconfig, str):
                config.load_kube_config(kubeconfig, context, made)
            else:
                config.load_kube_config_from_dict(dict(kubeconfig), context, made, persist_config=False)
        except (YAMLError, UnicodeDecodeError, AttributeError, KeyError, TypeError):
            # The client reads any file as if it were a kubeconfig, and what it meets there may be a secret.
            named = kubeconfig if isinstance(kubeconfig, str) else "what was given"
            raise config.ConfigException(f"{named} is no kubeconfig") from None
    return made


def quantity(text: str) -> Decimal:
    """A quantity as objects write it, such as `500m` or `4Gi`, as a number."""
    from kubernetes.utils.quantity import parse_quantity

    return parse_quantity(text)


def execute(configuration: Any, namespace: str, pod: str, container: str, command: Sequence[str], seconds: float) -> str:
    """Standard output of `command` in a container of a running pod: what `kubectl exec` does. Needs `create` on
    `pods/exec`.

    Raises OutOfReachError when the command failed or did not end within `seconds`, when nobody answered, or where exec
    is not allowed. The official client swaps its own request method while it opens such a stream, so every call gets a
    client of its own.
    """
    from kubernetes import client
    from kubernetes.stream import stream

    core: Any = client.CoreV1Api(client.ApiClient(configuration))
    asked = {"container": container, "command": list(command), "stderr": True, "stdin": False, "stdout": True, "tty": False}
    try:
        connection: Any = stream(core.connect_get_namespaced_pod_exec, pod, namespace, **asked, _preload_content=False)
    except (client.ApiException, AttributeError) as failure:
        # A refused stream has no body, which the client tries to decode (kubernetes 36): what happened is in the error before.
        refusal = failure if isinstance(failure, client.ApiException) else failure.__context__
        reason = str(getattr(refusal, "reason", refusal)).partition(" -+-+- ")[0]
        if "403" in reason:
            reason = f"this identity may not: it needs create and get on pods/exec in {namespace}"
        raise OutOfReachError(f"exec in {pod}: {reason}") from None
    try:
        said, complaint = _listened(connection, pod, seconds)
        if failed := connection.returncode:
            raise OutOfReachError(f"exec in {pod}: exit {failed}: {complaint.strip()}")
    finally:
        connection.close()
        connection.sock.shutdown()  # `close` leaves the socket open where the server has closed the stream first
    return said


def _listened(connection: Any, pod: str, seconds: float) -> tuple[str, str]:
    """All of the standard output of a stream, and the end of the other one, once it has ended. Raises OutOfReachError."""
    from kubernetes.stream.ws_client import STDERR_CHANNEL, STDOUT_CHANNEL

    until, said, complaint, length = time.monotonic() + seconds, list[str](), "", 0
    going = True
    while going:
        left = until - time.monotonic()
        if left <= 0:
            raise OutOfReachError(f"exec in {pod}: no end within {seconds:g} s")
        connection.update(timeout=left)
        going = connection.is_open()
        heard, beside = str(connection.read_channel(STDOUT_CHANNEL)), str(connection.read_channel(STDERR_CHANNEL))
        said.append(heard)
        complaint = (complaint + beside)[-200:]
        length += len(heard) + len(beside)
        if length > LARGEST_OUTPUT:
            raise OutOfReachError(f"exec in {pod}: more than {LARGEST_OUTPUT} characters were said")
    return "".join(said), complaint
