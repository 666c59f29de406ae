"""What the API server says of engines whose prompts are picked for. The only part of the picker that asks it."""

from urllib.parse import quote

from headway.endpoint_picker.pool_objects import QUERY, engines_of, shared
from headway.endpoint_picker.tracking import EngineFacts
from headway.environment.kubernetes import ApiClient, KubernetesApi
from headway.environment.port import OutOfReachError
from headway.problem import UserError

LARGEST_LIST = 64 << 20
PAGE = 100
PATH = f"/apis/discovery.k8s.io/v1/endpointslices?labelSelector={quote(QUERY, safe='')}"
CLIENT = ApiClient(
    name="headway-endpoint-picker",
    if_refused="Which engines there are is not known, so nothing new is picked.",
    remedy="Use an identity that may list EndpointSlices.",
)


class PickerCluster:
    """The cluster of a kubeconfig's path; of the pod itself for None. Raises UnusableKubeconfigError."""

    def __init__(self, path: str | None) -> None:
        self._api = KubernetesApi(path, client=CLIENT)
        self._api.connect()

    def engines(self) -> dict[str, EngineFacts]:
        """Every endpoint that may be picked. Raises OSError where the API server does not say so."""
        try:
            return shared(engines_of(self._api.each(PATH, page=PAGE, largest=LARGEST_LIST)))
        except (OutOfReachError, UserError) as failure:
            raise OSError(str(failure)) from None
