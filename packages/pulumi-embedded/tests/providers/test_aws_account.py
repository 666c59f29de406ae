"""The simulated account: references exist, deletions keep their order, a killed create is not repeated, secrets stay out."""

import json
import multiprocessing
import os
import signal
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from aws_world import REGION, ZONES, Made, Watch, World, trust, urn_of

from pulumi_embedded.engine.provider import UNKNOWN, Properties, ProviderError
from pulumi_embedded.providers.aws.account import SimulatedAccount
from pulumi_embedded.providers.aws.catalogue import CATALOGUE
from pulumi_embedded.providers.aws.overwriting import ANSWERED_AGAIN, OVERWRITTEN

ALLOW = json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}]})
VPC = "aws:ec2/vpc:Vpc"
CIDR = {"cidrBlock": "10.0.0.0/16"}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


# -- references


@pytest.mark.parametrize(
    ("short", "inputs", "told"),
    [
        ("ec2/subnet", {"vpcId": "vpc-0", "cidrBlock": "10.0.0.0/24"}, "InvalidVpcID.NotFound: vpcId names the VPC vpc-0"),
        ("iam/rolePolicyAttachment", {"role": "nobody", "policyArn": "arn:aws:iam::aws:policy/ReadOnlyAccess"}, "the role name nobody"),
        ("kms/alias", {"name": "alias/a", "targetKeyId": "00000000-0000"}, "the KMS key 00000000-0000"),
        ("cloudwatch/logGroup", {"kmsKeyId": "arn:aws:kms:us-west-2:000000000000:key/1"}, "kmsKeyId"),
        ("autoscaling/tag", {"autoscalingGroupName": "g", "tag": {"key": "k", "value": "v", "propagateAtLaunch": False}}, "the Auto Scaling group g"),
        ("eks/accessPolicyAssociation", {
            "clusterName": "dev", "principalArn": "arn:aws:iam::000000000000:role/x", "accessScope": {"type": "cluster"},
            "policyArn": "arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy",
        }, "the access entry dev:arn:aws:iam::000000000000:role/x"),
    ],
)  # fmt: skip
def test_what_is_named_and_does_not_exist_is_told_as_aws_would(world: World, short: str, inputs: dict[str, Any], told: str) -> None:
    with pytest.raises(ProviderError, match="does not exist") as error:
        world.make(short, "it", **inputs)
    assert told in str(error.value)


def test_all_missing_references_of_one_object_are_told_together(world: World) -> None:
    with pytest.raises(ProviderError) as error:
        world.make(
            "eks/cluster", "c", name="dev", roleArn="arn:aws:iam::000000000000:role/no", vpcConfig={"subnetIds": ["subnet-0", "subnet-1"]}
        )
    assert all(word in str(error.value) for word in ("roleArn", "vpcConfig.subnetIds[0]", "vpcConfig.subnetIds[1]"))


def test_a_reference_that_failed_leaves_nothing_behind(world: World) -> None:
    with pytest.raises(ProviderError):
        world.make("ec2/subnet", "s", vpcId="vpc-0", cidrBlock="10.0.0.0/24")
    vpc = world.make("ec2/vpc", "v", **CIDR)
    assert world.make("ec2/subnet", "s", vpcId=vpc.id, cidrBlock="10.0.0.0/24").id.startswith("subnet-")


def test_an_object_of_another_region_is_not_found(world: World) -> None:
    vpc = world.make("ec2/vpc", "v", region="us-east-1", **CIDR)
    with pytest.raises(ProviderError, match="does not exist in us-west-2"):
        world.make("ec2/subnet", "s", vpcId=vpc.id, cidrBlock="10.0.0.0/24")


@pytest.mark.parametrize("arn", ["arn:aws:kms:us-west-2:999988887777:key/abc", "alias/aws/sqs"])
def test_keys_of_other_accounts_and_of_aws_itself_need_no_program(world: World, arn: str) -> None:
    assert world.make("cloudwatch/logGroup", "g", kmsKeyId=arn).outputs["kmsKeyId"] == arn


def test_a_preview_may_name_what_does_not_exist_yet(world: World) -> None:
    assert world.preview("ec2/subnet", "s", vpcId=UNKNOWN, cidrBlock="10.0.0.0/24")["arn"] == UNKNOWN


def test_a_preview_leaves_no_trace(world: World, tmp_path: Path) -> None:
    world.preview("ec2/vpc", "v", **CIDR)
    assert not list(tmp_path.iterdir())


def test_two_objects_of_one_name_are_refused_as_aws_would(world: World) -> None:
    world.role("one", name="same")
    with pytest.raises(ProviderError, match=r"AlreadyExists: aws:iam/role:Role same"):
        world.role("two", name="same")


# -- deletion


def test_a_vpc_with_subnets_is_not_deleted_and_says_what_holds_it(world: World) -> None:
    vpc = world.make("ec2/vpc", "v", **CIDR)
    subnet = world.make("ec2/subnet", "s", vpcId=vpc.id, cidrBlock="10.0.0.0/24")
    with pytest.raises(ProviderError, match=f"DependencyViolation.*Subnet s \\({subnet.id}, by vpcId\\)"):
        vpc.delete()
    subnet.delete()
    vpc.delete()
    assert vpc.read() is None


def test_a_role_with_attached_policies_is_deleted_only_by_force(world: World) -> None:
    held, forced = world.role("held"), world.role("forced", forceDetachPolicies=True)
    for role in (held, forced):
        world.make("iam/rolePolicyAttachment", f"{role.name}-policy", role=role.id, policyArn="arn:aws:iam::aws:policy/ReadOnlyAccess")
    with pytest.raises(ProviderError, match="RolePolicyAttachment held-policy"):
        held.delete()
    forced.delete()
    assert forced.read() is None


def test_a_policy_that_a_role_uses_is_not_deleted(world: World) -> None:
    policy = world.make("iam/policy", "p", policy=ALLOW)
    world.make("iam/rolePolicyAttachment", "a", role=world.role().id, policyArn=policy.outputs["arn"])
    with pytest.raises(ProviderError, match="DependencyViolation"):
        policy.delete()


def test_a_cluster_goes_after_its_node_groups_and_takes_its_addons_along(world: World) -> None:
    group = world.node_group(size=0)
    cluster = world.provider
    addon = world.make("eks/addon", "dns", clusterName="dev", addonName="coredns", addonVersion="v1.12.0-eksbuild.1")
    type = "aws:eks/cluster:Cluster"

    def delete() -> None:
        cluster.delete(urn_of(type, "cluster"), type, "dev", {}, {}, Watch())

    with pytest.raises(ProviderError, match="NodeGroup gpu"):
        delete()
    group.delete()
    delete()
    assert addon.read() is None


def test_a_control_plane_stays_in_the_zones_that_it_was_made_in(world: World) -> None:
    subnets = world.subnets()
    cluster = world.cluster(subnets[:2])
    for others in (subnets, subnets[1:]):
        with pytest.raises(ProviderError, match=f"exact set of AZs '{','.join(ZONES[:2])}' in which"):
            cluster.update(vpcConfig={"subnetIds": others})
    cluster.update(vpcConfig={"subnetIds": subnets[1::-1]})


def test_nobody_reaches_the_public_endpoint_from_a_private_range(world: World) -> None:
    subnets = world.subnets()
    cluster = world.cluster(subnets)
    cluster.update(vpcConfig={"subnetIds": subnets, "publicAccessCidrs": ["0.0.0.0/0"]})
    with pytest.raises(ProviderError, match=r"not allowed in publicAccessCidrs: \[10\.1\.0\.96/27\]"):
        cluster.update(vpcConfig={"subnetIds": subnets, "publicAccessCidrs": ["203.0.113.0/24", "10.1.0.96/27"]})


def test_a_gateways_address_is_no_others_while_it_is_there(world: World) -> None:
    subnets, address = world.subnets(), world.make("ec2/eip", "e", domain="vpc")
    inputs = {"allocationId": address.outputs["allocationId"], "connectivityType": "public"}
    first = world.make("ec2/natGateway", "first", subnetId=subnets[0], **inputs)
    first.update(tags={"a": "b"})
    assert first.diff(subnetId=subnets[1]).replaces == ("subnetId",)
    with pytest.raises(ProviderError, match=r"Resource\.AlreadyAssociated"):
        world.make("ec2/natGateway", "second", subnetId=subnets[1], **inputs)
    first.delete()
    world.make("ec2/natGateway", "second", subnetId=subnets[1], **inputs)


def test_a_protected_cluster_is_not_deleted_until_the_protection_is_lifted(world: World) -> None:
    cluster = world.cluster(world.subnets(), deletionProtection=True)
    with pytest.raises(ProviderError, match="deletionProtection is true; set it to false"):
        cluster.delete()
    cluster.update(deletionProtection=False)
    cluster.delete()
    assert cluster.read() is None


def test_deleting_what_is_gone_is_no_error(world: World) -> None:
    vpc = world.make("ec2/vpc", "v", **CIDR)
    vpc.delete()
    vpc.delete()


# -- the same object, whatever happens


def again(made: Made, *, takes_over: bool = False, **changed: Any) -> tuple[str, Properties]:
    """Its creation, repeated by a later operation that knows of the first one as cut off."""
    provider = made.world.another(takes_over=takes_over)
    return provider.create(made.urn, made.type, made.name, {**made.inputs, **changed}, Watch(repeated=True))


def test_a_create_repeated_after_a_kill_meets_its_object_as_somebodys(world: World) -> None:
    """pulumi/pulumi#11599: the engine makes a second one, or AWS refuses the name."""
    role, vpc = world.role("r", name="fixed"), world.make("ec2/vpc", "v", **CIDR)
    with pytest.raises(
        ProviderError, match=r"AlreadyExists: .*fixed exists .*was cut off and may have made it: delete it there, or import it"
    ):
        again(role)
    assert again(vpc)[0] != vpc.id


def test_what_a_creation_only_sets_is_set_again_after_a_kill(world: World) -> None:
    """IAM API reference, PutRolePolicy: an inline policy of that name is updated."""
    role = world.role("r", name="fixed")
    policy = world.make("iam/rolePolicy", "p", name="inline", role=role.id, policy=ALLOW)
    assert again(policy)[0] == policy.id


def test_a_topic_of_the_same_is_answered_again_after_a_kill(world: World) -> None:
    """SNS API reference, CreateTopic: idempotent; refused where an attribute differs."""
    topic = world.make("sns/topic", "t", name="alarms")
    assert again(topic)[0] == topic.id
    with pytest.raises(ProviderError, match=r"AlreadyExists: .*alarms"):
        again(topic, displayName="Others")


def test_a_host_that_goes_on_takes_over_what_a_killed_create_made(world: World) -> None:
    first = world.make("ec2/vpc", "v", **CIDR)
    assert again(first, takes_over=True) == (first.id, first.outputs)


def test_all_types_that_are_only_set_are_known() -> None:
    assert set(CATALOGUE) >= OVERWRITTEN | ANSWERED_AGAIN


def test_what_exists_is_not_taken_over_because_its_state_is_lost(world: World) -> None:
    """EntityAlreadyExists (IAM, CreateRole); a VPC has no name, and EC2 makes as many as it is asked for."""
    role, vpc = world.role("r", name="fixed"), world.make("ec2/vpc", "v", **CIDR)
    with pytest.raises(ProviderError, match=r"AlreadyExists: .*fixed exists .*or import it"):
        world.another().create(role.urn, role.type, "r", role.inputs, Watch())
    assert world.another().create(vpc.urn, VPC, "v", vpc.inputs, Watch())[0] != vpc.id


def test_a_path_keeps_no_two_policies_of_one_name_apart(world: World) -> None:
    """IAM API reference, CreatePolicy, PolicyName: unique within the account."""
    world.make("iam/policy", "p", name="people", path="/one/", policy=ALLOW)
    with pytest.raises(ProviderError, match=r"AlreadyExists: .*people"):
        world.make("iam/policy", "q", name="people", path="/two/", policy=ALLOW)


def test_what_a_killed_create_made_otherwise_is_discarded(world: World) -> None:
    id, outputs = again(world.role("r", name="fixed"), takes_over=True, description="another")
    assert (id, outputs["description"]) == ("fixed", "another")


def test_a_replacement_with_the_same_inputs_is_another_object(world: World) -> None:
    old = world.make("ec2/vpc", "v", **CIDR)
    old.diff()
    new = world.make("ec2/vpc", "v", **CIDR)
    assert new.id != old.id
    old.delete()
    assert new.read() is not None


def _create_and_die(folder: str, at: str) -> None:
    world = World(Path(folder))
    world.make("ec2/vpc", "v", **CIDR)
    (Path(at)).touch()
    os.kill(os.getpid(), signal.SIGKILL)


def test_an_object_outlives_the_sigkill_of_its_maker(tmp_path: Path) -> None:
    process = multiprocessing.get_context("fork").Process(target=_create_and_die, args=(str(tmp_path), str(tmp_path / "made")))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL and (tmp_path / "made").exists()
    world = World(tmp_path)
    before = world.provider.create(urn_of(VPC, "v"), VPC, "v", dict(CIDR), Watch())
    assert world.make("ec2/subnet", "s", vpcId=before[0], cidrBlock="10.0.0.0/24").outputs["vpcId"] == before[0]


def _create_many(folder: str, first: int) -> None:
    world = World(Path(folder))
    for number in range(first, first + 20):
        world.make("ec2/vpc", f"v{number}", **CIDR)


def test_two_processes_may_work_on_one_account(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_create_many, args=(str(tmp_path), first)) for first in (0, 100)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0]
    provider = World(tmp_path).provider
    ids = {provider.create(urn_of(VPC, f"v{n}"), VPC, f"v{n}", dict(CIDR), Watch())[0] for n in (*range(20), *range(100, 120))}
    assert len(ids) == 40


def test_many_may_open_a_new_account_at_once(tmp_path: Path) -> None:
    """Without another try one in sixty was told that the file is locked, at once, whatever it would have waited."""

    def opened(file: Path, together: Barrier) -> None:
        account = SimulatedAccount(file)
        together.wait()
        account.delete(0)
        account.close()

    for attempt in range(40):
        together = Barrier(8)
        with ThreadPoolExecutor(8) as pool:
            waits = [pool.submit(opened, tmp_path / f"{attempt}.sqlite", together) for _ in range(8)]
        assert [wait.exception() for wait in waits] == [None] * 8


def test_reading_answers_the_inputs_that_were_recorded(world: World) -> None:
    role = world.role(tags={"a": "b"})
    live = role.read()
    assert live is not None and live.inputs == role.inputs and live.outputs == role.outputs


def test_an_object_deleted_by_another_is_found_missing(world: World) -> None:
    vpc = world.make("ec2/vpc", "v", **CIDR)
    world.another().delete(vpc.urn, VPC, vpc.id, {}, {}, Watch())
    assert vpc.read() is None
    with pytest.raises(ProviderError, match="does not exist any more"):
        vpc.update(enableDnsSupport=False)


def test_a_secret_value_is_not_in_the_account(world: World, tmp_path: Path) -> None:
    secret = world.make("secretsmanager/secret", "s", name="ecr-pullthroughcache/hub")
    version = world.make("secretsmanager/secretVersion", "v", secretId=secret.id, secretString="hunter2-plain")
    world.provider.close()
    assert not any(b"hunter2-plain" in file.read_bytes() for file in tmp_path.iterdir())
    live = version.read()
    assert live is not None and live.inputs["secretString"] == "hunter2-plain"


# -- changes


MIME = 'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="b"\n\n--b\nContent-Type: application/node.eks.aws\n\n{}\n\n--b--\n'
TOML = "[settings.kubernetes]\nregistry-qps = 0\n"


@pytest.mark.parametrize(
    ("family", "user_data", "refused"),
    [
        ("AL2023_x86_64_NVIDIA", MIME, ""),
        ("AL2023_x86_64_NVIDIA", TOML, "not in the MIME multipart format"),
        ("BOTTLEROCKET_x86_64_NVIDIA", MIME, "not a TOML format that could be processed"),
        ("BOTTLEROCKET_x86_64_NVIDIA", TOML, ""),
    ],
)
def test_a_node_group_is_refused_whose_image_cannot_read_its_user_data(world: World, family: str, user_data: str, refused: str) -> None:
    template = world.make("ec2/launchTemplate", "t", userData=b64encode(user_data.encode()).decode())
    named: dict[str, Any] = {"amiType": family, "launchTemplate": {"id": template.id, "version": "1"}}
    if not refused:
        assert world.node_group(**named).outputs["amiType"] == family
        return
    with pytest.raises(ProviderError, match=f"Ec2LaunchTemplateInvalidConfiguration: User data was {refused}"):
        world.node_group(**named)


def test_a_launch_template_counts_versions_of_its_data_only(world: World) -> None:
    template = world.make("ec2/launchTemplate", "t", updateDefaultVersion=True, description="one")
    assert template.update(tags={"a": "b"})["latestVersion"] == 1
    assert template.update(description="two")["latestVersion"] == 2
    assert template.outputs["defaultVersion"] == 2
    assert template.update(Watch(preview=True), description="three")["latestVersion"] == UNKNOWN


def test_a_change_of_the_default_tags_updates_what_carries_them(tmp_path: Path) -> None:
    vpc = World(tmp_path, defaultTags='{"tags": {"team": "a"}}').make("ec2/vpc", "v", **CIDR)
    assert vpc.outputs["tagsAll"] == {"team": "a"}
    vpc.world = World(tmp_path, defaultTags='{"tags": {"team": "b"}}')
    assert vpc.diff().details == {"tagsAll": "update"}
    assert vpc.update()["tagsAll"] == {"team": "b"}


def test_an_automatic_name_stays_and_that_of_a_replacement_differs(world: World) -> None:
    first = world.role("worker")
    assert first.id.startswith("worker-") and not first.diff().details
    again = world.provider.check(first.urn, first.type, "worker", None, {"assumeRolePolicy": trust("ec2.amazonaws.com")})
    assert again.inputs["name"] != first.id


def test_a_replacement_that_keeps_its_name_deletes_first(world: World) -> None:
    fixed, automatic = world.role("a", name="fixed"), world.role("b")
    assert fixed.diff(path="/team/").delete_before_replace
    assert not automatic.diff(path="/team/").delete_before_replace


def test_a_forced_replacement_of_what_is_named_by_its_inputs_deletes_first(world: World) -> None:
    role = world.role()
    only = world.make("iam/rolePoliciesExclusive", "only", roleName=role.id, policyNames=[])
    attachment = world.make("iam/rolePolicyAttachment", "a", role=role.id, policyArn="arn:aws:iam::aws:policy/ReadOnlyAccess")
    assert only.diff().delete_before_replace and not attachment.diff().delete_before_replace


def test_an_id_that_is_taken_is_refused_as_aws_would(world: World) -> None:
    role = world.role()
    world.make("iam/rolePoliciesExclusive", "one", roleName=role.id, policyNames=[])
    with pytest.raises(ProviderError, match="AlreadyExists"):
        world.make("iam/rolePoliciesExclusive", "two", roleName=role.id, policyNames=[])


def test_a_physical_name_longer_than_aws_allows_is_shortened(world: World) -> None:
    role = world.role("r" * 90)
    assert len(role.id) == 64 and role.id != world.role("r" * 89).id


def test_a_prefix_asks_for_a_name_that_begins_with_it(world: World) -> None:
    role = world.role("r", namePrefix="team-")
    assert role.id.startswith("team-") and role.outputs["name"] == role.id and not role.diff().details


def test_before_it_is_configured_the_provider_can_still_check_and_plan(tmp_path: Path) -> None:
    from pulumi_embedded.providers.aws.provider import AwsProvider

    provider = AwsProvider(lambda _: pytest.fail("opened"), environment={})
    checked = provider.check(urn_of(VPC, "v"), VPC, "v", None, dict(CIDR))
    assert not checked.failures
    assert provider.plan(VPC, checked.inputs, None)["arn"] == UNKNOWN
    assert REGION not in json.dumps(provider.plan(VPC, checked.inputs, None))


@pytest.mark.parametrize(("stays", "refused"), [({}, True), ({"bootstrapClusterCreatorAdminPermissions": False}, False)])
def test_who_creates_a_cluster_has_an_entry_unless_that_is_declined(world: World, stays: dict[str, bool], refused: bool) -> None:
    cluster = world.cluster(world.subnets(), accessConfig={"authenticationMode": "API", **stays})
    creator = world.provider.invoke("aws:index/getCallerIdentity:getCallerIdentity", {}, False)["arn"]
    world.make("eks/accessEntry", "another", clusterName=cluster.id, principalArn=f"{creator}-2")
    with pytest.raises(ProviderError, match="already in use on this cluster") if refused else nullcontext():
        world.make("eks/accessEntry", "creator", clusterName=cluster.id, principalArn=creator)


def key_policy(principal: Any) -> str:
    statement = {"Sid": "Uses", "Effect": "Allow", "Action": "kms:Decrypt", "Resource": "*", "Principal": principal}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def test_a_key_whose_policy_names_a_role_that_is_not_there_is_refused(world: World) -> None:
    """KMS looks each principal up (terraform-aws-modules/terraform-aws-kms#30: "one or more invalid principals")."""
    role = world.role("deployer", name="deployer", path="/access/")
    there = {"AWS": role.outputs["arn"]}
    key = world.make("kms/key", "key", policy=key_policy(there))
    gone = key_policy({"AWS": [role.outputs["arn"], role.outputs["arn"].replace("/access/", "/")]})
    for refused in (lambda: world.make("kms/key", "other", policy=gone), lambda: key.update(policy=gone)):
        with pytest.raises(ProviderError, match=r"invalid principals: arn:aws:iam::\d+:role/deployer is not in"):
            refused()


@pytest.mark.parametrize(
    "principal",
    [
        {"AWS": "arn:aws:iam::000000000000:root"},
        {"AWS": "arn:aws:iam::000000000000:role/aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling"},
        {"AWS": "arn:aws:iam::111122223333:role/of-another-account"},
        {"Service": "cloudwatch.amazonaws.com"},
        "*",
    ],
)
def test_a_key_may_name_whom_the_account_does_not_make(world: World, principal: Any) -> None:
    assert world.make("kms/key", "key", policy=key_policy(principal)).read() is not None
