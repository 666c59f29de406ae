"""The page of isolation is what production's NetworkPolicies say today, and each hole in them has a reason."""

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from headway.ledger.store import FolderStore
from policies.guardrails.view import plain
from tests.components.golden import UPDATE
from tests.components.isolation_page import CLOSED, REASONS, Kind, Matrix, holes, kinds, matrix, page, reason
from tests.components.program import layer
from tests.components.recording import Recording
from tests.components.stacks.test_tenant import fed_by_a_queue
from tests.components.tenant_layer import planned, settings_of

PAGE = Path(__file__).parents[3] / "docs/reference/isolation.md"
NAMED = ("assist", "vision")


def objects(found: Recording, kind: str) -> Iterator[Any]:
    return (plain(dict(r.inputs)) for r in found.registrations if r.type.endswith(f":{kind}"))


@cache
def rendered(folder: Path) -> tuple[list[Any], list[Any]]:
    """Production's namespaces and NetworkPolicies, its tenants' among them, and what a queue adds for batch workers."""
    tenants = [settings_of(f"prod-{name}") for name in NAMED]
    layers = [layer("prod-platform"), *(planned(each, ledger=FolderStore(folder)) for each in tenants)]
    policies = [policy for each in layers for policy in objects(each, "NetworkPolicy")]
    fed = objects(fed_by_a_queue(folder, tenants[0].network), "NetworkPolicy")
    queues = next(policy for policy in fed if policy["metadata"]["name"] == "allow-queues")
    return [space for each in layers for space in objects(each, "Namespace")], [*policies, queues]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[tuple[Kind, ...], list[Any]]:
    namespaces, policies = rendered(tmp_path_factory.mktemp("queue"))
    return kinds(namespaces, policies), policies


@pytest.fixture(scope="module")
def found(world: tuple[tuple[Kind, ...], list[Any]]) -> Matrix:
    return matrix(*world)


def test_the_page_of_isolation_is_current(found: Matrix) -> None:
    text = page(found, NAMED)
    if os.environ.get(UPDATE):
        PAGE.write_text(text, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == text, f"run: {UPDATE}=1 pytest tests/components/stacks/test_isolation_page.py"


def test_every_hole_has_a_reason_and_every_reason_a_hole(found: Matrix) -> None:
    reasons = {hole: reason(*hole, NAMED) for hole in holes(found)}
    assert [hole for hole, why in reasons.items() if why is None] == []
    assert [why for why in REASONS if why not in reasons.values()] == []


def test_no_tenant_reaches_another_on_any_port(found: Matrix) -> None:
    pairs = [("assist", "vision"), ("vision", "assist"), ("assist", "vision/batch"), ("vision/batch", "assist")]
    assert {found.cells[pair] for pair in pairs} == {CLOSED}


@pytest.mark.parametrize(
    "target",
    [
        "activator",
        "endpoint-picker",
        "monitoring",
        "rate-limit",
        "keda",
        "release-guard",
        "evaluation",
        "node-health",
        "API server",
        "VPC",
        "instance metadata",
    ],
)
def test_a_model_server_reaches_nothing_of_the_platform_that_it_need_not(found: Matrix, target: str) -> None:
    assert {found.cells[name, target] for name in NAMED} == {CLOSED}


def test_nobody_outside_reaches_a_tenant(found: Matrix) -> None:
    assert {found.cells[source, target] for source in ("internet", "VPC", "API server") for target in (*NAMED, "vision/batch")} == {CLOSED}


def test_a_policy_that_is_taken_away_shows_as_a_hole(world: tuple[tuple[Kind, ...], list[Any]]) -> None:
    kinds, policies = world
    without = [
        policy
        for policy in policies
        if policy["metadata"] | {"labels": {}} != {"name": "default-deny", "namespace": "assist", "labels": {}}
    ]
    bare = [policy for policy in without if policy["metadata"]["name"] != "allow-ingress" or policy["metadata"]["namespace"] != "assist"]
    assert matrix(kinds, bare).cells["internet", "assist"] == "all"
