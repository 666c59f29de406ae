"""A candidate that does not start: what Kubernetes has given up on ends its release, and what merely waits does not."""

from pathlib import Path
from typing import Any

import pytest

from headway.contract.reading.loader import load_tenant
from headway.contract.units import Share
from headway.ledger.traffic_split import ArmRole, TrafficArm, TrafficSplit
from headway.release.driver.event_kinds import ReleaseOutcome
from headway.release.driver.live_service import LiveService
from tests.unit.release_kill import Shelf
from tests.unit.release_world import Scene

PROJECT = Path(__file__).parents[4]
WANTED = TrafficSplit(
    arms=(
        TrafficArm(release="r1", role=ArmRole.STABLE, weight=Share.percent(100)),
        TrafficArm(release="r2", role=ArmRole.CANARY, weight=Share.percent(0)),
    ),
    digests={"r1": "a", "r2": "b"},
)
LABELS = {"platform.io/release": "r2"}


class Objects:
    """An API server that holds these."""

    def __init__(self, **kinds: list[dict[str, Any]]) -> None:
        self._kinds = kinds

    def items(self, path: str) -> list[dict[str, Any]]:
        return self._kinds.get(path.split("?")[0].rsplit("/", 1)[1], [])


def deployment(reason: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "defects-r2", "generation": 1},
        "spec": {"selector": {"matchLabels": LABELS}},
        "status": {"conditions": [{"type": "Progressing", "status": "False", "reason": reason}]},
    }


def pod(restarts: int) -> dict[str, Any]:
    return {"metadata": {"labels": LABELS}, "status": {"containerStatuses": [{"name": "server", "restartCount": restarts}]}}


@pytest.mark.parametrize(
    ("reason", "pods", "given_up"),
    [
        ("ProgressDeadlineExceeded", [pod(1)], True),
        ("ProgressDeadlineExceeded", [pod(0)], False),
        ("ProgressDeadlineExceeded", [{"metadata": {"labels": LABELS}, "status": {}}], False),
        ("NewReplicaSetCreated", [pod(3)], False),
    ],
    ids=["ended and late", "late, never ended", "late, without a node", "ended, in time"],
)
def test_a_candidate_is_given_up_when_it_is_late_and_was_ended_for_it(reason: str, pods: list[dict[str, Any]], given_up: bool) -> None:
    api: Any = Objects(deployments=[deployment(reason)], pods=pods)
    assert bool(LiveService(api, "vision", "defects").given_up(WANTED)) == given_up


def test_a_candidate_that_kubernetes_gave_up_ends_its_release_at_once() -> None:
    (tenant,) = load_tenant(PROJECT / "tenants" / "vision").contracts
    scene = Scene.of(Shelf(), next(model for model in tenant.models if model.name == "defects"))
    scene.world.missing = ("canary: 0 of 1 replicas ready",)
    scene.world.hopeless = ("canary: ended 2 times without becoming ready",)
    began = scene.world.now()
    ended = scene.run()
    assert ended.outcome is ReleaseOutcome.ROLLED_BACK
    assert ended.failing is not None and "ended 2 times" in ended.failing.reason
    assert not ended.was_exposed
    assert (scene.world.now() - began).total_seconds() < 300
