"""The loop that asks what serves, as the platform deploys it: what it knows, what it may read and write, and what it may not."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from typer.testing import CliRunner

from components.identity import INLINE_LIMIT, inline_characters
from components.platform import evaluation
from components.platform.namespaces import NAMESPACES, PodSecurity
from components.tenant import evaluating
from headway.cli.main import app
from headway.contract.evaluation import Evaluation
from headway.ledger.witness import named
from headway.release.evaluator.in_cluster import evaluated_services
from tests.components.contracts import MODELS
from tests.components.program import layer
from tests.evaluation_world import evaluation as asked
from tests.iam_evaluator import Request, allowed

IMAGE = f"registry.example.com/headway@sha256:{'a' * 64}"
BUCKETS: Mapping[str, str] = {"artifacts": "a", "ledger": "l"}
SERVICES = {"vision/embeddings": asked(), "assist/chat": asked(wrong="5%")}
WITNESSES = "arn:aws:ssm:us-west-2:123456789012:parameter/headway/prod/witness"
EVERYTHING: Any = evaluation.permissions(SERVICES, witnesses=WITNESSES, **BUCKETS)


def bodies(services: Mapping[str, Evaluation] = SERVICES) -> dict[str, Any]:
    known = evaluation.settings("prod", "us-west-2", services, **BUCKETS)
    return {each.role: each.body for each in evaluation.manifests(IMAGE, "us-west-2", known)}


def holding(asks: Evaluation, uri: str) -> Evaluation:
    return asks.model_copy(update={"holdout": asks.holdout.model_copy(update={"uri": uri})})


def may(action: str, resource: str, **context: str) -> bool:
    return allowed(Request(action, f"arn:aws:s3:::{resource}", context), EVERYTHING, EVERYTHING)


def test_the_loop_finds_in_its_file_what_the_contracts_ask(tmp_path: Any) -> None:
    file = tmp_path / evaluation.FILE
    file.write_text(bodies()["settings"]["data"][evaluation.FILE])
    found = {each.chain: (each.evaluation(), each.address, each.port.artifact_bucket) for each in evaluated_services(file)}
    assert found == {chain: (each, "s3://l", "a") for chain, each in SERVICES.items()}


def test_the_loops_container_is_started_as_the_command_allows() -> None:
    (container,) = bodies()["loop"]["spec"]["template"]["spec"]["containers"]
    shown = CliRunner().invoke(app, ["evaluate", "--help"], env={"COLUMNS": "200"}).output
    assert all(option in shown for option in container["args"] if option.startswith("--"))
    assert container["args"][0] == "evaluate"
    mounts = {each["mountPath"] for each in container["volumeMounts"]}
    (file,) = [each for each in container["args"] if each.endswith(".json")]
    assert file.rpartition("/")[0] in mounts
    assert container["args"][-1].endswith(f":{container['ports'][0]['containerPort']}")


def test_other_contracts_are_other_pods_for_the_loop_reads_its_file_once() -> None:
    one, other = (bodies(services)["loop"]["spec"]["template"] for services in (SERVICES, {"assist/chat": asked()}))
    assert one != other


def test_the_loop_runs_by_digest_as_nobody_in_a_closed_namespace() -> None:
    pod = bodies()["loop"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"] == IMAGE
    assert pod["securityContext"]["runAsNonRoot"] and container["securityContext"]["readOnlyRootFilesystem"]
    assert pod["nodeSelector"] == {"workload": "system"}
    (space,) = [each for each in NAMESPACES if each.name == pod["serviceAccountName"]]
    assert (space.level, space.open_to_all, space.open_to_tenants) == (PodSecurity.RESTRICTED, (), ())


@pytest.mark.parametrize(
    ("action", "resource"),
    [
        ("s3:GetObject", "a/vision/holdout/1/set.jsonl"),
        ("s3:GetObject", "l/vision/embeddings/events/00000001.json"),
        ("s3:GetObjectVersion", "l/vision/embeddings/evaluation/events/00000001.json"),
        ("s3:PutObject", "l/vision/embeddings/evaluation/events/00000001.json"),
        ("s3:GetObject", "l/vision/evaluation/evaluation/bundles/00000100.jsonl"),
    ],
)
def test_it_reads_sets_and_ledger_and_writes_evaluations(action: str, resource: str) -> None:
    assert may(action, resource)


@pytest.mark.parametrize(
    ("action", "resource"),
    [
        ("s3:GetObject", "a/vision/embeddings/1/model.onnx"),
        ("s3:PutObject", "a/vision/holdout/1/set.jsonl"),
        ("s3:PutObject", "l/vision/embeddings/events/00000001.json"),
        ("s3:PutObject", "l/vision/evaluation/events/00000001.json"),
        ("s3:PutObject", "l/vision/embeddings/drift/events/00000001.json"),
        ("s3:PutObject", "l/leases/vision/embeddings.json"),
        ("s3:PutObject", "l/leases/vision/evaluation.json"),
        ("s3:DeleteObject", "l/vision/embeddings/evaluation/events/00000001.json"),
    ],
)
def test_it_neither_reads_models_nor_writes_what_releases_go_by(action: str, resource: str) -> None:
    assert not may(action, resource)


def test_without_anything_to_ask_it_has_no_rights() -> None:
    assert evaluation.permissions({}, witnesses=WITNESSES, **BUCKETS) == ()


def test_its_rights_for_eighty_services_fit_into_one_role() -> None:
    """IAM takes 10,240 characters in all inline policies of a role (IAM user guide, "IAM and AWS STS quotas")."""
    chains = [f"tenant-{number // 4:02}/model-{number:03}" for number in range(80)]
    sets = {chain: holding(asked(), f"artifacts://{chain}/2026.11/") for chain in chains}
    buckets = {role: f"headway-prod-{role}-123456789012" for role in BUCKETS}
    found = evaluation.permissions(sets, witnesses=WITNESSES, **buckets)
    assert inline_characters({"access": found}) <= INLINE_LIMIT


@pytest.mark.parametrize(
    ("chain", "asks", "speaks"),
    [
        ("vision/embeddings", True, False),
        ("vision/embeddings/evaluation", True, True),
        ("vision/evaluation", True, False),
        ("vision/embeddings/drift", True, False),
    ],
)
def test_it_asks_who_witnesses_the_ledger_and_speaks_of_evaluations_alone(chain: str, asks: bool, speaks: bool) -> None:
    parameter = f"{WITNESSES}/{named(chain, 's3://l')}"
    found = (allowed(Request(action, parameter), EVERYTHING, EVERYTHING) for action in ("ssm:GetParameter", "ssm:PutParameter"))
    assert tuple(found) == (asks, speaks)


def test_a_tenant_lets_it_ask_only_where_a_contract_says_so() -> None:
    (model, plain) = (next(each for each in MODELS.values() if bool(each.evaluation) is wanted) for wanted in (True, False))
    assert evaluating.rights("vision", [plain]) == []
    role, binding = (body for _, body in evaluating.rights("vision", [plain, model]))
    assert {(each, verb) for rule in role["rules"] for each in rule["resources"] for verb in rule["verbs"]} == {
        ("pods", "list"),
        ("pods/exec", "create"),
        ("pods/exec", "get"),
    }
    account = bodies()["account"]["metadata"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account["name"], "namespace": account["namespace"]}]


def test_an_environment_that_names_no_image_deploys_no_loop() -> None:
    assert not [r.name for r in layer("sandbox-platform").registrations if r.name.startswith("evaluation-")]


def test_what_a_contract_asks_is_read_whole() -> None:
    assert json.loads(bodies()["settings"]["data"][evaluation.FILE])["services"]["assist/chat"]["wrong"] == "5%"
