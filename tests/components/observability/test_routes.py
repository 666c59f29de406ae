"""How often people hear of an alert that goes on: a page each hour, what can wait each day."""

from collections.abc import Mapping
from typing import Any

import pytest

from components.observability import routes
from headway.contract.model import Model
from headway.wire import CAUSE_SEVERITY, CAUSE_URGENCY
from tests.components.contracts import DEFECTS


def repeats(route: Mapping[str, Any], labels: Mapping[str, str], inherited: str = "") -> list[str]:
    """The repeat interval of each route that takes the alert: the first child that matches, and the next ones after `continue`; the route itself
    where none does (prometheus/alertmanager, dispatch/route.go, `Match`)."""
    own, found = route.get("repeatInterval", inherited), list[str]()
    for child in route.get("routes") or ():
        if all(labels.get(each["name"], "") == each["value"] for each in child["matchers"] if each["matchType"] == "="):
            found += repeats(child, labels, own)
            if not child.get("continue"):
                break
    return found or [own]


@pytest.mark.parametrize("receiver", [{}, {"receiver": "vision-oncall"}])
@pytest.mark.parametrize("cause", [False, True])
@pytest.mark.parametrize(("urgency", "repeat"), [("page", routes.PAGE_REPEAT), ("ticket", routes.TICKET_REPEAT)])
def test_a_tenants_people_hear_of_a_ticket_as_seldom_as_the_platforms(
    receiver: dict[str, str], cause: bool, urgency: str, repeat: str
) -> None:
    found = routes.tenant_routes("vision", (Model.model_validate(DEFECTS),))
    assert found is not None
    said = {"severity": CAUSE_SEVERITY, CAUSE_URGENCY: urgency} if cause else {"severity": urgency}
    labels = {**receiver, **said}
    assert set(repeats(found["spec"]["route"], labels)) == {repeat}
    assert set(repeats(routes.platform_routes()["spec"]["route"], labels)) == {repeat}
