"""The way in: a Service whose load balancer sends to the pods themselves, and does not know its callers' addresses."""

import json
from ipaddress import IPv4Network
from types import SimpleNamespace
from typing import Any

import pytest

from components.addons import istio, load_balancer
from components.platform import gateway_service, mesh, namespaces
from components.platform.admission import LONGEST_GRACE_SECONDS
from headway.contract.health import LONGEST_DRAIN
from headway.contract.units import Duration
from headway.wire import GATEWAY_NAMESPACE

OFFICE = IPv4Network("10.1.0.0/16")
PREFIX = "service.beta.kubernetes.io/aws-load-balancer-"


def body(*, public: bool = False, encrypted: bool = True) -> Any:
    return gateway_service.manifest(public=public, encrypted=encrypted, clients=[OFFICE], subnets=["a", "b"]).body


@pytest.mark.parametrize(("public", "scheme"), [(True, "internet-facing"), (False, "internal")])
def test_the_load_balancer_faces_the_internet_only_if_chosen(public: bool, scheme: str) -> None:
    assert body(public=public)["metadata"]["annotations"][f"{PREFIX}scheme"] == scheme


def test_connections_go_to_the_pods_and_not_by_way_of_a_node() -> None:
    made = body()
    assert made["metadata"]["annotations"][f"{PREFIX}nlb-target-type"] == "ip"
    assert made["spec"]["allocateLoadBalancerNodePorts"] is False


def test_a_caller_in_the_cluster_is_answered_by_way_of_the_balancer() -> None:
    attributes = body()["metadata"]["annotations"][f"{PREFIX}target-group-attributes"].split(",")
    assert "preserve_client_ip.enabled=false" in attributes


def test_a_pod_that_ends_gets_no_new_connections_while_it_drains() -> None:
    attributes = body()["metadata"]["annotations"][f"{PREFIX}target-group-attributes"].split(",")
    assert "deregistration_delay.timeout_seconds=520" in attributes


@pytest.mark.parametrize("encrypted", [False, True])
def test_the_balancer_keeps_a_connection_as_long_as_a_request_may_be_silent(encrypted: bool) -> None:
    made = body(encrypted=encrypted)
    for port in made["spec"]["ports"]:
        _, _, seconds = made["metadata"]["annotations"][f"{PREFIX}listener-attributes.TCP-{port['port']}"].partition(
            "tcp.idle_timeout.seconds="
        )
        assert mesh.SILENT_SECONDS < int(seconds) <= 6000


def test_a_gateway_that_ends_finishes_the_longest_request_of_any_contract() -> None:
    values = istio.gateway_values(replicas_min=2, replicas_max=2, histogram_buckets="{}")
    drains = Duration.parse(json.loads(values["podAnnotations"]["proxy.istio.io/config"])["terminationDrainDuration"])
    assert drains >= LONGEST_DRAIN
    assert drains.seconds < values["terminationGracePeriodSeconds"] <= LONGEST_GRACE_SECONDS


def test_the_cloud_provider_of_the_cluster_leaves_the_service_alone() -> None:
    assert body()["spec"]["loadBalancerClass"] == "service.k8s.aws/nlb"


def test_only_ranges_of_the_settings_may_connect() -> None:
    assert body()["spec"]["loadBalancerSourceRanges"] == ["10.1.0.0/16"]


@pytest.mark.parametrize(("encrypted", "ports"), [(False, [80]), (True, [80, 443])])
def test_there_is_a_port_for_tls_only_with_a_certificate(encrypted: bool, ports: list[int]) -> None:
    assert [each["port"] for each in body(encrypted=encrypted)["spec"]["ports"]] == ports


def test_the_service_picks_the_pods_of_the_chart_which_makes_none_itself() -> None:
    values = istio.gateway_values(replicas_min=2, replicas_max=2, histogram_buckets="{}")
    assert values["service"] == {"type": "None"}
    assert body()["spec"]["selector"].items() <= values["labels"].items()


def test_pods_of_the_gateway_wait_until_the_balancer_finds_them_healthy() -> None:
    made = {each.name: each.body for each in namespaces.manifests([]) if each.kind == "Namespace"}
    gated = [name for name, each in made.items() if "elbv2.k8s.aws/pod-readiness-gate-inject" in each["metadata"]["labels"]]
    assert gated == [GATEWAY_NAMESPACE]


def test_the_port_that_the_balancer_probes_is_open() -> None:
    (gateway,) = [each for each in namespaces.NAMESPACES if each.name == GATEWAY_NAMESPACE]
    assert gateway_service.READY_PORT in gateway.open_to_all
    assert body()["metadata"]["annotations"][f"{PREFIX}healthcheck-port"] == "15021"


def test_the_address_is_what_the_status_names_and_nothing_before() -> None:
    given = SimpleNamespace(load_balancer=SimpleNamespace(ingress=[SimpleNamespace(hostname="a.elb.example")]))
    assert gateway_service.address(given) == "a.elb.example"
    assert gateway_service.address(SimpleNamespace(load_balancer=SimpleNamespace(ingress=None))) is None
    assert gateway_service.address(None) is None


def test_no_service_but_the_gateway_waits_for_the_controller() -> None:
    values = load_balancer.values("c", "r", "v", {})
    assert values["enableServiceMutatorWebhook"] is False
    assert values["webhookConfig"]["disableIngressValidation"] is True


def test_the_controller_asks_nothing_that_only_a_nat_leads_to() -> None:
    values = load_balancer.values("c", "r", "v", {})
    assert (values["enableShield"], values["enableWaf"], values["enableWafv2"]) == (False, False, False)
    asked = {action.partition(":")[0] for each in load_balancer.permissions("c", "1", "r") for action in each.actions}
    # The role for load balancers is made by the service itself, on the caller's behalf.
    assert asked - {"iam"} == {"ec2", "elasticloadbalancing"}


def test_the_certificate_of_the_webhooks_is_kept_over_upgrades() -> None:
    assert load_balancer.values("c", "r", "v", {})["keepTLSSecret"] is True


def test_the_controller_changes_load_balancers_of_its_own_cluster_only() -> None:
    changing = {each.sid: each for each in load_balancer.permissions("mine", "1", "r")}
    assert changing["ChangeBalancers"].conditions == {"StringEquals": {"aws:ResourceTag/elbv2.k8s.aws/cluster": "mine"}}
    assert changing["MakeBalancers"].conditions == {"StringEquals": {"aws:RequestTag/elbv2.k8s.aws/cluster": "mine"}}
    assert changing["OpenNodes"].conditions == {"StringEquals": {"aws:ResourceTag/kubernetes.io/cluster/mine": "owned"}}


def test_the_address_is_read_from_the_apis_own_document_too() -> None:
    assert gateway_service.address({"loadBalancer": {"ingress": [{"hostname": "a.elb.example"}]}}) == "a.elb.example"
    assert gateway_service.address({"loadBalancer": {}}) is None
