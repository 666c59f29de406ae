"""What a tenant may do on AWS: least privilege of every sample tenant."""

import json
import shutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from headway.contract.model import Model
from headway.contract.reading.loader import load_tenant
from headway.release.beyond_runners import why_beyond
from tests.components.contracts import TENANTS, document
from tests.components.recording import Recording
from tests.components.tenant_layer import planned, settings_of

NAMES = ("assist", "vision")
RBAC = ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
PLURALS = {
    kind: f"{kind.lower().removesuffix('y')}{ending}"
    for ending, kinds in {
        "ies": ("AuthorizationPolicy", "NetworkPolicy", "Telemetry", "ValidatingAdmissionPolicy"),
        "es": ("PriorityClass",),
    }.items()
    for kind in kinds
}
"""Names of resources that are not their kind's with an s."""


@cache
def registered(name: str) -> Recording:
    return planned(settings_of(f"sandbox-{name}"))


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


def granted(name: str, role: str) -> list[tuple[str | None, dict[str, Any]]]:
    """(namespace, or None for all, rule) of the people whom a tenant's contract calls `role`s, by what binds their groups."""
    of_kind = {kind: registered(name).of_type(f"kubernetes:rbac.authorization.k8s.io/v1:{kind}") for kind in RBAC}
    groups = set(document(name, "tenant")["people"][f"{role}s"])
    found = list[tuple[str | None, dict[str, Any]]]()
    for binding in (b.inputs for b in (*of_kind["RoleBinding"], *of_kind["ClusterRoleBinding"])):
        if groups & {subject["name"] for subject in binding["subjects"]}:
            ref, place = binding["roleRef"], binding["metadata"].get("namespace")
            heads = ((r.inputs["metadata"], r.inputs["rules"]) for r in of_kind[ref["kind"]])
            found += [
                (place, rule) for head, rules in heads if (head["name"], head.get("namespace")) == (ref["name"], place) for rule in rules
            ]
    return found


@pytest.mark.parametrize("role", ["deployer", "runner"])
@pytest.mark.parametrize("name", NAMES)
def test_who_releases_may_read_every_object_of_the_stack(name: str, role: str) -> None:
    """An update with refresh reads them all, and ends at the first that is refused."""
    rules, unread = granted(name, role), list[str]()
    for r in registered(name).registrations:
        provider, version, kind = (*r.type.split(":"), "")[:3]
        if provider == "kubernetes":
            head, group = r.inputs["metadata"], version.rpartition("/")[0].removeprefix("core")
            place = head["name"] if kind == "Namespace" else head.get("namespace")
            if not any(
                there in (None, place)
                and (group, "get") in {(each, verb) for each in rule["apiGroups"] for verb in rule["verbs"]}
                and PLURALS.get(kind, f"{kind.lower()}s") in rule["resources"]
                and head["name"] in rule.get("resourceNames", [head["name"]])
                for there, rule in rules
            ):
                unread.append(f"{kind} {head['name']}")
    assert not unread


def with_values(contract: dict[str, Any], values: Mapping[tuple[str, ...], object]) -> dict[str, Any]:
    found = json.loads(json.dumps(contract))
    for place, value in values.items():
        section = found
        for step in place[:-1]:
            section = section[step]
        section[place[-1]] = value
    return found


LARGEST, START, TO_ZERO = ("envelope", "largest_request"), ("health", "startup_budget"), {("scaling", "min_replicas"): 0}


@pytest.mark.parametrize(
    ("service", "before", "changed", "beyond"),
    [
        ("vision/defects", {}, {("artifact", "version"): "another"}, set()),
        ("vision/defects", {}, {("batching", "max_queue"): 33}, set()),
        ("vision/defects", {}, {("envelope", "cpu"): 3}, set()),
        ("vision/defects", {}, {("health", "drain"): "61s"}, set()),
        ("vision/defects", {}, {START: "16m"}, set()),
        ("vision/embeddings", TO_ZERO, {("envelope", "cpu"): 3}, set()),
        # The guide says who drives such a release (docs/guide/releases.md).
        ("vision/defects", {}, {(*LARGEST, "body"): "3Mi"}, {"EnvoyFilter defects-guard"}),
        ("vision/embeddings", TO_ZERO, {START: "31m"}, {"EnvoyFilter embeddings-activation"}),
        ("assist/chat", {}, {(*LARGEST, "context_tokens"): 4096}, {"EnvoyFilter assist-rate"}),
        ("vision/defects", {}, {("artifact", "uri"): "s3://elsewhere/vision/defects/"}, {"RolePolicy vision-models-artifacts"}),
    ],
)
def test_a_release_changes_what_its_runner_may_write_or_says_so_first(
    tmp_path: Path, service: str, before: dict[tuple[str, ...], object], changed: dict[tuple[str, ...], object], beyond: set[str]
) -> None:
    tenant, _, model = service.partition("/")
    found = settings_of(f"sandbox-{tenant}")

    def stood(name: str, values: Mapping[tuple[str, ...], object]) -> tuple[dict[tuple[str, str], str], Model, bool]:
        folder = tmp_path / name / tenant
        shutil.copytree(TENANTS / tenant, folder)
        (folder / f"{model}.yaml").write_text(yaml.safe_dump(with_values(document(tenant, model), values)), encoding="utf-8")
        made = {
            (r.type, r.name): json.dumps(r.inputs, sort_keys=True, default=str)
            for r in planned(found, folder.parent).registrations
            if ":" in r.type
        }
        contracts = load_tenant(folder, found.pools).tenant(tenant)
        assert contracts is not None
        return made, next(each for each in contracts.models if each.name == model), contracts.tenant.quota.tokens is not None

    (then, was, counts), (now, will, _) = stood("then", before), stood("now", {**before, **changed})
    differ = {(type.rpartition(":")[2], name) for type, name in {*now, *then} if now.get((type, name)) != then.get((type, name))}
    written = {kind for _, rule in granted(tenant, "runner") if "patch" in rule["verbs"] for kind in rule["resources"]}
    refused = {f"{kind} {name}" for kind, name in differ if kind[0].isupper() and PLURALS.get(kind, f"{kind.lower()}s") not in written}
    assert refused == beyond
    assert (why_beyond(was, will, found.pools, counts_tokens=counts) is not None) == bool(beyond)
