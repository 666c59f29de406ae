"""Pods of model servers: containers, probes, resources. Expected values are written by hand."""

import json
from typing import Any

import pytest

from components.model_service.configuration import files as configuration_files
from components.model_service.manifests import ServicePlan
from components.model_service.probing import configuration, probes
from components.model_service.scripts import inference, probe
from components.platform.admission import LONGEST_GRACE_SECONDS
from headway.contract.answer_schema import SCHEMA_KEYWORDS, TYPES
from headway.contract.arithmetic.replica import PROXY_CPU, PROXY_MEMORY, replica_cpu, replica_memory
from headway.contract.inference_request import TENSOR_TYPES
from headway.contract.pool_parts import WholeSharing
from headway.contract.units import Bytes, MilliCpu
from headway.signals.buckets import latency_edges_milliseconds
from tests.components.contracts import DEFECTS, MODELS, POOLS, SURROUNDINGS, bodies, changed, pool_of, service
from tests.components.model_service.test_servers import served


def pod(found: ServicePlan) -> dict[str, Any]:
    return bodies(found, "Deployment")[0]["spec"]["template"]["spec"]


@pytest.mark.parametrize("name", sorted(MODELS))
def test_every_container_is_by_digest_bounded_and_without_privilege(name: str) -> None:
    spec = pod(service(name))
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in (*spec["initContainers"], *spec["containers"]):
        assert "@sha256:" in container["image"]
        assert container["resources"]["requests"] == container["resources"]["limits"]
        assert {"cpu", "memory", "ephemeral-storage"} <= set(container["resources"]["limits"])
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
        }


SHARED = {pool.name for pool in POOLS if not isinstance(pool.sharing, WholeSharing)}


def evicted(name: str) -> dict[str, set[str]]:
    """By pool, what the pods of a service and its workers say of their eviction."""
    found: dict[str, set[str]] = {}
    for template in (body["spec"]["template"] for body in bodies(service(name), "Deployment")):
        pool = template["spec"]["nodeSelector"]["platform.io/pool"]
        found.setdefault(pool, set()).add(template["metadata"]["annotations"]["cluster-autoscaler.kubernetes.io/safe-to-evict"])
    return found


@pytest.mark.parametrize("name", sorted(MODELS))
def test_no_pod_gives_up_a_node_of_which_the_autoscaler_sees_no_use(name: str) -> None:
    """Of nodes of divided GPUs it sees CPU and memory alone (autoscaler 1.35.2, `utilization/info.go`), and would take them for empty."""
    assert {pool: said for pool, said in evicted(name).items() if pool in SHARED and said != {"false"}} == {}


def test_services_that_fill_whole_gpus_and_workers_make_room() -> None:
    assert "true" in evicted("defects-night")["l4-spot"]
    assert {pool for name in MODELS for pool in evicted(name)} & SHARED, "no contract of the tests has a divided GPU"


@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_replicas_proxy_counts_by_the_edges_that_releases_are_judged_by(name: str) -> None:
    """Istio's agent reads them of the pod alone (pkg/bootstrap/config.go)."""
    told = bodies(service(name), "Deployment")[0]["spec"]["template"]["metadata"]["annotations"]["sidecar.istio.io/statsHistogramBuckets"]
    assert json.loads(told)["istiocustom"] == list(latency_edges_milliseconds())


@pytest.mark.parametrize("name", sorted(MODELS))
def test_quotas_and_nodes_are_charged_what_the_pod_asks_for(name: str) -> None:
    spec = pod(service(name))
    sidecars = [c for c in spec["initContainers"] if c.get("restartPolicy") == "Always"]
    first = [c for c in spec["initContainers"] if "restartPolicy" not in c]

    def asked(containers: list[Any], what: str, read: Any) -> list[int]:
        return [int(read(c["resources"]["requests"][what])) for c in containers]

    for what, read, proxy, charged in (
        ("cpu", MilliCpu.parse, PROXY_CPU, replica_cpu),
        ("memory", Bytes.parse, PROXY_MEMORY, replica_memory),
    ):
        together = sum(asked(spec["containers"], what, read))
        counted = max(together, *asked(first, what, read)) + sum(asked(sidecars, what, read)) + int(proxy)
        assert counted == charged(MODELS[name]), f"{what} as the scheduler counts it"


@pytest.mark.parametrize(
    ("name", "resource", "count", "pool"),
    [
        ("defects", "nvidia.com/gpu", "1", "l4"),
        ("embeddings", "nvidia.com/mig-1g.10gb", "1", "a100-mig"),
        ("defects-mps", "nvidia.com/gpu.shared", "1", "l4-mps"),
        ("defects-slice", "nvidia.com/gpu.shared", "1", "l4-slice"),
        ("chat-mig", "nvidia.com/mig-3g.40gb", "1", "h100-mig"),
    ],
)
def test_a_share_of_a_gpu_is_asked_for_by_its_own_resource_on_its_own_pool(name: str, resource: str, count: str, pool: str) -> None:
    spec = pod(service(name))
    (server,) = spec["containers"]
    assert {k: v for k, v in server["resources"]["limits"].items() if k.startswith("nvidia.com/")} == {resource: count}
    assert spec["nodeSelector"] == {"platform.io/pool": pool}
    assert spec["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Equal", "value": "true", "effect": "NoSchedule"}]


def test_replicas_are_left_to_the_autoscaler() -> None:
    for name in MODELS:
        for server in bodies(service(name), "Deployment"):
            assert "replicas" not in server["spec"]


def test_what_people_wait_for_is_spread_and_everything_else_is_packed() -> None:
    assert "topologySpreadConstraints" in pod(service("defects"))
    assert "topologySpreadConstraints" not in pod(service("embeddings"))


@pytest.mark.parametrize(("drain", "grace"), [("5s", 30), ("30s", 50), ("150s", 170), ("520s", LONGEST_GRACE_SECONDS)])
def test_a_replicas_drain_and_the_proxies_notice_fit_into_node_repair(drain: str, grace: int) -> None:
    model = changed({**DEFECTS, "batch": None}, health__drain=drain)
    spec = pod(ServicePlan.of("vision", model, pool_of(model), SURROUNDINGS))
    assert spec["terminationGracePeriodSeconds"] == grace
    (flag,) = [c for c in spec["containers"][0]["command"] if c.startswith("--exit-timeout-secs")]
    assert flag == f"--exit-timeout-secs={grace - 20}"
    assert grace - 20 >= model.health.drain.seconds


@pytest.mark.parametrize("name", sorted(MODELS))
def test_the_startup_probe_never_gives_up_before_the_budget(name: str) -> None:
    model = MODELS[name]
    probe = probes(model)["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] >= model.health.startup_budget.seconds
    assert probe["timeoutSeconds"] > model.envelope.largest_request.timeout.seconds


def test_every_probe_asks_for_an_answer() -> None:
    for model in MODELS.values():
        for asked in probes(model).values():
            assert asked["exec"]["command"][0] == "python3"


def test_a_grpc_server_is_asked_by_a_script_of_its_own_for_its_own_model() -> None:
    model = MODELS["plain-grpc"]
    assert "inference.py" in configuration_files(model, served(model), "us-west-2", "bucket")
    asked = configuration(model, served(model))
    assert (asked["base"], asked["ready"]) == ("grpc://127.0.0.1:9000", [])
    assert asked["golden"][0]["model"] == asked["warmup"][0]["request"]["model"] == "plain-grpc"
    assert "inference.py" not in configuration_files(MODELS["plain"], served(MODELS["plain"]), "us-west-2", "bucket")


def test_every_tensor_type_that_a_golden_grpc_request_may_hold_can_be_sent() -> None:
    assert set(TENSOR_TYPES) <= set(inference.CONTENTS)


def test_memory_is_held_to_the_envelope_where_a_replica_is_alone_on_its_gpu() -> None:
    limits = {name: configuration(model, served(model))["memory_limit_mib"] for name, model in MODELS.items()}
    assert limits["defects"] == 8 * 1024 * 95 // 100
    assert [limits["defects-mps"], limits["embeddings"]] == [None, None]


def test_a_server_with_one_port_for_all_gets_a_native_sidecar_for_its_metrics() -> None:
    relay, fetch = pod(service("chat"))["initContainers"]
    assert (relay["name"], relay["restartPolicy"]) == ("metrics", "Always")
    assert relay["command"][-2:] == ["8002", "http://127.0.0.1:8000/metrics"]
    assert "restartPolicy" not in fetch
    assert [c["name"] for c in pod(service("defects"))["initContainers"]] == ["fetch"]


def test_configuration_is_immutable_and_named_by_its_content() -> None:
    names = [
        next(
            body["metadata"]["name"]
            for body in bodies(ServicePlan.of("vision", model, pool_of(model), SURROUNDINGS), "ConfigMap")
            if body.get("immutable")
        )
        for model in (MODELS["defects"], changed({**DEFECTS, "batch": None}, health__liveness__failures=4))
    ]
    assert names[0] != names[1]


def test_the_probe_knows_every_schema_keyword_and_type_of_contracts() -> None:
    assert probe.SCHEMA_KEYWORDS == SCHEMA_KEYWORDS
    assert set(probe.TYPES) == TYPES
