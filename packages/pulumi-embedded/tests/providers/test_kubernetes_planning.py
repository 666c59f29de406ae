"""What a preview answers, when it asks the cluster, and how the connection behaves."""

import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from loopback import Handler, served

from pulumi_embedded.engine.provider import UNKNOWN, Properties, ProviderError
from pulumi_embedded.providers.kubernetes.charts import CHARTS, GROUPS, chart_name, groups, permissive
from pulumi_embedded.providers.kubernetes.client import ClusterConnection, loopback_only
from pulumi_embedded.providers.kubernetes.clock import AwaitClock
from pulumi_embedded.providers.kubernetes.errors import ApiRefusal, ApiUnreachableError, UnknownKindError
from pulumi_embedded.providers.kubernetes.kinds import ObjectKind
from pulumi_embedded.providers.kubernetes.planning import has_unknown, planned
from pulumi_embedded.providers.kubernetes.plans import Plans
from pulumi_embedded.providers.kubernetes.provider import KubernetesProvider

SERVICE = ObjectKind("", "v1", "Service")
CONFIG_MAP = ObjectKind("", "v1", "ConfigMap")
SECRET = ObjectKind("", "v1", "Secret")
SCALED_OBJECT = ObjectKind("keda.sh", "v1alpha1", "ScaledObject")
NAMESPACE = ObjectKind("", "v1", "Namespace")


def test_what_only_the_create_will_tell_is_unknown_in_a_plan() -> None:
    outputs = planned(SERVICE, {"metadata": {"name": "x"}, "spec": {"ports": []}}, None, None)
    head = outputs["metadata"]
    assert [head[key] for key in ("uid", "resourceVersion", "creationTimestamp", "generation")] == [UNKNOWN] * 4
    assert (head["name"], outputs["status"], outputs["spec"]["clusterIP"]) == ("x", UNKNOWN, UNKNOWN)


def test_an_address_that_the_user_chose_is_known_in_a_plan() -> None:
    assert planned(SERVICE, {"spec": {"clusterIP": "None"}}, None, None)["spec"]["clusterIP"] == "None"


def test_a_dry_run_tells_defaults_but_not_what_it_only_made_up() -> None:
    dry_run = {"metadata": {"name": "x", "uid": "made-up"}, "spec": {"clusterIP": "10.0.0.9", "type": "ClusterIP"}, "status": {"a": 1}}
    outputs = planned(SERVICE, {"metadata": {"name": "x"}, "spec": {}}, dry_run, None)
    assert outputs["spec"] == {"clusterIP": UNKNOWN, "clusterIPs": UNKNOWN, "type": "ClusterIP"}
    assert outputs["metadata"]["uid"] == UNKNOWN
    assert outputs["status"] == UNKNOWN


def test_an_update_keeps_the_identity_of_the_object() -> None:
    old = {"metadata": {"uid": "u", "creationTimestamp": "t"}, "spec": {"clusterIP": "10.0.0.9"}}
    outputs = planned(SERVICE, {"metadata": {"name": "x"}, "spec": {}}, None, old)
    assert (outputs["metadata"]["uid"], outputs["metadata"]["creationTimestamp"]) == ("u", "t")
    assert outputs["spec"]["clusterIP"] == "10.0.0.9"
    assert outputs["metadata"]["resourceVersion"] == UNKNOWN


def test_the_stored_form_of_string_data_is_unknown_in_a_plan() -> None:
    assert planned(SECRET, {"stringData": {"a": "b"}}, {"data": {"a": "Yg=="}}, None)["data"] == UNKNOWN
    assert planned(CONFIG_MAP, {"data": {"a": "b"}}, None, None)["data"] == {"a": "b"}


def test_metadata_that_is_unknown_stays_unknown() -> None:
    assert planned(CONFIG_MAP, {"metadata": UNKNOWN}, None, None)["metadata"] == UNKNOWN


def test_an_unknown_value_is_found_wherever_it_is() -> None:
    assert has_unknown({"a": [{"b": UNKNOWN}]})
    assert not has_unknown({"a": [{"b": "x"}], "c": None})


def test_a_dry_run_is_not_asked_in_a_namespace_that_the_same_preview_makes() -> None:
    plans = Plans()
    assert not plans.unsettled(CONFIG_MAP, "team")
    plans.note(NAMESPACE, "team")
    assert not plans.unsettled(CONFIG_MAP, "team"), "one that it changes is there"
    plans.note(NAMESPACE, "team", made=True)
    assert plans.unsettled(CONFIG_MAP, "team")
    assert not plans.unsettled(CONFIG_MAP, "other")


def test_no_dry_run_is_asked_for_kinds_that_the_same_preview_redefines() -> None:
    plans = Plans()
    plans.note(ObjectKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition"), "scaledobjects.keda.sh")
    assert plans.unsettled(SCALED_OBJECT, "team")
    other = Plans()
    other.note_groups(groups(CHARTS["keda"]))
    assert other.unsettled(SCALED_OBJECT, "team")
    assert not other.unsettled(CONFIG_MAP, "team")


def test_a_refusal_by_a_rule_that_the_same_preview_changes_is_not_final() -> None:
    plans = Plans()
    assert not plans.changes((("ResourceQuota", "q"),))
    plans.note(ObjectKind("", "v1", "ResourceQuota"), "q")
    assert plans.changes((("ResourceQuota", "q"),))


def test_a_cluster_is_lost_once_however_many_threads_miss_it() -> None:
    plans = Plans()
    assert (plans.away, plans.lost(), plans.lost(), plans.away) == (False, True, False, True)


def test_every_set_of_definitions_in_the_chart_table_has_its_groups() -> None:
    assert {name for chart in CHARTS.values() for name in chart.definitions} == set(GROUPS)


def test_a_stand_in_definition_says_that_it_is_one_and_accepts_anything() -> None:
    definition = permissive("nvidia.com", "v1", "ClusterPolicy")
    assert definition["metadata"]["name"] == "clusterpolicies.nvidia.com"
    assert "stand-in" in json.dumps(definition["metadata"]["annotations"])
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert schema["properties"]["spec"]["x-kubernetes-preserve-unknown-fields"]


def test_a_chart_is_known_by_its_own_name() -> None:
    assert [chart_name(text) for text in ("keda", "kedacore/keda", "oci://host.example/charts/keda")] == ["keda"] * 3


Answer = tuple[int, Any]


@contextmanager
def answering(answer: Callable[[str, str, Any], Answer]) -> Generator[tuple[Properties, list[tuple[str, str, dict[str, str]]]]]:
    """An HTTP server that answers as told; gives its kubeconfig and the requests it saw."""
    seen: list[tuple[str, str, dict[str, str]]] = []

    class Server(Handler):
        protocol_version = "HTTP/1.1"

        def do(self) -> None:
            body = json.loads(self.body() or "null")
            seen.append((self.command, self.path, dict(self.headers)))
            code, payload = answer(self.command, self.path, body)
            self.reply(code, json.dumps(payload))

        do_GET = do_PATCH = do_DELETE = do  # noqa: N815

    with served(Server) as url:
        yield kubeconfig(url), seen


def kubeconfig(server: str) -> Properties:
    return {
        "current-context": "x",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "t0ken"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    }


class FakeTime:
    def __init__(self) -> None:
        self.slept: list[float] = []
        self.clock = AwaitClock(now=lambda: sum(self.slept), sleep=self.slept.append)


CORE = {
    "resources": [
        {"name": "configmaps", "kind": "ConfigMap", "namespaced": True},
        {"name": "configmaps/x", "kind": "X", "namespaced": True},
    ]
}


def serving(*answers: Answer) -> Callable[[str, str, Any], Answer]:
    queue = list(answers)
    return lambda method, path, body: (200, CORE) if path == "/api/v1" else queue.pop(0)


def test_an_apply_names_its_manager_and_asks_for_strict_validation() -> None:
    with answering(serving((200, {"kind": "ConfigMap"}))) as (config, seen):
        ClusterConnection(config, "", AwaitClock()).apply(
            CONFIG_MAP, {"metadata": {"name": "a b", "namespace": "team"}}, "me", force=True, dry_run=True
        )
        method, path, headers = seen[-1]
        assert (method, path.partition("?")[0]) == ("PATCH", "/api/v1/namespaces/team/configmaps/a%20b")
        assert set(path.partition("?")[2].split("&")) == {"fieldManager=me", "fieldValidation=Strict", "force=true", "dryRun=All"}
        assert (headers["Content-Type"], headers["authorization"]) == ("application/apply-patch+yaml", "Bearer t0ken")


def test_what_fails_in_passing_is_repeated_with_pauses() -> None:
    time = FakeTime()
    with answering(serving((503, {}), (429, {}), (200, {"ok": 1}))) as (config, _):
        assert ClusterConnection(config, "", time.clock).get(CONFIG_MAP, "team", "x") == {"ok": 1}
    assert time.slept == [0.25, 0.5]


def test_what_the_user_must_correct_is_not_repeated() -> None:
    with (
        answering(serving((422, {"reason": "Invalid", "message": "no"}))) as (config, seen),
        pytest.raises(ApiRefusal, match="422 Invalid: no"),
    ):
        ClusterConnection(config, "", FakeTime().clock).apply(CONFIG_MAP, {"metadata": {"name": "x"}}, "me")
    assert len(seen) == 2


def test_an_object_that_is_not_there_is_none() -> None:
    with answering(serving((404, {"reason": "NotFound"}))) as (config, _):
        assert ClusterConnection(config, "", AwaitClock()).get(CONFIG_MAP, "team", "x") is None


def test_kinds_are_asked_for_once_and_again_when_one_is_missing() -> None:
    with answering(serving((200, {}), (200, {}))) as (config, seen):
        cluster = ClusterConnection(config, "", AwaitClock())
        cluster.get(CONFIG_MAP, "team", "x")
        cluster.get(CONFIG_MAP, "team", "y")
        assert [path for _, path, _ in seen].count("/api/v1") == 1
        with pytest.raises(UnknownKindError):
            cluster.get(ObjectKind("", "v1", "Secret"), "team", "x")
        assert [path for _, path, _ in seen].count("/api/v1") == 2


def test_a_group_that_is_not_served_has_no_kinds() -> None:
    with answering(lambda *_: (404, {})) as (config, _), pytest.raises(UnknownKindError, match="ScaledObject"):
        ClusterConnection(config, "", AwaitClock()).get(SCALED_OBJECT, "team", "x")


@pytest.mark.parametrize(
    ("code", "message", "asked"), [(200, "", True), (404, "", False), (409, "the UID in the precondition does not match", False)]
)
def test_only_the_object_that_was_recorded_is_deleted(code: int, message: str, asked: bool) -> None:
    bodies: list[Any] = []

    def answer(method: str, path: str, body: Any) -> Answer:
        bodies.append(body)
        return (200, CORE) if path == "/api/v1" else (code, {"message": message})

    with answering(answer) as (config, _):
        assert ClusterConnection(config, "", AwaitClock()).delete(CONFIG_MAP, "team", "x", uid="u", propagation="foreground") is asked
    assert bodies[-1]["preconditions"] == {"uid": "u"}
    assert bodies[-1]["propagationPolicy"] == "Foreground"


def test_nobody_waits_longer_than_its_patience_for_a_server_that_is_away() -> None:
    time = FakeTime()
    with pytest.raises(ApiUnreachableError, match=r"127\.0\.0\.1:9"):
        ClusterConnection(kubeconfig("http://127.0.0.1:9"), "", time.clock).get(CONFIG_MAP, "team", "x", patience=3)
    assert sum(time.slept) == pytest.approx(3), "asking for the kind is part of the same patience"


def test_a_glance_does_not_wait_at_all() -> None:
    time = FakeTime()
    with pytest.raises(ApiUnreachableError):
        ClusterConnection(kubeconfig("http://127.0.0.1:9"), "", time.clock).get(CONFIG_MAP, "team", "x", patience=0)
    assert time.slept == []


def test_a_cluster_that_was_never_started_is_unreachable_without_a_wait() -> None:
    time = FakeTime()
    with pytest.raises(ApiUnreachableError, match="no kubeconfig yet"):
        ClusterConnection({}, "", time.clock).request("GET", "/version")
    assert time.slept == []


@pytest.mark.parametrize("server", ["https://ABC.gr7.us-west-2.eks.amazonaws.com", "https://10.0.0.1:6443", ""])
def test_a_cluster_on_another_machine_is_never_touched(server: str) -> None:
    with pytest.raises(ProviderError, match="not on this machine"):
        ClusterConnection(kubeconfig(server), "", AwaitClock()).request("GET", "/version")


@pytest.mark.parametrize("server", ["https://127.0.0.1:6443", "https://localhost:1", "https://[::1]:1", "https://127.3.2.1"])
def test_a_cluster_on_this_machine_may_be_used(server: str) -> None:
    loopback_only(kubeconfig(server), "")


def test_a_context_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(ProviderError, match=r"no context 'other'.*it has: x"):
        loopback_only(kubeconfig("https://127.0.0.1"), "other")


class Previewing:
    timeout = 0.0

    repeated = False

    def __init__(self, preview: bool) -> None:
        self.preview = preview
        self.warnings: list[str] = []

    def status(self, message: str) -> None: ...

    def warn(self, message: str) -> None:
        self.warnings.append(message)

    def cancelled(self) -> bool:
        return False


def provider(kubeconfig: Properties) -> KubernetesProvider:
    clock = FakeTime().clock
    made = KubernetesProvider(Path("none"), lambda name, step: (), clock, connect=lambda _, clock: ClusterConnection(kubeconfig, "", clock))
    made.configure({})
    return made


CREATE = (
    "urn:pulumi:s::p::kubernetes:core/v1:ConfigMap::x",
    "kubernetes:core/v1:ConfigMap",
    "x",
    {"metadata": {"name": "x"}, "data": {"a": "b"}},
)


@pytest.mark.parametrize("config", [{}, kubeconfig("http://127.0.0.1:9")])
def test_a_cluster_that_does_not_answer_is_one_warning_in_a_preview(config: Properties) -> None:
    made, step = provider(config), Previewing(preview=True)
    assert [made.create(*CREATE, step)[1]["data"] for _ in range(3)] == [{"a": "b"}] * 3
    assert len(step.warnings) == 1
    assert "start it before the update" in step.warnings[0]


@pytest.mark.parametrize("config", [{}, kubeconfig("http://127.0.0.1:9")])
def test_a_cluster_that_does_not_answer_is_an_error_in_an_update(config: Properties) -> None:
    with pytest.raises(ProviderError, match=r"ConfigMap default/x.*does not answer.*left as it is.*start it, or correct"):
        provider(config).create(*CREATE, Previewing(preview=False))


def test_a_delete_without_its_cluster_drops_the_object_only_if_asked_to() -> None:
    urn, type, _, inputs = CREATE
    strict = provider(kubeconfig("http://127.0.0.1:9"))
    with pytest.raises(ProviderError, match="does not answer"):
        strict.delete(urn, type, "default/x", inputs, {}, Previewing(preview=False))
    lenient, step = provider(kubeconfig("http://127.0.0.1:9")), Previewing(preview=False)
    lenient.configure({"deleteUnreachable": "true", "kubeconfig": json.dumps(kubeconfig("http://127.0.0.1:9"))})
    lenient.delete(urn, type, "default/x", inputs, {}, step)
    assert "not deleted" in step.warnings[0]


def test_another_cluster_replaces_the_provider_and_another_token_does_not() -> None:
    def given(server: str, token: str) -> Properties:
        config = kubeconfig(server)
        config["users"][0]["user"]["token"] = token
        return {"kubeconfig": json.dumps(config)}

    made, old = provider({}), given("https://127.0.0.1:1", "a")
    assert made.diff_config("u", old, given("https://127.0.0.1:2", "a")).replaces == ("kubeconfig",)
    found = made.diff_config("u", old, given("https://127.0.0.1:1", "b"))
    assert (found.replaces, found.details) == ((), {"kubeconfig": "update"})
    assert made.diff_config("u", old, old).details == {}
    same = {"clusterIdentifier": "c"}
    assert made.diff_config("u", {**old, **same}, {**given("https://127.0.0.1:2", "a"), **same}).replaces == ()


def test_an_unknown_kubeconfig_replaces_unless_the_cluster_is_identified() -> None:
    made, same = provider({}), {"clusterIdentifier": "c"}
    old = {"kubeconfig": "apiVersion: v1"}
    assert made.diff_config("u", old, {"kubeconfig": UNKNOWN}).replaces == ("kubeconfig",)
    assert made.diff_config("u", {**old, **same}, {"kubeconfig": UNKNOWN, **same}).replaces == ()


def test_functions_and_components_of_the_package_are_refused_by_name() -> None:
    with pytest.raises(ProviderError, match="kubernetes:yaml:decode"):
        provider({}).invoke("kubernetes:yaml:decode", {}, preview=True)


def conflicting(field: str) -> Callable[[str, str, Any], Answer]:
    """A server on which somebody else owns the field, whatever is applied."""
    cause = {"field": field, "message": 'conflict with "other" using v1'}
    return lambda method, path, body: (200, CORE) if path == "/api/v1" else (409, {"reason": "Conflict", "details": {"causes": [cause]}})


@pytest.mark.parametrize(("field", "asked"), [(".data.a", 2), (".data.z", 1)])
def test_a_conflict_that_yielding_does_not_end_is_an_error(field: str, asked: int) -> None:
    urn, type, _, inputs = CREATE
    with answering(conflicting(field)) as (config, seen):
        made = provider(config)
        made.diff(urn, type, "default/x", inputs, {}, inputs, ("data",))
        with pytest.raises(ProviderError, match="owned by other"):
            made.update(urn, type, "default/x", inputs, {}, inputs, Previewing(preview=False))
    assert [method for method, _, _ in seen].count("PATCH") == asked
