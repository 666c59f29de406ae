"""What a kubelet would do with the pods that serve: prove the artifact, probe, restart, drain, and leave nothing behind."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.diagnosis.facts import ENDS, StateKind
from headway.diagnosis.states import states
from sandbox.cluster import linux, whole_file
from sandbox.progress import Silent
from sandbox.traffic import profile, servers
from sandbox.traffic.kube import Object
from sandbox.traffic.node.container_process import group
from tests.cluster.conftest import eventually
from tests.traffic.replicas import MODEL, SERVER, only_pod, process, records
from tests.traffic.serving import CLASSIFIER, PATIENCE, Serving, container, is_ready, lost, page, total

pytestmark = pytest.mark.slow


def restarted(serving: Serving, pod: Object, before: int) -> Object | None:
    now = next((each for each in serving.pods(CLASSIFIER) if each["metadata"]["uid"] == pod["metadata"]["uid"]), None)
    return now if now and container(now)["restartCount"] > before and is_ready(now) else None


def test_a_served_pod_tells_its_address_and_that_its_artifact_was_proven(serving: Serving) -> None:
    pod = only_pod(serving)
    own = pod["metadata"]["annotations"]["sandbox.platform.io/address"]
    assert own == "127." + pod["status"]["podIP"].split(".", 1)[1]
    assert container(pod, "fetch")["state"]["terminated"]["reason"] == "Completed"
    assert container(pod)["started"]
    log = serving.bed.layout.logs / "pods" / CLASSIFIER.tenant / pod["metadata"]["name"] / "fetch.log"
    assert "fetched classifier/1/model.onnx" in log.read_text()


def test_what_a_pod_uses_is_told_in_a_kubelets_words(serving: Serving) -> None:
    labels = {"namespace": CLASSIFIER.tenant, "pod": only_pod(serving)["metadata"]["name"], "container": "server"}

    def used(name: str) -> float:
        return total(page(serving.addresses.node_metrics, servers.KUBELET_PATH), name, labels)

    assert 30 * 2**20 < eventually(lambda: used("container_memory_working_set_bytes"), within=PATIENCE) < 4 * 2**30
    assert eventually(lambda: used("container_cpu_usage_seconds_total"), within=PATIENCE) > 0.1


def test_a_killed_server_is_restarted_counted_and_warmed_up_again(serving: Serving) -> None:
    pod = only_pod(serving)
    before = container(pod)["restartCount"]
    os.kill(process(serving, pod, SERVER), signal.SIGKILL)
    now = eventually(lambda: restarted(serving, pod, before), within=PATIENCE)
    ended = container(now)["lastState"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "Error")
    assert container(now)["restartCount"] == before + 1
    serving.await_answer(CLASSIFIER)


def test_a_server_ends_with_its_model_process_and_says_so(serving: Serving) -> None:
    pod = only_pod(serving)
    before, model = container(pod)["restartCount"], process(serving, pod, MODEL)
    os.kill(model, signal.SIGKILL)
    now = eventually(lambda: restarted(serving, pod, before), within=PATIENCE)
    ended = container(now)["lastState"]["terminated"]
    assert ended["exitCode"] == 1
    assert f"model process {model}" in ended["message"]
    assert [kind for kind, _ in said_of(now)] == [StateKind.PROCESS_DIED]


def said_of(pod: Object) -> list[tuple[StateKind, str]]:
    """How its containers have ended, as a diagnosis reads it."""
    found = states([], [pod], [], [], [], at=time.time())
    return [(each.kind, each.words) for each in found if each.kind in ENDS]


def test_a_server_that_cannot_load_its_model_says_why_to_a_diagnosis(serving: Serving) -> None:
    pod = only_pod(serving)
    name, before = pod["metadata"]["name"], container(pod)["restartCount"]
    (behaviour,) = (servers.folder(serving.bed.layout) / "node" / "pods").glob(f"{CLASSIFIER.tenant}_{name}*/**/behaviour.json")
    kept = behaviour.read_text()
    try:
        whole_file.replace(behaviour, "no JSON")
        os.kill(process(serving, pod, SERVER), signal.SIGKILL)

        def unloaded() -> str:
            now = next(each for each in serving.pods(CLASSIFIER) if each["metadata"]["name"] == name)
            found = said_of(now) if container(now)["restartCount"] > before else []
            return next((words for kind, words in found if kind is StateKind.LOAD_FAILED), "")

        assert "JSONDecodeError" in eventually(unloaded, within=PATIENCE)
    finally:
        whole_file.replace(behaviour, kept)
    eventually(lambda: restarted(serving, pod, before), within=PATIENCE * 2)
    serving.await_answer(CLASSIFIER)


def test_the_probes_find_a_model_that_hangs_behind_a_healthy_looking_server(serving: Serving) -> None:
    pod = only_pod(serving)
    before = container(pod)["restartCount"]
    os.kill(process(serving, pod, MODEL), signal.SIGSTOP)
    eventually(lambda: not is_ready(next(each for each in serving.pods(CLASSIFIER))), within=PATIENCE)
    eventually(lambda: restarted(serving, pod, before), within=PATIENCE * 2)
    serving.await_answer(CLASSIFIER)


def test_a_deleted_pod_finishes_its_requests_in_its_grace_and_leaves_no_process(serving: Serving) -> None:
    old = only_pod(serving)
    leaders = records(serving, old)
    name, place = old["metadata"]["name"], f"/api/v1/namespaces/{CLASSIFIER.tenant}/pods"
    scale = f"/apis/apps/v1/namespaces/{CLASSIFIER.tenant}/deployments/{name.rsplit('-', 2)[0]}/scale"

    def replace() -> None:
        serving.bed.kube.merge(scale, {"spec": {"replicas": 2}})
        eventually(lambda: sum(map(is_ready, serving.pods(CLASSIFIER))) == 2, within=PATIENCE)
        serving.bed.kube.merge(f"{place}/{name}", {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-1"}}})
        serving.bed.kube.merge(scale, {"spec": {"replicas": 1}})
        eventually(lambda: all(each["metadata"]["name"] != name for each in serving.pods(CLASSIFIER)), within=PATIENCE)

    results = serving.load(CLASSIFIER, rate=15, seconds=45, meanwhile=replace)
    assert not lost(results)
    assert not any(group(leader) for leader in leaders)
    uid = old["metadata"]["uid"]
    assert not list(Path("/dev/shm").glob(f"headway-{uid[:13]}*"))


def test_a_pod_whose_log_cannot_be_written_says_so_and_serves_once_it_can(serving: Serving) -> None:
    old = only_pod(serving)
    logs = serving.bed.layout.logs / "pods" / CLASSIFIER.tenant
    aside = logs.with_name("aside")
    logs.rename(aside)
    logs.touch()
    try:
        serving.bed.kube.delete(f"/api/v1/namespaces/{CLASSIFIER.tenant}/pods/{old['metadata']['name']}", grace_seconds=0)

        def complaint() -> bool:
            events = serving.bed.kube.get(f"/api/v1/namespaces/{CLASSIFIER.tenant}/events")["items"]
            return any(each["reason"] == "FailedMount" and str(logs) in each["message"] for each in events)

        eventually(complaint, within=PATIENCE)
    finally:
        logs.unlink()
        aside.rename(logs)
    serving.await_answer(CLASSIFIER)


@pytest.mark.parametrize(("release", "reason"), [("wrong", "golden request"), ("crash-at-maximum", "")])
def test_a_release_that_fails_its_own_proof_never_becomes_ready(serving: Serving, release: str, reason: str) -> None:
    _, canary = serving.arms(CLASSIFIER, release, percent=0)
    try:

        def complaint() -> bool:
            events = serving.bed.kube.get(f"/api/v1/namespaces/{CLASSIFIER.tenant}/events")["items"]
            said = [each["message"] for each in events if canary in each["involvedObject"]["name"]]
            return any("Startup probe failed" in each and reason in each for each in said)

        eventually(complaint, within=PATIENCE * 2)
        assert not any(map(is_ready, serving.pods(CLASSIFIER, canary)))
    finally:
        serving.retire(CLASSIFIER, canary)


def test_an_artifact_with_another_checksum_is_refused_before_it_is_served(serving: Serving) -> None:
    bed = serving.bed
    model = bed.model(CLASSIFIER, "identical")
    first, *others = model.artifact.files
    forged = model.model_copy(
        update={"artifact": model.artifact.model_copy(update={"files": (first.model_copy(update={"sha256": "0" * 64}), *others)})}
    )
    made = bed.service(CLASSIFIER)
    from components.model_service.manifests import ServicePlan

    body = ServicePlan.of(CLASSIFIER.tenant, forged, made.pool, made.surroundings)
    canary = next(iter(body.releases))
    bed.apply(each.body for each in body.manifests() if each.body["kind"] in ("ConfigMap", "Deployment"))
    try:

        def refused() -> str:
            for pod in serving.pods(CLASSIFIER, canary):
                last = container(pod, "fetch")["lastState"] if pod["status"].get("initContainerStatuses") else {}
                if "terminated" in last:
                    return last["terminated"]["message"]
            return ""

        assert "the contract states " + "0" * 64 in eventually(refused, within=PATIENCE)
    finally:
        bed.kube.delete(f"/apis/apps/v1/namespaces/{CLASSIFIER.tenant}/deployments/classifier-{canary}")


@pytest.fixture
def restored(serving: Serving) -> Iterator[Serving]:
    yield serving
    servers.start(serving.bed.layout, Silent(), servers.TrafficOptions(first_backoff_seconds=0.5))
    for each in profile.SERVED:
        serving.await_answer(each)


def test_nothing_outlives_a_killed_agent(restored: Serving) -> None:
    leaders = records(restored, only_pod(restored))
    agent = next(each for each in restored.bed.supervisor.list() if each.name == servers.NODE_AGENT)
    assert agent.pid is not None
    os.kill(agent.pid, signal.SIGKILL)
    eventually(lambda: not any(group(leader) for leader in leaders))
    assert linux.stat(agent.pid) is None
