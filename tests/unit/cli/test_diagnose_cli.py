"""`headway diagnose` against an API server and a Prometheus on loopback, the one with objects, the other with played series."""

import json
import re
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jsonschema
import pytest
import yaml
from typer.testing import CliRunner, Result

from headway.cli.main import app
from headway.diagnosis.measure import Sight
from headway.diagnosis.measures import MEASURES
from headway.diagnosis.observed import Observed
from headway.problem import Exit, UserError
from headway.wire import POOL
from sandbox.layout import Layout
from tests.loopback import served
from tests.unit.cli.test_status_cli import PROJECT, World, deployment, node, pod
from tests.unit.diagnosis.played import AT, STEPS, played
from tests.unit.diagnosis.test_node_causes import BUSY, one_slow

SINCE = f"{STEPS}m"
WHEN = "2023-11-14T22:13:20Z"
Command = Callable[..., Result]


class Played(World):
    """Prometheus' answers are an `Observed`; None: it refuses every question."""

    observed: Observed | None
    series: dict[str, float] = {}  # noqa: RUF012
    questions: list[str]
    gateway_is_read = False
    failing = False

    def do_POST(self) -> None:
        query = parse_qs(f"{urlsplit(self.path).query}&{self.body().decode()}")["query"][0]
        self.questions.append(query)
        if self.observed is None:
            self.reply(503, {"status": "error", "error": "it starts"})
            return
        if query.startswith("up{"):
            read = [{"metric": {"pod": "gateway"}, "value": [1.0, "1"]}] if self.gateway_is_read else []
            self.reply(200, {"status": "success", "data": {"resultType": "vector", "result": read}})
            return
        if query.startswith("sum by (destination_service_namespace") and "5.." in query:
            hurt = {"destination_service_namespace": "vision", "destination_service_name": "defects-r0123456789"}
            failing = [{"metric": hurt, "value": [1.0, "0.2"]}] if self.failing else []
            self.reply(200, {"status": "success", "data": {"resultType": "vector", "result": failing}})
            return
        asked = re.findall('"headway_measure", "([a-z_]+)"', query)
        result: list[dict[str, Any]] = [
            {
                "metric": {"headway_measure": name, MEASURES[name].sight.value or "pod": label},
                "values": [[moment, str(value)] for moment, value in samples],
            }
            for name in asked
            for label, samples in self.observed.series.get(name, {}).items()
        ]
        kind = "matrix" if asked else "vector"
        self.reply(200, {"status": "success", "data": {"resultType": kind, "result": result}})


@pytest.fixture
def world() -> type[Played]:
    class Now(Played):
        objects = {"deployments": [deployment("r1", "stable", 1, 1)], "pods": [pod("a", "r1", "stable", "n1")], "nodes": [node("n1")]}  # noqa: RUF012
        observed = played()
        questions = list[str]()  # noqa: RUF012

    Now.objects["deployments"][0]["spec"]["template"]["spec"] = {}
    return Now


@pytest.fixture
def command(world: type[Played], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Command]:
    monkeypatch.setenv("HEADWAY_SANDBOX_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HEADWAY_SANDBOX_LEDGER", (tmp_path / "ledger").as_uri())
    monkeypatch.setenv("COLUMNS", "200")
    with served(world) as address:
        monkeypatch.setenv("HEADWAY_PROMETHEUS", address)
        file = Layout.of(PROJECT).kubeconfig
        file.parent.mkdir(parents=True, mode=0o700)
        named = {
            "clusters": [{"name": "one", "cluster": {"server": address}}],
            "contexts": [{"name": "one", "context": {"cluster": "one"}}],
        }
        file.write_text(yaml.safe_dump({**named, "current-context": "one"}), encoding="utf-8")
        yield lambda *words, **more: CliRunner().invoke(app, ["diagnose", *words, "--project", str(PROJECT)], **more)


def one(command: Command, *words: str) -> Result:
    return command("vision/defects", "-e", "sandbox", "--at", WHEN, "--since", SINCE, *words)


def test_a_calm_service_has_nothing_wrong(command: Command) -> None:
    answer = one(command)
    assert (answer.exit_code, answer.output.strip()) == (Exit.OK, "vision/defects: nothing is wrong, as far as can be seen."), answer.output


def test_a_slow_one_has_a_chain_from_what_users_feel_to_the_cause(world: type[Played], command: Command) -> None:
    world.observed = played({"compute": 0.060})
    answer = one(command)
    assert answer.exit_code == Exit.REFUSED
    lines = answer.output.splitlines()
    assert lines[0] == "vision/defects: answers take longer, since 21:53:20 UTC"
    said = " ".join(answer.output.split())
    assert re.search(r"the model itself takes longer .* of the added", said)
    assert "Cause: the version that serves takes longer for the same work, on every replica (model-slower, layer model-server)" in said
    assert re.search(r"in all (29|30)(\.\d)? ms 7\d(\.\d)? ms \+4\d(\.\d)? ms", said)
    assert "headway logs vision/defects -e sandbox --since 10m" in said


def test_for_programs_the_chain_is_data(world: type[Played], command: Command) -> None:
    world.observed = played({"limited": 0.4})
    answer = one(command, "-o", "json")
    (found,) = json.loads(answer.output)["diagnoses"]
    assert (found["service"], found["verdict"], found["cause"], found["symptom"]) == ("vision/defects", "cause", "over-the-rate", "refused")
    assert [each["name"] for each in found["chain"]] == ["refused", "over-the-rate"]
    assert found["runbook"] == "docs/runbooks/tenant-rate-limited.md"


@pytest.mark.parametrize("observed", [played(), played({"compute": 0.060}), played({"limited": 0.4}), None])
def test_what_programs_get_is_as_the_published_schema_says(world: type[Played], command: Command, observed: Observed | None) -> None:
    world.observed = observed
    published = json.loads((PROJECT / "docs/reference/diagnosis.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(json.loads(one(command, "-o", "json").output), published, jsonschema.Draft202012Validator)


def test_a_page_of_a_diagnosis_needs_nothing_from_elsewhere(world: type[Played], command: Command) -> None:
    world.observed = played({"compute": 0.060})
    answer = one(command, "-o", "html")
    assert answer.exit_code == Exit.REFUSED
    assert answer.output.startswith("<!doctype html>") and answer.output.endswith("</html>\n")
    assert not re.search(r"<script|src=|href=|url\(|@import", answer.output)
    assert "Cause: the version that serves takes longer for the same work" in answer.output
    assert "<h3>Mean time of an answer at the gateway</h3>" in answer.output and "<polyline" in answer.output
    assert "headway logs vision/defects -e sandbox --since 10m" in answer.output


def test_a_page_of_many_services_shows_those_that_hurt(world: type[Played], command: Command) -> None:
    world.gateway_is_read = world.failing = True
    world.observed = played({"errors": 0.2, "failures": 0.2})
    page = command("-e", "sandbox", "--at", WHEN, "--since", SINCE, "-o", "html").output
    assert "<h1>vision/defects</h1><h2>Requests fail</h2>" in page
    assert re.search(r"<h2>Nothing is wrong, as far as can be seen</h2><p>[a-z/]+, [a-z/]+</p>", page)


def test_without_prometheus_it_says_what_was_not_seen(world: type[Played], command: Command) -> None:
    world.observed = None
    answer = one(command)
    assert answer.exit_code == Exit.ENVIRONMENT
    assert "nobody can say whether something is wrong" in answer.output
    assert "metrics: " in answer.output and "Traceback" not in answer.output


def test_without_prometheus_what_the_cluster_says_is_still_found(world: type[Played], command: Command) -> None:
    world.observed = None
    message = "exceeded quota: gpus, requested: pods=1, used: pods=3, limited: pods=3"
    world.objects["deployments"][0]["status"]["conditions"] = [{"type": "ReplicaFailure", "status": "True", "message": message}]
    answer = one(command)
    assert answer.exit_code == Exit.REFUSED
    assert "Cause: the tenant's quota has no room for the replica" in " ".join(answer.output.split())


def test_without_rights_on_nodes_the_rest_is_said(world: type[Played], command: Command) -> None:
    world.forbidden = ("nodes",)
    answer = one(command)
    assert answer.exit_code == Exit.OK
    assert "Not seen\n  nodes: " in answer.output


def test_an_object_that_is_not_as_its_type_says_ends_no_diagnosis(world: type[Played], command: Command) -> None:
    world.objects["pods"].append({**pod("odd", "r1", "stable", "n1"), "status": {"phase": "Running", "containerStatuses": 1}})
    answer = one(command)
    assert "Traceback" not in answer.output and answer.exit_code in (Exit.OK, Exit.REFUSED, Exit.ENVIRONMENT)
    assert "objects: something there is not as it should be" in answer.output


def test_of_all_services_only_those_that_hurt_are_shown(world: type[Played], command: Command) -> None:
    world.observed = played({"errors": 0.2, "failures": 0.2})
    answer = command("-e", "sandbox", "--at", WHEN, "--since", SINCE)
    assert answer.exit_code == Exit.REFUSED
    assert "vision/defects: requests fail" in answer.output and "nothing is wrong" not in answer.output


def test_where_no_prometheus_is_known_it_says_how_to_name_one(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADWAY_PROMETHEUS")
    answer = one(command)
    assert answer.exit_code == Exit.ENVIRONMENT
    assert "No Prometheus of environment sandbox is known. Name it with --prometheus" in " ".join(answer.output.split())


def test_where_nothing_hurts_it_says_of_how_many(command: Command) -> None:
    answer = command("-e", "sandbox", "--at", WHEN, "--since", SINCE)
    assert answer.output.strip() == "Nothing is wrong with the 3 services of sandbox, as far as can be seen."


def _notification(tmp_path: Path, began: str = WHEN, **labels: str) -> str:
    file = tmp_path / "alert.json"
    alert = {"labels": labels, "startsAt": began, "status": "firing"}
    file.write_text(json.dumps({"version": "4", "alerts": [{"labels": {}, "startsAt": WHEN}, alert]}), encoding="utf-8")
    return str(file)


@pytest.mark.parametrize("labels", [{"tenant": "vision", "model": "defects"}, {"namespace": "vision", "model": "defects"}])
def test_a_notification_names_the_service_and_the_moment(
    world: type[Played], command: Command, tmp_path: Path, labels: dict[str, str]
) -> None:
    answer = command("--alert", _notification(tmp_path, **labels), "-e", "sandbox", "-o", "json", "--since", SINCE)
    (found,) = json.loads(answer.output)["diagnoses"]
    assert found["service"] == "vision/defects"
    assert found["at"] == "2023-11-14T22:18:20Z", "five minutes on: an alert starts while what it tells of goes on"


def test_an_alert_of_the_future_is_looked_at_now(command: Command, tmp_path: Path) -> None:
    answer = command(
        "--alert", _notification(tmp_path, "9999-12-31T23:59:59Z", tenant="vision", model="defects"), "-e", "sandbox", "-o", "json"
    )
    (found,) = json.loads(answer.output)["diagnoses"]
    assert found["at"] < "2999"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is no notification"),
        ("[]", "is no notification"),
        ('{"alerts": [{"labels": {}}]}', "No alert"),
        ('{"alerts": 7}', "is no notif"),
    ],
)
def test_what_is_no_notification_is_refused_in_words(command: Command, tmp_path: Path, content: str, said: str) -> None:
    file = tmp_path / "odd.json"
    file.write_text(content, encoding="utf-8")
    refusal = command("--alert", str(file), "-e", "sandbox").exception
    assert isinstance(refusal, UserError) and refusal.exit is Exit.USAGE
    assert said in refusal.fact


@pytest.mark.parametrize(
    "words", [("vision/defects", "--since", "3"), ("vision/defects", "--since", "400d"), ("vision/defects", "--at", "noon"), ("nobody/x",)]
)
def test_a_wrong_word_is_refused_before_anything_is_read(world: type[Played], command: Command, words: tuple[str, ...]) -> None:
    refusal = command(*words, "-e", "sandbox").exception
    assert isinstance(refusal, UserError) and refusal.exit is Exit.USAGE
    assert world.questions == []


def test_where_nothing_hurts_no_service_is_looked_at_whole(world: type[Played], command: Command) -> None:
    world.gateway_is_read = True
    answer = command("-e", "sandbox", "--at", WHEN, "--since", SINCE)
    assert answer.output.strip() == "Nothing is wrong with the 3 services of sandbox, as far as can be seen."
    assert not [each for each in world.questions if "headway_measure" in each]


def test_of_many_services_only_those_that_hurt_are_looked_at_whole(world: type[Played], command: Command) -> None:
    world.gateway_is_read = world.failing = True
    world.observed = played({"errors": 0.2, "failures": 0.2})
    answer = command("-e", "sandbox", "--at", WHEN, "--since", SINCE)
    assert "vision/defects: requests fail" in answer.output
    assert {"vision"} == {part for each in world.questions for part in re.findall('exported_namespace="([a-z]+)"', each)}


def test_where_a_pod_ended_its_service_is_looked_at_whole(world: type[Played], command: Command) -> None:
    world.gateway_is_read = True
    last = {"terminated": {"reason": "OOMKilled", "finishedAt": "2023-11-14T22:00:00Z"}}
    world.objects["pods"][0]["status"]["containerStatuses"] = [{"name": "server", "restartCount": 1, "lastState": last, "state": {}}]
    answer = command("-e", "sandbox", "--at", WHEN, "--since", SINCE)
    assert "Cause: the kernel ends the server because it uses more memory than its limit" in " ".join(answer.output.split())


@pytest.mark.parametrize("times", [1, 2, 3])
def test_of_a_moment_that_is_past_nothing_later_is_told(world: type[Played], command: Command, times: int) -> None:
    last = {"terminated": {"reason": "OOMKilled", "finishedAt": "2023-11-14T23:00:00Z"}}
    world.objects["pods"][0]["status"]["containerStatuses"] = [
        {"name": "server", "restartCount": times, "lastState": last, "state": {"running": {}}}
    ]
    assert "nothing is wrong" in one(command).output


def test_nobody_is_blamed_for_what_was_done_to_another_pools_nodes(world: type[Played], command: Command) -> None:
    world.objects["deployments"][0]["spec"]["template"]["spec"] = {"nodeSelector": {POOL: "l4"}}
    world.objects["pods"] = [pod("a", "r1", "stable")]
    world.objects["pods"][0]["metadata"]["creationTimestamp"] = "2023-11-14T22:00:00Z"
    ours, theirs = node("n1"), node("n2")
    theirs["metadata"]["labels"][POOL] = "h100"
    for each in (ours, theirs):
        each["spec"]["unschedulable"] = True
    theirs["metadata"]["managedFields"] = [
        {"manager": "kubectl-cordon", "time": "2023-11-14T21:59:00Z", "fieldsV1": {"f:spec": {"f:unschedulable": {}}}}
    ]
    world.objects["nodes"] = [ours, theirs]
    assert "nodes-cordoned, layer scheduler" in " ".join(one(command).output.split())


def test_one_question_asks_for_every_measure_of_a_sight(world: type[Played], command: Command) -> None:
    one(command)
    assert sum("headway_measure" in each for each in world.questions) == len(Sight)
    assert abs(AT - 1_700_000_000) < 1


@pytest.mark.parametrize("output", ["text", "json", "html"])
def test_a_neighbour_of_another_tenant_is_told_by_its_namespace_alone(world: type[Played], command: Command, output: str) -> None:
    taking = {"neighbours_cores": {"search/secret-project": (0.1, 11.0), "search/quiet": (0.1, 0.1), "vision/ours": (0.1, 0.1)}}
    world.observed = one_slow(BUSY, taking)
    answer = one(command, "-o", output).output
    assert "neighbour-takes-processors" in answer and "pod 2 of search" in answer
    assert "secret-project" not in answer
