"""One connection to one Kubernetes API server: requests, server-side apply, and the kinds that it serves.

The official client gives configuration, credentials and the connection pool; requests go straight through its pool, because its own
layer costs more than the server does. The trap: importing it takes over a second, so that happens with the first request.
"""

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from pulumi_embedded.engine.provider import Properties, ProviderError
from pulumi_embedded.providers.kubernetes.clock import AwaitClock
from pulumi_embedded.providers.kubernetes.errors import ApiRefusal, ApiUnreachableError, UnknownKindError, refusal
from pulumi_embedded.providers.kubernetes.kinds import ObjectKind
from pulumi_embedded.providers.kubernetes.kubeconfig import Loader, loaded

CONNECT_SECONDS = 3.0
READ_SECONDS = 30.0
PATIENCE_SECONDS = 20.0
"""How long a request is repeated while nobody answers: an API server restarts in about 3 s, with a cold cache in 10 s."""

_POOL_SIZE = 32
_USER_AGENT = "pulumi-embedded/kubernetes-provider"
_APPLY = "application/apply-patch+yaml"
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 2.0
_LOOPBACK = ("127.", "localhost", "::1")


@dataclass(frozen=True, slots=True)
class ServedKind:
    """How the API server serves a kind."""

    plural: str
    namespaced: bool


def loopback_only(kubeconfig: Mapping[str, Any], context: str) -> None:
    """Refuse a kubeconfig whose cluster is not on this machine: the double never touches another one. Raises ProviderError."""
    chosen = context or str(kubeconfig.get("current-context", ""))
    contexts = {str(entry.get("name")): entry.get("context") or {} for entry in kubeconfig.get("contexts") or ()}
    clusters = {str(entry.get("name")): entry.get("cluster") or {} for entry in kubeconfig.get("clusters") or ()}
    if chosen not in contexts:
        known = ", ".join(sorted(contexts)) or "none"
        raise ProviderError(f"context: the kubeconfig has no context {chosen!r}, so no cluster can be reached; it has: {known}")
    server = str(clusters.get(str(contexts[chosen].get("cluster")), {}).get("server", ""))
    host = urlsplit(server).hostname or ""
    if not host.startswith(_LOOPBACK):
        raise ProviderError(
            f"kubeconfig: the cluster at {server or '(no server)'} is not on this machine, and the embedded provider changes only the "
            "local one; use a kubeconfig of a local cluster, or the real pulumi for a real cluster"
        )


class ClusterConnection:
    """A connection that any number of threads may use. `kubeconfig` is parsed already; an empty one is a cluster that was never started."""

    def __init__(
        self, kubeconfig: Mapping[str, Any], context: str, clock: AwaitClock, read_seconds: float = READ_SECONDS, load: Loader = loaded
    ) -> None:
        self._kubeconfig, self._context, self._clock, self._read_seconds = kubeconfig, context, clock, read_seconds
        self._load = load
        self._lock = threading.Lock()
        self._api: Any = None
        self._served: dict[tuple[str, str], dict[str, ServedKind]] = {}

    # -- objects ---------------------------------------------------------------------------------------------------------------

    def get(self, kind: ObjectKind, namespace: str, name: str, *, patience: float = PATIENCE_SECONDS) -> Properties | None:
        """The live object, or None. Raises UnknownKindError, UnreachableError, Refusal."""
        try:
            return self.request("GET", self._path(kind, namespace, name, patience), patience=patience)
        except ApiRefusal as error:
            if error.code == 404:
                return None
            raise

    def find(
        self, kind: ObjectKind, namespace: str = "", *, labels: str = "", fields: str = "", patience: float = PATIENCE_SECONDS
    ) -> Sequence[Properties]:
        """Objects of a namespace, or of all, by selector. Items carry no apiVersion and kind, as the API server has it."""
        query = {key: value for key, value in (("labelSelector", labels), ("fieldSelector", fields)) if value}
        return self.request("GET", self._path(kind, namespace, "", patience), query, patience=patience).get("items", [])

    def apply(
        self,
        kind: ObjectKind,
        manifest: Properties,
        manager: str,
        *,
        force: bool = False,
        dry_run: bool = False,
        patience: float = PATIENCE_SECONDS,
    ) -> Properties:
        """Server-side apply; the answer is the live object. An apply may be repeated without harm."""
        head = manifest["metadata"]
        query = {"fieldManager": manager, "fieldValidation": "Strict"}
        query |= {"force": "true"} if force else {}
        query |= {"dryRun": "All"} if dry_run else {}
        path = self._path(kind, head.get("namespace", ""), head["name"], patience)
        return self.request("PATCH", path, query, body=manifest, content_type=_APPLY, patience=patience)

    def delete(self, kind: ObjectKind, namespace: str, name: str, *, uid: str, propagation: str) -> bool:
        """Ask for deletion. False when the object is gone, or when one with another uid has its name by now."""
        body: Properties = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation.capitalize()}
        if uid:
            body["preconditions"] = {"uid": uid}
        try:
            self.request("DELETE", self._path(kind, namespace, name, PATIENCE_SECONDS), body=body)
        except ApiRefusal as error:
            if error.code == 404 or (error.code == 409 and "uid" in error.message.lower()):
                return False
            raise
        return True

    # -- kinds -----------------------------------------------------------------------------------------------------------------

    def served(self, kind: ObjectKind, *, patience: float = PATIENCE_SECONDS) -> ServedKind:
        """How the kind is served; asked once, and again for a kind that was not there. Raises UnknownKindError."""
        version = (kind.group, kind.version)
        found = self._served.get(version, {}).get(kind.kind)
        if found is None:
            self._served[version] = self._discover(kind, patience)
            found = self._served[version].get(kind.kind)
        if found is None:
            raise UnknownKindError(kind)
        return found

    def forget_kinds(self) -> None:
        """Definitions have changed: ask again."""
        self._served = {}

    def serves(self, group: str, version: str, *, patience: float = PATIENCE_SECONDS) -> bool:
        """Whether the version of the group answers; one whose server is away (503) does not."""
        try:
            self.request("GET", f"/apis/{group}/{version}", patience=patience)
        except ApiRefusal as error:
            if error.code in (404, 503):
                return False
            raise
        return True

    def _discover(self, kind: ObjectKind, patience: float) -> dict[str, ServedKind]:
        path = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
        try:
            resources = self.request("GET", path, patience=patience).get("resources", [])
        except ApiRefusal as error:
            if error.code == 404:
                return {}
            raise
        return {entry["kind"]: ServedKind(entry["name"], bool(entry["namespaced"])) for entry in resources if "/" not in entry["name"]}

    def _path(self, kind: ObjectKind, namespace: str, name: str, patience: float) -> str:
        served = self.served(kind, patience=patience)
        path = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
        if served.namespaced and (namespace or name):
            path += f"/namespaces/{quote(namespace or 'default', safe='')}"
        return f"{path}/{served.plural}" + (f"/{quote(name, safe='')}" if name else "")

    # -- requests --------------------------------------------------------------------------------------------------------------

    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        body: Properties | None = None,
        content_type: str = "application/json",
        patience: float = PATIENCE_SECONDS,
    ) -> Properties:
        """The answer's object. Repeats what fails in passing for `patience` seconds, then raises UnreachableError or Refusal."""
        api = self._connected()
        started, pause = self._clock.now(), _FIRST_PAUSE
        while True:
            left = patience - (self._clock.now() - started)
            try:
                return self._once(api, method, path, query or {}, body, content_type)
            except ApiUnreachableError:
                if left <= 0:
                    raise
            except ApiRefusal as error:
                if left <= 0 or not error.transient:
                    raise
                pause = max(pause, error.retry_after)
            self._clock.sleep(min(pause, max(left, 0.0)))
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _once(self, api: Any, method: str, path: str, query: Mapping[str, str], body: Properties | None, content_type: str) -> Properties:
        import urllib3

        headers = {"Accept": "application/json", "User-Agent": _USER_AGENT}
        if body is not None:
            headers["Content-Type"] = content_type
        api.update_params_for_auth(headers, [], ["BearerToken"])
        url = api.configuration.host + path + (f"?{urlencode(query)}" if query else "")
        try:
            answer = api.rest_client.pool_manager.request(
                method,
                url,
                body=json.dumps(body) if body is not None else None,
                headers=headers,
                timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=self._read_seconds),
                retries=False,
            )
        except urllib3.exceptions.HTTPError as error:
            raise ApiUnreachableError(f"{api.configuration.host}: {_in_short(error)}") from error
        try:
            parsed = json.loads(answer.data)
        except ValueError:
            parsed = answer.data.decode(errors="replace")
        if 200 <= answer.status < 300:
            return parsed
        raise refusal(answer.status, parsed, answer.headers.get("Retry-After"))

    def _connected(self) -> Any:
        if self._api is None:
            with self._lock:
                if self._api is None:
                    self._api = self._connect()
        return self._api

    def _connect(self) -> Any:
        if not self._kubeconfig:
            raise ApiUnreachableError("there is no kubeconfig yet")
        loopback_only(self._kubeconfig, self._context)
        import urllib3
        from kubernetes import client, config

        try:
            configuration = self._load(self._kubeconfig, self._context or None)
        except config.ConfigException as error:
            raise ProviderError(f"kubeconfig: {error}, so no cluster can be reached; correct the provider's kubeconfig") from error
        # A proxy of the environment never leads to this machine.
        configuration.proxy = None
        configuration.connection_pool_maxsize = _POOL_SIZE
        if not configuration.verify_ssl:
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        return client.ApiClient(configuration)

    def close(self) -> None:
        """Drop the pooled connections."""
        if self._api is not None:
            self._api.rest_client.pool_manager.clear()
            self._api.close()


def _in_short(error: Exception) -> str:
    said = str(error.__cause__ or error)
    return said.rpartition(": ")[2] or type(error).__name__
