"""Keys are used within seconds of being made, while no right that hangs on their tags or aliases counts yet."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from components.access.boundaries import people_boundary
from components.access.duty import Duty, Role
from components.access.permissions import documents
from components.labels import tags
from components.permissions import Statement
from tests.components.access.provider_calls import CALLS
from tests.components.access.test_access import ACCOUNT, duty
from tests.components.program import layer
from tests.components.recording import EKS_CLUSTER, Registration
from tests.iam_evaluator import Request, key_allowed, of_new_key

KEY, REPOSITORY = "aws:kms/key:Key", "aws:ecr/repository:Repository"
REGION = "us-west-2"
GROUND, ACCESS = layer("prod-cluster"), layer("prod-access")
KEYS = {r.name.removeprefix("keys-"): r for r in GROUND.of_type(KEY)}
STATE_KEYS = {r.name.removeprefix("access-state-"): r for r in ACCESS.of_type(KEY)}
ACCOUNT_ALONE = "AccountDecides"
THROUGH_ECR = {"kms:ViaService": f"ecr.{REGION}.amazonaws.com"}
GIVEN_TO: Mapping[str, Mapping[str, str]] = {EKS_CLUSTER: {}, REPOSITORY: THROUGH_ECR}
"""Whose maker must give its service a key, and what KMS then knows of the request. For EKS nothing is certain (`components/keys.py`)."""


def policy(key: Registration) -> list[dict[str, Any]]:
    return json.loads(key.inputs["policy"])["Statement"]


def may(who: Duty, action: str, key: Registration, context: Mapping[str, str], *, account_alone: bool = False) -> bool:
    """Whether the role may do it with a new key."""
    own = [statement for found in documents(who).values() for statement in found]
    given = [each for each in policy(key) if not account_alone or each["Sid"] == ACCOUNT_ALONE]
    marked = {f"aws:ResourceTag/{name}": value for name, value in tags("prod", "cluster").items()}
    request = Request(action, f"arn:aws:kms:{REGION}:{ACCOUNT}:key/k", {**marked, "aws:ResourceAccount": ACCOUNT, **context})
    return key_allowed(of_new_key(request), who.role_arn, given, own, people_boundary(who))


def asked(name: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    """What a first apply asks of a key, with what KMS knows of each request."""
    # By KMS itself before it makes the key: "It must allow the principal that is making the CreateKey request to make a subsequent
    # PutKeyPolicy request" (API reference, CreateKey, Policy). Whoever may not by his own policies is refused a policy that leaves it to
    # them, with "The new key policy will not allow you to update the key policy in the future".
    yield "kms:PutKeyPolicy", {}
    for type in (KEY, "aws:kms/alias:Alias"):
        for operation in f"{CALLS[type].create} {CALLS[type].read}".split():
            if operation not in ("CreateKey", "ListAliases"):
                yield f"kms:{operation}", {}
    for type, context in GIVEN_TO.items():
        if any(f"keys-{name}" in json.dumps(r.inputs) for r in users(type)):
            yield from ((action, context) for action in CALLS[type].asked or {} if action in ("kms:CreateGrant", "kms:DescribeKey"))


def users(type: str) -> tuple[Registration, ...]:
    return GROUND.of_type("eks:index:Cluster") if type == EKS_CLUSTER else GROUND.of_type(type)


@pytest.mark.parametrize("name", sorted(KEYS))
def test_a_first_apply_may_use_the_key_that_it_has_just_made(name: str) -> None:
    assert [action for action, context in asked(name) if not may(duty("cluster"), action, KEYS[name], context)] == []


@pytest.mark.parametrize("name", sorted(KEYS))
def test_by_the_tag_alone_a_first_apply_would_be_refused(name: str) -> None:
    calls = list(asked(name))
    refused = [action for action, context in calls if not may(duty("cluster"), action, KEYS[name], context, account_alone=True)]
    assert refused == [action for action, _ in calls]


def test_no_keys_policy_gives_back_what_a_roles_own_denies() -> None:
    """IAM user guide, "Policy evaluation logic": an explicit denial in any policy overrides what another allows."""
    role, request = duty("cluster").role_arn, Request("kms:Decrypt", "arn:aws:kms:::key/k")
    key = [{"Effect": "Allow", "Principal": {"AWS": role}, "Action": ["kms:Decrypt"], "Resource": ["*"]}]
    everything = Statement(sid="All", actions=["kms:*"], resources=["*"], reason="the widest limit")
    denial = Statement(sid="Never", effect="Deny", actions=["kms:Decrypt"], resources=["*"])
    assert key_allowed(request, role, key, [], [everything])
    assert not key_allowed(request, role, key, [denial], [everything])


@pytest.mark.parametrize("name", sorted(KEYS))
def test_a_keys_policy_gives_its_maker_no_more_than_making_it_asks(name: str) -> None:
    named = [each for each in policy(KEYS[name]) if each["Principal"] == {"AWS": duty("cluster").role_arn}]
    assert {action for each in named for action in each["Action"]} == {action for action, _ in asked(name)}


def test_keys_are_given_to_the_services_that_encrypt_at_once() -> None:
    granting = {name for name in KEYS if any(action == "kms:CreateGrant" for action, _ in asked(name))}
    assert granting == {"data", "secrets"}


def test_a_grant_on_the_data_key_is_given_through_ecr_alone() -> None:
    assert may(duty("cluster"), "kms:CreateGrant", KEYS["data"], THROUGH_ECR)
    assert not may(duty("cluster"), "kms:CreateGrant", KEYS["data"], {})


def test_a_grant_on_the_secrets_key_has_no_condition_that_eks_does_not_know() -> None:
    """EKS user guide, `enable-kms.adoc`: "The condition `kms:GrantIsForAWSResource` is not supported for the CreateCluster action"."""
    (grants,) = [each for each in policy(KEYS["secrets"]) if each["Sid"] == "DeployerGrants"]
    assert "Condition" not in grants


def test_a_key_names_nobody_where_no_role_is_generated() -> None:
    """KMS refuses a policy that names who does not exist (API reference, CreateKey, Policy)."""
    for key in layer("dev-cluster").of_type(KEY):
        assert not [each for each in policy(key) if each["Sid"].startswith("Deployer")], key.name


@pytest.mark.parametrize(
    ("who", "of", "allowed"),
    [
        (duty("cluster"), "cluster", True),
        (duty("platform"), "platform", True),
        (duty("vision"), "vision", True),
        (duty("vision", Role.RUNNER), "vision", True),
        (duty("vision", Role.VIEWER), "vision", False),
        (duty("assist"), "vision", False),
        (duty("vision"), "cluster", False),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_a_new_state_is_open_to_who_deploys_its_layer_at_once(who: Duty, of: str, allowed: bool) -> None:
    aliases = {"kms:ResourceAliases": duty(of).state_key_alias}
    for action in ("kms:Encrypt", "kms:Decrypt"):
        assert may(who, action, STATE_KEYS[of], aliases) is allowed
        assert not may(who, action, STATE_KEYS[of], aliases, account_alone=True)


def test_a_states_key_is_made_after_the_roles_that_its_policy_names() -> None:
    roles = {r.inputs["name"]: r.urn for r in ACCESS.of_type("aws:iam/role:Role")}
    for key in STATE_KEYS.values():
        (users,) = [each for each in policy(key) if each["Sid"] == "StateUses"]
        assert {roles[arn.rpartition("/")[2]] for arn in users["Principal"]["AWS"]} <= key.depends_on
