"""The access layer and what the other layers make of it: boundaries on their roles, entries in the cluster."""

import json
import shutil
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from headway.capacity.described import described
from headway.doctor.account import generated_arns, generated_roles
from policies.guardrails.identity import RULES
from policies.guardrails.rule import evaluate
from policies.guardrails.view import InputNode, ResourceView
from stacks.access import build, groups
from stacks.access_settings import AccessSettings
from stacks.settings import AccessLayerSettings, load
from stacks.settings_error import SettingsError
from tests.components.program import PROJECT, config_of, layer
from tests.components.recording import EKS_CLUSTER, record
from tests.day_two_page import sections

ACCESS = layer("prod-access")
ROLE, POLICY = "aws:iam/role:Role", "aws:iam/policy:Policy"
PATH = "arn:aws:iam::333333333333:role/headway-prod/access/"
PEOPLE = f"{PATH}headway-prod-"


def test_the_rules_accept_every_role_and_policy_of_people() -> None:
    for r in (*ACCESS.of_type(ROLE), *ACCESS.of_type(POLICY)):
        for rule in RULES:
            if r.type in rule.applies:
                found = evaluate(rule, ResourceView(r.type, r.name, r.urn, InputNode(dict(r.inputs))))
                assert not found.breaches, (r.name, rule.id, found.breaches)


def test_every_role_of_people_is_bounded_and_trusts_named_subjects() -> None:
    roles = ACCESS.of_type(ROLE)
    assert len(roles) == 8
    for r in roles:
        assert r.inputs["path"] == "/headway-prod/access/"
        assert r.inputs["permissionsBoundary"].endswith("access-people")
        assert "*" not in r.inputs["assumeRolePolicy"]


@pytest.mark.parametrize(
    ("subject", "told"),
    [
        ("repo:example/headway:environment:prod-cluster", True),
        ("repo:example@100001/headway@200001:environment:prod-cluster", False),
    ],
)
def test_a_github_repository_known_by_its_name_alone_is_told(subject: str, told: bool) -> None:
    """Tokens of repositories made since 2026-07-15 hold ids (GitHub Changelog, 2026-04-23), and IAM compares letter by letter."""
    people = {"principals": ["arn:aws:iam::333333333333:role/sso"]}
    access = {
        "state_bucket": "state",
        "issuer": "https://token.actions.githubusercontent.com",
        "cluster": {"subjects": [subject]},
        "platform": people,
        "tenants": {},
    }
    config = config_of("prod-access") | {"headway:access": json.dumps(access)}
    settings = load("prod-access", config)
    assert isinstance(settings, AccessLayerSettings)
    log = record(lambda: build(settings), stack="prod-access").log
    assert any(subject in line for line in log) is told, log


def test_the_samples_know_their_repositories_by_ids() -> None:
    for stack in ("prod-access", "staging-access"):
        assert not layer(stack).log, "whoever copies the form of a sample into a new repository's layer would be refused by AWS"


@pytest.mark.parametrize("name", ["cluster", "platform", "guard"])
def test_no_tenant_takes_the_place_of_a_layer(name: str) -> None:
    people = {"principals": ["arn:aws:iam::333333333333:role/sso"]}
    given = {"state_bucket": "state", "issuer": None, "cluster": people, "platform": people, "tenants": {name: {"deployer": people}}}
    with pytest.raises(ValidationError, match="is what the platform calls something of its own"):
        AccessSettings.model_validate(given)


def test_two_environments_of_one_account_share_no_name_of_people() -> None:
    """Else the second is refused: a path keeps no two apart (IAM API reference, CreateRole and CreatePolicy: names are unique within the account)."""
    for kind in (ROLE, POLICY):
        prod, staging = ({r.inputs["name"].lower() for r in layer(f"{each}-access").of_type(kind)} for each in ("prod", "staging"))
        assert prod
        assert not prod & staging


def test_who_updates_nodes_or_drives_a_release_is_not_cut_off_after_an_hour() -> None:
    lasting = {r.inputs["name"]: r.inputs.get("maxSessionDuration", 3600) for r in ACCESS.of_type(ROLE)}
    waits = [int(group.update_within.removesuffix("m")) * 60 for group in layer("prod-cluster").of_type("aws:eks/nodeGroup:NodeGroup")]
    assert lasting["headway-prod-cluster-deployer"] > max(waits), (
        "without credentials Pulumi cannot even write down what it did (pulumi/pulumi#19452)"
    )
    assert lasting["headway-prod-vision-runner"] == 43_200
    assert lasting["headway-prod-vision-viewer"] == 3600


def test_roles_of_workloads_bear_the_boundary_of_workloads() -> None:
    for stack in ("prod-cluster", "prod-platform"):
        for r in layer(stack).of_type(ROLE):
            assert r.inputs["permissionsBoundary"] == "arn:aws:iam::333333333333:policy/headway-prod/access/headway-prod-workloads", r.name
    assert all("permissionsBoundary" not in r.inputs for r in layer("dev-cluster").of_type(ROLE))


def test_the_cluster_lets_the_roles_into_the_groups_of_the_contracts() -> None:
    entries = layer("prod-cluster").one("eks:index:Cluster").inputs["accessEntries"]
    by_role = {entry["principalArn"]: entry for entry in entries.values()}
    assert by_role[f"{PEOPLE}vision-deployer"]["kubernetesGroups"] == ["vision-ml-engineers"]
    assert by_role[f"{PEOPLE}vision-runner"]["kubernetesGroups"] == ["vision-releases"]
    assert "kubernetesGroups" not in by_role[f"{PEOPLE}platform-deployer"]
    assert by_role[f"{PEOPLE}platform-deployer"]["accessPolicies"]
    assert not by_role[f"{PEOPLE}vision-deployer"].get("accessPolicies")
    assert f"{PEOPLE}cluster-deployer" not in by_role, "who makes the cluster needs nothing inside"
    assert layer("prod-cluster").of_type(EKS_CLUSTER)


def test_each_state_has_a_key_of_its_own() -> None:
    aliases = {r.inputs["name"] for r in ACCESS.of_type("aws:kms/alias:Alias")}
    assert aliases == {f"alias/headway-prod-state-{name}" for name in ("assist", "cluster", "platform", "vision")}
    assert all(r.protect for r in ACCESS.of_type("aws:kms/key:Key"))


def test_the_page_says_how_the_protected_key_of_a_tenant_that_leaves_may_go() -> None:
    (key,) = [r for r in ACCESS.of_type("aws:kms/key:Key") if r.name == "access-state-vision"]
    assert key.protect, "an update that no longer names the tenant is refused"
    (line,) = [line for line in sections()["A tenant leaves"] if line.startswith("pulumi state unprotect")]
    assert "urn:pulumi:prod-access::headway::headway:access:Access$aws:kms/key:Key::access-state-vision" in line


def test_policies_are_written_without_room_to_spare_being_wasted() -> None:
    for r in ACCESS.of_type(POLICY):
        text = r.inputs["policy"]
        assert text == json.dumps(json.loads(text), separators=(",", ":"))


def test_every_role_of_people_passes_the_endpoints_of_the_network() -> None:
    """Also from inside it, where AWS's services are reached by them alone."""
    roles = [f"{PATH}{r.inputs['name']}" for r in ACCESS.of_type(ROLE)]
    for endpoint in layer("prod-cluster").of_type("aws:ec2/vpcEndpoint:VpcEndpoint"):
        (deploying,) = [each for each in json.loads(endpoint.inputs["policy"])["Statement"] if each["Sid"] == "Deployers"]
        named = deploying["Condition"]["ArnLike"]["aws:PrincipalArn"]
        assert all(any(fnmatchcase(role, pattern) for pattern in named) for role in roles), endpoint.name


@pytest.mark.parametrize("known", [False, True])
def test_an_account_that_knows_the_issuer_is_given_no_second_provider_of_it(tmp_path: Path, known: bool) -> None:
    """IAM refuses one: EntityAlreadyExists (IAM API reference, CreateOpenIDConnectProvider). Pipelines are trusted by it all the same."""
    for name in ("access", "cluster"):
        content = yaml.safe_load((PROJECT / "stacks" / f"Pulumi.prod-{name}.yaml").read_text(encoding="utf-8"))
        if name == "access":
            content["config"]["headway:access"]["issuer_known"] = known
        (tmp_path / f"Pulumi.prod-{name}.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    settings = load("prod-access", config_of("prod-access", tmp_path), tmp_path)
    assert isinstance(settings, AccessLayerSettings)
    found = record(lambda: build(settings))
    assert len(found.of_type("aws:iam/openIdConnectProvider:OpenIdConnectProvider")) == (0 if known else 1)
    trusts = {r.inputs["name"]: r.inputs["assumeRolePolicy"] for r in found.of_type(ROLE)}
    assert trusts == {r.inputs["name"]: r.inputs["assumeRolePolicy"] for r in ACCESS.of_type(ROLE)}


@pytest.mark.parametrize("disposable", [False, True])
def test_only_a_disposable_environments_deployer_empties_its_buckets(tmp_path: Path, disposable: bool) -> None:
    for name in ("access", "cluster"):
        content = yaml.safe_load((PROJECT / "stacks" / f"Pulumi.prod-{name}.yaml").read_text(encoding="utf-8"))
        if name == "cluster":
            content["config"]["headway:storage"]["disposable"] = disposable
        (tmp_path / f"Pulumi.prod-{name}.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    settings = load("prod-access", config_of("prod-access"), tmp_path)
    assert isinstance(settings, AccessLayerSettings)
    found = record(lambda: build(settings))
    policies = {r.inputs["name"]: r.inputs["policy"] for r in found.of_type(POLICY)}
    assert ("s3:DeleteObjectVersion" in policies["headway-prod-cluster-deployer-storage"]) is disposable
    assert ("s3:BypassGovernanceRetention" in policies["headway-prod-people"]) is disposable


def test_doctor_knows_the_layers_deployers_by_their_names() -> None:
    assert set(generated_roles("prod")) <= {f"role/{r.inputs['name']}" for r in ACCESS.of_type(ROLE)}
    found = generated_arns(described(PROJECT, "prod-cluster")[1], "prod")
    assert set(found) <= {f"{PATH}{r.inputs['name']}" for r in ACCESS.of_type(ROLE)}


def test_a_group_that_two_tenants_name_lets_nobody_in(tmp_path: Path) -> None:
    """Else a contract would give its tenant's roles what another tenant's people may do."""
    for name in ("assist", "vision"):
        shutil.copytree(PROJECT / "tenants" / name, tmp_path / name)
    file = tmp_path / "assist" / "tenant.yaml"
    content = yaml.safe_load(file.read_text(encoding="utf-8"))
    theirs = yaml.safe_load((tmp_path / "vision" / "tenant.yaml").read_text(encoding="utf-8"))["people"]["deployers"][0]
    content["people"]["deployers"].append(theirs)
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    settings = load("prod-access", config_of("prod-access"))
    assert isinstance(settings, AccessLayerSettings)
    assert list(groups("prod", settings.account, settings.access))
    with pytest.raises(SettingsError, match=f"the contracts of assist and vision name the group {theirs}"):
        list(groups("prod", settings.account, settings.access, tmp_path))
