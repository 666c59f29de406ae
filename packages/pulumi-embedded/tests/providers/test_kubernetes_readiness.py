"""When an object is ready, why it is not, and how long anyone waits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from pulumi_embedded.engine.provider import Properties
from pulumi_embedded.providers.kubernetes.await_ import foundations, pods, services, workloads
from pulumi_embedded.providers.kubernetes.await_.verdict import Judge, ReadinessState, selector
from pulumi_embedded.providers.kubernetes.await_.waiting import NotReadyError, holders, pause_after, unready, until_gone, until_ready
from pulumi_embedded.providers.kubernetes.client import ClusterConnection
from pulumi_embedded.providers.kubernetes.clock import AwaitClock
from pulumi_embedded.providers.kubernetes.errors import ApiUnreachableError, UnknownKindError
from pulumi_embedded.providers.kubernetes.kinds import ObjectKind

DEPLOYMENT = ObjectKind("apps", "v1", "Deployment")
CONFIG_MAP = ObjectKind("", "v1", "ConfigMap")
SERVICE = ObjectKind("", "v1", "Service")
UNSCHEDULABLE = "0/12 nodes are available: 12 Insufficient nvidia.com/gpu."


@dataclass
class Around:
    """What else is in the cluster, by kind."""

    objects: Mapping[str, Sequence[Properties]] = field(default_factory=dict[str, Sequence[Properties]])

    def get(self, kind: ObjectKind, namespace: str, name: str) -> Properties | None:
        return next((each for each in self.objects.get(kind.kind, ()) if each["metadata"]["name"] == name), None)

    def find(self, kind: ObjectKind, namespace: str = "", *, labels: str = "", fields: str = "") -> Sequence[Properties]:
        return self.objects.get(kind.kind, ())

    def serves(self, group: str, version: str) -> bool:
        return f"{group}/{version}" in self.objects.get("serves", ())


def verdict(judge: Judge, live: Properties, **objects: Sequence[Properties]) -> tuple[ReadinessState, str]:
    found = judge(live, Around(objects))
    return found.state, found.text


def condition(type: str, status: str = "True", reason: str = "", message: str = "") -> Properties:
    return {"type": type, "status": status, "reason": reason, "message": message}


def a_pod(*conditions: Properties, labels: Mapping[str, str] | None = None, phase: str = "Pending", **status: Any) -> Properties:
    return {"metadata": {"name": "p", "labels": dict(labels or {})}, "status": {"phase": phase, "conditions": list(conditions), **status}}


def unschedulable(**labels: str) -> Properties:
    return a_pod(condition("PodScheduled", "False", "Unschedulable", UNSCHEDULABLE), labels=labels)


READY_POD = a_pod(condition("Ready"), phase="Running")


def deployment(wanted: int | None = 2, generation: int = 1, conditions: Sequence[Properties] = (), **status: int) -> Properties:
    spec: Properties = {"selector": {"matchLabels": {"app": "web"}}} | ({} if wanted is None else {"replicas": wanted})
    head = {"name": "web", "namespace": "team", "generation": generation, "annotations": {"deployment.kubernetes.io/revision": "2"}}
    return {"metadata": head, "spec": spec, "status": {"observedGeneration": 1, "conditions": list(conditions), **status}}


def test_a_deployment_is_ready_when_only_new_available_replicas_are_left() -> None:
    assert verdict(workloads.deployment, deployment(updatedReplicas=2, availableReplicas=2, replicas=2)) == (ReadinessState.READY, "")


@pytest.mark.parametrize(
    ("status", "text"),
    [
        ({"updatedReplicas": 1, "availableReplicas": 2, "replicas": 2}, "1 of 2 replicas available, 1 of an older revision still there"),
        ({"updatedReplicas": 2, "availableReplicas": 1, "replicas": 2}, "1 of 2 replicas available"),
        ({"updatedReplicas": 2, "availableReplicas": 2, "replicas": 3}, "2 of 2 replicas available, 1 of an older revision still there"),
        ({}, "0 of 2 replicas available"),
    ],
)
def test_a_rollout_that_is_not_over_says_how_far_it_is(status: dict[str, Any], text: str) -> None:
    assert verdict(workloads.deployment, deployment(**status)) == (ReadinessState.WAITING, text)


def test_a_rollout_that_the_controller_has_not_seen_has_not_begun() -> None:
    state, text = verdict(workloads.deployment, deployment(generation=2, updatedReplicas=2, availableReplicas=2, replicas=2))
    assert (state, text) == (ReadinessState.WAITING, "the rollout has not begun")


def test_a_deployment_without_replicas_of_its_own_has_one() -> None:
    assert verdict(workloads.deployment, deployment(None, updatedReplicas=1, availableReplicas=1, replicas=1))[0] is ReadinessState.READY


def test_a_deployment_scaled_to_nothing_is_ready() -> None:
    assert verdict(workloads.deployment, deployment(0)) == (ReadinessState.READY, "")


def test_the_scheduler_says_why_a_deployment_waits() -> None:
    state, text = verdict(workloads.deployment, deployment(), Pod=[unschedulable(), unschedulable()])
    assert (state, text) == (ReadinessState.WAITING, f"0 of 2 replicas available; 2 pods: {UNSCHEDULABLE}")


def test_only_pods_of_the_new_revision_are_blamed() -> None:
    old = a_pod(condition("Ready", "False", "ContainersNotReady", "old trouble"), labels={"pod-template-hash": "old"})
    replica_set = {"metadata": {"annotations": {"deployment.kubernetes.io/revision": "2"}, "labels": {"pod-template-hash": "new"}}}
    _, text = verdict(
        workloads.deployment, deployment(), Pod=[old, unschedulable(**{"pod-template-hash": "new"})], ReplicaSet=[replica_set]
    )
    assert UNSCHEDULABLE in text
    assert "old trouble" not in text


def test_a_quota_that_stops_the_pods_is_the_reason() -> None:
    refused = condition("ReplicaFailure", reason="FailedCreate", message="exceeded quota: gpus, limited: requests.nvidia.com/gpu=2")
    _, text = verdict(workloads.deployment, deployment(conditions=[refused]))
    assert text == "0 of 2 replicas available; FailedCreate: exceeded quota: gpus, limited: requests.nvidia.com/gpu=2"


def test_a_rollout_past_its_deadline_has_failed() -> None:
    late = condition("Progressing", "False", "ProgressDeadlineExceeded")
    assert verdict(workloads.deployment, deployment(conditions=[late]), Pod=[unschedulable()])[0] is ReadinessState.FAILED


def test_a_paused_deployment_is_not_awaited() -> None:
    paused = deployment()
    paused["spec"]["paused"] = True
    assert verdict(workloads.deployment, paused)[0] is ReadinessState.READY


@pytest.mark.parametrize(
    ("status", "text"),
    [
        ({"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}, "container c ImagePullBackOff: no such image"),
        ({"terminated": {"exitCode": 137, "reason": "OOMKilled"}}, "container c exited with code 137, OOMKilled"),
    ],
)
def test_a_container_says_why_its_pod_is_not_ready(status: Properties, text: str) -> None:
    assert pods.trouble(a_pod(containerStatuses=[{"name": "c", "state": status}])) == text


def test_a_crash_loop_is_told_with_its_last_exit() -> None:
    blocked = {"name": "c", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"exitCode": 1}}}
    assert pods.trouble(a_pod(initContainerStatuses=[blocked])) == "container c CrashLoopBackOff (exited with code 1)"


def test_a_pod_that_only_starts_is_no_trouble() -> None:
    assert pods.trouble(a_pod(containerStatuses=[{"name": "c", "state": {"waiting": {"reason": "ContainerCreating"}}}])) == ""


def test_troubles_are_counted_most_frequent_first_and_cut() -> None:
    many = [a_pod(condition("PodScheduled", "False", "", f"reason {index}")) for index in (0, 1, 2, 3, 4, 5, 1)]
    text = pods.troubles(many)
    assert text.startswith("2 pods: reason 1; 1 pod: reason 0")
    assert text.endswith("and 2 other reasons")


def test_a_pod_on_its_way_out_is_not_blamed() -> None:
    leaving = unschedulable()
    leaving["metadata"]["deletionTimestamp"] = "t"
    assert pods.troubles([leaving]) == ""


def test_a_single_pod_is_ready_or_done_or_failed() -> None:
    assert verdict(pods.pod, READY_POD)[0] is ReadinessState.READY
    assert verdict(pods.pod, a_pod(phase="Succeeded"))[0] is ReadinessState.READY
    assert verdict(pods.pod, a_pod(phase="Failed", message="evicted")) == (ReadinessState.FAILED, "evicted")
    assert verdict(pods.pod, a_pod()) == (ReadinessState.WAITING, "the pod is starting")


def stateful(**status: int) -> Properties:
    spec = {"replicas": 3, "selector": {"matchLabels": {"a": "b"}}, "updateStrategy": {"rollingUpdate": {"partition": 1}}}
    return {"metadata": {"generation": 1}, "spec": spec, "status": {"observedGeneration": 1, **status}}


def test_a_stateful_set_is_ready_when_the_pods_above_its_partition_are_new() -> None:
    assert verdict(workloads.stateful_set, stateful(readyReplicas=3, updatedReplicas=2))[0] is ReadinessState.READY
    assert verdict(workloads.stateful_set, stateful(readyReplicas=3, updatedReplicas=1))[0] is ReadinessState.WAITING
    assert verdict(workloads.stateful_set, stateful(readyReplicas=2, updatedReplicas=3)) == (
        ReadinessState.WAITING,
        "2 of 3 replicas ready",
    )


def test_a_daemon_set_is_ready_when_every_node_runs_the_new_pod() -> None:
    def live(updated: int, available: int) -> Properties:
        status = {"observedGeneration": 1, "desiredNumberScheduled": 2, "updatedNumberScheduled": updated, "numberAvailable": available}
        return {"metadata": {"generation": 1}, "spec": {}, "status": status}

    assert verdict(workloads.daemon_set, live(2, 2))[0] is ReadinessState.READY
    assert verdict(workloads.daemon_set, live(1, 2)) == (ReadinessState.WAITING, "1 of 2 nodes run it")
    assert verdict(workloads.daemon_set, live(2, 1))[0] is ReadinessState.WAITING


def test_a_warning_event_is_the_reason_where_no_pod_exists() -> None:
    events = [{"reason": "Old", "lastTimestamp": "1"}, {"reason": "FailedCreate", "message": "no account", "lastTimestamp": "2"}]
    assert verdict(workloads.stateful_set, stateful(), Event=events) == (
        ReadinessState.WAITING,
        "0 of 3 replicas ready; FailedCreate: no account",
    )


def test_a_job_is_awaited_to_its_end() -> None:
    def live(*conditions: Properties) -> Properties:
        return {"metadata": {}, "spec": {"selector": {"matchLabels": {"a": "b"}}}, "status": {"conditions": list(conditions)}}

    assert verdict(workloads.job, live(condition("Complete")))[0] is ReadinessState.READY
    assert verdict(workloads.job, live(condition("Failed", reason="BackoffLimitExceeded"))) == (
        ReadinessState.FAILED,
        "BackoffLimitExceeded",
    )
    assert verdict(workloads.job, live()) == (ReadinessState.WAITING, "0 of 1 completions")


def a_service(type: str = "ClusterIP", **status: Any) -> Properties:
    return {"metadata": {"name": "s", "namespace": "team"}, "spec": {"type": type, "selector": {"app": "web"}}, "status": status}


def endpoints(ready: int = 0, pending: int = 0, version: str = "1") -> Properties:
    subset = {"addresses": [{"ip": "10.0.0.1"}] * ready, "notReadyAddresses": [{"ip": "10.0.0.2"}] * pending}
    return {"metadata": {"name": "s", "resourceVersion": version}, "subsets": [subset] if ready or pending else []}


def test_a_service_waits_while_any_of_its_pods_is_not_ready() -> None:
    state, text = verdict(services.service, a_service(), Endpoints=[endpoints(3, 1)], Pod=[unschedulable()])
    assert state is ReadinessState.WAITING
    assert text == f"1 of its pods takes no requests; 1 pod: {UNSCHEDULABLE}"
    assert verdict(services.service, a_service(), Endpoints=[endpoints(3)])[0] is ReadinessState.SETTLING


def test_a_service_without_any_pod_settles() -> None:
    assert verdict(services.service, a_service(), Endpoints=[endpoints()])[0] is ReadinessState.SETTLING
    assert verdict(services.service, a_service())[0] is ReadinessState.WAITING, "nobody has listed its endpoints yet"


@pytest.mark.parametrize("spec", [{"clusterIP": "None"}, {"selector": {}}, {"type": "ExternalName"}])
def test_some_services_are_not_held_against_their_pods(spec: Properties) -> None:
    live = a_service()
    live["spec"] |= spec
    assert verdict(services.service, live, Endpoints=[endpoints(pending=1)])[0] is ReadinessState.READY


def test_a_load_balancer_waits_for_its_address() -> None:
    given = a_service("LoadBalancer", loadBalancer={"ingress": [{"ip": "1"}]})
    assert verdict(services.service, a_service("LoadBalancer"), Endpoints=[endpoints(1)])[0] is ReadinessState.WAITING
    assert verdict(services.service, given, Endpoints=[endpoints(1)])[0] is ReadinessState.SETTLING
    assert verdict(services.ingress, a_service())[0] is ReadinessState.WAITING
    assert verdict(services.ingress, a_service(loadBalancer={"ingress": [{"ip": "1"}]}))[0] is ReadinessState.READY


def test_a_namespace_is_ready_when_it_is_active() -> None:
    assert verdict(foundations.namespace, {"status": {"phase": "Active"}})[0] is ReadinessState.READY
    assert verdict(foundations.namespace, {"status": {"phase": "Terminating"}})[0] is ReadinessState.WAITING


def test_a_definition_is_ready_once_established_and_fails_on_taken_names() -> None:
    assert verdict(foundations.definition, {"status": {"conditions": [condition("Established")]}})[0] is ReadinessState.READY
    assert verdict(foundations.definition, {})[0] is ReadinessState.WAITING
    taken = {"status": {"conditions": [condition("NamesAccepted", "False", "Conflict", "taken")]}}
    assert verdict(foundations.definition, taken) == (ReadinessState.FAILED, "Conflict: taken")


def test_a_quota_is_ready_when_its_limits_are_counted_whatever_their_spelling() -> None:
    live = {"spec": {"hard": {"cpu": "1000m", "pods": 5}}, "status": {"hard": {"cpu": "1", "pods": "5"}}}
    assert verdict(foundations.quota, live)[0] is ReadinessState.READY
    assert verdict(foundations.quota, {"spec": {"hard": {"pods": "6"}}, "status": {"hard": {"pods": "5"}}}) == (
        ReadinessState.WAITING,
        "not counted yet: pods",
    )


def test_a_claim_is_awaited_unless_its_class_binds_at_first_use() -> None:
    def live(phase: str, storage_class: str | None = "fast") -> Properties:
        return {"metadata": {"uid": "u"}, "spec": {"storageClassName": storage_class}, "status": {"phase": phase}}

    late = {"metadata": {"name": "fast"}, "volumeBindingMode": "WaitForFirstConsumer"}
    default = {
        "metadata": {"name": "d", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    assert verdict(foundations.claim, live("Bound"))[0] is ReadinessState.READY
    assert verdict(foundations.claim, live("Pending"))[0] is ReadinessState.WAITING
    assert verdict(foundations.claim, live("Pending"), StorageClass=[late])[0] is ReadinessState.READY
    assert verdict(foundations.claim, live("Pending", None), StorageClass=[default])[0] is ReadinessState.READY
    assert verdict(foundations.claim, live("Pending", ""), StorageClass=[default])[0] is ReadinessState.WAITING
    assert verdict(foundations.claim, live("Lost"))[0] is ReadinessState.FAILED


def test_a_scaled_object_is_awaited_only_where_keda_runs() -> None:
    keda: Any = {"serves": ["external.metrics.k8s.io/v1beta1"]}
    assert verdict(foundations.scaled_object, {})[0] is ReadinessState.READY
    assert verdict(foundations.scaled_object, {}, **keda) == (ReadinessState.WAITING, "KEDA has not seen it")
    unready = {"status": {"conditions": [condition("Ready", "False", "Failed", "no query")]}}
    assert verdict(foundations.scaled_object, unready, **keda) == (ReadinessState.WAITING, "Failed: no query")
    assert verdict(foundations.scaled_object, {"status": {"conditions": [condition("Ready")]}}, **keda)[0] is ReadinessState.READY


def test_a_token_is_awaited_only_where_one_was_asked_for() -> None:
    assert verdict(foundations.token, {"type": "Opaque"})[0] is ReadinessState.READY
    assert verdict(foundations.token, {"type": "kubernetes.io/service-account-token"})[0] is ReadinessState.WAITING
    assert verdict(foundations.token, {"type": "kubernetes.io/service-account-token", "data": {"token": "t"}})[0] is ReadinessState.READY


def test_selectors_are_written_as_queries() -> None:
    expressions = [{"key": "x", "operator": "In", "values": ["1", "2"]}, {"key": "y", "operator": "DoesNotExist"}]
    assert selector({"matchLabels": {"b": "2", "a": "1"}, "matchExpressions": expressions}) == "a=1,b=2,x in (1,2),!y"


@dataclass
class Script:
    """A cluster that shows one state after the other, and a step that records what it is told."""

    states: list[Properties | Exception | None]
    cancel_after: int = 10**9
    preview: bool = False
    timeout: float = 0
    shown: list[str] = field(default_factory=list[str])
    slept: list[float] = field(default_factory=list[float])

    def get(self, kind: ObjectKind, namespace: str, name: str, *, patience: float) -> Properties | None:
        assert patience == 0, "the loop itself waits for an API server that is away"
        if kind.kind == "Endpoints":
            return self.endpoints.pop(0) if len(self.endpoints) > 1 else self.endpoints[0]
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        if isinstance(state, Exception):
            raise state
        return state

    endpoints: list[Properties] = field(default_factory=list[Properties])
    repeated: bool = False

    def find(self, *_: Any, **__: Any) -> Sequence[Properties]:
        return ()

    def status(self, message: str) -> None:
        self.shown.append(message)

    def warn(self, message: str) -> None:
        raise AssertionError(message)

    def cancelled(self) -> bool:
        return len(self.slept) >= self.cancel_after

    @property
    def clock(self) -> AwaitClock:
        return AwaitClock(now=lambda: sum(self.slept), sleep=self.slept.append)

    def ready(self, applied: Properties, seconds: float = 60) -> Properties:
        return until_ready(DEPLOYMENT, applied, cast(ClusterConnection, self), self, seconds, self.clock)

    def service(self, seconds: float = 600) -> Properties:
        return until_ready(SERVICE, a_service(), cast(ClusterConnection, self), self, seconds, self.clock)

    def gone(self, seconds: float = 60, uid: str = "u") -> str:
        return until_gone(CONFIG_MAP, "team", "x", uid, cast(ClusterConnection, self), self, seconds, self.clock)


DONE = deployment(updatedReplicas=2, availableReplicas=2, replicas=2)


def test_a_wait_ends_with_the_first_ready_state() -> None:
    script = Script([deployment(), DONE])
    assert script.ready(deployment()) == DONE
    assert script.shown == ["0 of 2 replicas available"], "each reason is shown once"


def test_a_service_is_awaited_until_its_endpoints_have_stayed_the_same() -> None:
    script = Script([a_service()], endpoints=[endpoints(1)])
    script.service()
    assert sum(script.slept) == pytest.approx(10, abs=0.5)


def test_a_change_of_its_endpoints_makes_a_service_settle_anew() -> None:
    script = Script([a_service()], endpoints=[endpoints(1)] * 20 + [endpoints(2, version="2")])
    script.service()
    assert sum(script.slept) == pytest.approx(15, abs=1)


def test_a_pod_that_starts_for_eleven_minutes_fails_its_service() -> None:
    with pytest.raises(NotReadyError, match=r"Service team/s is not ready after 600 s: 1 of its pods takes no requests"):
        Script([a_service()], endpoints=[endpoints(1, 1)]).service()


def test_a_service_that_only_has_to_settle_is_ready_when_time_is_up() -> None:
    script = Script([a_service()], endpoints=[endpoints(version=str(version)) for version in range(200)])
    script.service(seconds=12)
    assert sum(script.slept) == pytest.approx(12)


@pytest.mark.parametrize(("pending", "reason"), [(0, ""), (1, "1 of its pods takes no requests; they are starting")])
def test_a_service_that_is_read_is_judged_at_once(pending: int, reason: str) -> None:
    cluster = cast(ClusterConnection, Script([], endpoints=[endpoints(1, pending)]))
    assert unready(SERVICE, a_service(), cluster) == reason


def test_a_namespace_that_is_read_is_not_judged() -> None:
    assert unready(ObjectKind("", "v1", "Namespace"), {"status": {"phase": "Terminating"}}, cast(ClusterConnection, Script([]))) == ""


def test_a_ready_object_is_not_waited_for() -> None:
    script = Script([AssertionError("must not look")])
    assert script.ready(DONE) == DONE
    assert script.slept == []


def test_a_kind_without_readiness_is_ready_at_once() -> None:
    applied = {"metadata": {"name": "x"}}
    assert until_ready(CONFIG_MAP, applied, cast(ClusterConnection, Script([None])), Script([None]), 1, AwaitClock()) is applied


def test_a_wait_ends_at_its_timeout_with_the_last_reason() -> None:
    script = Script([deployment()])
    with pytest.raises(NotReadyError, match=r"Deployment team/web is not ready after 3 s: 0 of 2 replicas available"):
        script.ready(deployment(), seconds=3)
    assert sum(script.slept) == pytest.approx(3)


def test_an_api_server_that_restarts_is_waited_out() -> None:
    script = Script([ApiUnreachableError("gone"), ApiUnreachableError("gone"), DONE])
    assert script.ready(deployment()) == DONE
    assert "does not answer" in script.shown[-1]


def test_an_object_that_somebody_deletes_ends_the_wait() -> None:
    with pytest.raises(NotReadyError, match="deleted by somebody"):
        Script([None]).ready(deployment())


def test_a_cancelled_wait_ends_at_once_and_says_so() -> None:
    script = Script([deployment()], cancel_after=2)
    with pytest.raises(NotReadyError, match="cancelled"):
        script.ready(deployment())
    assert len(script.slept) == 2


def test_nobody_looks_more_than_four_times_a_second() -> None:
    assert min(pause_after(second / 10) for second in range(1000)) == 0.25


def test_a_deletion_ends_when_the_object_is_gone() -> None:
    held = {"metadata": {"uid": "u", "deletionTimestamp": "t", "finalizers": ["example.com/hold"]}}
    script = Script([held, ApiUnreachableError("gone"), None])
    assert script.gone() == ""
    assert script.shown[0] == "deleting: finalizer example.com/hold"


def test_a_deletion_ends_when_another_object_has_taken_the_name() -> None:
    assert Script([{"metadata": {"uid": "other"}}]).gone() == ""


def test_a_deletion_ends_when_the_kind_itself_is_gone() -> None:
    assert Script([UnknownKindError(CONFIG_MAP)]).gone() == ""


def test_a_deletion_that_hangs_names_what_holds_it() -> None:
    held = {"metadata": {"uid": "u", "deletionTimestamp": "t", "finalizers": ["example.com/hold"]}}
    assert Script([held]).gone(seconds=2) == "still there after 2 s: finalizer example.com/hold"
    assert "cancelled" in Script([held], cancel_after=1).gone()


def test_a_namespace_that_hangs_names_what_is_left_in_it() -> None:
    left = condition("NamespaceContentRemaining", message="pods. has 3 resource instances")
    live = {"metadata": {"deletionTimestamp": "t"}, "spec": {"finalizers": ["kubernetes"]}, "status": {"conditions": [left]}}
    assert holders(live) == "finalizer kubernetes; pods. has 3 resource instances"
