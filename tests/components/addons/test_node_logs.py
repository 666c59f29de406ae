"""What containers print, on its way from a node to Loki: who may read it, what is masked, what it is called."""

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from components.addons import loki, node_logs, otel
from components.addons.istio import LINE
from components.addons.prometheus import NAMESPACE
from components.model_service.routing import host
from components.model_service.workload import arm_name
from components.observability.sizing import ServiceSize, streams
from components.platform.namespaces import NAMESPACES, PodSecurity
from headway.contract import sampling
from headway.contract.runtime import Engine
from headway.contract.units import Share
from headway.ledger.traffic_split import ArmRole, TrafficArm

COLLECTORS: Mapping[str, Mapping[str, Any]] = {
    "nodes": node_logs.values("class"),
    "requests": otel.values(bucket="telemetry", region="us-east-1"),
}


def masked(line: str) -> str:
    """As the redaction processor does it: each pattern after the other, whatever it matches becomes asterisks."""
    for pattern in otel.redaction()["blocked_values"]:
        line = re.sub(pattern, "****", line)
    return line


def test_the_agent_reads_files_of_its_node_and_can_write_none() -> None:
    values = COLLECTORS["nodes"]
    assert values["presets"]["logsCollection"]["enabled"]
    assert not values["presets"]["logsCollection"].get("storeCheckpoints"), "checkpoints are a folder of the node that it may write to"
    assert not values.keys() & {"extraVolumes", "extraVolumeMounts", "hostNetwork", "hostPID"}
    security = values["securityContext"]
    assert (security["allowPrivilegeEscalation"], security["readOnlyRootFilesystem"]) == (False, True)
    assert security["capabilities"] == {"drop": ["ALL"]}


def test_the_agents_namespace_lets_a_pod_mount_paths_of_its_node() -> None:
    (namespace,) = [each for each in NAMESPACES if each.name == NAMESPACE]
    assert namespace.level is PodSecurity.PRIVILEGED


def test_the_agent_runs_on_every_node_and_asks_for_nothing_but_names() -> None:
    values = COLLECTORS["nodes"]
    assert values["tolerations"] == [{"operator": "Exists"}], "a node in quarantine has most to tell"
    assert "nodeSelector" not in values
    assert {verb for rule in values["clusterRole"]["rules"] for verb in rule["verbs"]} == {"get", "list", "watch"}


def test_the_agent_listens_to_nobody() -> None:
    opened = {name for name, port in COLLECTORS["nodes"]["ports"].items() if port["enabled"]}
    assert opened == {"metrics"}
    assert {"otlp", "otlp-http"} <= COLLECTORS["nodes"]["ports"].keys(), "the chart opens them where nothing is said"


@pytest.mark.parametrize("collector", sorted(COLLECTORS))
def test_what_a_collector_loses_can_be_read_by_prometheus(collector: str) -> None:
    """`TelemetryLost` stands on the collectors' own metrics, which only the collector itself can reach where nothing
    is said.
    """
    values = COLLECTORS[collector]
    assert values["ports"]["metrics"]["enabled"]
    assert values["podMonitor"] == {"enabled": True, "metricsEndpoints": [{"port": "metrics"}]}
    (reader,) = values["alternateConfig"]["service"]["telemetry"]["metrics"]["readers"]
    assert reader["pull"]["exporter"]["prometheus"] == {"host": "${env:MY_POD_IP}", "port": 8888}


@pytest.mark.parametrize("collector", sorted(COLLECTORS))
def test_every_pipeline_masks_before_anything_leaves(collector: str) -> None:
    config = COLLECTORS[collector]["alternateConfig"]
    assert config["processors"]["redaction"] == otel.redaction()
    for pipeline in config["service"]["pipelines"].values():
        (masks,) = [place for place, name in enumerate(pipeline["processors"]) if name.startswith("redaction")]
        assert masks < pipeline["processors"].index(pipeline["processors"][-1])
        assert pipeline["processors"][-1].startswith("batch")
        assert set(pipeline["processors"]) <= set(config["processors"])
        assert set(pipeline["exporters"]) <= set(config["exporters"])


@pytest.mark.parametrize("collector", sorted(COLLECTORS))
def test_nothing_in_a_configuration_is_taken_for_a_variable_or_a_template(collector: str) -> None:
    text = json.dumps(COLLECTORS[collector]["alternateConfig"])
    assert "$" not in re.sub(r"\$\{env:[A-Z0-9_]+\}|\$\$", "", text), "the collector would expand it"
    assert "{{" not in text, "the chart would execute it"


@pytest.mark.parametrize(
    "line",
    [
        "Received request cmpl-1: prompt: 'my diagnosis is SECRET', params: SamplingParams(n=1)",
        'body={"model": "chat", "messages": [{"role": "user", "content": "SECRET"}]}',
        "completion: first line\nSECRET",
        "Authorization: Bearer SECRET-0123456789",
        "calling with bearer SECRETSECRET",
        "HF_API_KEY=SECRET0123456789",
        "aws_secret_access_key = SECRET0123/456789",
        "key AKIASECRETSECRETSE01 used",
        "user SECRET@clinic.example.org asked",
        "jwt eyJTRUNSRVRTRUNS.eyJTRUNSRVQ.SECRET",
    ],
)
def test_a_printed_line_loses_what_it_announces_as_contents_or_secrets(line: str) -> None:
    assert "SECRET" not in masked(line)


@pytest.mark.parametrize(
    "line",
    [
        "Engine 000: Avg prompt throughput: 3.1 tokens/s, Avg generation throughput: 12.0 tokens/s, Running: 3 reqs",
        "I0000 00:00:00.000000 1 model_lifecycle.cc:473] loading: defects:1",
        "failed to pull registry.example/vision/defects@sha256:0123456789abcdef",
        "2026-11-21T15:00:00Z info xdsproxy connected to upstream XDS server: istiod.istio-system.svc:15012 id=6d0e8a3c-1b2c-4d5e-8f90-a1b2c3d4e5f6",
        "max_tokens: 16000",
    ],
)
def test_a_line_without_them_is_left_as_it_is(line: str) -> None:
    assert masked(line) == line


def test_a_stream_is_told_apart_by_little_and_by_nothing_that_grows_with_pods() -> None:
    attributes = loki.values(bucket="b", region="r", days=1)["loki"]["limits_config"]["otlp_config"]["resource_attributes"]
    (labels,) = attributes["attributes_config"]
    assert attributes["ignore_defaults"], "Loki's own labels hold the names of pods"
    assert set(otel.LABELS) <= set(labels["attributes"]) <= set(otel.ALLOWED_ATTRIBUTES)
    assert not [name for name in labels["attributes"] if name.startswith(("k8s.pod", "k8s.node"))]


def test_a_hundred_services_in_release_need_less_than_half_of_all_log_streams() -> None:
    assert streams((ServiceSize(engine=Engine.VLLM),) * 100) < loki.MAX_STREAMS / 2


@pytest.mark.parametrize("arm", [ArmRole.BASELINE, ArmRole.STABLE])
@pytest.mark.parametrize("model", ["chat", "defects-v2-r0123456789"])
def test_a_proxys_line_is_called_as_the_metrics_of_its_release_are(model: str, arm: ArmRole) -> None:
    service = host("vision", arm_name(model, TrafficArm(release="r0a1b2c3d4e", role=arm, weight=Share.percent(0))))
    found = re.match(otel.OF_UPSTREAM, f"outbound|8000||{service}")
    assert found
    assert found.groupdict() == {"model": model, "release": "r0a1b2c3d4e", "tenant": "vision"}


@pytest.mark.parametrize("upstream", ["inbound|8000||", "PassthroughCluster", "outbound|8081||limiter.rate-limit.svc.cluster.local"])
def test_what_is_no_release_is_not_called_one(upstream: str) -> None:
    assert re.match(otel.OF_UPSTREAM, upstream) is None


def test_statements_can_hold_the_pattern_of_an_upstream() -> None:
    assert '"' not in otel.OF_UPSTREAM and "\\" not in otel.OF_UPSTREAM, "it stands in a string of the language of statements"


@pytest.mark.parametrize("pipeline", sorted(COLLECTORS["requests"]["alternateConfig"]["service"]["pipelines"]))
def test_a_sender_is_looked_up_in_kubernetes_before_anything_it_says_counts(pipeline: str) -> None:
    config = COLLECTORS["requests"]["alternateConfig"]
    order = config["service"]["pipelines"][pipeline]["processors"]
    stripped, known = order.index("transform/claims"), order.index("k8s_attributes")
    assert known == stripped + 1
    assert not [name for name in order[:known] if name.startswith(("batch", "tail_sampling"))]
    assert config["processors"]["k8s_attributes"]["pod_association"] == [{"sources": [{"from": "connection"}]}]
    assert {verb for rule in COLLECTORS["requests"]["clusterRole"]["rules"] for verb in rule["verbs"]} == {"get", "list", "watch"}


def test_what_kubernetes_says_of_a_sender_leaves_with_no_line_and_no_span() -> None:
    extracted = COLLECTORS["requests"]["alternateConfig"]["processors"]["k8s_attributes"]["extract"]
    assert not {label["tag_name"] for label in extracted["labels"]} & set(otel.ALLOWED_ATTRIBUTES)


def test_the_text_of_an_access_log_line_holds_nothing_that_a_caller_wrote() -> None:
    """Without a text of ours, istiod takes Envoy's default one (pilot/pkg/model/telemetry_logging.go,
    `EnvoyTextLogFormat`).
    """
    assert set(re.findall(r"%([^%]+)%", LINE)) == {"REQ(:METHOD)", "ROUTE_NAME", "RESPONSE_CODE", "RESPONSE_FLAGS", "DURATION"}


@pytest.mark.parametrize(("collector", "memory"), [("nodes", node_logs.MEMORY_MIB), ("requests", otel.MEMORY_MIB)])
def test_what_waits_for_a_store_that_is_away_fits_into_memory_together(collector: str, memory: int) -> None:
    """A thousand requests of any size, the default, do not: then the memory limiter refuses lines for stores that
    are there.
    """
    values = COLLECTORS[collector]
    queues = [exporter["sending_queue"] for exporter in values["alternateConfig"]["exporters"].values()]
    assert {queue["sizer"] for queue in queues} == {"bytes"}
    assert {queue["batch"]["max_size"] for queue in queues if "batch" in queue} == {2 * 2**20}, "Loki's gateway refuses 4 MB, Tempo 4 MiB"
    # In memory they are about three times as large; refusals begin at the difference of the two percentages.
    limiter = values["alternateConfig"]["processors"]["memory_limiter"]
    assert values["resources"]["limits"]["memory"] == f"{memory}Mi"
    refused = memory * 2**20 * (limiter["limit_percentage"] - limiter["spike_limit_percentage"]) // 100
    assert 3 * sum(queue["queue_size"] for queue in queues) <= refused


def test_an_object_of_samples_is_stored_in_one_piece() -> None:
    """S3's client cuts above 16 MiB, and to put the pieces together needs the right to decrypt."""
    assert otel.SAMPLES_AT_ONCE * 2 * sampling.BODY_BYTES <= 8 * 2**20
    batch = COLLECTORS["requests"]["alternateConfig"]["processors"]["batch/samples"]
    assert batch["send_batch_max_size"] == batch["send_batch_size"] == otel.SAMPLES_AT_ONCE
