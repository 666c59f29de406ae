"""What one contract becomes, by table: server configuration, pod, routes, scaling, objectives. Expected values are
written by hand.
"""

import json
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from pydantic import ValidationError

from components.model_service import objectives
from components.model_service.configuration import files as configuration_files
from components.model_service.manifests import ServicePlan
from components.model_service.probing import configuration, probes
from components.model_service.release import Release
from components.model_service.scripts import inference, probe
from components.model_service.serving import Serving, serving
from components.model_service.triton import config_pbtxt
from headway.contract.answer_schema import SCHEMA_KEYWORDS, TYPES
from headway.contract.arithmetic.replica import PROXY_CPU, PROXY_MEMORY, replica_cpu, replica_memory
from headway.contract.inference_request import TENSOR_TYPES
from headway.contract.model import Model
from headway.contract.runtime import Triton
from headway.contract.scaling import ScalingSignal
from headway.contract.units import Bytes, Duration, MilliCpu, Share
from headway.ledger.traffic_split import ArmRole, TrafficArm, TrafficMirror, TrafficSplit
from tests.components.contracts import CHAT, CONTAINER, DEFECTS, MODELS, PLAIN, SURROUNDINGS, changed, pool_of, service

# Triton's own schema, as far as the renderer uses it: name, type, repeated. Source: triton-inference-server/common model_config.proto.
_SCHEMA: dict[str, dict[str, str]] = {
    "Config": {
        "name": "string",
        "backend": "string",
        "platform": "string",
        "max_batch_size": "int32",
        "input": "[]Tensor",
        "output": "[]Tensor",
        "instance_group": "[]Group",
        "version_policy": "Policy",
        "dynamic_batching": "Batching",
        "optimization": "Optimization",
        "parameters": "[]Parameter",
        "model_repository_agents": "Agents",
    },
    "Tensor": {"name": "string", "data_type": "DataType", "dims": "[]int64"},
    "Group": {"count": "int32", "kind": "Kind"},
    "Policy": {"specific": "Specific"},
    "Specific": {"versions": "[]int64"},
    "Batching": {"preferred_batch_size": "[]int32", "max_queue_delay_microseconds": "uint64", "default_queue_policy": "Queue"},
    "Queue": {
        "timeout_action": "Action",
        "default_timeout_microseconds": "uint64",
        "allow_timeout_override": "bool",
        "max_queue_size": "uint32",
    },
    "Optimization": {"execution_accelerators": "Accelerators"},
    "Accelerators": {"gpu_execution_accelerator": "[]Accelerator"},
    "Accelerator": {"name": "string", "parameters": "[]Pair"},
    "Agents": {"agents": "[]Agent"},
    "Agent": {"name": "string", "parameters": "[]Pair"},
    "Pair": {"key": "string", "value": "string"},
    "Parameter": {"key": "string", "value": "Text"},
    "Text": {"string_value": "string"},
}
_ENUMS = {
    "DataType": [
        f"TYPE_{n}" for n in ["INVALID", "BOOL", "UINT8", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64", "STRING", "BF16"]
    ],
    "Kind": ["KIND_AUTO", "KIND_GPU", "KIND_CPU"],
    "Action": ["REJECT", "DELAY"],
}


def parse(text: str) -> Any:
    """The configuration as protobuf reads it; an unknown field or enum value fails."""
    file = descriptor_pb2.FileDescriptorProto(name="config.proto", package="t", syntax="proto3")
    for name, values in _ENUMS.items():
        enum = file.enum_type.add(name=name)
        for number, value in enumerate(values):
            enum.value.add(name=value, number=number)
    kinds = descriptor_pb2.FieldDescriptorProto
    for name, fields in _SCHEMA.items():
        message = file.message_type.add(name=name)
        for number, (field, kind) in enumerate(fields.items(), start=1):
            repeated, kind = kind.startswith("[]"), kind.removeprefix("[]")
            label = kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL
            if kind in _SCHEMA:
                message.field.add(name=field, number=number, label=label, type=kinds.TYPE_MESSAGE, type_name=f".t.{kind}")
            elif kind in _ENUMS:
                message.field.add(name=field, number=number, label=label, type=kinds.TYPE_ENUM, type_name=f".t.{kind}")
            else:
                message.field.add(name=field, number=number, label=label, type=getattr(kinds, f"TYPE_{kind.upper()}"))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return text_format.Parse(text, message_factory.GetMessageClass(pool.FindMessageTypeByName("t.Config"))())


def served(model: Model) -> Serving:
    return serving(model, 25)


def bodies(found: ServicePlan, kind: str) -> list[dict[str, Any]]:
    return [dict(m.body) for m in found.manifests() if m.kind == kind]


def pod(found: ServicePlan) -> dict[str, Any]:
    return bodies(found, "Deployment")[0]["spec"]["template"]["spec"]


def two_arms(weight: int = 10, **more: Any) -> ServicePlan:
    """The defects service with a canary beside its stable release."""
    old = Release(model=MODELS["defects"])
    new = Release(model=changed({**DEFECTS, "batch": None}, artifact__version="2026.12.0"))
    arms = (
        TrafficArm(release=new.id, role=ArmRole.CANARY, weight=Share.percent(weight)),
        TrafficArm(release=old.id, weight=Share.percent(100 - weight)),
        *more.pop("arms", ()),
    )
    return ServicePlan(
        tenant="vision",
        model=old.model,
        releases={old.id: old, new.id: new},
        traffic=TrafficSplit(arms=arms, **more),
        pool=pool_of(old.model),
        surroundings=SURROUNDINGS,
    )


# Triton ---------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name, model in MODELS.items() if isinstance(model.runtime, Triton)])
def test_tritons_own_parser_takes_every_rendered_configuration(name: str) -> None:
    runtime = MODELS[name].runtime
    assert isinstance(runtime, Triton)
    for model in runtime.models:
        found = parse(config_pbtxt(MODELS[name], model))
        assert (found.name, found.max_batch_size) == (model.name, model.max_batch)
        assert list(found.version_policy.specific.versions) == [model.version]
        assert [list(tensor.dims) for tensor in found.input] == [list(tensor.shape) for tensor in model.inputs]


def test_batching_of_a_contract_reaches_triton_in_microseconds() -> None:
    model = MODELS["defects"]
    assert isinstance(model.runtime, Triton)
    found = parse(config_pbtxt(model, model.runtime.models[0])).dynamic_batching
    assert list(found.preferred_batch_size) == [4, 8, 16]
    assert found.max_queue_delay_microseconds == 2_000
    assert (found.default_queue_policy.default_timeout_microseconds, found.default_queue_policy.max_queue_size) == (1_500_000, 128)


def test_triton_proves_files_again_that_have_an_md5() -> None:
    dense, plain = (
        parse(config_pbtxt(MODELS[name], runtime.models[0]))
        for name in ("defects-dense", "defects")
        if isinstance(runtime := MODELS[name].runtime, Triton)
    )
    (agent,) = dense.model_repository_agents.agents
    assert agent.name == "checksum"
    assert {pair.key: pair.value for pair in agent.parameters} == {"MD5:1/model.py": "c" * 32}
    assert not plain.HasField("model_repository_agents")


def test_a_model_that_batches_nothing_has_no_batcher() -> None:
    model = MODELS["defects-dense"]
    assert isinstance(model.runtime, Triton)
    assert not parse(config_pbtxt(model, model.runtime.models[0])).HasField("dynamic_batching")


def test_only_the_contracts_models_are_loaded_without_polling() -> None:
    command = served(MODELS["embeddings"]).command
    assert [c for c in command if c.startswith("--load-model")] == ["--load-model=image-encoder", "--load-model=text-encoder"]
    assert "--model-control-mode=explicit" in command


def test_warm_up_sends_every_dimension_and_the_batch_at_their_maximum() -> None:
    (plan,) = served(MODELS["defects"]).warmup
    (tensor,) = plan["request"]["zeros"]
    assert tensor == {"name": "image", "shape": [16, 3, 512, 512], "datatype": "FP32", "bytes": 16 * 3 * 512 * 512 * 4}


def test_the_server_takes_its_own_warm_up_whatever_callers_may_send() -> None:
    largest = 16 * 3 * 512 * 512 * 4
    assert largest > MODELS["defects"].envelope.largest_request.body
    assert f"--http-max-input-size={largest + 65536}" in served(MODELS["defects"]).command


# vLLM -----------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "flag"),
    [
        ("chat", "--max-model-len=16384"),
        ("chat", '--override-generation-config={"max_new_tokens":2048}'),
        ("chat", "--max-num-seqs=128"),
        ("chat", "--max-num-batched-tokens=8192"),
        ("chat", "--tensor-parallel-size=1"),
        ("chat", "--quantization=fp8"),
        ("chat", "--kv-cache-dtype=fp8"),
        ("chat", "--enable-prefix-caching"),
        ("chat", '--speculative-config={"method":"ngram","num_speculative_tokens":4}'),
        ("chat-mig", '--speculative-config={"method":"eagle","model":"/models/draft","num_speculative_tokens":3}'),
        ("chat-mig", "--kv-cache-dtype=auto"),
        ("chat-mig", "--shutdown-timeout=25"),
    ],
)
def test_a_field_becomes_its_flag(name: str, flag: str) -> None:
    assert flag in served(MODELS[name]).command


def test_a_setting_that_is_off_becomes_no_flag_or_its_opposite() -> None:
    plain = served(changed(CHAT, optimisation={"prefix_caching": False})).command
    assert "--no-enable-prefix-caching" in plain
    assert not [flag for flag in plain if flag.startswith(("--quantization", "--speculative"))]


def test_the_longest_prompt_leaves_room_for_the_longest_answer() -> None:
    (plan,) = served(MODELS["chat"]).warmup
    assert plan["request"]["tokens"] == 16384 - 2048
    assert plan["request"]["body"]["max_tokens"] == 2048


def test_prompts_can_reach_no_log() -> None:
    assert not [flag for flag in served(MODELS["chat"]).command if "log-requests" in flag or "log-outputs" in flag]


# Pods -----------------------------------------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize(("drain", "grace"), [("5s", 30), ("30s", 50), ("150s", 170), ("9m", 540)])
def test_a_replicas_drain_and_the_proxies_notice_fit_into_node_repair(drain: str, grace: int) -> None:
    model = changed({**DEFECTS, "batch": None}, health__drain=drain)
    spec = pod(ServicePlan.of("vision", model, pool_of(model), SURROUNDINGS))
    assert spec["terminationGracePeriodSeconds"] == grace
    (flag,) = [c for c in spec["containers"][0]["command"] if c.startswith("--exit-timeout-secs")]
    assert flag == f"--exit-timeout-secs={grace - 20}"


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
    assert "inference.py" in configuration_files(model, served(model), "eu-west-1")
    asked = configuration(model, served(model))
    assert (asked["base"], asked["ready"]) == ("grpc://127.0.0.1:9000", [])
    assert asked["golden"][0]["model"] == asked["warmup"][0]["request"]["model"] == "plain-grpc"
    assert "inference.py" not in configuration_files(MODELS["plain"], served(MODELS["plain"]), "eu-west-1")


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


# Traffic --------------------------------------------------------------------------------------------------------------------------------


def test_weights_name_whole_services_with_the_canary_last() -> None:
    found = two_arms(10)
    (route,) = bodies(found, "VirtualService")
    weights = route["spec"]["http"][-1]["route"]
    old, new = (live.release for live in found.traffic.ordered)
    assert [(d["destination"]["host"], d["weight"]) for d in weights] == [
        (f"defects-{old}.vision.svc.cluster.local", 90),
        (f"defects-{new}.vision.svc.cluster.local", 10),
    ]
    assert "subset" not in json.dumps(route)


def test_a_destination_of_two_ports_names_the_port_of_its_protocol() -> None:
    (route,) = bodies(two_arms(10), "VirtualService")
    grpc, plain = route["spec"]["http"][-2:]
    assert grpc["match"] == [{"headers": {"content-type": {"prefix": "application/grpc"}}}]
    assert [{d["destination"]["port"]["number"] for d in rule["route"]} for rule in (grpc, plain)] == [{8001}, {8000}]
    assert [d["weight"] for d in grpc["route"]] == [d["weight"] for d in plain["route"]]


def test_a_release_keeps_its_objects_when_its_part_changes() -> None:
    canary, release = two_arms(10), Release(model=changed({**DEFECTS, "batch": None}, artifact__version="2026.12.0"))
    alone = ServicePlan.of("vision", release.model, pool_of(release.model), SURROUNDINGS)
    kept = {m.role: m.body for m in canary.manifests() if m.role.startswith(release.id)}
    # Only who waits for its replicas is another: a candidate's driver, or the update.
    assert kept[f"{release.id}-server"]["metadata"]["annotations"].pop("pulumi.com/skipAwait") == "true"
    assert kept == {m.role: m.body for m in alone.manifests() if m.role.startswith(release.id)}


def test_a_dark_release_is_reached_by_name_from_inside_the_mesh_only() -> None:
    (route,) = bodies(two_arms(0), "VirtualService")
    named = [r for r in route["spec"]["http"] if r["name"].startswith("by-release")]
    assert len(named) == 4, "two arms, by HTTP and by gRPC"
    assert all(match["gateways"] == ["mesh"] for r in named for match in r["match"])


def test_who_bypasses_the_mesh_never_reaches_a_dark_release() -> None:
    found = two_arms(0)
    stable = next(b for b in bodies(found, "Service") if b["metadata"]["name"] == "defects")
    assert stable["spec"]["selector"]["platform.io/release"] == found.traffic.ordered[0].release


def test_the_baseline_is_the_stable_release_again_with_pods_of_its_own() -> None:
    old = Release(model=MODELS["defects"])
    found = two_arms(10, arms=(TrafficArm(release=old.id, role=ArmRole.BASELINE, weight=Share.percent(0), replicas=1),))
    servers = {b["metadata"]["name"]: b["spec"]["selector"]["matchLabels"] for b in bodies(found, "Deployment")}
    assert len(servers) == 3
    assert servers[f"defects-{old.id}"] != servers[f"defects-{old.id}-baseline"]
    scaler = next(b for b in bodies(found, "ScaledObject") if b["metadata"]["name"].endswith("-baseline"))
    assert (scaler["spec"]["minReplicaCount"], scaler["spec"]["maxReplicaCount"]) == (1, 1)


def test_a_version_scales_within_its_users_share_of_the_contracts_maximum() -> None:
    old = Release(model=MODELS["defects"])
    assert (MODELS["defects"].scaling.min_replicas, MODELS["defects"].scaling.max_replicas) == (2, 6)
    found = two_arms(0, arms=(TrafficArm(release=old.id, role=ArmRole.BASELINE, weight=Share.percent(0), at_least=1, at_most=3),))
    scaler = next(b["spec"] for b in bodies(found, "ScaledObject") if b["metadata"]["name"].endswith("-baseline"))
    assert (scaler["minReplicaCount"], scaler["maxReplicaCount"], scaler["fallback"]["replicas"]) == (1, 3, 1)


def test_a_mirror_adds_no_object_and_no_weight() -> None:
    plain, found = two_arms(0), two_arms(0)
    mirrored = two_arms(0, mirror=TrafficMirror(release=found.traffic.ordered[-1].release, share=Share.percent(25)))
    assert [m.role for m in mirrored.manifests()] == [m.role for m in plain.manifests()]
    (route,) = bodies(mirrored, "VirtualService")
    assert route["spec"]["http"][-1]["mirrorPercentage"] == {"value": 25.0}


@pytest.mark.parametrize(
    ("arms", "mirror", "said"),
    [
        ((TrafficArm(release="a", weight=Share.percent(90)),), None, "add up to 90"),
        ((TrafficArm(release="a"), TrafficArm(release="b", weight=Share.percent(0))), None, "2 arms are stable"),
        (
            (TrafficArm(release="a", weight=Share.percent(50)), TrafficArm(release="a", role=ArmRole.CANARY, weight=Share.percent(50))),
            None,
            "not all different",
        ),
        (
            (TrafficArm(release="a", weight=Share.percent(110)), TrafficArm(release="b", role=ArmRole.CANARY, weight=Share.percent(0))),
            None,
            "outside 0 to 100",
        ),
        ((TrafficArm(release="a"),), TrafficMirror(release="b", share=Share.percent(10)), "not live"),
        ((TrafficArm(release="a"),), TrafficMirror(release="a", share=Share.percent(0)), "outside 1 to 100"),
    ],
)
def test_a_division_that_no_mesh_could_carry_out_is_refused(arms: tuple[TrafficArm, ...], mirror: TrafficMirror | None, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        TrafficSplit(arms=arms, mirror=mirror)


def test_a_full_replica_tells_low_priority_to_come_back_later() -> None:
    (guard,) = bodies(service("defects"), "EnvoyFilter")
    last, others, _unreached = guard["spec"]["configPatches"][-1]["patch"]["value"]["typed_config"]["local_reply_config"]["mappers"]
    assert last["status_code"] == 429
    assert "status_code" not in others, "a priority that is kept gets the proxy's own 503"
    assert last["headers_to_add"] == others["headers_to_add"] == [{"header": {"key": "retry-after", "value": "2"}}]
    (limit,) = bodies(service("defects"), "Sidecar")
    assert limit["spec"]["inboundConnectionPool"]["http"]["http2MaxRequests"] == 48


def test_overload_sends_the_priorities_of_the_contract_to_the_fallback() -> None:
    (route,) = bodies(service("defects-slice"), "VirtualService")
    degraded = next(r for r in route["spec"]["http"] if r["name"] == "degraded")
    assert degraded["match"] == [{"headers": {"x-degrade": {"exact": "defects-slice"}, "x-request-priority": {"exact": "normal"}}}]
    assert degraded["route"][0]["destination"] == {"host": "defects.vision.svc.cluster.local", "port": {"number": 8000}}


# Scaling --------------------------------------------------------------------------------------------------------------------------------


def test_headroom_grows_with_the_root_of_the_load() -> None:
    (scaler,) = bodies(service("defects"), "ScaledObject")
    in_flight, activity = scaler["spec"]["triggers"]
    query = in_flight["metadata"]["query"]
    assert query.endswith("/ 12)")
    assert " + 2 * sqrt((" in query
    assert (in_flight["metricType"], in_flight["metadata"]["threshold"]) == ("AverageValue", "1")
    assert (activity["metricType"], activity["metadata"]["threshold"]) == ("Value", "0.8")


@pytest.mark.parametrize("signal", ScalingSignal)
@pytest.mark.parametrize(
    ("base", "changes"), [(CHAT, {}), (DEFECTS, {}), (DEFECTS, {**PLAIN, "runtime": CONTAINER})], ids=["vllm", "triton", "container"]
)
def test_a_trigger_that_a_contract_may_name_has_a_query(base: dict[str, Any], changes: dict[str, Any], signal: ScalingSignal) -> None:
    demand = {"signal": "request_rate", "target": "5/s"}
    target = {"queue_time": "100ms", "kv_cache_use": "80%", "gpu_activity": "80%", "request_rate": "5/s"}.get(signal.value, 8)
    triggers = [demand] if signal is ScalingSignal.REQUEST_RATE else [{"signal": signal.value, "target": target}, demand]
    try:
        model = changed(base, **{**changes, "scaling__triggers": triggers})
    except ValidationError as refused:
        assert "does not report" in str(refused)
        return
    (scaler,) = bodies(ServicePlan.of("vision", model, pool_of(model), SURROUNDINGS), "ScaledObject")
    first, *_ = scaler["spec"]["triggers"]
    assert first["metadata"]["query"]
    assert first["name"] == signal.value.replace("_", "-")


@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_silent_signal_never_scales_in(name: str) -> None:
    scaler, *_ = bodies(service(name), "ScaledObject")
    spec = scaler["spec"]
    assert all(trigger["metadata"]["ignoreNullValues"] == "false" for trigger in spec["triggers"])
    assert spec["fallback"]["behavior"] == "currentReplicasIfHigher"
    assert spec["fallback"]["replicas"] >= max(1, spec["minReplicaCount"])


# Objectives -----------------------------------------------------------------------------------------------------------------------------


def test_a_burn_rate_is_scaled_to_the_objectives_window_and_budget() -> None:
    rules = bodies(service("defects"), "PrometheusRule")[0]["spec"]["groups"][0]["rules"]
    alerts = [rule for rule in rules if "alert" in rule]
    # 99.95 % over 28 days: 14.4 * 28/30 * 0.0005
    assert 'headway:slo_bad:share1h{model="defects",objective="availability",tenant="vision"} > 0.00672 ' in alerts[0]["expr"]
    assert alerts[0]["expr"].endswith("* 3600 >= 100")
    assert [(a["labels"]["severity"], a["labels"]["long_window"]) for a in alerts] == [
        ("page", "1h"),
        ("page", "6h"),
        ("ticket", "1d"),
        ("ticket", "3d"),
    ]


@pytest.mark.parametrize(
    ("threshold", "scale", "edge"),
    [("50ms", 1000, "50"), ("49ms", 1000, "10"), ("1ms", 1000, "5"), ("1h", 1000, "1000")],
)
def test_a_threshold_between_two_buckets_counts_by_the_stricter_one(threshold: str, scale: int, edge: str) -> None:
    assert objectives.edge_within(Duration.parse(threshold), (5, 10, 50, 1000), scale) == edge


def test_every_objective_has_its_rules_and_every_alert_a_runbook_and_a_receiver() -> None:
    for name, model in MODELS.items():
        groups = bodies(service(name), "PrometheusRule")[0]["spec"]["groups"]
        assert len(groups) == len(model.slo)
        for group in groups:
            for rule in group["rules"]:
                if "alert" in rule:
                    assert rule["annotations"]["runbook_url"].endswith(".md")
                    assert rule["labels"]["receiver"] == model.observability.receiver


@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_container_beside_the_server_says_that_it_wants_no_gpu(name: str) -> None:
    """Its image is the server's, which names all GPUs of the node."""
    deployments = [m.body for m in service(name).manifests() if m.body["kind"] == "Deployment"]
    for spec in (body["spec"]["template"]["spec"] for body in deployments):
        containers = [*spec["containers"], *spec["initContainers"]]
        others = [c for c in containers if not any(resource.startswith("nvidia.com/") for resource in c["resources"]["limits"])]
        assert len(others) == len(containers) - 1
        assert all({"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"} in c["env"] for c in others)
