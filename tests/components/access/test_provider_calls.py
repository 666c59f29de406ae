"""A deployer may make each call that the provider makes for its layer, and no action is given that nothing asks for."""

from functools import cache
from typing import Any

import botocore.session
import pytest

from components.access.actions import ACTIONS
from components.access.duty import Duty
from components.access.permissions import documents
from stacks.access import bootstrap
from tests.components.access.provider_calls import CALLS, EMPTYING, Calls, actions_called
from tests.iam_evaluator import Request, allowed

DISPOSABLE = Duty(
    environment="prod", account_id="333333333333", region="us-west-2", state_bucket="acme-state", layer="cluster", disposable=True
)
OF_THE_ACCESS_LAYER = (
    "aws:iam/openIdConnectProvider:OpenIdConnectProvider",
    "aws:iam/policy:Policy",
    "aws:iam/role:Role",
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment",
    "aws:kms/alias:Alias",
    "aws:kms/key:Key",
)
"""The types that an administrator makes, with the bootstrap policy alone."""
BESIDE_S3 = {"ListTagsForResource", "TagResource", "UntagResource"}
"""Operations of S3 that its API keeps in another service, S3 Control."""


@pytest.mark.parametrize("type", sorted(ACTIONS))
def test_each_call_of_the_provider_is_given(type: str) -> None:
    assert sorted(actions_called(CALLS[type]) - ACTIONS[type]) == []


@pytest.mark.parametrize("type", sorted(ACTIONS))
def test_no_action_is_given_that_nothing_asks_for(type: str) -> None:
    assert sorted(ACTIONS[type] - actions_called(CALLS[type]) - set(CALLS[type].asked or {})) == []


@pytest.mark.parametrize("type", sorted(ACTIONS))
def test_what_is_asked_beside_the_calls_is_given(type: str) -> None:
    assert sorted(set(CALLS[type].asked or {}) - ACTIONS[type]) == []


@cache
def operations(service: str) -> frozenset[str]:
    """What the API has; its description is megabytes."""
    model: Any = botocore.session.get_session().get_service_model(service)
    return frozenset(model.operation_names)


@pytest.mark.parametrize("calls", [*CALLS.values(), EMPTYING], ids=lambda calls: calls.file)
def test_each_call_is_an_operation_of_its_service(calls: Calls) -> None:
    beside = BESIDE_S3 if calls.service == "s3" else set[str]()
    assert sorted(calls.operations - operations(calls.service) - beside) == []


def test_a_disposable_environments_deployer_may_empty_its_buckets() -> None:
    given = {action for found in documents(DISPOSABLE).values() for statement in found for action in statement.actions}
    assert actions_called(EMPTYING) | {"s3:BypassGovernanceRetention"} <= given


def test_an_administrator_is_told_that_there_is_no_state_yet() -> None:
    state = Request("s3:ListBucket", f"arn:aws:s3:::{DISPOSABLE.state_bucket}", {})
    assert allowed(state, bootstrap(DISPOSABLE), bootstrap(DISPOSABLE)), "with 403 `pulumi login` fails on an empty state"


@pytest.mark.parametrize("type", OF_THE_ACCESS_LAYER)
def test_an_administrator_may_make_change_and_remove_the_access_layer(type: str) -> None:
    account = DISPOSABLE.account_id
    of_service = {"iam": f"arn:aws:iam::{account}:policy{DISPOSABLE.path}people", "kms": "*"}
    context = {"aws:RequestedRegion": DISPOSABLE.region}
    refused = [
        action
        for action in sorted(actions_called(CALLS[type]))
        if not allowed(Request(action, of_service[CALLS[type].service], context), bootstrap(DISPOSABLE), bootstrap(DISPOSABLE))
    ]
    assert refused == []
