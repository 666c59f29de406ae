"""A layer hands over when it stands: whoever builds upon it finds nodes and controllers, and not their plan."""

import pytest

from tests.components.program import layer

PARAMETER = "aws:ssm/parameter:Parameter"


@pytest.mark.parametrize(
    ("stack", "type"),
    [
        ("prod-cluster", "aws:eks/nodeGroup:NodeGroup"),
        ("prod-cluster", "aws:eks/addon:Addon"),
        ("prod-platform", "kubernetes:helm.sh/v3:Release"),
        ("prod-platform", "kubernetes:networking.istio.io/v1:Gateway"),
    ],
)
def test_a_layer_hands_over_after_everything_that_others_build_upon(stack: str, type: str) -> None:
    found = layer(stack)
    needed = {r.urn for r in found.of_type(type)}
    assert needed
    before, waiting = set[str](), set(found.one(PARAMETER).depends_on)
    by_urn = {r.urn: r for r in found.registrations}
    while waiting:
        urn = waiting.pop()
        before.add(urn)
        waiting |= set(by_urn[urn].depends_on) - before if urn in by_urn else set()
    assert needed <= before
