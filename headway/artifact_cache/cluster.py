"""What the API server says: which releases are on a pool, and whose token it is. The only part that speaks to
Kubernetes.

Releases are listed once and then watched, for their ConfigMaps hold scripts and are large. A watch ends by itself now
and then, and what happened meanwhile is only seen by listing anew.
"""

from collections.abc import Callable, Mapping
from typing import Any

from headway.environment.kubernetes import ApiClient, KubernetesApi
from headway.environment.port import OutOfReachError
from headway.wire import ARTIFACT_CACHE_AUDIENCE, FETCH_SETTINGS, PART_OF, POOL

CONFIGURATIONS = f"app.kubernetes.io/component=configuration,app.kubernetes.io/part-of={PART_OF}"
WATCH_SECONDS = 300
LIST_SECONDS = 60.0
PAGE, MOST_PAGES = 20, 5000
LARGEST_SETTINGS = 1 << 19
"""Characters; an artifact has at most 512 files of some 400, and a tenant may have many ConfigMaps of 1 MiB."""
CLIENT = ApiClient(
    name="headway-artifact-cache",
    if_refused="What is fetched beforehand is not known, or no caller can be told from another; pods fetch for themselves.",
    remedy="Deploy the platform layer, which gives the cache its rights.",
)
_CONFIG_MAPS = "/api/v1/configmaps"
_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"

ODD = (AttributeError, LookupError, TypeError)
"""What code of ours raises for an answer of another shape than the API's; the loop goes on."""

Told = Callable[[Mapping[tuple[str, str], Mapping[str, Any]]], None]
"""Hears all configurations by namespace and name, whenever one has changed."""


class ArtifactCluster:
    """The cluster of a kubeconfig's path; of the pod itself for None. Raises UnusableKubeconfigError."""

    def __init__(self, path: str | None) -> None:
        self._api = KubernetesApi(path, client=CLIENT)
        self._api.connect()

    def follow(self, pool: str, told: Told) -> None:
        """Tell all configurations on a pool now and at every change, until the watch ends. Raises OSError when the
        API server does not answer."""
        chosen = {"labelSelector": f"{CONFIGURATIONS},{POOL}={pool}"}
        try:
            known, version = self._listed(chosen)
            told(dict(known))
            for kind, each in self._api.watch(_CONFIG_MAPS, version, WATCH_SECONDS, chosen):
                if kind == "BOOKMARK":
                    continue
                if kind == "DELETED":
                    known.pop(_name(each), None)
                else:
                    known[_name(each)] = _plain(each)
                told(dict(known))
        except OutOfReachError as failure:
            raise OSError(f"the API server does not answer: {failure}") from failure
        except ODD as odd:
            raise OSError(f"the API server answers what it never says ({type(odd).__name__}: {odd})") from odd

    def _listed(self, chosen: Mapping[str, str]) -> "tuple[dict[tuple[str, str], Mapping[str, Any]], str]":
        """All configurations, and the version as of which; all pages of a list are of one version."""
        known: dict[tuple[str, str], Mapping[str, Any]] = {}
        after = ""
        for _ in range(MOST_PAGES):
            query = {**chosen, "limit": str(PAGE), **({"continue": after} if after else {})}
            answer = self._api.answer("GET", _CONFIG_MAPS, query, seconds=LIST_SECONDS)
            if not answer.ok:
                raise OutOfReachError(answer.message)
            listed = answer.document
            known |= {_name(each): _plain(each) for each in listed["items"]}
            after = listed["metadata"].get("continue") or ""
            if not after:
                return known, listed["metadata"]["resourceVersion"]
        raise OutOfReachError("a list without end")

    def user_of(self, token: str) -> str | None:
        """The user that a token was issued to, for this audience; None for no valid token. Raises OSError."""
        spec = {"token": token, "audiences": [ARTIFACT_CACHE_AUDIENCE]}
        try:
            answer = self._api.answer(
                "POST", _REVIEWS, body={"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
            )
            if not answer.ok:
                raise OutOfReachError(answer.message)
            status = answer.document.get("status", {})
            audiences = status.get("audiences") or []
            valid = status.get("authenticated") is True and isinstance(audiences, list) and ARTIFACT_CACHE_AUDIENCE in audiences
            return str(status["user"]["username"]) if valid else None
        except OutOfReachError as failure:
            raise OSError(f"the API server does not answer: {failure}") from None
        except ODD as odd:
            raise OSError(f"the API server answers what it never says ({type(odd).__name__}: {odd})") from None


def _name(each: Mapping[str, Any]) -> tuple[str, str]:
    return each["metadata"]["namespace"], each["metadata"]["name"]


def _plain(each: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is kept of a ConfigMap in memory."""
    metadata = {key: each["metadata"].get(key, "") for key in ("namespace", "name", "creationTimestamp")}
    said = (each.get("data") or {}).get(FETCH_SETTINGS, "")
    return {"metadata": metadata, "data": {FETCH_SETTINGS: said} if len(said) <= LARGEST_SETTINGS else {}}
