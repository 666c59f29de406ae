"""The whole program, for every stack file: identity, parents, providers and permissions of everything that it
registers.

The golden lists in `tests/golden` make every change visible in review: of a name or a type (a logical name is a
state key, and a changed one replaces what it names), and in the cluster layer of an input or an option too, for
there a changed input may drain nodes or replace a network. After a wanted change: `HEADWAY_UPDATE_GOLDEN=1 pytest
tests/components/stacks/test_program.py`.
"""

import json
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator
from datetime import date
from functools import cache
from typing import Any

import pulumi
import pytest

from components.handover import LONGEST
from components.versions import CHARTS
from headway.wire import LEDGER_LEASES
from policies.guardrails.exemptions import EXEMPTIONS_FILE, load
from policies.guardrails.registry import RULES
from policies.guardrails.rule import evaluate
from policies.guardrails.view import InputNode, ResourceView, canonical, plain
from stacks.settings import FOLDER
from tests.components import golden
from tests.components.program import HANDED_OVER, NODE_GROUPS, config_of, layer, run
from tests.components.recording import EKS_CLUSTER, Recording, Registration

STACKS = tuple(sorted(file.stem.removeprefix("Pulumi.") for file in FOLDER.glob("Pulumi.*.yaml")))
BALANCER = "service.beta.kubernetes.io/aws-load-balancer-"
CLUSTERS = tuple(stack for stack in STACKS if stack.endswith("-cluster"))
PLATFORMS = tuple(stack for stack in STACKS if stack.endswith("-platform"))
LAYERS = (*CLUSTERS, *PLATFORMS)
REFERENCE = "prod"
"""The environment whose golden lists are kept in full; those of the others say what they do differently."""
FULL = (f"{REFERENCE}-cluster", f"{REFERENCE}-platform")

WAYS_OUT = (
    "aws:ec2/route:Route",
    "aws:ec2/routeTableAssociation:RouteTableAssociation",
    "aws:ec2/vpcEndpoint:VpcEndpoint",
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule",
)
"""What a node needs to reach AWS, from its first to its last minute."""

WILDCARDS = {
    "AccountDecides": "a key's policy: the resource is that key, and the account's own policies decide",
    "AlarmsUse": "a key's policy: the resource is that key",
    "AutoScalingGrants": "a key's policy: the resource is that key",
    "AutoScalingUses": "a key's policy: the resource is that key",
    "DeployerGrants": "a key's policy: the resource is that key",
    "DeployerMakes": "a key's policy: the resource is that key",
    "Deployers": "an endpoint's policy: bound by its condition to who deploys the layers",
    "LogsUse": "a key's policy: the resource is that key",
    "OwnBuckets": "an endpoint's policy: bound to this account's buckets by its condition",
    "OwnPrincipals": "an endpoint's policy: bound to this account's principals by its condition",
    "SeeBalancers": "actions that know no resource: they list",
    "SeeSecurityGroups": "it lists this account's groups, in one region",
    "SeeGroups": "actions that know no resource: they list",
}
"""Statements that allow a bare `*`, with the reason why. A new one is a decision, and shows here."""


def in_full(found: Recording) -> Iterator[str]:
    """Each registration with its inputs and options, sorted; user data and policies as people read them."""
    names = {r.urn: r.name for r in found.registrations}
    for r in sorted(found.registrations, key=lambda r: (r.type, r.name)):
        yield f"{r.type} {r.name}"
        options = {
            "after": sorted(names[urn] for urn in r.depends_on if urn in names),
            "ignores": list(r.ignore_changes),
            "in": names.get(r.parent, ""),
            "protected": r.protect,
            "updated within": r.update_within,
        }
        for option, value in options.items():
            if value:
                yield f"  ({option}) {value if isinstance(value, str) else json.dumps(value)}"
        for key, value in sorted(r.inputs.items()):
            text = (
                b64decode(value).decode() if key == "userData" else value if isinstance(value, str) else json.dumps(value, sort_keys=True)
            )
            yield from (f"  {key}: {line}" for line in text.splitlines())


@pytest.mark.parametrize("stack", LAYERS)
def test_what_a_stack_registers_is_what_was_reviewed(stack: str) -> None:
    if stack in FULL:
        return golden.compare(f"{stack}.txt", _text(stack))
    environment, _, of = stack.partition("-")
    full, other = (golden.resources(golden.named(_text(f"{e}-{of}"), _names(e))) for e in (REFERENCE, environment))
    return golden.compare(f"{stack}.txt", golden.difference(full, other, _names(environment), ordered=False))


@cache
def _text(stack: str) -> str:
    return "".join(f"{line}\n" for line in (in_full if stack in CLUSTERS else Recording.lines)(layer(stack)))


def _names(environment: str) -> dict[str, str]:
    """What is another name in every environment, and appears all over its resources."""
    account = json.loads(config_of(f"{environment}-cluster")["headway:account"])
    return {"environment": environment, "account": account["id"]}


@pytest.mark.parametrize("stack", CLUSTERS)
def test_no_update_of_nodes_ends_at_the_providers_own_hour(stack: str) -> None:
    for group in layer(stack).of_type("aws:eks/nodeGroup:NodeGroup"):
        assert int(group.update_within.removesuffix("m")) >= 30 * group.inputs["scalingConfig"]["maxSize"], group.name


@pytest.mark.parametrize("stack", LAYERS)
def test_no_two_resources_share_a_urn(stack: str) -> None:
    twice = [urn for urn, count in Counter(r.urn for r in layer(stack).registrations).items() if count > 1]
    assert not twice, "the engine would take one for the other"


@pytest.mark.parametrize("stack", LAYERS)
def test_everything_belongs_to_a_component(stack: str) -> None:
    components = {r.urn for r in layer(stack).registrations if r.component}
    loose = [
        r.name for r in layer(stack).registrations if r.custom and r.parent not in components and not r.type.startswith("pulumi:providers:")
    ]
    assert not loose, "resources outside every component"


@pytest.mark.parametrize("stack", LAYERS)
def test_a_child_is_named_after_its_component(stack: str) -> None:
    names = {r.urn: r.name for r in layer(stack).registrations}
    wrong = [
        f"{r.name} in {names[r.parent]}" for r in layer(stack).registrations if r.parent in names and not r.name.startswith(names[r.parent])
    ]
    assert not wrong, "two instances of such a component would collide"


@pytest.mark.parametrize("stack", LAYERS)
def test_every_resource_uses_a_provider_of_the_program(stack: str) -> None:
    implicit = [r.name for r in layer(stack).registrations if r.custom and ":providers:" not in r.type and not r.provider]
    assert not implicit, "an ambient provider decides account, region and tags of these"


@pytest.mark.parametrize("stack", LAYERS)
def test_only_node_groups_and_what_is_handed_over_are_looked_up(stack: str) -> None:
    assert layer(stack).invokes == ((NODE_GROUPS,) if stack in CLUSTERS else (HANDED_OVER,))


@pytest.mark.parametrize("stack", LAYERS)
def test_a_preview_registers_what_an_update_does(stack: str) -> None:
    assert sorted(layer(stack).lines()) == sorted(run(stack, preview=True).lines())


@pytest.mark.parametrize("stack", PLATFORMS)
def test_a_layer_previews_before_the_one_above_is_deployed(stack: str) -> None:
    found = run(stack, preview=True, deployed=False)
    assert list(found.lines()) == list(layer(stack).lines()), "the first preview of an environment would hide part of it"
    assert len([line for line in found.log if "is not deployed yet" in line]) == 1, "why values are unknown is said, and once"


@pytest.mark.parametrize("stack", PLATFORMS)
def test_the_gateways_balancer_stands_in_each_zone_of_the_network(stack: str) -> None:
    (service,) = [r.inputs for r in layer(stack).of_type("kubernetes:core/v1:Service") if r.inputs["spec"].get("loadBalancerClass")]
    said = {key.removeprefix(BALANCER): value for key, value in service["metadata"]["annotations"].items()}
    tag = f"kubernetes.io/role/{'elb' if said['scheme'] == 'internet-facing' else 'internal-elb'}"
    subnets = [r.inputs for r in layer(stack.replace("-platform", "-cluster")).of_type("aws:ec2/subnet:Subnet")]
    assert said["subnets"].split(",") == sorted(each["tags"]["Name"] for each in subnets if tag in each["tags"])


@pytest.mark.parametrize("stack", PLATFORMS)
def test_an_update_without_the_layer_above_is_refused_with_the_remedy(stack: str) -> None:
    above = stack.replace("-platform", "-cluster")
    with pytest.raises(pulumi.RunError, match=f"deploy it first with `pulumi up -s {above}`"):
        run(stack, deployed=False)


@pytest.mark.parametrize("stack", LAYERS)
def test_no_layer_exports_a_way_into_the_cluster(stack: str) -> None:
    assert "kubeconfig" not in layer(stack).exports


@pytest.mark.parametrize("stack", LAYERS)
def test_what_a_layer_hands_over_fits_and_holds_no_credentials(stack: str) -> None:
    parameter = layer(stack).one("aws:ssm/parameter:Parameter").inputs
    environment, _, name = stack.partition("-")
    assert parameter["name"] == f"/headway/{environment}/layers/{name}"
    # A cluster's certificate has about 1,500 characters in base64, where the recording has four.
    assert len(parameter["value"]) + 2000 < LONGEST
    (user,) = json.loads(parameter["value"])["kubeconfig"]["users"]
    assert set(user["user"]) == {"exec"}, "whoever deploys signs a token with an identity of their own"


@pytest.mark.parametrize("stack", LAYERS)
def test_no_stack_reads_the_state_of_another(stack: str) -> None:
    assert not layer(stack).of_type("pulumi:pulumi:StackReference")


@pytest.mark.parametrize("stack", PLATFORMS)
def test_a_new_way_to_the_same_cluster_replaces_no_object(stack: str) -> None:
    provider = layer(stack).one("pulumi:providers:kubernetes").inputs
    environment = stack.partition("-")[0]
    assert provider["clusterIdentifier"].startswith("arn:aws:eks:")
    assert provider["clusterIdentifier"].endswith(f":cluster/headway-{environment}")


def documents(found: Recording) -> Iterator[tuple[Registration, dict[str, Any]]]:
    """Every IAM document of a recording: role policies, trust, and the policies of keys, buckets, queues and
    endpoints.
    """
    for r in found.registrations:
        for key in ("policy", "assumeRolePolicy"):
            text = r.inputs.get(key)
            if isinstance(text, str) and '"Statement"' in text:
                yield r, json.loads(text)


def allowed(found: Recording) -> Iterator[tuple[Registration, dict[str, Any]]]:
    for r, document in documents(found):
        for statement in document["Statement"]:
            if statement["Effect"] == "Allow":
                yield r, statement


@pytest.mark.parametrize("stack", LAYERS)
def test_no_permission_names_everything_without_a_reason(stack: str) -> None:
    for r, statement in allowed(layer(stack)):
        wide = "*" in statement.get("Resource", []) or any(action == "*" or action.endswith(":*") for action in statement["Action"])
        assert not wide or statement["Sid"] in WILDCARDS, f"{r.name} allows {statement}"


@pytest.mark.parametrize("stack", LAYERS)
def test_no_role_may_do_everything_in_a_service(stack: str) -> None:
    for r, statement in allowed(layer(stack)):
        if r.type == "aws:iam/rolePolicy:RolePolicy":
            wide = [action for action in statement["Action"] if "*" in action]
            assert not wide, f"{r.name} may {wide}"


@pytest.mark.parametrize("stack", LAYERS)
def test_a_role_is_assumed_by_one_service_under_a_condition(stack: str) -> None:
    for r in layer(stack).of_type("aws:iam/role:Role"):
        (statement,) = json.loads(r.inputs["assumeRolePolicy"])["Statement"]
        principal = statement["Principal"]["Service"]
        if principal != "ec2.amazonaws.com":  # an instance profile is bound to its instances by EC2 itself
            assert statement["Condition"]["StringEquals"], f"anyone's {principal} may assume {r.name}"


@pytest.mark.parametrize("stack", LAYERS)
def test_a_workload_identity_is_bound_to_one_service_account(stack: str) -> None:
    found = layer(stack)
    for association in found.of_type("aws:eks/podIdentityAssociation:PodIdentityAssociation"):
        role = next(r for r in found.of_type("aws:iam/role:Role") if r.parent == association.parent)
        tags = json.loads(role.inputs["assumeRolePolicy"])["Statement"][0]["Condition"]["StringEquals"]
        assert tags["aws:RequestTag/kubernetes-namespace"] == association.inputs["namespace"]
        assert tags["aws:RequestTag/kubernetes-service-account"] == association.inputs["serviceAccount"]
        assert tags["aws:RequestTag/eks-cluster-arn"].endswith(f":cluster/headway-{stack.partition('-')[0]}")


@pytest.mark.parametrize("stack", CLUSTERS)
def test_nodes_reach_no_bucket_queue_or_secret(stack: str) -> None:
    for r, statement in allowed(layer(stack)):
        if r.name.startswith("nodes-"):
            reached = {action.split(":")[0] for action in statement["Action"]}
            assert reached <= {"ecr", "sts"}, f"every pod of a node could use {reached} through its role"


@pytest.mark.parametrize("stack", CLUSTERS)
def test_every_bucket_is_private_versioned_encrypted_and_tls_only(stack: str) -> None:
    found = layer(stack)
    for bucket in found.of_type("aws:s3/bucket:Bucket"):
        beside = {r.type: r.inputs for r in found.children(bucket.parent)}
        closed = beside["aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock"]
        assert all(closed[key] for key in ("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets"))
        assert beside["aws:s3/bucketVersioning:BucketVersioning"]["versioningConfiguration"] == {"status": "Enabled"}
        assert beside["aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration"]["rules"]
        policy = json.loads(beside["aws:s3/bucketPolicy:BucketPolicy"]["policy"])
        assert [s["Effect"] for s in policy["Statement"] if s["Sid"] == "TlsOnly"] == ["Deny"]


@pytest.mark.parametrize("stack", CLUSTERS)
def test_no_rule_of_a_bucket_deletes_what_another_keeps_for_longer(stack: str) -> None:
    for r in layer(stack).of_type("aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration"):
        kept = {rule["filter"]["prefix"]: rule["expiration"]["days"] for rule in r.inputs["rules"] if "expiration" in rule}
        for prefix, days in kept.items():
            shorter = [other for other, end in kept.items() if prefix.startswith(other) and end < days]
            assert not shorter, f"{r.name}: objects below {prefix} go by the rule of {shorter}, the shorter one"


@pytest.mark.parametrize("stack", CLUSTERS)
def test_releases_are_recorded_where_nobody_can_change_them(stack: str) -> None:
    found = layer(stack)
    assert found.one("aws:s3/bucket:Bucket", "storage-ledger-bucket").inputs["objectLockEnabled"] is True
    lock = found.one("aws:s3/bucketObjectLockConfiguration:BucketObjectLockConfiguration")
    assert lock.inputs["rule"]["defaultRetention"]["mode"] == "GOVERNANCE"
    for role in ("artifacts", "ledger"):
        policy = json.loads(found.one("aws:s3/bucketPolicy:BucketPolicy", f"storage-{role}-policy").inputs["policy"])
        denied = {s["Sid"]: s for s in policy["Statement"]}
        assert "WriteOnce" in denied, f"an object of the {role} bucket could be overwritten"
        leases = [each.partition("/")[2] for each in denied["WriteOnce"].get("NotResource", [])]
        assert leases == ([f"{LEDGER_LEASES}*"] if role == "ledger" else []), "only leases are replaced"
    assert denied["ReplacedKnowingly"]["Resource"] == denied["WriteOnce"]["NotResource"]
    assert denied["ReplacedKnowingly"]["Condition"]["Null"] == {"s3:if-none-match": "true", "s3:if-match": "true"}


@pytest.mark.parametrize("stack", CLUSTERS)
def test_former_writings_of_leases_go_after_a_day_and_those_of_events_do_not(stack: str) -> None:
    rules = layer(stack).one("aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration", "storage-ledger-lifecycle").inputs["rules"]
    kept = {rule["filter"]["prefix"]: rule["noncurrentVersionExpiration"]["noncurrentDays"] for rule in rules}
    assert kept[LEDGER_LEASES] == 1
    assert kept[""] > 1


@pytest.mark.parametrize("stack", CLUSTERS)
def test_a_pod_reaches_artifacts_of_its_own_namespace_only(stack: str) -> None:
    policy = json.loads(layer(stack).one("aws:s3/bucketPolicy:BucketPolicy", "storage-artifacts-policy").inputs["policy"])
    (apart,) = [s for s in policy["Statement"] if s["Sid"] == "NamespacesApart"]
    assert (apart["Effect"], apart["Principal"], apart["Action"]) == ("Deny", "*", ["s3:*"])
    (spared,) = apart["NotResource"]
    assert spared.startswith("arn:aws:s3:::headway-") and spared.endswith("/${aws:PrincipalTag/kubernetes-namespace}/*")
    assert apart["Condition"] == {
        "Null": {"aws:PrincipalTag/kubernetes-namespace": "false"},
        "StringNotEquals": {"aws:PrincipalTag/kubernetes-namespace": ["artifact-cache", "diagnosis", "evaluation"]},
    }, "who is no pod would be locked out, and so would the nodes' stores of artifacts and the loops that read holdout sets and the ledger"


@pytest.mark.parametrize("stack", CLUSTERS)
def test_gpu_pools_come_after_everything_else_of_the_cluster(stack: str) -> None:
    found = layer(stack)
    addons = {r.urn for r in found.of_type("aws:eks/addon:Addon")}
    pools = [r for r in found.of_type("aws:eks/nodeGroup:NodeGroup") if r.inputs.get("taints")]
    assert pools and all(addons <= r.depends_on for r in pools), "an upgrade would drain GPUs before it is known to work"


@pytest.mark.parametrize("stack", CLUSTERS)
def test_every_key_rotates(stack: str) -> None:
    assert all(r.inputs["enableKeyRotation"] for r in layer(stack).of_type("aws:kms/key:Key"))


@pytest.mark.parametrize("stack", CLUSTERS)
def test_what_cannot_be_made_again_is_protected_where_nothing_may_be_lost(stack: str) -> None:
    stored = [r for kind in ("aws:kms/key:Key", "aws:s3/bucket:Bucket") for r in layer(stack).of_type(kind)]
    lasting = stack.startswith(("staging-", "prod-"))
    assert stored and all(r.protect is lasting for r in stored), "a destroy or a rename would take keys, and all that they encrypt"


@pytest.mark.parametrize("stack", CLUSTERS)
def test_no_access_is_logged_before_s3_may_deliver(stack: str) -> None:
    found = layer(stack)
    lets = found.one("aws:s3/bucketPolicy:BucketPolicy", "storage-access-logs-policy").urn
    logged = found.of_type("aws:s3/bucketLogging:BucketLogging")
    assert logged and all(lets in r.depends_on for r in logged)


@pytest.mark.parametrize("stack", CLUSTERS)
def test_images_cannot_be_replaced_behind_their_tag(stack: str) -> None:
    for r in layer(stack).of_type("aws:ecr/repository:Repository"):
        assert r.inputs["imageTagMutability"] == "IMMUTABLE"
        assert r.inputs["imageScanningConfiguration"] == {"scanOnPush": True}


@pytest.mark.parametrize("stack", CLUSTERS)
def test_every_node_keeps_its_credentials_from_pods_and_its_disk_encrypted(stack: str) -> None:
    for r in layer(stack).of_type("aws:ec2/launchTemplate:LaunchTemplate"):
        assert r.inputs["metadataOptions"]["httpTokens"] == "required"
        assert r.inputs["metadataOptions"]["httpPutResponseHopLimit"] == 1
        assert r.inputs["blockDeviceMappings"][0]["ebs"]["encrypted"] == "true"
        assert not {"imageId", "iamInstanceProfile", "vpcSecurityGroupIds"} & set(r.inputs), "EKS would no longer manage the nodes"


@pytest.mark.parametrize("stack", CLUSTERS)
def test_the_autoscaler_alone_decides_how_many_nodes_there_are(stack: str) -> None:
    for r in layer(stack).of_type("aws:eks/nodeGroup:NodeGroup"):
        assert r.ignore_changes == ("scalingConfig.desiredSize",)


@pytest.mark.parametrize("stack", CLUSTERS)
def test_the_creator_of_a_cluster_does_not_stay_a_hidden_administrator(stack: str) -> None:
    access = layer(stack).one(EKS_CLUSTER).inputs["accessConfig"]
    assert access == {"authenticationMode": "API", "bootstrapClusterCreatorAdminPermissions": False}


@pytest.mark.parametrize("stack", CLUSTERS)
def test_gpus_are_packed(stack: str) -> None:
    strategy = layer(stack).one(EKS_CLUSTER).inputs["kubeSchedulerConfig"]["nodeResourcesFit"]["scoringStrategy"]
    weights = {resource["name"]: resource["weight"] for resource in strategy["resources"]}
    assert strategy["type"] == "MostAllocated"
    assert weights["nvidia.com/gpu"] > weights["cpu"]
    assert all(1 <= weight <= 100 for weight in weights.values()), "EKS allows weights from 1 to 100"


@pytest.mark.parametrize("stack", CLUSTERS)
def test_nodes_wait_for_what_lets_them_join(stack: str) -> None:
    found = layer(stack)
    needed = {r.urn for r in found.of_type("aws:eks/addon:Addon") if r.name.startswith("joining-")}
    needed |= {r.urn for kind in WAYS_OUT for r in found.of_type(kind) if not r.name.startswith(("network-intra", "control-plane"))}
    for r in found.of_type("aws:eks/nodeGroup:NodeGroup"):
        assert needed <= r.depends_on, f"{r.name} could start before its network"


@pytest.mark.parametrize("stack", CLUSTERS)
def test_dns_waits_for_a_node_to_run_on(stack: str) -> None:
    found = layer(stack)
    system = next(r.urn for r in found.of_type("aws:eks/nodeGroup:NodeGroup") if r.name.endswith("-nodes"))
    assert system in found.one("aws:eks/addon:Addon", "running-coredns").depends_on, "creation would hang for 20 minutes, DEGRADED"


@pytest.mark.parametrize("stack", CLUSTERS)
def test_every_add_on_is_pinned(stack: str) -> None:
    versions = {r.inputs["addonName"]: r.inputs.get("addonVersion", "") for r in layer(stack).of_type("aws:eks/addon:Addon")}
    assert all("-eksbuild." in version for version in versions.values()), versions


@pytest.mark.parametrize("stack", PLATFORMS)
def test_every_chart_is_pinned_and_rolled_back_when_it_fails(stack: str) -> None:
    for r in layer(stack).of_type("kubernetes:helm.sh/v3:Release"):
        assert r.inputs["version"].lstrip("v")[0].isdigit(), f"{r.name} floats"
        assert r.inputs["atomic"] is True


@pytest.mark.parametrize("stack", PLATFORMS)
def test_a_preview_warns_of_loops_that_do_not_run(stack: str) -> None:
    told = [entry for entry in layer(stack).log if "headway:loops names no image" in entry]
    assert len(told) == stack.startswith("dev"), "staging and prod have pools that need them, and the sandbox runs them as processes"


@pytest.mark.parametrize("stack", PLATFORMS)
def test_every_preview_warns_of_charts_without_a_digest(stack: str) -> None:
    told = [entry for entry in layer(stack).log if "no recorded digest" in entry]
    unpinned = [f"{chart.chart} {chart.version}" for chart in CHARTS if chart.digest is None]
    assert len(told) == bool(unpinned and not stack.startswith("sandbox"))
    assert all(name in entry for entry in told for name in unpinned)


@pytest.mark.parametrize("stack", PLATFORMS)
def test_own_kinds_wait_for_the_chart_that_brings_them(stack: str) -> None:
    found = layer(stack)
    bringing = {"istio.io": "istiod-release", "monitoring.coreos.com": "prometheus-release"}
    releases = {r.name: r.urn for r in found.of_type("kubernetes:helm.sh/v3:Release")}
    checked = 0
    for r in found.registrations:
        for group, release in bringing.items():
            if r.type.split("/")[0].endswith(group):
                assert releases[release] in r.depends_on, f"{r.name} could be created before its kind exists"
                checked += 1
    assert checked >= 8


@pytest.mark.parametrize("stack", PLATFORMS)
def test_whatever_brings_monitors_waits_for_their_kind(stack: str) -> None:
    found = layer(stack)
    monitoring = found.one("kubernetes:helm.sh/v3:Release", "prometheus-release").urn
    kinds = found.one("kubernetes:helm.sh/v3:Release", "prometheus-definitions-release").urn
    for r in found.of_type("kubernetes:helm.sh/v3:Release"):
        if r.urn not in (kinds, monitoring):
            assert monitoring in r.depends_on, f"{r.name} would fail with: no matches for kind ServiceMonitor"


@pytest.mark.parametrize("stack", [*LAYERS, f"{REFERENCE}-access"])
def test_a_layer_breaks_no_rule_as_its_environment_sets_it(stack: str) -> None:
    """What the eks component makes for itself is left out: here nothing fills in its inputs."""
    settings = json.loads((EXEMPTIONS_FILE.parent / "config" / f"{stack.partition('-')[0]}.json").read_text())
    exemptions, today = load(EXEMPTIONS_FILE, [rule.id for rule in RULES]), date.today()
    notes: dict[str, dict[str, Any]] = {rule.id: {} for rule in RULES}
    found = [
        f"{rule.id} {r.name}: {each.dotted}: {each.fact}"
        for r in layer(stack).registrations
        for rule in RULES
        if rule.covers(canonical(r.type)) and r.type != "aws:eks/cluster:Cluster"
        if not any(exemption.covers(rule.id, r.urn, today) for exemption in exemptions)
        for view in [ResourceView(canonical(r.type), r.name, r.urn, InputNode(plain(dict(r.inputs))), r.protect, notes[rule.id])]
        for each in evaluate(rule, view, settings.get(rule.id)).breaches
    ]
    assert found == []
