"""What the API server says of a service's pools and their pods. The only part of the picker that asks it."""

from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from headway.endpoint_picker.pool_objects import GROUP, KINDS, MOST_ENGINES, VERSION, engines_of, pools_of
from headway.endpoint_picker.tracking import EngineFacts
from headway.environment.kubernetes import ApiClient, KubernetesApi
from headway.environment.port import OutOfReachError
from headway.problem import UserError

LARGEST_LIST = 64 << 20
PAGE = 100
CLIENT = ApiClient(
    name="headway-endpoint-picker",
    if_refused="Which engines there are is not known, so nothing new is picked.",
    remedy="Deploy the tenant's stack, which gives the picker its rights.",
)


class PickerCluster:
    """The cluster of a kubeconfig's path; of the pod itself for None. Raises UnusableKubeconfigError."""

    def __init__(self, path: str | None, namespace: str, picker: str) -> None:
        self._api = KubernetesApi(path, client=CLIENT)
        self._api.connect()
        self._namespace, self._picker = namespace, picker

    def engines(self) -> dict[str, EngineFacts]:
        """Every endpoint that may be picked. Raises OSError where the API server does not say so."""
        found: dict[str, EngineFacts] = {}
        try:
            for pool in pools_of(self._listed(f"/apis/{GROUP}/{VERSION}/namespaces/{self._namespace}/{KINDS}"), self._picker):
                pods = self._listed(f"/api/v1/namespaces/{self._namespace}/pods?labelSelector={quote(pool.query, safe='')}")
                for address, facts in engines_of(pool, pods):
                    if len(found) < MOST_ENGINES:
                        found.setdefault(address, facts)
        except (OutOfReachError, UserError) as failure:
            raise OSError(str(failure)) from None
        return found

    def _listed(self, path: str) -> Iterable[Any]:
        return self._api.each(path, page=PAGE, largest=LARGEST_LIST)
