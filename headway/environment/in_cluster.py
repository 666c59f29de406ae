"""An environment of production as a loop of Headway's own sees it from inside the cluster: what layers hand over is given, and the API
server is asked as the pod's own service account. It reads no stack and no checkout."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.environment.production import Production

if TYPE_CHECKING:
    from headway.environment.kubernetes import KubernetesApi
    from headway.ledger.witness import LedgerWitness


class InCluster(Production):
    """`outputs`: what each layer hands over, by its name."""

    def __init__(self, name: str, region: str, outputs: Mapping[str, Mapping[str, Any]]) -> None:
        super().__init__(name, Path())
        self._region, self._given = region, outputs

    @cached_property
    def _kubernetes(self) -> "KubernetesApi":
        from headway.environment.kubernetes import KubernetesApi

        return KubernetesApi(None)

    @cached_property
    def _ledger_witness(self) -> "LedgerWitness | None":
        from headway.ledger.location import witness
        from headway.ledger.witness_place import ParameterWitness

        return witness(lambda: ParameterWitness(self.name, self._region))

    @cached_property
    def _handed_over(self) -> Mapping[str, Mapping[str, Any]]:
        return self._given
