"""The loops that ask what serves and watch its users, as the platform deploys them: what they know, read and write, and what they may not."""

import json
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
from headway.release.evaluator.in_cluster import evaluated_services, watched_services
from tests.components.contracts import MODELS
from tests.components.program import layer
from tests.drift_world import traffic
from tests.evaluation_world import evaluation as asked
from tests.iam_evaluator import Request, allowed

IMAGE = f"registry.example.com/headway@sha256:{'a' * 64}"
BUCKETS: Any = {"artifacts": "a", "ledger": "l", "telemetry": "t"}
ASKED = {"vision/embeddings": asked(), "assist/chat": asked(wrong="5%")}
WATCHED = {"vision/defects": traffic(), "vision/embeddings": traffic(reference="7d")}
SERVICES = evaluation.LookedAt(asked=ASKED, watched=WATCHED, **BUCKETS)
WITNESSES = "arn:aws:ssm:us-west-2:123456789012:parameter/headway/prod/witness"
EVERYTHING: Any = evaluation.permissions(SERVICES, witnesses=WITNESSES)


def bodies(services: evaluation.LookedAt = SERVICES) -> dict[str, Any]:
    known = evaluation.settings("prod", "us-west-2", services)
    return {each.role: each.body for each in evaluation.manifests(IMAGE, "us-west-2", known)}


def holding(asks: Evaluation, uri: str) -> Evaluation:
    return asks.model_copy(update={"holdout": asks.holdout.model_copy(update={"uri": uri})})


def may(action: str, resource: str, **context: str) -> bool:
    return allowed(Request(action, f"arn:aws:s3:::{resource}", context), EVERYTHING, EVERYTHING)


def test_the_loop_finds_in_its_file_what_the_contracts_ask(tmp_path: Any) -> None:
    file = tmp_path / evaluation.FILE
    file.write_text(bodies()["settings"]["data"][evaluation.FILE])
    found = {each.chain: (each.evaluation(), each.address, each.port.artifact_bucket) for each in evaluated_services(file)}
    assert found == {chain: (each, "s3://l", "a") for chain, each in ASKED.items()}


def test_the_loop_finds_in_its_file_what_the_contracts_watch(tmp_path: Any) -> None:
    file = tmp_path / evaluation.FILE
    file.write_text(bodies()["settings"]["data"][evaluation.FILE])
    assert {each.chain: each.watched() for each in watched_services(file)} == WATCHED
    assert {each.address for each in watched_services(file)} == {"s3://l"}


@pytest.mark.parametrize(("place", "command"), [(0, "evaluate"), (1, "drift")])
def test_each_loops_container_is_started_as_its_command_allows(place: int, command: str) -> None:
    container = bodies()["loop"]["spec"]["template"]["spec"]["containers"][place]
    shown = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"}).output
    assert all(option in shown for option in container["args"] if option.startswith("--"))
    assert container["args"][0] == command
    mounts = {each["mountPath"] for each in container["volumeMounts"]}
    (file,) = [each for each in container["args"] if each.endswith(".json")]
    assert file.rpartition("/")[0] in mounts
    assert container["args"][-1].endswith(f":{container['ports'][0]['containerPort']}")


def test_each_loop_is_asked_for_its_own_metrics_and_its_own_health() -> None:
    found = bodies()
    containers = found["loop"]["spec"]["template"]["spec"]["containers"]
    ports = [each["ports"][0] for each in containers]
    assert len({each["containerPort"] for each in ports}) == len({each["name"] for each in ports}) == 2
    assert [each["livenessProbe"]["httpGet"]["port"] for each in containers] == [each["name"] for each in ports]
    assert [each["port"] for each in found["monitor"]["spec"]["podMetricsEndpoints"]] == [each["name"] for each in ports]
    assert [each["name"] for each in containers] == ["evaluation", "drift"]


def test_other_contracts_are_other_pods_for_the_loop_reads_its_file_once() -> None:
    one, other = (
        bodies(services)["loop"]["spec"]["template"]
        for services in (SERVICES, evaluation.LookedAt(asked={"assist/chat": asked()}, watched={}, **BUCKETS))
    )
    assert one != other


def test_the_loop_runs_by_digest_as_nobody_in_a_closed_namespace() -> None:
    pod = bodies()["loop"]["spec"]["template"]["spec"]
    assert {container["image"] for container in pod["containers"]} == {IMAGE}
    assert pod["securityContext"]["runAsNonRoot"]
    assert all(container["securityContext"]["readOnlyRootFilesystem"] for container in pod["containers"])
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
        ("s3:PutObject", "l/vision/defects/drift/events/00000001.json"),
        ("s3:GetObject", "t/samples/90d/vision/defects/2026/11/25/10/00/a.gz"),
    ],
)
def test_it_reads_sets_samples_and_ledger_and_writes_what_it_found(action: str, resource: str) -> None:
    assert may(action, resource)


@pytest.mark.parametrize(
    ("action", "resource"),
    [
        ("s3:GetObject", "a/vision/embeddings/1/model.onnx"),
        ("s3:PutObject", "a/vision/holdout/1/set.jsonl"),
        ("s3:PutObject", "l/vision/embeddings/events/00000001.json"),
        ("s3:PutObject", "l/vision/evaluation/events/00000001.json"),
        ("s3:PutObject", "l/leases/vision/embeddings.json"),
        ("s3:PutObject", "l/leases/vision/evaluation.json"),
        ("s3:DeleteObject", "l/vision/defects/drift/events/00000001.json"),
        ("s3:GetObject", "t/samples/90d/assist/chat/2026/11/25/10/00/a.gz"),
        ("s3:GetObject", "t/samples/90d/vision/other/2026/11/25/10/00/a.gz"),
        ("s3:PutObject", "t/samples/90d/vision/defects/2026/11/25/10/00/a.gz"),
        ("s3:DeleteObject", "t/samples/90d/vision/defects/2026/11/25/10/00/a.gz"),
        ("s3:GetObject", "t/loki/chunks/a"),
        ("s3:DeleteObject", "l/vision/embeddings/evaluation/events/00000001.json"),
    ],
)
def test_it_neither_reads_models_nor_writes_what_releases_go_by(action: str, resource: str) -> None:
    assert not may(action, resource)


@pytest.mark.parametrize(("under", "found"), [("samples/90d/vision/defects/2026/", True), ("loki/", False), ("tempo/", False)])
def test_it_finds_samples_and_nothing_else_of_telemetry(under: str, found: bool) -> None:
    assert allowed(Request("s3:ListBucket", "arn:aws:s3:::t", {"s3:prefix": under}), EVERYTHING, EVERYTHING) is found


def test_it_is_told_that_an_event_is_missing_and_not_that_it_may_not_ask() -> None:
    assert allowed(Request("s3:ListBucket", "arn:aws:s3:::l", {}), EVERYTHING, EVERYTHING)


def test_without_anything_to_look_at_it_has_no_rights() -> None:
    nothing = evaluation.LookedAt(asked={}, watched={}, **BUCKETS)
    assert evaluation.permissions(nothing, witnesses=WITNESSES) == ()


@pytest.mark.parametrize("beside", ["drift", "evaluation"])
def test_what_no_contract_asks_for_is_not_written(beside: str) -> None:
    only = {
        "drift": evaluation.LookedAt(asked=ASKED, watched={}, **BUCKETS),
        "evaluation": evaluation.LookedAt(asked={}, watched=WATCHED, **BUCKETS),
    }
    found: Any = evaluation.permissions(only[beside], witnesses=WITNESSES)
    written = [each for statement in found if {"s3:PutObject", "ssm:PutParameter"} & {*statement.actions} for each in statement.resources]
    assert written
    assert not [each for each in written if f"/{beside}" in each.removeprefix(WITNESSES)]


def test_where_nothing_is_watched_no_sample_is_read() -> None:
    only_asked: Any = evaluation.permissions(evaluation.LookedAt(asked=ASKED, watched={}, **BUCKETS), witnesses=WITNESSES)
    assert not any("samples" in resource for statement in only_asked for resource in statement.resources)


def test_its_rights_for_eighty_services_fit_into_one_role() -> None:
    """IAM takes 10,240 characters in all inline policies of a role (IAM user guide, "IAM and AWS STS quotas")."""
    chains = [f"tenant-{number // 4:02}/model-{number:03}" for number in range(80)]
    sets = {chain: holding(asked(), f"artifacts://{chain}/2026.11/") for chain in chains}
    buckets: Any = {role: f"headway-prod-{role}-123456789012" for role in BUCKETS}
    watched = dict.fromkeys(chains[:15], traffic())
    found = evaluation.permissions(evaluation.LookedAt(asked=sets, watched=watched, **buckets), witnesses=WITNESSES)
    assert inline_characters({"access": found}) <= INLINE_LIMIT


@pytest.mark.parametrize(
    ("chain", "asks", "speaks"),
    [
        ("vision/embeddings", True, False),
        ("vision/embeddings/evaluation", True, True),
        ("vision/evaluation", True, False),
        ("vision/embeddings/drift", True, True),
        ("vision/defects/drift", True, True),
    ],
)
def test_it_asks_who_witnesses_the_ledger_and_speaks_of_what_it_writes_alone(chain: str, asks: bool, speaks: bool) -> None:
    parameter = f"{WITNESSES}/{named(chain, 's3://l')}"
    found = (allowed(Request(action, parameter), EVERYTHING, EVERYTHING) for action in ("ssm:GetParameter", "ssm:PutParameter"))
    assert tuple(found) == (asks, speaks)


def test_a_tenant_lets_it_ask_only_where_a_contract_says_so() -> None:
    plain = next(each for each in MODELS.values() if not each.evaluation and not each.drift)
    model = next(each for each in MODELS.values() if each.evaluation and not each.drift)
    assert evaluating.rights("vision", [plain]) == []
    role, binding = (body for _, body in evaluating.rights("vision", [plain, model]))
    assert {(each, verb) for rule in role["rules"] for each in rule["resources"] for verb in rule["verbs"]} == {
        ("pods", "list"),
        ("pods/exec", "create"),
        ("pods/exec", "get"),
    }
    account = bodies()["account"]["metadata"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account["name"], "namespace": account["namespace"]}]


def test_of_a_tenant_that_is_only_watched_it_reads_that_route_alone() -> None:
    watched = next(each for each in MODELS.values() if each.drift and not each.evaluation)
    role, _ = (body for _, body in evaluating.rights("vision", [watched]))
    assert role["rules"] == [
        {"apiGroups": ["networking.istio.io"], "resources": ["virtualservices"], "resourceNames": [watched.name], "verbs": ["get"]}
    ]


def test_an_environment_that_names_no_image_deploys_no_loop() -> None:
    assert not [r.name for r in layer("sandbox-platform").registrations if r.name.startswith("evaluation-")]


def test_what_a_contract_asks_is_read_whole() -> None:
    assert json.loads(bodies()["settings"]["data"][evaluation.FILE])["services"]["assist/chat"]["wrong"] == "5%"
