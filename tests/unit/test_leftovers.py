"""What a destroyed environment may leave in its account: found by tag and name, in an order in which it can go, and nobody else's."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import boto3
import pytest
import typer
from moto import mock_aws
from moto.core import DEFAULT_ACCOUNT_ID
from typer.testing import CliRunner

from headway.cli.leftovers import leftovers as command
from headway.ledger.witness_place import ParameterWitness
from headway.leftovers import Leftover, Search, check_account, cluster_exists, leftovers
from headway.problem import UserError

REGION = "us-west-2"
SEARCH = Search(environment="dev", cluster="headway-dev", account_id=DEFAULT_ACCOUNT_ID, region=REGION)
OWNED = [{"Key": "kubernetes.io/cluster/headway-dev", "Value": "owned"}]
OTHERS = [{"Key": "kubernetes.io/cluster/headway-prod", "Value": "owned"}]
ROOT = Path(__file__).parents[2]
WITNESS = "/headway/dev/witness/{}/digits/drift.c527be41ae86"
"""Of a chain in the ledger s3://l."""


@cache
def client(service: str) -> Any:
    return boto3.client(service, region_name=REGION)


@pytest.fixture(autouse=True)
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    monkeypatch.setenv("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")  # half a second of each test
    with mock_aws():
        yield


@pytest.fixture
def subnet() -> str:
    ec2 = client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    return ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.1.0/24", AvailabilityZone=f"{REGION}a")["Subnet"]["SubnetId"]


def found() -> tuple[Leftover, ...]:
    return leftovers(SEARCH, client)


def tagged(kind: str, tags: list[dict[str, str]]) -> list[dict[str, Any]]:
    return [{"ResourceType": kind, "Tags": tags}]


def volume(tags: list[dict[str, str]]) -> str:
    made = client("ec2").create_volume(AvailabilityZone=f"{REGION}a", Size=20, TagSpecifications=tagged("volume", tags))
    return made["VolumeId"]


def interface(subnet: str, tags: list[dict[str, str]], description: str = "aws-K8S-i-1") -> str:
    more = {"TagSpecifications": tagged("network-interface", tags)} if tags else {}
    made = client("ec2").create_network_interface(SubnetId=subnet, Description=description, **more)
    return made["NetworkInterface"]["NetworkInterfaceId"]


def load_balancer(subnet: str, tags: list[dict[str, str]], name: str = "a") -> str:
    made = client("elbv2").create_load_balancer(Name=name, Type="network", Subnets=[subnet], Tags=tags)
    return made["LoadBalancers"][0]["LoadBalancerArn"]


def test_an_empty_account_holds_nothing() -> None:
    assert found() == ()


def test_images_that_a_cache_fetched_are_found_by_the_name_of_their_cache() -> None:
    for name in ("headway-dev-k8s/pause", "headway-dev/fetch", "headway-development/fetch", "mirror/fetch"):
        client("ecr").create_repository(repositoryName=name)
    assert [each.remove for each in found()] == [
        f"aws ecr delete-repository --repository-name {name} --force --region {REGION}"
        for name in ("headway-dev-k8s/pause", "headway-dev/fetch")
    ]


def test_a_volume_of_a_claim_is_found_with_the_command_that_removes_it() -> None:
    id = volume(OWNED)
    assert found() == (
        Leftover(
            kind="volume",
            id=id,
            why="tag kubernetes.io/cluster/headway-dev=owned",
            state="available, 20 GiB",
            remove=f"aws ec2 delete-volume --volume-id {id} --region us-west-2",
        ),
    )


def test_what_belongs_to_another_environment_is_left_alone(subnet: str) -> None:
    volume(OTHERS)
    volume([{"Key": "platform.io/environment", "Value": "prod"}])
    interface(subnet, OTHERS)
    load_balancer(subnet, OTHERS)
    client("logs").create_log_group(logGroupName="/aws/eks/headway-dev2/cluster")
    assert found() == ()


@pytest.mark.parametrize(
    "tag",
    ["kubernetes.io/cluster/headway-dev=owned", "eks:cluster-name=headway-dev", "platform.io/environment=dev"],
)
def test_a_thing_is_known_by_whoever_tagged_it(tag: str) -> None:
    key, _, value = tag.partition("=")
    volume([{"Key": key, "Value": value}])
    assert [each.why for each in found()] == [f"tag {tag}"], "found once, by its own kind, and not again by its tag"


def test_network_interfaces_of_pods_and_of_the_control_plane_are_found(subnet: str) -> None:
    pod = interface(subnet, [{"Key": "cluster.k8s.amazonaws.com/name", "Value": "headway-dev"}])
    plane = interface(subnet, [], "Amazon EKS headway-dev")
    interface(subnet, [], "Amazon EKS headway-dev2")
    assert {each.id for each in found()} == {pod, plane}


def test_load_balancers_of_services_are_found_however_many_there_are(subnet: str) -> None:
    own = {load_balancer(subnet, [{"Key": "elbv2.k8s.aws/cluster", "Value": "headway-dev"}], f"lb-{n}") for n in range(21)}
    assert {each.id for each in found() if each.kind == "load balancer"} == own, "AWS tells the tags of twenty at a time"


def test_a_classic_load_balancer_is_found() -> None:
    listener = {"Protocol": "tcp", "LoadBalancerPort": 80, "InstancePort": 80}
    client("elb").create_load_balancer(LoadBalancerName="old", Listeners=[listener], AvailabilityZones=[f"{REGION}a"], Tags=OWNED)
    assert [(each.kind, each.id, each.state) for each in found()] == [("load balancer", "old", "classic")]


def test_the_log_group_that_eks_wrote_again_is_found_with_its_retention() -> None:
    logs = client("logs")
    logs.create_log_group(logGroupName="/aws/eks/headway-dev/cluster")
    logs.create_log_group(logGroupName="/aws/vpc/headway-dev/flow")
    logs.put_retention_policy(logGroupName="/aws/vpc/headway-dev/flow", retentionInDays=14)
    states = {each.id: each.state for each in found() if each.kind == "log group"}
    assert states == {"/aws/eks/headway-dev/cluster": "kept for ever", "/aws/vpc/headway-dev/flow": "kept 14 days"}


def test_instances_are_found_until_they_are_terminated(subnet: str) -> None:
    ec2 = client("ec2")
    started = ec2.run_instances(
        ImageId="ami-12c6146b", MinCount=2, MaxCount=2, SubnetId=subnet, TagSpecifications=tagged("instance", OWNED)
    )
    kept, gone = (instance["InstanceId"] for instance in started["Instances"])
    ec2.terminate_instances(InstanceIds=[gone])
    assert [each.id for each in found() if each.kind == "instance"] == [kept]


def test_a_bucket_that_only_carries_the_environments_tag_is_found() -> None:
    s3 = client("s3")
    s3.create_bucket(Bucket="headway-dev-ledger", CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.put_bucket_tagging(Bucket="headway-dev-ledger", Tagging={"TagSet": [{"Key": "platform.io/environment", "Value": "dev"}]})
    assert [(each.kind, each.id) for each in found()] == [("s3", "arn:aws:s3:::headway-dev-ledger")]


def test_a_key_that_waits_out_its_deletion_is_no_leftover() -> None:
    kms = client("kms")
    tags = [{"TagKey": "platform.io/environment", "TagValue": "dev"}]
    kept, going = (kms.create_key(Tags=tags)["KeyMetadata"] for _ in range(2))
    kms.schedule_key_deletion(KeyId=going["KeyId"], PendingWindowInDays=7)
    assert [each.id for each in found() if each.kind == "kms"] == [kept["Arn"]]


def test_what_holds_others_comes_before_them(subnet: str) -> None:
    ec2 = client("ec2")
    volume(OWNED)
    group = ec2.create_security_group(GroupName="k8s-elb", Description="x", TagSpecifications=tagged("security-group", OWNED))
    interface(subnet, OWNED)
    load_balancer(subnet, OWNED)
    kinds = [each.kind for each in found()]
    assert kinds == ["load balancer", "network interface", "security group", "volume"]
    assert found()[2].id == group["GroupId"]


def test_a_cluster_that_lives_is_told(subnet: str) -> None:
    assert not cluster_exists(SEARCH, client)
    client("eks").create_cluster(
        name="headway-dev", roleArn=f"arn:aws:iam::{DEFAULT_ACCOUNT_ID}:role/eks", resourcesVpcConfig={"subnetIds": [subnet]}
    )
    assert cluster_exists(SEARCH, client)


def test_another_accounts_credentials_are_refused() -> None:
    other = Search(environment="dev", cluster="headway-dev", account_id="999999999999", region=REGION)
    with pytest.raises(UserError, match=f"of account {DEFAULT_ACCOUNT_ID}; dev is in account 999999999999"):
        check_account(other, client)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A checkout whose `dev` is in the account at hand."""
    (tmp_path / "stacks").mkdir()
    (tmp_path / "Pulumi.yaml").write_text("name: headway\n")
    text = (ROOT / "stacks" / "Pulumi.dev-cluster.yaml").read_text().replace("111111111111", DEFAULT_ACCOUNT_ID)
    (tmp_path / "stacks" / "Pulumi.dev-cluster.yaml").write_text(text)
    return tmp_path


def run(project: Path, *words: str) -> Any:
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, ["--stack", "dev-cluster", "--project", str(project), *words])


def test_the_command_fails_while_something_is_left_and_passes_after(project: Path) -> None:
    assert (run(project).exit_code, run(project).output) == (0, f"Nothing of dev is left in account {DEFAULT_ACCOUNT_ID}, us-west-2.\n")
    id = volume(OWNED)
    left = run(project)
    assert left.exit_code == 1
    assert f"aws ec2 delete-volume --volume-id {id} --region us-west-2" in left.output
    record = json.loads(run(project, "--output", "json").output)
    assert (record["cluster_exists"], [each["id"] for each in record["leftovers"]]) == (False, [id])


def test_what_a_living_cluster_uses_is_no_failure(project: Path, subnet: str) -> None:
    volume(OWNED)
    role = f"arn:aws:iam::{DEFAULT_ACCOUNT_ID}:role/eks"
    client("eks").create_cluster(name="headway-dev", roleArn=role, resourcesVpcConfig={"subnetIds": [subnet]})
    told = run(project)
    assert told.exit_code == 0
    assert "these are in use" in told.output
    assert "delete-volume" not in told.output, "nobody should be led to remove what is in use"


def test_witnesses_are_found_though_no_stack_knows_them() -> None:
    for environment in ("dev", "dev2"):
        ParameterWitness(environment, REGION, "s3://l", client("ssm")).write("vision/digits/drift", "9:a")
    (left,) = found()
    assert (left.kind, left.id, left.state) == ("ledger witness", WITNESS.format("vision"), "9:a")
    assert left.remove == f"aws ssm delete-parameter --name {left.id} --region us-west-2"


def test_what_a_runner_wrote_into_its_witness_is_no_order_to_a_terminal(project: Path) -> None:
    ParameterWitness("dev", REGION, "s3://l", client("ssm")).write("vision/digits/drift", "[/]\x1b]52;c;eA==\x07")
    left = run(project)
    assert (left.exit_code, "\x1b" in left.output, r"[/]\x1b]52;c;eA==\x07" in left.output) == (1, False, True)


def test_what_a_tenant_left_is_found_while_its_environment_lives(project: Path) -> None:
    cluster = json.dumps({"artifact_bucket": "artifacts"})
    client("ssm").put_parameter(Name="/headway/dev/layers/cluster", Value=cluster, Type="String")
    client("s3").create_bucket(Bucket="artifacts", CreateBucketConfiguration={"LocationConstraint": REGION})
    for tenant in ("hello", "other"):
        tags = {"platform.io/environment": "dev", "platform.io/tenant": tenant}
        client("sqs").create_queue(QueueName=f"dev-{tenant}", tags=tags)
        named = [{"Key": key, "Value": value} for key, value in tags.items()]
        client("iam").create_role(RoleName=f"headway-dev-{tenant}-models", AssumeRolePolicyDocument="{}", Tags=named)
        client("s3").put_object(Bucket="artifacts", Key=f"{tenant}/digits/1/model", Body=b"x")
        ParameterWitness("dev", REGION, "s3://l", client("ssm")).write(f"{tenant}/digits/drift", "9:a")
    left = run(project, "--tenant", "hello", "--output", "json")
    assert left.exit_code == 1
    found = {each["kind"]: each["id"] for each in json.loads(left.output)["leftovers"]}
    queue = f"arn:aws:sqs:{REGION}:{DEFAULT_ACCOUNT_ID}:dev-hello"
    stores = {"artifacts": "s3://artifacts/hello/", "ledger witness": WITNESS.format("hello")}
    assert found == {"sqs": queue, "role": "headway-dev-hello-models", **stores}
    assert "aws s3 rm s3://artifacts/hello/ --recursive" in run(project, "--tenant", "hello").output
    client("sqs").delete_queue(QueueUrl=client("sqs").get_queue_url(QueueName="dev-hello")["QueueUrl"])
    client("iam").delete_role(RoleName="headway-dev-hello-models")
    client("s3").delete_object(Bucket="artifacts", Key="hello/digits/1/model")
    client("ssm").delete_parameter(Name=WITNESS.format("hello"))
    done = run(project, "--tenant", "hello")
    assert (done.exit_code, "Nothing of hello is left" in done.output) == (0, True)
