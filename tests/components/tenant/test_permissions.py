"""What a tenant may do on AWS, and when somebody hears of what it spends: least privilege and budget of every sample
tenant.
"""

import json
from functools import cache
from typing import Any

import pytest

from stacks import settings, tenant
from stacks.settings import TenantSettings
from tests.components.contracts import TENANTS, document
from tests.components.program import answers
from tests.components.recording import Recording, record

NAMES = ("assist", "vision")


@cache
def registered(name: str) -> Recording:
    found = settings.load(f"sandbox-{name}", {})
    assert isinstance(found, TenantSettings)
    return record(lambda: tenant.build(found, TENANTS), stack=f"sandbox-{name}", calls=answers("sandbox", "platform"))


def statements(name: str, role: str = "") -> list[dict[str, Any]]:
    policies = [r for r in registered(name).of_type("aws:iam/rolePolicy:RolePolicy") if r.name.startswith(f"{name}-{role}")]
    assert policies
    return [s for r in policies for s in json.loads(r.inputs["policy"])["Statement"]]


@pytest.mark.parametrize("name", NAMES)
def test_a_tenants_models_may_read_artifacts_and_nothing_else(name: str) -> None:
    assert {action for s in statements(name, "models-") for action in s["Action"]} == {"kms:Decrypt", "s3:GetObject"}


@pytest.mark.parametrize("name", NAMES)
def test_no_permission_of_a_tenant_names_everything(name: str) -> None:
    for s in statements(name):
        assert not [action for action in s["Action"] if "*" in action], s["Sid"]
        assert "*" not in s["Resource"], s["Sid"]
        objects = [resource for resource in s["Resource"] if resource.startswith("arn:aws:s3:::")]
        assert all(f"/{name}/" in resource for resource in objects), "another tenant's artifacts"


@pytest.mark.parametrize("name", NAMES)
def test_only_the_tenants_service_account_of_its_cluster_assumes_its_role(name: str) -> None:
    for r in registered(name).of_type("aws:iam/role:Role"):
        (statement,) = json.loads(r.inputs["assumeRolePolicy"])["Statement"]
        tags = statement["Condition"]["StringEquals"]
        assert tags["aws:RequestTag/kubernetes-namespace"] == name
        assert tags["aws:RequestTag/eks-cluster-arn"].endswith(":cluster/headway-sandbox")


@pytest.mark.parametrize("name", NAMES)
def test_the_owner_hears_of_a_budget_before_it_is_spent(name: str) -> None:
    contract = document(name, "tenant")
    budget = registered(name).one("aws:budgets/budget:Budget").inputs
    assert (budget["limitAmount"], budget["limitUnit"]) == tuple(contract["quota"]["monthly_budget"].split())
    assert budget["costFilters"] == [{"name": "TagKeyValue", "values": [f"aws:eks:namespace${name}"]}]
    told = {(n["notificationType"], n["threshold"], *n["subscriberEmailAddresses"]) for n in budget["notifications"]}
    assert told == {("ACTUAL", 80, contract["owner"]), ("FORECASTED", 100, contract["owner"])}
