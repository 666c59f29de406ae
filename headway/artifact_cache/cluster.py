"""What the API server says: which releases are on a pool, and whose token it is. The only part that speaks to Kubernetes.

Releases are listed once and then watched, for their ConfigMaps hold scripts and are large. The trap: a watch ends by itself now and then, and
what happened meanwhile is only seen by listing anew.
"""

from collections.abc import Callable, Mapping
from typing import Any

from headway.artifact_cache.callers import AUDIENCE
from headway.contract.labels import PART_OF, POOL
from headway.environment import kubeconfig

CONFIGURATIONS = f"app.kubernetes.io/component=configuration,app.kubernetes.io/part-of={PART_OF}"
WATCH_SECONDS = 300

Told = Callable[[Mapping[tuple[str, str], Mapping[str, Any]]], None]
"""Hears all configurations by namespace and name, whenever one has changed."""


class Cluster:
    """The cluster of a kubeconfig's path; of the pod itself for None."""

    def __init__(self, path: str | None) -> None:
        from kubernetes import client

        connection = kubeconfig.connected(path)
        self._core: Any = client.CoreV1Api(connection)
        self._tokens: Any = client.AuthenticationV1Api(connection)

    def follow(self, pool: str, told: Told) -> None:
        """Tell all configurations on a pool now and at every change, until the watch ends. Raises OSError when the API server does not answer."""
        from kubernetes.client.exceptions import ApiException
        from kubernetes.watch import Watch
        from urllib3.exceptions import HTTPError

        chosen = f"{CONFIGURATIONS},{POOL}={pool}"
        try:
            listed = self._core.list_config_map_for_all_namespaces(label_selector=chosen, _request_timeout=60)
            known = {(each.metadata.namespace, each.metadata.name): _plain(each) for each in listed.items}
            told(dict(known))
            stream: Any = Watch().stream(
                self._core.list_config_map_for_all_namespaces,
                label_selector=chosen,
                resource_version=listed.metadata.resource_version,
                timeout_seconds=WATCH_SECONDS,
                _request_timeout=WATCH_SECONDS + 60,
            )
            for event in stream:
                each = event["object"]
                name = (each.metadata.namespace, each.metadata.name)
                if event["type"] == "DELETED":
                    known.pop(name, None)
                else:
                    known[name] = _plain(each)
                told(dict(known))
        except (ApiException, HTTPError) as failure:
            raise OSError(f"the API server does not answer: {failure}") from failure

    def user_of(self, token: str) -> str | None:
        """The user that a token was issued to, for this audience; None for no valid token. Raises OSError."""
        from kubernetes import client
        from kubernetes.client.exceptions import ApiException
        from urllib3.exceptions import HTTPError

        review = client.V1TokenReview(spec=client.V1TokenReviewSpec(token=token, audiences=[AUDIENCE]))
        try:
            status = self._tokens.create_token_review(review, _request_timeout=5).status
        except (ApiException, HTTPError) as failure:
            raise OSError(f"the API server does not answer: {type(failure).__name__}") from None
        valid = status.authenticated and AUDIENCE in (status.audiences or ())
        return status.user.username if valid else None


def _plain(each: Any) -> Mapping[str, Any]:
    made = each.metadata.creation_timestamp
    metadata = {"namespace": each.metadata.namespace, "name": each.metadata.name, "creationTimestamp": made.isoformat() if made else ""}
    return {"metadata": metadata, "data": {key: text for key, text in (each.data or {}).items() if key == "fetch.json"}}
