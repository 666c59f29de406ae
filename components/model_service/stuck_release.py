"""The alert for a release that is held or stuck: two versions of a service have answered its requests for longer than all
steps of its rollout policy may take.

What the mesh counts by release shows it, so it fires as well where whoever drove the release is gone. A release that
nobody calls does not fire: its clock stands still, and `CanaryWithoutTraffic` says so.
"""

from typing import Any

from components.addons.grafana_pages import leads, service_uid
from components.tenant.surroundings import Surroundings
from headway.contract.model import Model
from headway.contract.rollout import LONGEST_BAKES, Rollout, Strategy

_SPARE_SECONDS = 1800.0
"""Replicas start, and the last requests of the old version end."""


def group(tenant: str, model: Model, surroundings: Surroundings) -> dict[str, Any]:
    """The rule group of one model."""
    picks = f'model="{model.name}",source="mesh",tenant="{tenant}"'
    hours = longest_seconds(model.rollout) / 3600
    annotations = {
        "summary": f"Two releases of {tenant}/{model.name} have shared its requests for longer than its rollout may take ({hours:.3g} h)",
        "description": f"`headway release status {tenant}/{model.name} -e {surroundings.environment}` says why it does not go on.",
        "runbook_url": f"{surroundings.runbooks}/release-stuck.md",
        **leads(surroundings.grafana, service_uid(tenant, model.name), {"tenant": tenant, "model": model.name}),
    }
    rule = {
        "alert": "ReleaseStuck",
        "expr": f"count(headway:request_rate{{{picks}}} > 0) > 1",
        "for": f"{round(longest_seconds(model.rollout))}s",
        "labels": {
            "layer": "deployment",
            "model": model.name,
            "namespace": tenant,  # by which Alertmanager knows whose alert it is
            "owner": model.observability.receiver,
            "receiver": model.observability.receiver,
            "severity": "ticket",
            "tenant": tenant,
        },
        "annotations": annotations,
    }
    return {"name": f"{tenant}-{model.name}-release", "rules": [rule]}


def longest_seconds(rollout: Rollout) -> float:
    """How long two versions may share requests by the policy. A rolling update has as many steps as replicas, so its whole
    time counts; an experiment lasts until a person is asked. While a version bakes, those held back share it too."""
    copies = rollout.mirror.timeout.seconds if rollout.mirror else 0.0
    if rollout.split:
        return copies + rollout.split.duration.seconds + _SPARE_SECONDS
    steps = len(rollout.weights) * rollout.step_at_most.seconds if rollout.strategy is Strategy.CANARY else 0.0
    steps = rollout.at_most.seconds if rollout.strategy is Strategy.ROLLING else steps
    bakes = LONGEST_BAKES if rollout.held_back and rollout.strategy is not Strategy.ROLLING else 1
    return min(copies + steps, rollout.at_most.seconds) + bakes * rollout.bake.seconds + _SPARE_SECONDS
