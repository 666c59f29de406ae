"""An environment of production as a loop of Headway's own sees it from inside the cluster: what layers hand over is given, and the API
server is asked as the pod's own service account. It reads no stack and no checkout."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.environment.production import Production

if TYPE_CHECKING:
    from headway.environment.kubernetes import KubernetesApi


class InCluster(Production):
    """`outputs`: what each layer hands over, by its name."""

    def __init__(self, name: str, region: str, outputs: Mapping[str, Mapping[str, Any]]) -> None:
        super().__init__(name, Path())
        self._region, self._given = region, outputs  # pyright: ignore[reportIncompatibleVariableOverride]

    @cached_property
    def _kubernetes(self) -> "KubernetesApi":
        from headway.environment.kubernetes import KubernetesApi

        return KubernetesApi(None)

    @cached_property
    def _handed_over(self) -> Mapping[str, Mapping[str, Any]]:
        return self._given
