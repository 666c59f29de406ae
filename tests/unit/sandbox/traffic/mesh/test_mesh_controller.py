"""What the mesh's controller refuses, keeps in force and writes for Envoy. No Envoy is started."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from sandbox.cluster import linux
from sandbox.traffic.mesh import envoy_configuration
from sandbox.traffic.mesh.controller import Accepted, Controller
from sandbox.traffic.mesh.object_reader import duration, seconds
from sandbox.traffic.mesh.snapshot import MeshSnapshot
from tests.mesh_samples import PORTS, cluster, compiled, two_arms

Change = Callable[[dict[str, Any]], Any]


@pytest.mark.parametrize(
    ("kind", "change", "path"),
    [
        ("VirtualService", lambda spec: spec["http"][0].update(fault={}), "spec.http[0].fault"),
        ("VirtualService", lambda spec: spec.update(tls=[]), "spec.tls"),
        (
            "VirtualService",
            lambda spec: spec["http"][0]["route"][0]["destination"].update(subset="v1"),
            "spec.http[0].route[0].destination.subset",
        ),
        ("VirtualService", lambda spec: spec["http"][-1]["route"][0].update(weight=95), "spec.http[5].route"),
        ("VirtualService", lambda spec: spec["http"][-1]["retries"].update(retryOn="5xx,often"), "spec.http[5].retries.retryOn"),
        ("VirtualService", lambda spec: spec["http"][-1]["retries"].update(backoff="1s"), "spec.http[5].retries.backoff"),
        ("DestinationRule", lambda spec: spec.update(subsets=[]), "spec.subsets"),
        ("DestinationRule", lambda spec: spec["trafficPolicy"]["tls"].update(mode="SIMPLE"), "spec.trafficPolicy.tls.mode"),
        (
            "DestinationRule",
            lambda spec: spec["trafficPolicy"]["retryBudget"].update(budgetInterval="1s"),
            "spec.trafficPolicy.retryBudget.budgetInterval",
        ),
        ("Sidecar", lambda spec: spec.update(ingress=[]), "spec.ingress"),
        ("EnvoyFilter", lambda spec: spec["configPatches"][0].update(applyTo="CLUSTER"), "spec.configPatches[0].applyTo"),
        ("RequestAuthentication", lambda spec: spec["jwtRules"][0].update(fromParams=["t"]), "spec.jwtRules[0].fromParams"),
        ("AuthorizationPolicy", lambda spec: spec.update(action="CUSTOM"), "spec.action"),
        ("Gateway", lambda spec: spec["servers"][0]["port"].update(protocol="MONGO"), "spec.servers[0].port.protocol"),
    ],
)
def test_a_field_that_is_not_modelled_is_refused_by_its_path(kind: str, change: Change, path: str) -> None:
    objects = cluster(two_arms(10))
    item = next(each for each in objects if each["kind"] == kind)
    change(item["spec"])
    refused = envoy_configuration.judge(MeshSnapshot.of(objects))[item["metadata"]["uid"]]
    assert path in [each.path for each in refused]


def test_a_refused_change_leaves_the_accepted_version_in_force() -> None:
    objects = {each["metadata"]["uid"]: each for each in cluster(two_arms(10))}
    accepted = Accepted()
    accepted.snapshot(objects)
    uid = next(uid for uid, each in objects.items() if each["kind"] == "VirtualService")
    worse = copy.deepcopy(objects[uid])
    worse["spec"]["http"][-1] |= {"fault": {"abort": {}}, "timeout": "9s"}
    snapshot, refused = accepted.snapshot({**objects, uid: worse})
    assert [each.path for each in refused[uid]] == ["spec.http[5].fault"]
    assert snapshot.of_kind("VirtualService") == (objects[uid],)
    gone, _ = accepted.snapshot({key: each for key, each in objects.items() if key != uid})
    assert gone.of_kind("VirtualService") == ()


@pytest.mark.parametrize(("text", "value"), [("2000ms", 2.0), ("30s", 30.0), ("1m30s", 90.0), ("0.5s", 0.5)])
def test_durations_are_read_as_istio_writes_them(text: str, value: float) -> None:
    assert seconds(text) == value
    assert duration(text) == f"{value:.9g}s"


@pytest.mark.parametrize("text", ["", "30", "s", "1 s", "-1s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no duration"):
        seconds(text)


def test_files_that_cannot_be_written_are_told_and_written_once_they_can_be(tmp_path: Any) -> None:
    nobody: Any = None
    folder = tmp_path / "mesh"
    controller = Controller(nobody, folder, PORTS, nobody, nobody)
    folder.rename(tmp_path / "gone")
    controller.apply()
    assert "not written" in (controller.ready() or "")
    (tmp_path / "gone").rename(folder)
    controller.apply()
    assert controller.ready() is None
    assert (folder / "listeners.json").exists()


def test_envoy_is_asked_for_nothing_at_which_it_would_abort(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It watches a file for each cluster, and there are only so many watches."""
    nobody: Any = None
    controller = Controller(nobody, tmp_path, PORTS, nobody, nobody)
    controller.apply()
    before = (tmp_path / "clusters.json").read_text()
    monkeypatch.setattr(linux, "file_watches", lambda most: most - 1)
    item = {"kind": "Service", "metadata": {"name": "s", "namespace": "n", "uid": "s"}, "spec": {"ports": [{"name": "http", "port": 8000}]}}
    controller.hear("ADDED", item)
    controller.apply()
    assert "sysctl fs.inotify" in (controller.ready() or "")
    assert (tmp_path / "clusters.json").read_text() == before
    monkeypatch.undo()
    controller.apply()
    assert controller.ready() is None
    assert "outbound|8000||s.n" in (tmp_path / "clusters.json").read_text()


def test_the_same_objects_give_the_same_bytes_in_whatever_order_they_come() -> None:
    objects = cluster(two_arms(10))
    texts = [
        json.dumps([vars(compiled(each))[key] for key in ("listeners", "clusters", "routes", "endpoints")])
        for each in (objects, objects[::-1])
    ]
    assert texts[0] == texts[1]
