"""`headway status` against an API server and a Prometheus on loopback that answer as genuine ones do."""

import json
from collections.abc import Callable, Generator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
import yaml
from typer.testing import CliRunner, Result

from headway.cli import status
from headway.cli.main import app
from headway.cli.output import Output
from headway.cli.status_view import present, times
from headway.contract.reading.loader import load_tenant
from headway.ledger.store import FolderStore
from headway.ledger.witness_place import FolderWitness
from headway.problem import Exit, UserError
from headway.release.driver.event_kinds import OperatorRequest
from headway.release.driver.requests import ask
from headway.service_status.present import PresentFigures
from headway.wire import ARM, MODEL, POOL, QUARANTINE, RELEASE, RELEASE_HEADER, TENANT, WEIGHTS_ROUTE
from sandbox.layout import Layout
from tests.loopback import Handler, served
from tests.unit.release_world import Scene

PROJECT = Path(__file__).parents[3]
GPU = "nvidia.com/gpu"
LABELS = {TENANT: "vision", MODEL: "defects"}
Command = Callable[..., Result]


class World(Handler):
    """Lists of objects by kind, and values by query. A list with `namespaces` in its path is of one namespace."""

    objects: dict[str, list[dict[str, Any]]]
    forbidden: tuple[str, ...] = ()
    series: dict[str, float]

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        kind = address.path.rpartition("/")[2]
        if address.path == "/readyz":
            self.reply(200, "ok")
        elif kind in self.forbidden:
            self.reply(403, {"message": f"{kind} is forbidden"})
        else:
            only = "metadata.namespace" if "/namespaces/" not in address.path else "vision"
            found = [
                each for each in self.objects.get(kind, []) if only == "metadata.namespace" or each["metadata"].get("namespace") == only
            ]
            wanted = unquote(parse_qs(address.query).get("labelSelector", [""])[0])
            name, _, value = wanted.partition("=")
            chosen = [
                each
                for each in found
                if not name or (each["metadata"].get("labels") or {}).get(name) in ({value} if value else {"defects"})
            ]
            self.reply(200, {"items": chosen, "metadata": {}})

    def do_POST(self) -> None:
        query = parse_qs(f"{urlsplit(self.path).query}&{self.body().decode()}")["query"][0]
        labels = {"tenant": "vision", "model": "defects", "objective": "availability"}
        known = {name: value for name, value in self.series.items() if name in query}
        result = [{"metric": {**labels, "__name__": name, "release": "r1"}, "value": [1.0, str(value)]} for name, value in known.items()]
        self.reply(200, {"status": "success", "data": {"resultType": "vector", "result": result}})


def deployment(release: str, arm: str, replicas: int, ready: int) -> dict[str, Any]:
    labels = {**LABELS, RELEASE: release, ARM: arm}
    spec = {"replicas": replicas, "template": {"metadata": {"labels": labels}}}
    return {"metadata": {"name": release, "namespace": "vision", "labels": labels}, "spec": spec, "status": {"readyReplicas": ready}}


def pod(name: str, release: str, arm: str, on: str = "") -> dict[str, Any]:
    waits = {"type": "PodScheduled", "status": "False", "message": "0/2 nodes are available"}
    return {
        "metadata": {"name": name, "namespace": "vision", "labels": {**LABELS, RELEASE: release, ARM: arm}},
        "spec": {"nodeName": on or None, "nodeSelector": {POOL: "l4"}, "containers": [{"name": "s", "resources": {"limits": {GPU: "1"}}}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"} if on else waits]},
    }


def node(name: str, *taints: str) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": "True"}]
    head = {"name": name, "labels": {POOL: "l4", MODEL: "defects"}}
    return {
        "metadata": head,
        "spec": {"taints": [{"key": key} for key in taints]},
        "status": {"conditions": conditions, "allocatable": {GPU: "1"}},
    }


def route(weights: dict[str, int]) -> dict[str, Any]:
    def arm(key: str, weight: int) -> dict[str, Any]:
        headers = {"response": {"set": {RELEASE_HEADER: key}}}
        return {"destination": {"host": f"defects-{key}.vision.svc.cluster.local"}, "weight": weight, "headers": headers}

    rule = {"name": WEIGHTS_ROUTE, "route": [arm(key, weight) for key, weight in weights.items()]}
    spec = {"hosts": ["defects.vision.svc.cluster.local", "defects.vision.models.example.com"], "http": [rule]}
    return {"metadata": {"name": "defects", "namespace": "vision", "labels": LABELS}, "spec": spec}


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    (found,) = load_tenant(PROJECT / "tenants" / "vision").contracts
    return Scene.of(FolderStore(tmp_path / "ledger"), next(model for model in found.models if model.name == "defects"))


@pytest.fixture
def world(scene: Scene) -> type[World]:
    class Now(World):
        objects = {  # noqa: RUF012
            "deployments": [deployment(scene.stable, "stable", 2, 1)],
            "pods": [pod("a", scene.stable, "stable", "n1"), pod("b", scene.stable, "stable")],
            "nodes": [node("n1"), node("n2", QUARANTINE)],
            "virtualservices": [route({scene.stable: 100})],
        }
        series = {  # noqa: RUF012
            "headway:slo_bad:share1h": 0.003,
            "headway:slo_allowed:share": 0.001,
            "headway:request_rate": 55.02,
            "headway:error_ratio": 0.012,
            "headway:latency:p99": 0.1481,
            "headway:queue_time": 0.012,
            "headway:compute_time": 0.12,
        }

    return Now


@pytest.fixture
def command(world: type[World], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Command]:
    monkeypatch.setenv("HEADWAY_SANDBOX_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HEADWAY_SANDBOX_LEDGER", (tmp_path / "ledger").as_uri())
    monkeypatch.setenv("COLUMNS", "200")
    with served(world) as address:
        monkeypatch.setenv("HEADWAY_PROMETHEUS", address)
        file = Layout.of(PROJECT).kubeconfig
        file.parent.mkdir(parents=True, mode=0o700)
        cluster, context = {"server": address}, {"cluster": "one", "user": "me"}
        named = {"clusters": [{"name": "one", "cluster": cluster}], "contexts": [{"name": "one", "context": context}]}
        file.write_text(yaml.safe_dump({**named, "users": [{"name": "me", "user": {}}], "current-context": "one"}), encoding="utf-8")
        yield lambda *words: CliRunner().invoke(app, ["status", *words, "--project", str(PROJECT)])


def words(result: Result) -> str:
    return " ".join(result.output.split())


@pytest.mark.parametrize(("burn", "said"), [(0.0, "0x"), (3.14, "3.1x"), (118.2, "118x")])
def test_a_burn_is_read_in_two_figures_or_whole(burn: float, said: str) -> None:
    assert times(burn) == said


def test_a_service_that_lacks_a_replica_says_why_and_the_command_fails(command: Command, scene: Scene) -> None:
    answer = command()
    assert answer.exit_code == Exit.REFUSED, answer.output
    said = words(answer)
    assert f"vision/defects 1/2 {scene.stable} 100 % availability burns 3x none" in said
    assert (
        f"vision/defects {scene.stable} (stable): pool l4: 1 of 2 in quarantine (n2); no node has 1 {GPU} left (1 of 1 in use on 1: 1 by vision)"
        in said
    )


def test_a_contract_that_serves_nowhere_is_said_not_to_be_deployed(command: Command) -> None:
    assert "vision/embeddings not deployed no route" in words(command())


def test_one_service_in_full_has_its_address_pods_and_promises(command: Command, scene: Scene) -> None:
    said = words(command("vision/defects", "-e", "sandbox"))
    assert "vision/defects in sandbox address defects.vision.models.example.com" in said
    assert f"{scene.stable} (stable) 1 of 2 ready" in said
    assert "a n1 ready" in said and "b on no node pool l4:" in said
    assert "availability: 0.3 % of requests broke it in the last hour, 0.1 % may: burns 3x" in said
    assert (
        "now r1: 55 requests a second in the last minute, 1.2 % fail, p99 148 ms; on average 12 ms in the queue and 120 ms in the model"
        in said
    )
    assert "headway release report" not in said, "it has had no release"


@pytest.mark.parametrize(("minutes", "told"), [(5, True), (90, False)], ids=["lately", "long ago"])
def test_a_replica_that_serves_again_after_it_was_killed_is_told_of(
    command: Command, world: type[World], scene: Scene, minutes: int, told: bool
) -> None:
    at = datetime.now(UTC) - timedelta(minutes=minutes)
    killed = {"terminated": {"reason": "OOMKilled", "exitCode": 137, "finishedAt": f"{at:%Y-%m-%dT%H:%M:%SZ}"}}
    again = {"name": "server", "ready": True, "restartCount": 2, "state": {"running": {}}, "lastState": killed}
    serving = pod("a", scene.stable, "stable", "n1")
    serving["status"]["containerStatuses"] = [again]
    world.objects = {**world.objects, "deployments": [deployment(scene.stable, "stable", 1, 1)], "pods": [serving]}
    said = f"container server ended 2 times, the last time at {at:%Y-%m-%d %H:%M}Z with OOMKilled, exit code 137"
    assert (f"vision/defects {scene.stable} (stable): a: {said}" in words(command())) is told
    assert f"a n1 ready └── {said}" in words(command("vision/defects"))


def test_what_is_refused_is_a_share_of_what_is_asked() -> None:
    figures = PresentFigures(release="r1", rate=58.5, errors=0.0, p99=0.005, queue=0.001, refused=(("401", 59.3),))
    assert (
        present(figures)
        == "r1: 58.5 requests a second in the last minute, 100 % refused with 401, 0 % fail, p99 5 ms with these; on average 1 ms in the queue"
    )


@pytest.mark.parametrize(("p99", "said"), [(0.0049, "4.9 ms"), (0.1481, "148 ms"), (2.07, "2.07 s"), (61.4, "61.4 s")])
def test_a_time_is_said_in_the_unit_that_people_use(p99: float, said: str) -> None:
    assert present(PresentFigures(release="r1", rate=1.0, p99=p99)) == f"r1: 1 requests a second in the last minute, p99 {said}"


def test_a_service_of_which_all_is_there_is_no_failure(command: Command, world: type[World], scene: Scene) -> None:
    world.objects = {**world.objects, "deployments": [deployment(scene.stable, "stable", 1, 1)], "pods": world.objects["pods"][:1]}
    answer = command("vision/defects")
    assert answer.exit_code == Exit.OK, answer.output
    assert "1 of 1 ready" in answer.output


def test_a_release_on_its_way_is_shown_with_its_weight(command: Command, world: type[World], scene: Scene) -> None:
    scene.begin()
    ask(scene.ledger(), OperatorRequest.FREEZE, "lunch")
    world.objects["virtualservices"] = [route({scene.stable: 95, scene.release: 5})]
    said = words(command())
    assert f"{scene.stable} 95 %" in said and f"{scene.release} 5 %" in said
    assert f"{scene.release} held: only {scene.stable}" in said
    full = words(command("vision/defects"))
    assert f"release {scene.release} against {scene.stable}, began" in full and "status held: lunch" in full
    assert "headway release report vision/defects -e sandbox" in full


def test_a_narrow_terminal_breaks_no_share_of_users(
    command: Command, world: type[World], scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.begin()
    arms = {scene.stable: 80, f"{scene.stable}-baseline": 10, scene.release: 10}
    world.objects["virtualservices"] = [route(arms)]
    monkeypatch.setenv("COLUMNS", "80")
    lines = command().output.splitlines()
    assert [key for key, weight in arms.items() if not any(f"{key} {weight} %" in line for line in lines)] == []


def test_who_may_not_read_nodes_is_told_the_schedulers_words(command: Command, world: type[World]) -> None:
    world.forbidden = ("nodes",)
    try:
        assert "b on no node 0/2 nodes are available" in words(command("vision/defects"))
    finally:
        world.forbidden = ()


def of_another(body: dict[str, Any]) -> dict[str, Any]:
    """The same, written by a deployer of another tenant, whose namespace comes later in every list."""
    return {**body, "metadata": {**body["metadata"], "namespace": "warehouse"}}


def test_no_other_namespaces_objects_speak_for_a_service(command: Command, world: type[World], scene: Scene) -> None:
    astray = route({scene.release: 100})
    astray["spec"]["hosts"] = ["defects.warehouse.models.example.com"]
    world.objects = {
        **world.objects,
        "deployments": [deployment(scene.stable, "stable", 1, 1), of_another(deployment(scene.release, "canary", 9, 0))],
        "pods": [pod("a", scene.stable, "stable", "n1"), of_another(pod("theirs", scene.stable, "stable"))],
        "virtualservices": [*world.objects["virtualservices"], of_another(astray)],
    }
    service = json.loads(command("-o", "json").stdout)["services"]["vision/defects"]
    assert (service["ready"], service["weights"]) == (True, {scene.stable: 100})
    assert service["addresses"] == ["defects.vision.models.example.com"]
    assert [[each["name"] for each in arm["pods"]] for arm in service["replicas"]] == [["a"]]


@pytest.mark.parametrize(
    "entry",
    [{"route": [{"destination": {"host": "defects.vision.svc.cluster.local"}}]}, {"mirrorPercentage": {"value": "all"}}],
    ids=["without a release", "copies of no share"],
)
def test_a_route_that_is_like_none_of_ours_hides_nothing_else(command: Command, world: type[World], scene: Scene, entry: Any) -> None:
    odd = route({scene.stable: 100})
    odd["spec"]["http"][0] |= {"mirror": {"host": "a"}, **entry}
    world.objects["virtualservices"] = [odd]
    service = json.loads(command("-o", "json").stdout)["services"]["vision/defects"]
    assert (service["weights"], service["addresses"]) == (None, ["defects.vision.models.example.com"])
    assert "vision/defects 1/2 no route" in words(command())


def test_metrics_that_do_not_answer_are_said_and_hide_nothing_else(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_PROMETHEUS", "http://127.0.0.1:1")
    said = words(command())
    assert "No promises: http://127.0.0.1:1 did not answer" in said and "1/2" in said


def test_an_api_server_that_does_not_answer_ends_with_what_to_do(command: Command, tmp_path: Path) -> None:
    file = Layout.of(PROJECT).kubeconfig
    file.write_text(file.read_text(encoding="utf-8").replace("server: http://127.0.0.1:", "server: http://127.0.0.9:"), encoding="utf-8")
    error = command().exception
    assert isinstance(error, UserError)
    assert error.fact.startswith("The API server does not answer")


def test_programs_get_the_same_as_data(command: Command, scene: Scene) -> None:
    found = json.loads(command("-o", "json").output)
    service = found["services"]["vision/defects"]
    assert (found["ready"], service["ready"], service["weights"]) == (False, False, {scene.stable: 100})
    assert service["addresses"] == ["defects.vision.models.example.com"]
    assert service["replicas"][0]["pods"][1]["why"].startswith("pool l4: 1 of 2 in quarantine")
    assert service["promises"] == [{"objective": "availability", "broken": 0.003, "allowed": 0.001}]


def contradicts(chain: str) -> None:
    FolderWitness(Layout.of(PROJECT).ledger_witness).write(chain, f"99:{'a' * 64}")


def test_a_service_whose_ledger_was_written_anew_is_shown_with_what_to_do(command: Command) -> None:
    contradicts("vision/defects")
    said = words(command())
    assert "vision/defects 1/2" in said, "what runs is shown all the same"
    assert "vision/defects: The ledger of vision/defects is not the one that was witnessed: its witness names event 99" in said
    assert "`headway release accept vision/defects -e sandbox --reason WHY`" in said
    (doubt,) = json.loads(command("-o", "json").stdout)["doubts"]
    assert (doubt["chain"], doubt["remedy"][:19]) == ("vision/defects", "Find out who could ")


@pytest.mark.parametrize("beside", ["evaluation", "drift"])
def test_doubt_about_what_followed_a_promotion_hides_no_release(command: Command, beside: str) -> None:
    contradicts(f"vision/defects/{beside}")
    found = json.loads(command("vision/defects", "-o", "json").stdout)
    assert [each["chain"] for each in found["doubts"]] == [f"vision/defects/{beside}"]
    assert "release none yet" in words(command("vision/defects"))


def test_a_watch_outlasts_a_cluster_that_is_silent_for_a_while(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    monkeypatch.setattr("headway.cli.status_view.document", lambda picture: {"picture": picture})
    silent = UserError("The API server does not answer.", "Nothing can be said.", "Try again.")
    ends: list[Any] = ["first", silent, silent, "second", KeyboardInterrupt()]

    def look() -> Any:
        found = ends.pop(0)
        if isinstance(found, BaseException):
            raise found
        return found

    with pytest.raises(KeyboardInterrupt):
        status._watched(look, Output.JSON)  # pyright: ignore[reportPrivateUsage]
    said = capsys.readouterr()
    assert [json.loads(line)["picture"] for line in said.out.splitlines()] == ["first", "second"]
    assert said.err == "The API server does not answer.\n"


def test_a_watch_that_cannot_begin_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)

    def look() -> Any:
        raise UserError("The API server does not answer.", "Nothing can be said.", "Try again.")

    with pytest.raises(UserError, match="does not answer"):
        status._watched(look, Output.JSON)  # pyright: ignore[reportPrivateUsage]
