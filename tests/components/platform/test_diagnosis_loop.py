"""The loop that explains alerts, as the platform deploys it: what it knows, what it may read, who reaches it, and the ways to it and from it."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from components.observability import routes
from components.platform import diagnosis, namespaces
from components.platform.namespaces import NAMESPACES, PodSecurity
from headway.cli.main import app
from headway.contract.model import Model
from headway.contract.units import Duration
from headway.diagnosis.episode import LASTS_SECONDS, PAGE, TICKET
from headway.ledger.witness import named
from headway.release.evaluator.in_cluster import diagnosed_services
from headway.release.release_series import ReleaseSeries
from headway.wire import CAUSE_GROUP, CAUSE_SEVERITY, CAUSE_URGENCY, DIAGNOSIS_NAMESPACE, DIAGNOSIS_PORT, GATEWAY_NAMESPACE
from policies.guardrails.view import plain
from tests.components.contracts import DEFECTS, EMBEDDINGS
from tests.components.program import layer
from tests.iam_evaluator import Request, allowed
from tests.unit.release.driver.test_rollout_state import APPLIED, divided, intended, observed
from tests.unit.release.test_release_series import Told

IMAGE = f"registry.example.com/headway@sha256:{'a' * 64}"
RECEIVERS = {"assist/chat": "assist-oncall", "vision/defects": "vision-oncall"}
KNOWN = diagnosis.settings("prod", "us-west-2", "l", RECEIVERS)
BODIES: dict[str, Any] = {each.role: each.body for each in diagnosis.manifests(IMAGE, "us-west-2", KNOWN, runbooks="https://r.example.com")}
WITNESSES = "arn:aws:ssm:us-west-2:123456789012:parameter/headway/prod/witness"
RIGHTS: Any = diagnosis.permissions("l", witnesses=WITNESSES)


def container() -> dict[str, Any]:
    (found,) = BODIES["loop"]["spec"]["template"]["spec"]["containers"]
    return found


def test_the_loop_finds_in_its_file_whom_each_contract_names(tmp_path: Path) -> None:
    file = tmp_path / diagnosis.FILE
    file.write_text(BODIES["settings"]["data"][diagnosis.FILE])
    found = diagnosed_services(file)
    assert {each.chain: each.receiver for each in found} == RECEIVERS
    assert {(each.address, each.environment) for each in found} == {("s3://l", "prod")}


def test_its_container_is_started_as_its_command_allows() -> None:
    arguments = container()["args"]
    shown = CliRunner().invoke(app, [*arguments[:2], "--help"], env={"COLUMNS": "200"}).output
    assert all(option in shown for option in arguments if option.startswith("--"))
    (file,) = [each for each in arguments if each.endswith(".json")]
    assert file.rpartition("/")[0] in {each["mountPath"] for each in container()["volumeMounts"]}
    assert arguments[-1].endswith(f":{container()['ports'][0]['containerPort']}")


def test_it_may_list_what_a_diagnosis_asks_and_nothing_else() -> None:
    assert BODIES["certificates"]["metadata"]["namespace"] == GATEWAY_NAMESPACE
    rules = [*BODIES["rights"]["rules"], *BODIES["certificates"]["rules"]]
    assert {verb for rule in rules for verb in rule["verbs"]} == {"list"}
    granted = {resource for rule in rules for resource in rule["resources"]}
    source = (Path(__file__).parents[3] / "headway/diagnosis/gathering.py").read_text()
    texts = [each.value for each in ast.walk(ast.parse(source)) if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    assert granted == {text.rstrip("?").rpartition("/")[2] for text in texts if text.startswith("/")} - {""}


def test_it_runs_as_nobody_and_mounts_no_secret() -> None:
    pod = BODIES["loop"]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert container()["securityContext"]["readOnlyRootFilesystem"]
    assert not [each for each in pod["volumes"] if "secret" in each or "projected" in each]
    assert container()["image"] == IMAGE


def test_only_alertmanager_and_prometheus_reach_it() -> None:
    (space,) = [each for each in NAMESPACES if each.name == DIAGNOSIS_NAMESPACE]
    assert space.level is PodSecurity.RESTRICTED
    policy: Any = next(each.body for each in namespaces.manifests([]) if each.role == f"{DIAGNOSIS_NAMESPACE}-closed")
    own, watchers = policy["spec"]["ingress"]
    assert own == {"from": [{"podSelector": {}}]}
    assert {peer["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"] for peer in watchers["from"]} == {"monitoring"}
    assert [peer["podSelector"]["matchLabels"]["app.kubernetes.io/name"] for peer in watchers["from"]] == ["alertmanager", "prometheus"]


def test_it_alone_gives_alertmanager_alerts_from_outside_of_monitoring() -> None:
    policy: Any = next(each.body for each in namespaces.manifests([]) if each.role == "monitoring-alertmanager-open")
    assert policy["spec"]["podSelector"] == {"matchLabels": {"app.kubernetes.io/name": "alertmanager"}}
    assert policy["spec"]["ingress"] == [
        {
            "from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": DIAGNOSIS_NAMESPACE}}}],
            "ports": [{"port": 9093, "protocol": "TCP"}],
        }
    ]


@pytest.mark.parametrize(
    ("action", "resource", "expected"),
    [
        ("s3:GetObject", "arn:aws:s3:::l/vision/defects/events/00000001.json", True),
        ("s3:GetObject", "arn:aws:s3:::a/vision/defects/1/model.onnx", False),
        ("s3:PutObject", "arn:aws:s3:::l/vision/defects/events/00000001.json", False),
        ("s3:DeleteObject", "arn:aws:s3:::l/vision/defects/events/00000001.json", False),
        ("ssm:GetParameter", f"{WITNESSES}/{named('vision/defects', 's3://l')}", True),
        ("ssm:PutParameter", f"{WITNESSES}/{named('vision/defects', 's3://l')}", False),
    ],
)
def test_it_reads_the_ledger_and_writes_nothing(action: str, resource: str, expected: bool) -> None:
    assert allowed(Request(action, resource, {}), RIGHTS, RIGHTS) is expected


def test_pages_and_tickets_are_asked_about_and_still_told() -> None:
    spec = routes.platform_routes(diagnosed=True)["spec"]
    page, ticket, *_, cause = spec["route"]["routes"]
    for asks, severity in ((page, "page"), (ticket, "ticket")):
        assert asks["receiver"] == routes.DIAGNOSIS and asks["continue"]
        assert asks["matchers"] == [{"name": "severity", "value": severity, "matchType": "="}]
    (hook,) = next(each for each in spec["receivers"] if each["name"] == routes.DIAGNOSIS)["webhookConfigs"]
    port = BODIES["service"]["spec"]["ports"][0]["port"]
    assert hook == {"url": f"http://diagnosis.{DIAGNOSIS_NAMESPACE}.svc.cluster.local:{port}/alerts", "sendResolved": True}
    assert port == DIAGNOSIS_PORT
    assert cause["matchers"] == [{"name": "severity", "value": CAUSE_SEVERITY, "matchType": "="}]
    assert cause["groupBy"] == list(CAUSE_GROUP)


def test_what_it_shows_of_a_hundred_services_releases_is_scraped_whole() -> None:
    services = {f"vision/m{number}": lambda: Told(intended(divided(10)), APPLIED, observed()) for number in range(100)}
    series = ReleaseSeries(lambda: services, print)
    series.look()
    shown = sum(not line.startswith("#") for line in series.text().splitlines())
    assert 5 * len(services) < shown < BODIES["monitor"]["spec"]["sampleLimit"] / 2, "and what the loop shows of itself"


def test_the_cause_of_a_ticket_wakes_nobody() -> None:
    spec = routes.platform_routes(diagnosed=True)["spec"]
    labels = {"severity": CAUSE_SEVERITY, CAUSE_URGENCY: "ticket"}
    matching = [each for each in spec["route"]["routes"] if all(labels.get(m["name"], "") == m["value"] for m in each["matchers"])]
    assert matching[0]["receiver"] == routes.PLATFORM_TICKET and "continue" not in matching[0]


def test_nobody_is_asked_where_no_loop_runs() -> None:
    assert routes.DIAGNOSIS not in json.dumps(routes.platform_routes())


@pytest.mark.parametrize(
    ("stack", "runs", "asks"), [("prod-platform", True, True), ("sandbox-platform", False, True), ("dev-platform", False, False)]
)
def test_an_environment_with_an_image_runs_it_and_the_sandbox_asks_a_process(stack: str, runs: bool, asks: bool) -> None:
    found = [plain(dict(each.inputs)) for each in layer(stack).registrations if each.type.startswith("kubernetes:")]
    named_so = {(each.get("kind"), each["metadata"]["name"]) for each in found if "metadata" in each}
    assert (("Deployment", DIAGNOSIS_NAMESPACE) in named_so) is runs
    routing = next(each for each in found if each.get("kind") == "AlertmanagerConfig")
    assert (routes.DIAGNOSIS in json.dumps(routing)) is asks


def test_a_tenant_gets_its_causes_by_the_receiver_of_the_contract() -> None:
    found = routes.tenant_routes("vision", (Model.model_validate(DEFECTS), Model.model_validate(EMBEDDINGS)))
    assert found is not None
    for route in found["spec"]["route"]["routes"]:
        if route["matchers"][0]["value"]:
            of_ticket, cause, _ = route["routes"]
            # A page's cause waits for no ticket's message (Alertmanager, `group_interval`).
            assert (cause["groupBy"], cause["groupWait"]) == ([*CAUSE_GROUP, CAUSE_URGENCY], routes.CAUSE_WAIT)
            assert cause["matchers"] == [{"name": "severity", "value": CAUSE_SEVERITY, "matchType": "="}]
            assert (of_ticket["groupBy"], of_ticket["repeatInterval"]) == (cause["groupBy"], routes.TICKET_REPEAT)


def test_people_hear_of_a_cause_within_the_first_minute() -> None:
    goal_seconds = 15  # of a diagnosis
    waits = sum(int(each.removesuffix("s")) for each in (routes.DIAGNOSIS_WAIT, routes.CAUSE_WAIT))
    assert waits + goal_seconds < 60


@pytest.mark.parametrize(("urgency", "repeat"), [(PAGE, routes.DIAGNOSIS_REPEAT), (TICKET, routes.DIAGNOSIS_TICKET_REPEAT)])
def test_what_is_said_lasts_until_alertmanager_has_asked_again(urgency: str, repeat: str) -> None:
    again, turn = (Duration.parse(each).seconds for each in (repeat, routes.PAGE_INTERVAL))
    assert again + 2 * turn < LASTS_SECONDS[urgency]
