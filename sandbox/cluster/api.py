"""The few HTTPS calls that starting a control plane takes: is it ready, which version, apply our own manifests.

Nothing else uses it; programs that work with the cluster use the official client and the kubeconfig.
"""

import http.client
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.problem import UserError
from sandbox.cluster.certificates import Pair

_TIMEOUT_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class HttpAnswer:
    status: int
    body: bytes


@dataclass(frozen=True, kw_only=True)
class LoopbackEndpoint:
    """A server on 127.0.0.1. Without `authority` it is plain HTTP."""

    port: int
    authority: Path | None = None
    client: Pair | None = None

    def call(self, method: str, path: str, body: str | None = None, headers: Mapping[str, str] | None = None) -> HttpAnswer:
        """One request; OSError or http.client.HTTPException when there is no answer."""
        connection = self._connection()
        try:
            connection.request(method, path, body, dict(headers or {}))
            response = connection.getresponse()
            return HttpAnswer(status=response.status, body=response.read())
        finally:
            connection.close()

    def unready(self, path: str) -> str | None:
        """None when `path` answers 200, else what is missing: a readiness probe."""
        try:
            answer = self.call("GET", path)
        except ssl.SSLError as error:
            return f"no TLS yet ({error.reason or error})"
        except (OSError, http.client.HTTPException):
            return "waiting for it to listen"
        if answer.status == 200:
            return None
        failing = [line[3:].split()[0] for line in answer.body.decode(errors="replace").splitlines() if line.startswith("[-]")]
        more = f" and {len(failing) - 2} more" if len(failing) > 2 else ""
        return f"waiting for {', '.join(failing[:2]) or f'{path} ({answer.status})'}{more}"

    def _connection(self) -> http.client.HTTPConnection:
        if self.authority is None:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=_TIMEOUT_SECONDS)
        context = ssl.create_default_context(cafile=str(self.authority))
        if self.client:
            context.load_cert_chain(self.client.certificate, self.client.key)
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=_TIMEOUT_SECONDS, context=context)


def apply(api: LoopbackEndpoint, manifest: Mapping[str, Any], manager: str) -> None:
    """Server-side apply of an object whose plural is regular. UserError with the server's words when it refuses."""
    group, plural, name = manifest["apiVersion"], manifest["kind"].lower() + "s", manifest["metadata"]["name"]
    root = f"/apis/{group}" if "/" in group else f"/api/{group}"
    if namespace := manifest["metadata"].get("namespace"):
        root = f"{root}/namespaces/{namespace}"
    _ask(
        api,
        f"to store {manifest['kind']} {name}",
        "PATCH",
        f"{root}/{plural}/{name}?fieldManager={manager}&force=true",
        json.dumps(manifest),
        {"Content-Type": "application/apply-patch+yaml"},
    )


def release_nodes(api: LoopbackEndpoint) -> None:
    """Delete the leases of all nodes. UserError with the server's words when it refuses."""
    _ask(api, "to release the nodes", "DELETE", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases")


def version(api: LoopbackEndpoint) -> str:
    """The API server's version: `v1.36.2`. UserError when it does not say."""
    return json.loads(_ask(api, "to tell its version", "GET", "/version"))["gitVersion"]


def _ask(
    api: LoopbackEndpoint, what: str, method: str, path: str, body: str | None = None, headers: Mapping[str, str] | None = None
) -> bytes:
    try:
        answer = api.call(method, path, body, headers)
    except (OSError, http.client.HTTPException) as error:
        said = str(error) or type(error).__name__
    else:
        if answer.status in {200, 201}:
            return answer.body
        said = f"{answer.status}, {answer.body.decode(errors='replace').strip()}"
    raise UserError(
        f"The sandbox's API server failed {what}.",
        f"The control plane is not complete; the server answered: {said}",
        "Run the command again; if it fails again, `headway sandbox reset` starts from nothing.",
    )
