"""What the loop asks from inside the cluster: services and their evaluations as the platform layer wrote them into a file.

There it looks and proves, and takes nothing back: a way back is a release, which may change all that a tenant's deployers may, and the
stack's state beside it. Whoever releases carries it out (`headway evaluate` outside), and an alert asks for it.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from headway.contract.evaluation import Evaluation
from headway.environment.in_cluster import InCluster
from headway.problem import Exit, UserError
from headway.release.service_place import ServicePlace

if TYPE_CHECKING:
    from headway.environment.port import Environment


@dataclass(frozen=True, kw_only=True)
class EvaluatedService(ServicePlace):
    """One of them. It has no checkout: `project` stands for none."""

    inside: InCluster
    asked: Evaluation

    @property
    def port(self) -> "Environment":  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.inside

    def evaluation(self) -> Evaluation:
        return self.asked


def evaluated_services(file: Path) -> tuple[EvaluatedService, ...]:
    """Every service of the file, sorted. Raises UserError for what no platform layer writes."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        inside = InCluster(str(found["environment"]), str(found["region"]), {"cluster": dict(found["cluster"])})
        asked = {str(chain): Evaluation.model_validate(each) for chain, each in sorted(found["services"].items())}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ValidationError) as failure:
        raise UserError(
            f"{file} does not say what to ask ({type(failure).__name__}).",
            "Nothing was asked.",
            "Use a file that the platform layer of this Headway wrote.",
            Exit.USAGE,
        ) from None
    return tuple(
        EvaluatedService(project=Path(), environment=inside.name, tenant=tenant, model=model, inside=inside, asked=evaluation)
        for (tenant, _, model), evaluation in ((chain.partition("/"), each) for chain, each in asked.items())
    )
