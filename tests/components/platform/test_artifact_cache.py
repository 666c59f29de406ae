"""Where nodes keep artifacts and where they do not, and what pods get for it."""

import json
from dataclasses import replace
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from components.model_service.manifests import ServicePlan
from components.platform import artifact_cache, namespaces
from components.tenant import isolation
from headway.artifact_cache import cluster
from headway.cli.artifact_cache import artifact_cache as command
from headway.contract.arithmetic.warm import artifact_room
from headway.contract.placement import WorkloadClass
from headway.contract.units import Bytes
from headway.wire import ARTIFACT_CACHE_AUDIENCE, ARTIFACT_CACHE_NAMESPACE, POOL
from tests.components.contracts import DEFECTS, MODELS, POOLS, SURROUNDINGS, changed, service

IMAGE = f"registry.example.com/headway@sha256:{'a' * 64}"
WITH = replace(SURROUNDINGS, artifact_cache=True)
LATENCY = next(pool for pool in POOLS if pool.name == "l4")
STORE = artifact_cache.NodeCache(pool=LATENCY, room=Bytes(10 * 2**30))


def bodies(*stores: artifact_cache.NodeCache) -> dict[str, Any]:
    return {each.role: each.body for each in artifact_cache.manifests(IMAGE, "us-west-2", stores)}


def test_no_update_waits_for_stores_of_nodes_that_are_broken_or_not_there() -> None:
    found = bodies(STORE)
    for role in ("service", f"nodes-{LATENCY.name}"):
        assert found[role]["metadata"]["annotations"]["pulumi.com/skipAwait"] == "true"


def rendered(name: str, surroundings: Any) -> dict[str, Any]:
    """The objects of a sample service by kind, one of each."""
    found = service(name)
    made = ServicePlan.of("vision", found.model, found.pool, surroundings, found.fallback, found.batch_pool)
    return {each.kind: each.body for each in made.manifests() if each.role.rpartition("-")[2] in {"configuration", "limit", "server"}}


def test_a_pod_of_a_latency_pool_asks_its_node_first_with_a_token_for_it_alone() -> None:
    found = rendered("defects", WITH)
    pod = found["Deployment"]["spec"]["template"]["spec"]
    (volume,) = [each for each in pod["volumes"] if each["name"] == "artifact-cache"]
    (source,) = volume["projected"]["sources"]
    assert source["serviceAccountToken"]["audience"] == ARTIFACT_CACHE_AUDIENCE
    mounts = {
        c["name"]: [m["mountPath"] for m in c["volumeMounts"] if m["name"] == "artifact-cache"]
        for c in (*pod["initContainers"], *pod["containers"])
    }
    assert mounts.pop("fetch"), "the fetcher has the token"
    assert not any(mounts.values()), "nobody else has"
    said = json.loads(found["ConfigMap"]["data"]["fetch.json"])["node"]
    assert said["token"].startswith(volume["name"] and mounts_of(pod, "fetch"))
    assert said["url"] == f"http://{artifact_cache.NAME}.{ARTIFACT_CACHE_NAMESPACE}.svc.cluster.local:{namespaces.ARTIFACT_CACHE_PORT}"
    assert found["ConfigMap"]["metadata"]["labels"][POOL] == LATENCY.name
    assert f"{ARTIFACT_CACHE_NAMESPACE}/*" in found["Sidecar"]["spec"]["egress"][0]["hosts"]


def mounts_of(pod: dict[str, Any], name: str) -> str:
    (container,) = [each for each in pod["initContainers"] if each["name"] == name]
    return next(each["mountPath"] for each in container["volumeMounts"] if each["name"] == "artifact-cache")


@pytest.mark.parametrize(("name", "surroundings"), [("defects", SURROUNDINGS), ("chat", WITH)])
def test_without_a_store_on_its_node_a_pod_has_neither_address_nor_token(name: str, surroundings: Any) -> None:
    found = rendered(name, surroundings)
    assert "artifact-cache" not in json.dumps(found["Deployment"]) + json.dumps(found["Sidecar"])
    assert "node" not in json.loads(found["ConfigMap"]["data"]["fetch.json"])
    assert POOL not in found["ConfigMap"]["metadata"]["labels"]


def test_a_tenants_pods_may_reach_the_store_and_only_tenants_pods_may() -> None:
    def out(surroundings: Any) -> bool:
        policy = dict(isolation.network_policies("vision", surroundings))["egress"]["spec"]["egress"]
        return ARTIFACT_CACHE_NAMESPACE in json.dumps(policy)

    assert out(WITH)
    assert not out(SURROUNDINGS)
    (closed,) = [m.body for m in namespaces.manifests([]) if m.role == f"{ARTIFACT_CACHE_NAMESPACE}-closed"]
    opened = [rule for rule in closed["spec"]["ingress"] if "ports" in rule]
    assert opened == [
        {
            "from": [{"namespaceSelector": {"matchExpressions": [{"key": "platform.io/tenant", "operator": "Exists"}]}}],
            "ports": [{"port": namespaces.ARTIFACT_CACHE_PORT, "protocol": "TCP"}],
        }
    ]


def test_the_store_finds_the_configurations_that_services_are_rendered_with() -> None:
    labels = rendered("defects", WITH)["ConfigMap"]["metadata"]["labels"]
    for term in cluster.CONFIGURATIONS.split(","):
        key, _, value = term.partition("=")
        assert labels[key] == value


def test_a_pod_is_led_to_its_own_nodes_store_and_to_no_other() -> None:
    spec = bodies(STORE)["service"]["spec"]
    assert spec["internalTrafficPolicy"] == "Local"
    assert spec["selector"].items() <= bodies(STORE)["nodes-l4"]["spec"]["template"]["metadata"]["labels"].items()
    assert spec["ports"][0]["name"].startswith("tcp-"), "the mesh passes the bytes on unread"


def test_the_cache_is_unprivileged_and_takes_no_more_than_it_says() -> None:
    pod = bodies(STORE)["nodes-l4"]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert {kind for volume in pod["volumes"] for kind in volume} == {"name", "emptyDir"}
    (container,) = pod["containers"]
    limit = container["resources"]["limits"]["ephemeral-storage"]
    assert limit == container["resources"]["requests"]["ephemeral-storage"] == pod["volumes"][0]["emptyDir"]["sizeLimit"]
    assert int(Bytes.parse(limit)) > int(STORE.room)
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()


def test_the_cache_may_only_read_configurations_and_review_tokens() -> None:
    assert bodies(STORE)["rights"]["rules"] == [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]},
        {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
    ]


def test_the_store_is_started_with_options_that_the_command_knows() -> None:
    app = typer.Typer()
    app.command("artifact-cache")(command)
    (container,) = bodies(STORE)["nodes-l4"]["spec"]["template"]["spec"]["containers"]
    help_ = CliRunner().invoke(app, ["--help"], terminal_width=200).output
    assert container["args"][0] == "artifact-cache"
    assert [each for each in container["args"] if each.startswith("--") and each not in help_] == []


def test_nothing_of_aws_may_be_read_but_what_lies_below_a_tenants_own_name() -> None:
    own = changed(DEFECTS, batch=None, artifact__uri="s3://models/vision/defects/5/")
    elsewhere = changed(DEFECTS, batch=None, artifact__uri="s3://models/shared/vision/defects/5/")
    each = changed(DEFECTS, batch=None, artifact__uri="artifacts://vision/defects/5/")
    (found,) = artifact_cache.permissions({"vision": [own, elsewhere, each], "assist": []}, "ours")
    assert list(found.actions) == ["s3:GetObject"]
    assert list(found.resources) == ["arn:aws:s3:::models/vision/*", "arn:aws:s3:::ours/vision/*"]
    assert artifact_cache.permissions({"vision": [elsewhere]}, "ours") == ()


def test_a_node_caches_current_and_next_releases_in_a_quarter_of_its_disk() -> None:
    models = [MODELS["defects"]]
    size = int(models[0].artifact.size)
    assert int(artifact_room(LATENCY, POOLS, models)) == 2 * size
    huge = [changed(DEFECTS, batch=None, artifact__files__0__size="2Ti")]
    assert int(artifact_room(LATENCY, POOLS, huge)) == int(LATENCY.instance_type.nvme) // 4
    assert int(artifact_room(LATENCY, POOLS, [])) == 0


def test_artifacts_are_kept_where_a_start_is_waited_for() -> None:
    assert {pool.name for pool in POOLS if artifact_cache.kept_on(pool)} == {
        pool.name for pool in POOLS if pool.workload_class is WorkloadClass.LATENCY
    }
