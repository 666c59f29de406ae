"""The platform layer's own objects: namespaces, mesh, admission, and the order of it all."""

import json
import re
from collections.abc import Mapping
from functools import cache
from ipaddress import IPv4Network
from itertools import pairwise
from typing import Any

from components.addons import gpu_operator, istio, keda, loki, otel, prometheus
from components.manifests import Manifest
from components.platform import admission, mesh, namespaces
from components.versions import CHARTS
from headway.contract.pool import Pool
from headway.release.evidence import queries
from headway.signals.buckets import latency_edges_milliseconds
from headway.verify.policies import PacketEnd, admits
from headway.wire import (
    ALERTMANAGER_PROXIED,
    CLASS_HEADER,
    DEGRADE_HEADER,
    EXPERIMENT_HEADER,
    LOKI_PROXIED,
    MONITORING_NAMESPACE,
    PRIORITY_HEADER,
    PROMETHEUS_PROXIED,
    TENANT,
    USER_HEADER,
)
from tests.components.program import layer

AMI = {"release": "1.36.2-20260714", "driver": "580.159.03"}


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


def test_egress_is_closed_but_to_registered_services() -> None:
    assert istio.control_plane_values("h", 1)["meshConfig"]["outboundTrafficPolicy"] == {"mode": "REGISTRY_ONLY"}


def test_the_access_log_holds_nothing_that_a_caller_wrote() -> None:
    text = json.dumps(istio.access_log())
    assert "QUERY" not in text.replace("WITHOUT_QUERY", "")
    assert not any(word in text for word in ("BODY", "AUTHORIZATION", "COOKIE"))
    assert set(istio.access_log()) <= set(otel.ALLOWED_ATTRIBUTES), "the collector would drop the rest"


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


def test_the_api_server_reaches_every_service_that_it_is_asked_to_pass_on() -> None:
    """It connects to a pod, on the pod's own port (Kubernetes, "Access Services Running on Clusters")."""
    gateway = loki.values(bucket="b", region="r", days=1)["gateway"]["containerPort"]
    of_pods = {
        **dict.fromkeys(PROMETHEUS_PROXIED, 9090),
        **dict.fromkeys(ALERTMANAGER_PROXIED, 9093),
        **dict.fromkeys(LOKI_PROXIED, gateway),
    }
    policies = [each.body for each in namespaces.manifests(INTRA) if each.kind == "NetworkPolicy"]
    inside = [policy for policy in policies if policy["metadata"]["namespace"] == MONITORING_NAMESPACE]
    api_server = PacketEnd(namespace=None, address=str(INTRA[0][3]))
    for service, port in of_pods.items():
        assert admits(inside, api_server, PacketEnd(namespace=MONITORING_NAMESPACE), port), service


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
    assert json.loads(mesh.histogram_buckets())["istiocustom"] == list(edges)


def test_what_an_admission_rule_reads_beside_the_pod_is_given_to_it() -> None:
    for policy, _ in zip(*[iter(admission.manifests([pool("l4")], ["models.test"]))] * 2, strict=True):
        given = {each["name"] for each in policy.body["spec"]["variables"]}
        text = str([policy.body["spec"]["validations"], policy.body["spec"]["variables"]])
        assert set(re.findall(r"variables\.(\w+)", text)) <= given, policy.role


def test_pods_tolerate_what_the_api_server_gives_them_to_tolerate() -> None:
    (rule,) = [each for each in admission.rules([pool("l4")], ["models.test"]) if each.name == "tolerations-of-own-pool"]
    assert (
        't.key in ["node.kubernetes.io/memory-pressure", "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]'
        in rule.expression
    )


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


def test_with_a_mirror_every_rule_knows_the_proxy_by_it() -> None:
    text = str([rule.expression for rule in admission.rules([pool("l4")], ["models.test"], "registry.test/all")])
    assert "registry.test/all/" in text
    assert "'docker.io/istio/" not in text


def test_a_refusal_by_the_api_server_says_fact_consequence_and_remedy() -> None:
    assert all(rule.message.count(". ") == 2 and rule.message.endswith(".") for rule in admission.rules([pool("l4")], ["models.test"]))


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
    assert gpu_operator.values([pool("l4")])["operator"]["upgradeCRD"] is True, "a hook of the chart applies them"
    assert istio.base_values().get("base", {}).get("enableCRDTemplates", True), "templates of the chart, upgraded like any other"
    assert keda.values("c").get("crds", {}).get("install", True), "templates of the chart, upgraded like any other"
    # The AWS Load Balancer Controller's are applied by hand: `tests/unit/docs/test_day_two_page.py`.


def test_what_the_same_update_may_allow_is_forbidden_and_not_invalid() -> None:
    """Pulumi plans by dry runs, before a namespace is changed: its plan passes over what is forbidden, and ends at what is invalid (`Create`
    in provider/pkg/provider/provider.go of pulumi-kubernetes). Nobody could add a model to a tenant."""
    policies = [
        manifest.body for manifest in admission.manifests([pool("l4")], ["models.example.com"]) if "validations" in manifest.body["spec"]
    ]
    reads = {body["metadata"]["name"] for body in policies if "namespaceObject.metadata.annotations" in str(body["spec"])}
    assert reads == {body["metadata"]["name"] for body in policies if body["spec"]["validations"][0]["reason"] == "Forbidden"}
    assert len(reads) == 2


def test_definitions_that_are_templates_stay_when_their_chart_goes() -> None:
    """Istio's templates and cert-manager's (`crds.keep`) say so themselves; the others say what the values do."""
    assert prometheus.definitions_values()["crds"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert keda.values("c")["crds"]["additionalAnnotations"] == {"helm.sh/resource-policy": "keep"}


def test_the_versions_file_holds_every_chart_that_is_installed_and_no_other() -> None:
    # cert-manager is installed only where an authority is set, as in staging.
    releases = [r for stack in ("sandbox-platform", "staging-platform") for r in layer(stack).of_type("kubernetes:helm.sh/v3:Release")]
    installed = {(r.inputs["chart"], r.inputs["version"]) for r in releases}
    assert installed == {(chart.chart, chart.version) for chart in CHARTS}


def test_every_image_of_a_chart_has_a_tag_that_stays() -> None:
    images = [image for chart in CHARTS for image in chart.images]
    assert len(images) > 20
    assert not [image for image in images if image.partition("@")[0].rpartition(":")[2] in ("", "latest", "main")]
    assert not [chart.chart for chart in CHARTS if not chart.images and chart.chart not in ("base", "prometheus-operator-crds")], (
        "a mirror would miss these"
    )
