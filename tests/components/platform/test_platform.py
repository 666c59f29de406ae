"""The platform layer's own objects and the values of its add-ons."""

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from ipaddress import IPv4Network
from itertools import pairwise
from typing import Any

import pytest

from components.addons import cluster_autoscaler, gpu_operator, istio, keda, otel, prometheus
from components.manifests import Manifest
from components.platform import admission, capacity, mesh, namespaces, node_health
from components.versions import CHARTS
from headway.contract.arithmetic.startup import startup
from headway.contract.arithmetic.warm import warm_units
from headway.contract.placement import WorkloadClass
from headway.contract.pool import Pool
from headway.release.evidence import queries
from headway.signals import SIGNALS, Source
from headway.signals.buckets import latency_edges_milliseconds
from headway.wire import CLASS_HEADER, DEGRADE_HEADER, EXPERIMENT_HEADER, PRIORITY_HEADER, QUARANTINE, TENANT, USER_HEADER
from tests.components.contracts import DEFECTS, MODELS, POOLS, changed, pool_of
from tests.components.program import layer

AMI = {"release": "1.35.6-20260714", "driver": "580.159.03"}


def pool(name: str, **changes: Any) -> Pool:
    given: dict[str, Any] = {
        "name": name,
        "instance_types": ["g6.12xlarge"],
        "zones": ["us-east-1a"],
        "size": {"max": 4},
        "workload_class": "latency",
        "ami": AMI,
    }
    return Pool(**{**given, **changes})


def by_role(manifests: tuple[Manifest, ...]) -> Mapping[str, Mapping[str, Any]]:
    return {manifest.role: manifest.body for manifest in manifests}


def test_the_amis_driver_and_toolkit_are_left_alone() -> None:
    values = gpu_operator.values([pool("l4")])
    assert values["driver"]["enabled"] is False
    assert values["toolkit"]["enabled"] is False


def test_one_host_engine_watches_the_gpus() -> None:
    assert gpu_operator.values([pool("l4")])["dcgm"]["enabled"] is False, "the exporter's own engine watches profiling fields already"


def test_every_gpu_agent_runs_on_every_pool() -> None:
    values = gpu_operator.values([pool("l4"), pool("blue", taints=[{"key": "team", "value": "blue"}])])
    keys = [toleration["key"] for toleration in values["daemonsets"]["tolerations"]]
    assert keys == ["nvidia.com/gpu", "team", QUARANTINE], "a node in quarantine is repaired through its agents"
    assert values["node-feature-discovery"]["worker"]["tolerations"] == values["daemonsets"]["tolerations"]


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


def test_node_health_knows_what_each_pool_owes() -> None:
    settings = by_role(node_health.manifests([pool("l4", size={"min": 1, "max": 4}, zones=["us-east-1a", "us-east-1b"])]))["settings"][
        "data"
    ]
    assert json.loads(settings["pools.json"]) == {"l4": {"driver": "580.159.03", "nodesAtLeast": 2, "resources": {"nvidia.com/gpu": 4}}}
    assert "@sha256:" in settings["diagnosticImage"]


def test_node_health_may_evict_and_never_delete_what_is_not_its_own() -> None:
    found = by_role(node_health.manifests([]))
    everywhere = {(resource, verb) for rule in found["everywhere"]["rules"] for resource in rule["resources"] for verb in rule["verbs"]}
    assert ("pods/eviction", "create") in everywhere
    assert not any(verb in ("delete", "deletecollection", "update", "*") for _, verb in everywhere)
    assert {subject["namespace"] for role in ("everywhere-binding", "home-binding") for subject in found[role]["subjects"]} == {
        "node-health"
    }


HEADWAY = f"registry.example.com/headway@sha256:{'a' * 64}"


def test_the_loop_of_node_health_runs_by_digest_as_nobody_where_no_gpu_is() -> None:
    bodies = by_role(node_health.loop(HEADWAY, "us-east-1"))
    pod = bodies["loop"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"] == HEADWAY
    assert pod["securityContext"]["runAsNonRoot"] and container["securityContext"]["readOnlyRootFilesystem"]
    assert pod["serviceAccountName"] == node_health.SERVICE_ACCOUNT
    assert pod["nodeSelector"] == {"workload": "system"}
    assert "tolerations" not in pod, "a loop on a GPU node would drain itself"


def test_one_loop_acts_and_another_is_there_when_it_is_lost() -> None:
    bodies = by_role(node_health.loop(HEADWAY, "us-east-1"))
    spec = bodies["loop"]["spec"]
    assert spec["replicas"] == 2
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert bodies["loop-budget"]["spec"]["maxUnavailable"] == 1, "its own nodes can be drained"
    picked = spec["selector"]["matchLabels"].items()
    assert all(picked == bodies[role]["spec"]["selector"]["matchLabels"].items() for role in ("loop-budget", "loop-monitor"))
    assert picked <= spec["template"]["metadata"]["labels"].items()


def test_the_loops_container_is_started_with_options_that_the_command_knows() -> None:
    from typer.testing import CliRunner

    from headway.cli.main import app

    (container,) = by_role(node_health.loop(HEADWAY, "us-east-1"))["loop"]["spec"]["template"]["spec"]["containers"]
    help_text = CliRunner().invoke(app, [*container["args"][:2], "--help"], env={"COLUMNS": "200"}).output
    assert all(option in help_text for option in container["args"] if option.startswith("--"))
    assert container["args"][-1].endswith(f":{container['ports'][0]['containerPort']}")
    assert container["livenessProbe"]["httpGet"]["port"] == container["ports"][0]["name"]


def test_an_environment_that_names_no_image_of_headway_deploys_no_loop() -> None:
    assert not [r.name for r in layer("sandbox-platform").registrations if r.name.startswith("node-health-loop")]


def test_node_health_may_end_instances_of_its_own_cluster_only() -> None:
    (statement,) = node_health.permissions("one", "123456789012", "us-east-1")
    assert statement.actions == ["autoscaling:TerminateInstanceInAutoScalingGroup"]
    assert statement.conditions == {"StringEquals": {"aws:ResourceTag/k8s.io/cluster-autoscaler/one": "owned"}}


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


def test_the_autoscaler_empties_no_gpu_node() -> None:
    arguments = cluster_autoscaler.values("c", "r", [])["extraArgs"]
    assert 0 < float(arguments["scale-down-gpu-utilization-threshold"]) < 1 / 8, "one busy GPU of eight must keep its node"


def test_keda_survives_the_loss_of_a_node() -> None:
    values = keda.values("c")
    assert all(values[part]["replicaCount"] == 2 for part in ("operator", "metricsServer", "webhooks"))


def test_egress_is_closed_but_to_registered_services() -> None:
    assert istio.control_plane_values("h", 1)["meshConfig"]["outboundTrafficPolicy"] == {"mode": "REGISTRY_ONLY"}


def test_the_access_log_holds_nothing_that_a_caller_wrote() -> None:
    text = json.dumps(istio.access_log())
    assert "QUERY" not in text.replace("WITHOUT_QUERY", "")
    assert not any(word in text for word in ("BODY", "AUTHORIZATION", "COOKIE"))
    assert set(istio.access_log()) <= set(otel.ALLOWED_ATTRIBUTES), "the collector would drop the rest"


@pytest.mark.parametrize("public", [True, False])
def test_the_load_balancer_faces_the_internet_only_if_chosen(public: bool) -> None:
    values = istio.gateway_values(public=public, replicas_min=2, replicas_max=4, histogram_buckets="{}")
    assert values["service"]["annotations"]["service.beta.kubernetes.io/aws-load-balancer-internal"] == str(not public).lower()


def test_prometheus_sees_every_monitor_in_the_cluster() -> None:
    spec = prometheus.values(days=1, storage_bytes=20 * 2**30)["prometheus"]["prometheusSpec"]
    assert all(spec[f"{kind}SelectorNilUsesHelmValues"] is False for kind in ("podMonitor", "rule", "serviceMonitor"))


def test_prometheus_stops_before_its_volume_is_full() -> None:
    spec = prometheus.values(days=30, storage_bytes=100 * 2**30)["prometheus"]["prometheusSpec"]
    assert spec["retentionSize"] == "87040MiB"
    assert spec["storageSpec"]["volumeClaimTemplate"]["spec"]["resources"]["requests"]["storage"] == "100Gi"


def test_grafana_has_no_published_password() -> None:
    grafana = prometheus.values(days=1, storage_bytes=1)["grafana"]
    assert grafana["env"]["GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION"] == "true"
    assert grafana["grafana.ini"]["auth.anonymous"]["org_role"] == "Viewer"


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


INTRA = (IPv4Network("10.0.224.0/28"), IPv4Network("10.0.224.16/28"))


def test_every_namespace_states_its_pod_security_and_is_closed() -> None:
    found = by_role(namespaces.manifests(INTRA))
    for namespace in namespaces.NAMESPACES:
        labels = found[namespace.name]["metadata"]["labels"]
        assert labels["pod-security.kubernetes.io/enforce"] == namespace.level
        policy = found[f"{namespace.name}-closed"]["spec"]
        assert policy["podSelector"] == {} and "Ingress" in policy["policyTypes"]


def test_what_proxies_tell_arrives_at_the_collector_and_at_nothing_beside_it() -> None:
    """Tempo listens on the same port, and takes a span with whatever is in it, from whomever."""
    found = by_role(namespaces.manifests(INTRA))
    port = {"port": otel.PORT, "protocol": "TCP"}
    assert not any(port in rule.get("ports", ()) for rule in found["monitoring-closed"]["spec"]["ingress"])
    door = found["monitoring-collector-open"]["spec"]
    assert (door["podSelector"], door["ingress"]) == (
        {"matchLabels": {"app.kubernetes.io/instance": "otel-collector"}},
        [{"ports": [port]}],
    )
    assert otel.values(bucket="b", region="r")["fullnameOverride"] == otel.RELEASE


def test_webhooks_are_reached_from_the_control_plane_and_from_nowhere_else() -> None:
    rules = by_role(namespaces.manifests(INTRA))["keda-closed"]["spec"]["ingress"]
    webhook = next(rule for rule in rules if {"port": 9443, "protocol": "TCP"} in rule.get("ports", []))
    assert webhook["from"] == [{"ipBlock": {"cidr": str(cidr)}} for cidr in INTRA]


def test_only_agents_of_the_node_may_touch_it() -> None:
    privileged = {namespace.name for namespace in namespaces.NAMESPACES if namespace.level is namespaces.PodSecurity.PRIVILEGED}
    assert privileged == {"gpu-operator", "istio-system", "monitoring", "node-health"}


def test_the_mesh_is_encrypted_and_refuses_by_default() -> None:
    found = by_role(mesh.manifests(hosts=["models.test"], certificate=None, region="us-east-1"))
    assert found["strict-mtls"]["spec"] == {"mtls": {"mode": "STRICT"}}
    assert found["refuse-by-default"]["spec"] == {}
    assert {found[role]["metadata"]["namespace"] for role in ("strict-mtls", "refuse-by-default")} == {"istio-system"}, "the root namespace"


def test_what_a_release_is_judged_by_is_a_label_that_proxies_know() -> None:
    added = {queries.CLASS, queries.MIRRORED}
    found = by_role(mesh.manifests(hosts=["models.test"], certificate=None, region="r"))["telemetry"]["spec"]
    overrides = found["metrics"][0]["overrides"][0]["tagOverrides"]
    assert added <= {tag for tag, change in overrides.items() if "value" in change}
    config = istio.control_plane_values("h", 1)
    known = set(config["meshConfig"]["defaultConfig"]["extraStatTags"])
    assert known == {tag for tag, change in overrides.items() if "value" in change}, (
        "a proxy drops a label that its bootstrap was not told of"
    )
    assert config["env"]["DISABLE_SHADOW_HOST_SUFFIX"] == "false", "or no copy could be told from its request"
    read = {queries.REPORTER, queries.WORKLOAD, queries.WORKLOAD_NAMESPACE, queries.SERVICE, queries.SERVICE_NAMESPACE, queries.CODE}
    assert not read & {tag for tag, change in overrides.items() if change.get("operation") == "REMOVE"}


def test_no_client_speaks_for_the_platforms_own_proxies() -> None:
    door = by_role(mesh.manifests(hosts=["models.test"], certificate=None, region="r"))["door"]["spec"]["configPatches"][0]
    config = door["patch"]["value"]["typed_config"]
    removed = {m["remove"] for m in config["early_header_mutation_extensions"][0]["typed_config"]["mutations"]}
    by_models = {CLASS_HEADER, DEGRADE_HEADER, EXPERIMENT_HEADER}
    assert removed == {*by_models, PRIORITY_HEADER, USER_HEADER}
    assert door["match"]["context"] == "GATEWAY"


def test_with_a_certificate_plain_requests_are_only_sent_on() -> None:
    servers = by_role(mesh.manifests(hosts=["models.test"], certificate="tls", region="r"))["gateway"]["spec"]["servers"]
    assert [(server["port"]["protocol"], server["tls"].get("httpsRedirect")) for server in servers] == [("HTTP", True), ("HTTPS", None)]
    assert servers[1]["tls"]["credentialName"] == "tls"
    assert servers[1]["hosts"] == ["*.models.test", "models.test"]


def test_a_regression_of_a_fifth_shows_in_the_histograms() -> None:
    edges = latency_edges_milliseconds()
    assert list(edges) == sorted(set(edges))
    assert all(later / earlier < 1.27 for earlier, later in pairwise(edge for edge in edges if edge >= 20)), "whole milliseconds below"
    assert json.loads(mesh.histogram_buckets()) == {"istiocustom": list(edges)}


def test_admission_binds_rules_to_tenants_and_the_one_of_namespaces_to_all() -> None:
    found = by_role(admission.manifests([pool("l4")], ["models.test"]))
    for rule in admission.rules([pool("l4")], ["models.test"]):
        binding = found[f"{rule.name}-binding"]["spec"]
        assert binding["policyName"] == found[rule.name]["metadata"]["name"]
        assert binding["validationActions"] == ["Deny"]
        tenants = {"namespaceSelector": {"matchExpressions": [{"key": TENANT, "operator": "Exists"}]}}
        # A namespace is matched by its new labels, so the rule that keeps them could be stepped out of by dropping one.
        assert binding.get("matchResources") == (None if rule.name == "tenant-namespace-stays" else tenants)
        assert found[rule.name]["spec"]["failurePolicy"] == "Fail"


def test_a_refusal_by_the_api_server_says_fact_consequence_and_remedy() -> None:
    assert all(rule.message.count(". ") == 2 and rule.message.endswith(".") for rule in admission.rules([pool("l4")], ["models.test"]))


def test_warm_capacity_gives_way_to_everything() -> None:
    found = by_role(capacity.manifests([capacity.Warm(pool=pool("l4"), units=2)]))
    assert found["placeholder"]["value"] < 0
    assert found["warm-l4"]["spec"]["replicas"] == 2
    pod = found["warm-l4"]["spec"]["template"]["spec"]
    assert (pod["priorityClassName"], pod["terminationGracePeriodSeconds"]) == ("headway-placeholder", 0)


def test_a_placeholder_takes_one_unit_of_its_own_pool() -> None:
    sliced = pool(
        "sliced", instance_types=["p4de.24xlarge"], sharing={"mode": "mig", "layout": {"1g.10gb": 7}}, workload_class="throughput"
    )
    pod = by_role(capacity.manifests([capacity.Warm(pool=sliced, units=1)]))["warm-sliced"]["spec"]["template"]["spec"]
    resources = pod["containers"][0]["resources"]
    assert resources["limits"] == resources["requests"]
    assert resources["limits"]["nvidia.com/mig-1g.10gb"] == "1"
    assert pod["nodeSelector"] == {"platform.io/pool": "sliced"}
    assert pod["tolerations"][0]["key"] == "nvidia.com/gpu"


BRINGS = {
    "istio.io": "istio-base-release",
    "keda.sh": "keda-release",
    "monitoring.coreos.com": "prometheus-definitions-release",
}
"""Where each group's definitions come from; a custom resource of another group has no business in this layer."""
CONTROLS = {"istio.io": "istiod-release", "monitoring.coreos.com": "prometheus-release"}


@cache
def needed(name: str) -> frozenset[str]:
    """Names of everything that must be there before the resource of this name, at any distance."""
    direct = {r.urn.rpartition("::")[2]: {urn.rpartition("::")[2] for urn in r.depends_on} for r in layer("prod-platform").registrations}
    return frozenset(direct[name] | {far for near in direct[name] for far in needed(near)})


def test_definitions_come_first_then_controllers_then_custom_resources() -> None:
    custom = [
        r
        for r in layer("prod-platform").registrations
        if re.match(r"kubernetes:(?!helm)[a-z.]+\.(io|com|sh)/", r.type) and ".k8s.io/" not in r.type
    ]
    assert len(custom) >= 10
    for one in custom:
        group = next(group for group in BRINGS if one.type.partition(":")[2].partition("/")[0].endswith(group))
        assert {BRINGS[group], CONTROLS[group]} <= needed(one.name), f"{one.name} could come before its definition or its controller"
    assert BRINGS["monitoring.coreos.com"] in needed("prometheus-release")
    assert BRINGS["istio.io"] in needed("istiod-release")


def test_every_chart_with_definitions_upgrades_them_with_itself() -> None:
    """Helm never touches what lies in a chart's folder `crds` after the first install (helm.sh/docs, "Custom
    Resource Definitions").
    """
    assert prometheus.values(days=1, storage_bytes=2**30)["crds"] == {"enabled": False}, "its own are in that folder"
    assert prometheus.definitions_values()["crds"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert gpu_operator.values([pool("l4")])["operator"]["upgradeCRD"] is True, "a hook of the chart applies them"
    assert istio.base_values().get("base", {}).get("enableCRDTemplates", True), "templates of the chart, upgraded like any other"
    assert keda.values("c").get("crds", {}).get("install", True), "templates of the chart, upgraded like any other"


def test_the_versions_file_holds_every_chart_that_is_installed_and_no_other() -> None:
    installed = {(r.inputs["chart"], r.inputs["version"]) for r in layer("sandbox-platform").of_type("kubernetes:helm.sh/v3:Release")}
    assert installed == {(chart.chart, chart.version) for chart in CHARTS}


def test_every_image_of_a_chart_has_a_tag_that_stays() -> None:
    images = [image for chart in CHARTS for image in chart.images]
    assert len(images) > 20
    assert not [image for image in images if image.rpartition(":")[2] in ("", "latest", "main")]
    assert not [chart.chart for chart in CHARTS if not chart.images and chart.chart not in ("base", "prometheus-operator-crds")], (
        "a mirror would miss these"
    )


def test_placeholders_are_pinned_by_digest() -> None:
    deployment = layer("sandbox-platform").one("kubernetes:apps/v1:Deployment", "capacity-warm-l4")
    assert "@sha256:" in deployment.inputs["spec"]["template"]["spec"]["containers"][0]["image"]


def test_every_node_pulls_the_images_of_its_pools_models_in_advance() -> None:
    images = (f"registry.test/a@sha256:{'a' * 64}", f"registry.test/b@sha256:{'b' * 64}")
    found = by_role(capacity.manifests([capacity.Warm(pool=pool("l4"), units=0, images=images)]))
    assert "warm-l4" not in found, "no room is kept where none is needed"
    pod = found["prefetch-l4"]["spec"]["template"]["spec"]
    assert tuple(container["image"] for container in pod["initContainers"]) == images
    assert not any(name.startswith("nvidia.com/") for container in pod["initContainers"] for name in container["resources"]["limits"])
    assert all({"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"} in container["env"] for container in pod["initContainers"]), (
        "an image made for CUDA would be given every GPU of the node, or fail where it is newer than the driver"
    )
    assert pod["nodeSelector"] == {"platform.io/pool": "l4"}


def test_what_starts_tenants_images_for_their_nodes_opens_no_connection() -> None:
    policies = {role: body["spec"] for role, body in by_role(namespaces.manifests(INTRA)).items() if role.endswith("-closed")}
    mute = sorted(role for role, spec in policies.items() if "Egress" in spec["policyTypes"] and not spec.get("egress"))
    assert mute == ["warm-capacity-closed"], "code of a tenant would run outside its namespace's isolation"


def test_the_sandboxes_nodes_hold_what_its_tenants_run() -> None:
    daemon = layer("sandbox-platform").one("kubernetes:apps/v1:DaemonSet", "capacity-prefetch-l4")
    pulled = {container["image"] for container in daemon.inputs["spec"]["template"]["spec"]["initContainers"]}
    assert MODELS["defects"].runtime.image in pulled


def test_the_places_that_contracts_pay_for_are_kept_free() -> None:
    model = changed(DEFECTS, scaling__warm_replicas=3)
    assert warm_units(pool_of(model), POOLS, [model]) == 3 * model.envelope.gpu.count


def test_a_budget_that_a_new_node_would_break_keeps_one_place_free() -> None:
    model = changed(DEFECTS, scaling__warm_replicas=0)
    home = pool_of(model)
    cold = startup(model, home)
    assert home.workload_class is WorkloadClass.LATENCY
    tight = changed(DEFECTS, scaling__warm_replicas=0, health__startup_budget=str(cold.pod))
    roomy = changed(DEFECTS, scaling__warm_replicas=0, health__startup_budget=str(cold.cold))
    assert warm_units(home, POOLS, [tight]) == tight.envelope.gpu.count
    assert warm_units(home, POOLS, [roomy]) == 0
    assert warm_units(home, POOLS, []) == 0


def test_a_model_keeps_nothing_warm_on_anothers_pool() -> None:
    model = changed(DEFECTS, scaling__warm_replicas=3)
    others = [each for each in POOLS if each is not pool_of(model)]
    assert [warm_units(each, POOLS, [model]) for each in others] == [0] * len(others)
