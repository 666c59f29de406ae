"""Values of the add-ons' charts."""

import json
import re
from collections.abc import Iterator

from components import versions
from components.addons import cluster_autoscaler, gpu_operator, istio, keda, loki, node_logs, otel, prometheus
from headway.diagnosis.measures import MEASURES
from headway.signals import SIGNALS, Source
from headway.wire import MIG_TAINT, QUARANTINE
from tests.components.platform.test_platform import pool


def test_the_amis_driver_and_toolkit_are_left_alone() -> None:
    values = gpu_operator.values([pool("l4")])
    assert values["driver"]["enabled"] is False
    assert values["toolkit"]["enabled"] is False


def test_a_node_that_mig_cuts_at_birth_gets_its_slices_by_itself() -> None:
    """Before 26.7 the device plugin failed there until somebody flipped the label (NVIDIA/gpu-operator#2670)."""
    assert tuple(int(part) for part in versions.GPU_OPERATOR.version.removeprefix("v").split(".")) >= (26, 7, 0)


def test_one_host_engine_watches_the_gpus() -> None:
    assert gpu_operator.values([pool("l4")])["dcgm"]["enabled"] is False, "the exporter's own engine watches profiling fields already"


def test_whoever_watches_a_node_is_not_kept_out_by_models() -> None:
    """Kubernetes, "Pod Priority and Preemption": of pods that wait the higher priority is placed first, and none is the lowest of ours."""
    values = prometheus.values(days=30, storage_bytes=2**39)
    assert values["prometheus-node-exporter"]["priorityClassName"] == "system-node-critical"


def test_every_gpu_agent_runs_on_every_pool() -> None:
    values = gpu_operator.values([pool("l4"), pool("blue", taints=[{"key": "team", "value": "blue"}])])
    keys = [toleration["key"] for toleration in values["daemonsets"]["tolerations"]]
    assert keys == ["nvidia.com/gpu", "team", QUARANTINE], "a node in quarantine is repaired through its agents"
    assert values["node-feature-discovery"]["worker"]["tolerations"] == values["daemonsets"]["tolerations"]


def test_what_cuts_a_node_runs_on_it_before_it_is_cut() -> None:
    cut = pool("cut", instance_types=["p4de.24xlarge"], sharing={"mode": "mig", "layout": {"1g.10gb": 7}}, workload_class="throughput")
    values = gpu_operator.values([pool("l4"), cut])
    tolerated = values["daemonsets"]["tolerations"]
    assert {"key": MIG_TAINT, "operator": "Exists", "effect": "NoSchedule"} in tolerated
    assert values["node-feature-discovery"]["worker"]["tolerations"] == tolerated, "without its labels the operator places nothing there"
    everywhere = [{"operator": "Exists"}]
    assert prometheus.values(days=1, storage_bytes=2**30)["prometheus-node-exporter"]["tolerations"] == everywhere
    assert node_logs.values("class")["tolerations"] == everywhere
    assert "tolerations" not in istio.node_agent_values(), "its chart's own tolerate every taint that lets nothing new in"


def test_every_counter_that_a_signal_reads_is_exported() -> None:
    exported = {line.split(",")[0] for line in gpu_operator.counters().splitlines()}
    read = {name for signal in SIGNALS.values() for name in _metrics(signal.expressions.get(Source.DCGM, ""))}
    assert read
    assert read <= exported, f"{read - exported} would be silent for ever"


def _metrics(expression: str) -> Iterator[str]:
    for word in expression.replace("(", " ").replace("{", " ").split():
        if word.startswith("DCGM_"):
            yield word


def test_counters_are_csv_of_three_columns() -> None:
    for line in gpu_operator.counters().splitlines():
        assert len(line.split(", ")) == 3, f"{line!r}: a comma in the help text shifts the columns"


def test_images_of_the_gpu_layer_are_pinned_where_a_digest_is_known() -> None:
    values = gpu_operator.values([pool("l4")])
    for part in ("dcgmExporter", "devicePlugin", "gfd", "migManager"):
        assert values[part]["version"].startswith("sha256:"), part


def test_the_autoscaler_prefers_what_is_paid_for() -> None:
    reserved = pool("paid", capacity={"kind": "reservation", "id": "cr-0123456789abcdef0"})
    spot = pool("cheap", capacity={"kind": "spot"}, workload_class="batch")
    found = cluster_autoscaler.priorities([spot, pool("plain"), reserved])
    groups = [f"eks-{name}-a-68c1f7e2" for name in ("system", "cheap", "plain", "paid")]

    def worth(group: str) -> int:
        """As its expander finds it: the highest of all that match."""
        return max(int(priority) for priority, patterns in found.items() if any(re.search(pattern, group) for pattern in patterns))

    assert sorted(groups, key=worth, reverse=True) == [f"eks-{name}-a-68c1f7e2" for name in ("paid", "plain", "cheap", "system")]
    assert len({worth(group) for group in groups}) == len(groups), "two kinds of capacity are worth the same"


def test_a_pool_whose_name_ends_like_a_zone_has_its_own_priority() -> None:
    """`BestOptions` of its expander takes the highest of all patterns that match, so spot nodes would come before paid-for ones."""
    spot = pool("paid-b", capacity={"kind": "spot"}, workload_class="batch")
    reserved = pool("paid", capacity={"kind": "reservation", "id": "cr-0123456789abcdef0"})
    found = cluster_autoscaler.priorities([spot, reserved])
    group = "eks-paid-b-a-1a2b3c4-86c9f0d4-6d2c-4a51-9b30-0c8f5a7e1d22"
    matching = {priority for priority, patterns in found.items() if any(re.search(pattern, group) for pattern in patterns)}
    assert matching == {str(cluster_autoscaler.PRIORITIES["spot"]), str(cluster_autoscaler.OTHERS)}


def test_the_autoscaler_empties_no_gpu_node() -> None:
    arguments = cluster_autoscaler.values("c", "r", [])["extraArgs"]
    assert 0 < float(arguments["scale-down-gpu-utilization-threshold"]) < 1 / 8, "one busy GPU of eight must keep its node"


def test_a_diagnosis_can_tell_nodes_and_groups_of_nodes_apart() -> None:
    """Neither label is there by itself (prometheus-community/helm-charts, charts/prometheus-node-exporter; kubernetes/autoscaler, FAQ)."""
    (relabeling,) = prometheus.values(days=1, storage_bytes=2**30)["prometheus-node-exporter"]["prometheus"]["monitor"]["relabelings"]
    asked = {each.sight.value for each in MEASURES.values()}
    assert relabeling == {"sourceLabels": ["__meta_kubernetes_pod_node_name"], "targetLabel": "node"} and "node" in asked
    assert cluster_autoscaler.values("c", "r", [])["extraArgs"]["emit-per-nodegroup-metrics"] is True and "node_group" in asked


def test_keda_reads_no_secret_and_no_object_that_it_scales_nothing_by() -> None:
    """kedacore/charts v2.20.2, keda/templates/manager/clusterrole.yaml: by default every Secret, and `get` of `*`."""
    values = keda.values("c")
    assert values["rbac"]["enabledCustomScaledRefKinds"] is False
    assert {part: each["restrict"]["secret"] for part, each in values["permissions"].items()} == {"metricServer": True, "operator": True}


def test_keda_survives_the_loss_of_a_node() -> None:
    values = keda.values("c")
    assert all(values[part]["replicaCount"] == 2 for part in ("operator", "metricsServer", "webhooks"))


def test_drains_take_one_pod_of_loki_and_of_its_gateway_at_a_time() -> None:
    """Two away of three is no quorum. The chart makes no budget unless told a number (`loki.pdb` in its templates/_pdb.tpl)."""
    values = loki.values(bucket="bucket", region="us-east-1", days=1)
    assert [values[part]["podDisruptionBudget"] for part in ("gateway", "singleBinary")] == [{"maxUnavailable": 1}] * 2


def test_pods_of_all_nodes_are_replaced_a_few_at_a_time() -> None:
    of_nodes = {
        "cni": istio.node_agent_values()["updateStrategy"],
        "logs": node_logs.values("class")["rollout"],
        "metrics": prometheus.values(days=30, storage_bytes=2**39)["prometheus-node-exporter"]["updateStrategy"],
    }
    assert {name: how["rollingUpdate"]["maxUnavailable"] for name, how in of_nodes.items()} == dict.fromkeys(of_nodes, "25%")


def test_prometheus_sees_every_monitor_in_the_cluster() -> None:
    spec = prometheus.values(days=1, storage_bytes=20 * 2**30)["prometheus"]["prometheusSpec"]
    assert all(spec[f"{kind}SelectorNilUsesHelmValues"] is False for kind in ("podMonitor", "rule", "serviceMonitor"))


def test_prometheus_is_the_version_that_is_supported_for_long_by_its_digest() -> None:
    image = prometheus.values(days=1, storage_bytes=20 * 2**30)["prometheus"]["prometheusSpec"]["image"]
    assert f"quay.io/prometheus/prometheus:{image['tag']}@sha256:{image['sha']}" in versions.PROMETHEUS_STACK.images


def test_prometheus_stops_before_its_volume_is_full() -> None:
    spec = prometheus.values(days=30, storage_bytes=100 * 2**30)["prometheus"]["prometheusSpec"]
    assert spec["retentionSize"] == "87040MiB"
    assert spec["storageSpec"]["volumeClaimTemplate"]["spec"]["resources"]["requests"]["storage"] == "100Gi"


def test_grafana_has_no_published_password() -> None:
    grafana = prometheus.values(days=1, storage_bytes=1)["grafana"]
    assert grafana["env"]["GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION"] == "true"
    assert grafana["grafana.ini"]["auth.anonymous"]["org_role"] == "Viewer"


def test_grafana_has_its_data_sources_before_it_starts() -> None:
    """It has no administrator, so nobody can have it reload them (chart grafana 12.11.1, templates/_pod.tpl: `initDatasources`)."""
    fetched = prometheus.values(days=30, storage_bytes=2**39)["grafana"]["sidecar"]["datasources"]
    assert fetched["initDatasources"]
    assert fetched["watchMethod"] == "LIST", "a first container that watches never ends, and Grafana never starts"


def test_attributes_pass_the_collector_by_an_allow_list_on_every_pipeline() -> None:
    config = otel.config()
    assert config["processors"]["redaction"]["allow_all_keys"] is False
    assert all("redaction" in pipeline["processors"] for pipeline in config["service"]["pipelines"].values())
    assert not any("prompt" in key or "completion" in key for key in otel.ALLOWED_ATTRIBUTES)


def test_every_part_of_a_pipeline_is_defined() -> None:
    config = otel.config()
    for pipeline in config["service"]["pipelines"].values():
        for kind in ("receivers", "processors", "exporters"):
            assert set(pipeline[kind]) <= set(config[kind])


def test_the_gateways_proxies_find_in_their_own_pod_what_bounds_their_memory() -> None:
    values = istio.gateway_values(replicas_min=2, replicas_max=3, histogram_buckets="{}")
    (volume,), (mount,) = values["volumes"], values["volumeMounts"]
    (item,) = volume["downwardAPI"]["items"]
    assert mount["name"] == volume["name"]
    assert values["env"] == {"ISTIO_BOOTSTRAP_OVERRIDE": f"{mount['mountPath']}/{item['path']}"}
    (name,) = [each for each in values["podAnnotations"] if item["fieldRef"]["fieldPath"] == f"metadata.annotations['{each}']"]
    (monitor,) = json.loads(values["podAnnotations"][name])["overload_manager"]["resource_monitors"]
    assert 2**29 <= monitor["typed_config"]["max_heap_size_bytes"] < 2**30, "the chart's limit"
