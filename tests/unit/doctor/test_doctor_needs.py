"""What no layer makes and every environment needs: each check by a planted fault, and nothing is concluded from silence."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from components.naming import bucket_name
from components.observability import routes
from headway.doctor import asking, places
from headway.doctor.check import CheckState, DoctorResult, Unanswered
from headway.doctor.people import judge_groups
from headway.doctor.places import BucketOwner
from headway.doctor.platform_needs import (
    PLATFORM_RECEIVERS,
    NeededSecret,
    PlatformNeeds,
    judge_certificate,
    judge_loops,
    judge_secrets,
    secrets,
)
from headway.environment.kubernetes import KubernetesApi
from headway.problem import ProblemLevel, UserError
from tests.components.contracts import POOLS
from tests.contract_samples import tenant
from tests.loopback import Handler, served
from tests.unit.doctor.test_doctor import ACCOUNT, layer
from tests.unit.environment.test_kubernetes_api import kubeconfig
from tests.unit.test_gateway_certificate import NOW, ROOT, certificate

ROLE = f"arn:aws:iam::{ACCOUNT}:role/ml"
IMAGE = f"registry.test/headway@sha256:{'0' * 64}"


def said(result: DoctorResult) -> str:
    assert all(problem.consequence and problem.remedy for problem in result.problems)
    return "\n".join(problem.fact for problem in result.problems)


def test_a_group_that_nobody_is_in_is_found() -> None:
    people = tenant().people
    everyone = dict.fromkeys((*people.deployers, *people.runners, *people.viewers), (ROLE,))
    assert judge_groups(layer(groups=everyone), [tenant()]).state is CheckState.OK
    missing = judge_groups(layer(groups={**everyone, people.runners[0]: ()}), [tenant()])
    assert said(missing) == f"people.runners of vision names group {people.runners[0]}, and no IAM role or user is in it"


def test_loops_without_an_image_are_said_before_the_apply() -> None:
    config: dict[str, Any] = {"headway:loops": {"image": None}, "headway:gateway": {"certificate": "models-tls"}}
    needs = PlatformNeeds.read(config)
    result = judge_loops(needs, [])
    assert not result.blocking and result.problems[0].level is ProblemLevel.WARNING
    assert needs.certificate == "models-tls"
    assert judge_loops(PlatformNeeds(image=IMAGE, mirror=None, certificate=None), []).state is CheckState.OK


def test_the_image_of_the_sample_files_is_nobodys() -> None:
    sample = PlatformNeeds(image=f"222222222222.dkr.ecr.us-west-2.amazonaws.com/x@sha256:{'2' * 64}", mirror=None, certificate=None)
    (told,) = judge_loops(sample, POOLS).problems
    assert "the image of the sample files" in told.fact
    assert "no node that MIG cuts is ever admitted" in told.consequence


NEEDED = secrets(PlatformNeeds(image=None, mirror=None, certificate="models-tls"), [("vision", "vision-oncall")])
WHOLE = {(secret.namespace, secret.name): frozenset(secret.keys) for secret in NEEDED}


def test_every_secret_that_the_layers_name_is_asked_for() -> None:
    assert {route["name"] for route in routes.platform_routes()["spec"]["receivers"]} == set(PLATFORM_RECEIVERS)
    assert ("vision", routes.secret_name("vision-oncall")) in WHOLE
    assert ("istio-ingress", "models-tls") in WHOLE
    assert judge_secrets(NEEDED, WHOLE).state is CheckState.OK


def test_a_secret_that_is_missing_or_lacks_a_key_is_found() -> None:
    without = {key: value for key, value in WHOLE.items() if key[1] != "alerts-heartbeat"}
    assert said(judge_secrets(NEEDED, without)) == "There is no secret monitoring/alerts-heartbeat"
    half = {**WHOLE, ("istio-ingress", "models-tls"): frozenset({"tls.crt"})}
    assert said(judge_secrets(NEEDED, half)) == "Secret istio-ingress/models-tls has no tls.key"


def test_before_there_is_a_cluster_its_secrets_are_announced() -> None:
    result = judge_secrets(NEEDED, Unanswered("there is no cluster yet"))
    assert len(result.problems) == len(NEEDED) == 5
    assert "will be needed, and could not be looked for (there is no cluster yet)" in said(result)
    assert not result.blocking


SERVED = PlatformNeeds(image=None, mirror=None, certificate="models-tls", hosts=("models.example.com",))


def test_a_certificate_without_a_name_for_a_tenant_is_found() -> None:
    def judged(*names: str) -> DoctorResult:
        return judge_certificate(SERVED, ["assist", "vision"], certificate(names) + ROOT, NOW)

    assert not judged("*.assist.models.example.com", "*.vision.models.example.com").blocking
    one = judged("*.assist.models.example.com", "*.models.example.com")
    assert one.blocking and "*.vision.models.example.com is not among its names" in said(one)


def test_a_certificate_that_nobody_could_read_is_neither_well_nor_wrong() -> None:
    assert judge_certificate(SERVED, ["vision"], None, NOW).state is CheckState.UNKNOWN
    assert judge_certificate(SERVED, ["vision"], Unanswered("offline"), NOW).state is CheckState.UNKNOWN
    plain = PlatformNeeds(image=None, mirror=None, certificate=None)
    assert judge_certificate(plain, ["vision"], None, NOW).state is CheckState.OK


def test_a_certificate_that_is_issued_is_asked_of_nobody() -> None:
    acme = PlatformNeeds.read({"headway:gateway": {"certificate": "models-tls", "authority": {"kind": "acme"}}})
    own = PlatformNeeds.read({"headway:gateway": {"certificate": "models-tls", "authority": {"kind": "own", "secret": "ours"}}})
    assert not [secret for secret in secrets(acme, []) if secret.namespace == "istio-ingress"]
    assert [secret.name for secret in secrets(own, []) if secret.namespace == "istio-ingress"] == ["ours"]


def test_of_a_secret_only_the_keys_are_read() -> None:
    class Server(Handler):
        def do_GET(self) -> None:
            there = self.path.endswith("/a")
            data = {"url": base64.b64encode(b"https://hook").decode(), "empty": ""}
            self.reply(200 if there else 404, {"data": data} if there else {"message": "no"})

    wanted = [NeededSecret(namespace="n", name=name, keys=("url",), without="x") for name in ("a", "b")]
    with served(Server) as server:
        assert asking.secrets_there(wanted, lambda: KubernetesApi(kubeconfig(server))) == {("n", "a"): frozenset({"url"})}

    def none() -> KubernetesApi:
        raise UserError("There is no cluster.", "x", "y")

    assert asking.secrets_there(wanted, none) == Unanswered("There is no cluster")


def test_names_of_buckets_are_those_that_the_layer_makes() -> None:
    made = tuple(bucket_name("dev", role, ACCOUNT) for role in places.BUCKET_ROLES)
    assert places.bucket_names("dev", layer()) == made


def test_a_bucket_of_another_account_is_found() -> None:
    owners = {"a": BucketOwner.OURS, "b": BucketOwner.ANOTHER, "c": BucketOwner.NOBODY}
    result = places.judge_buckets(owners)
    assert result.blocking and said(result) == "Bucket b belongs to another account"
    assert places.judge_buckets(Unanswered("no credentials")).state is CheckState.UNKNOWN
    assert places.judge_buckets({"a": BucketOwner.OURS}).seen == "0 names of buckets are free, and 1 are this account's."


def test_a_bucket_of_an_environment_in_another_region_is_found() -> None:
    result = places.judge_buckets({"a": BucketOwner.OURS, "b": BucketOwner.ELSEWHERE})
    assert result.blocking and said(result) == "Bucket b is this account's, in another region"


def test_s3_says_whose_a_bucket_is() -> None:
    client = boto3.client("s3", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="y")
    stub = Stubber(client)
    stub.add_response("head_bucket", {"BucketRegion": "us-west-2"}, {"Bucket": "a", "ExpectedBucketOwner": ACCOUNT})
    stub.add_client_error("head_bucket", "404", http_status_code=404)
    stub.add_client_error("head_bucket", "403", http_status_code=403)
    stub.add_response("head_bucket", {"BucketRegion": "us-east-1"}, {"Bucket": "d", "ExpectedBucketOwner": ACCOUNT})
    with stub:
        found = asking.bucket_owners(["a", "b", "c", "d"], layer(), lambda _: client)
    assert found == {"a": BucketOwner.OURS, "b": BucketOwner.NOBODY, "c": BucketOwner.ANOTHER, "d": BucketOwner.ELSEWHERE}


class Registry(Handler):
    """Has one image, under its digest."""

    def do_HEAD(self) -> None:
        there = self.path == "/v2/team/app/manifests/sha256:1"
        self.reply(200 if there else 404, b"", **({"Docker_Content_Digest": "sha256:1"} if there else {}))

    def do_GET(self) -> None:
        self.reply(404)


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    with served(Registry) as address:
        yield address.removeprefix("http://")


def test_an_image_that_no_registry_has_is_found(registry: str) -> None:
    there, gone, away = f"{registry}/team/app:1@sha256:1", f"{registry}/team/other:1", "127.0.0.1:9/team/app:1"
    found = asking.images_there([there, gone, away], lambda _: None)
    assert (found[there], found[gone]) == (True, False)
    assert isinstance(found[away], Unanswered)
    result = places.judge_images(found, {})
    assert result.blocking and said(result) == f"There is no image {gone}"
    assert places.judge_images({there: True, away: found[away]}, {}).state is CheckState.UNKNOWN
    assert places.judge_images({there: True}, {}).state is CheckState.OK


def test_a_models_image_that_no_registry_has_is_found_with_its_contract() -> None:
    (problem,) = places.judge_images({"host/triton@sha256:1": False}, {"host/triton@sha256:1": "hello/digits"}).problems
    assert (problem.subject, "contract" in problem.remedy) == ("hello/digits", True)


@pytest.mark.parametrize(
    ("public", "own", "answers", "state", "blocking"),
    [
        ((), ("10.40.3.9",), Unanswered("no cluster yet"), CheckState.OK, False),
        ((), ("192.168.1.4",), Unanswered("no cluster yet"), CheckState.PROBLEM, False),
        (("203.0.113.0/24",), ("192.168.1.4",), Unanswered("no cluster yet"), CheckState.UNKNOWN, False),
        (("203.0.113.0/24",), ("192.168.1.4",), True, CheckState.OK, False),
        (("203.0.113.0/24",), ("192.168.1.4",), False, CheckState.PROBLEM, True),
    ],
)
def test_the_way_to_the_api_server_is_judged_from_here(
    public: tuple[str, ...], own: tuple[str, ...], answers: bool | Unanswered, state: CheckState, blocking: bool
) -> None:
    result = places.judge_reach(layer(public_cidrs=public, private_cidrs=(), cidr="10.40.0.0/16"), own, answers)
    assert (result.state, result.blocking) == (state, blocking)


def test_an_endpoint_is_looked_up_and_then_tried() -> None:
    client = boto3.client("eks", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="y")
    with Stubber(client) as stub:
        stub.add_client_error("describe_cluster", "ResourceNotFoundException")
        assert asking.endpoint_answers("dev", lambda _: client) == Unanswered("there is no cluster yet")
        stub.add_response("describe_cluster", {"cluster": {"endpoint": "https://127.0.0.1"}})
        assert asking.endpoint_answers("dev", lambda _: client) is False
