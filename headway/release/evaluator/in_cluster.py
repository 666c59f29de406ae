"""What the loops look at from inside the cluster: services, their evaluations and what is watched of them, as the platform layer wrote it.

There they look and prove, and take nothing back: a way back is a release, which may change all that a tenant's deployers may, and the
stack's state beside it. Whoever releases carries it out (`headway evaluate` outside), and an alert asks for it.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from headway.contract.drift import WatchedTraffic
from headway.contract.evaluation import Evaluation
from headway.environment.in_cluster import InCluster
from headway.problem import Exit, UserError
from headway.release.service_place import ServicePlace

if TYPE_CHECKING:
    from headway.environment.port import Environment


@dataclass(frozen=True, kw_only=True)
class ServiceInside(ServicePlace):
    """One of them. It has no checkout: `project` stands for none."""

    inside: InCluster
    asked: Evaluation | None = None
    watch: WatchedTraffic | None = None
    receiver: str = ""
    """Who is told of its alerts, as its contract says."""

    @property
    def checkout(self) -> None:
        return None

    @property
    def port(self) -> "Environment":  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.inside

    def evaluation(self) -> Evaluation | None:
        return self.asked

    def watched(self) -> WatchedTraffic | None:
        return self.watch


def evaluated_services(file: Path) -> tuple[ServiceInside, ...]:
    """Every service of the file that is asked, sorted. Raises UserError for what no platform layer writes."""
    return _services(file, "services", lambda each: {"asked": Evaluation.model_validate(each)})


def watched_services(file: Path) -> tuple[ServiceInside, ...]:
    """Every service of the file that is watched for drift, sorted. Raises UserError for what no platform layer writes."""
    return _services(file, "watched", lambda each: {"watch": WatchedTraffic.model_validate(each)})


def diagnosed_services(file: Path) -> tuple[ServiceInside, ...]:
    """Every service of the file whose alerts are diagnosed, sorted. Raises UserError for what no platform layer writes."""
    return _services(file, "diagnosed", lambda each: {"receiver": str(each)})


def _services(file: Path, section: str, part: Callable[[Any], dict[str, Any]]) -> tuple[ServiceInside, ...]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        inside = InCluster(str(found["environment"]), str(found["region"]), {"cluster": dict(found["cluster"])})
        parts = {str(chain).partition("/"): part(each) for chain, each in sorted(found[section].items())}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ValidationError) as failure:
        raise UserError(
            f"{file} does not say what to look at ({type(failure).__name__}).",
            "Nothing was asked or read.",
            "Use a file that the platform layer of this Headway wrote.",
            Exit.USAGE,
        ) from None
    return tuple(
        ServiceInside(project=Path(), environment=inside.name, tenant=tenant, model=model, inside=inside, **each)
        for (tenant, _, model), each in parts.items()
    )
