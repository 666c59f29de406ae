"""What a tenant contract becomes, by table. Admission and quotas are also tried on a real API server, in
tests/cluster.
"""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from pydantic import ValidationError

from components.labels import QUEUES
from components.model_service import triton, vllm
from components.platform import release_guard
from components.platform.namespaces import NAMESPACES
from components.tenant import access, admission, isolation, priority, quotas, spending
from components.tenant.manifests import TenantPlan, artifact_prefix
from headway.contract.accelerators import Accelerator
from headway.contract.arithmetic.cost import SPOT_DISCOUNT, cost
from headway.contract.model import Model
from headway.contract.placement import WorkloadClass
from headway.contract.reading.tenants import LAYERS
from headway.contract.runtime import Container, Engine, Triton
from headway.contract.served_paths import OPEN
from headway.contract.tenant import Tenant, TenantPriority
from headway.wire import LEDGER_LEASES, LEDGER_VERIFICATIONS
from tests.components.contracts import MODELS, POOLS, SURROUNDINGS, document, service, tenant


def named(items: list[tuple[str, dict[str, Any]]], role: str) -> dict[str, Any]:
    return dict(items)[role]


def plan(name: str = "vision") -> TenantPlan:
    return TenantPlan(tenant=tenant(name), models=(MODELS["defects"], MODELS["embeddings"]), pools=POOLS, surroundings=SURROUNDINGS)


def test_every_gpu_resource_is_granted_or_refused_by_name() -> None:
    hard = named(quotas.resource_quotas(tenant("vision"), []), "quota")["spec"]["hard"]
    granted = {key: value for key, value in hard.items() if "nvidia.com" in key and value != "0"}
    contract = document("vision", "tenant")["quota"]
    assert granted == {
        "requests.nvidia.com/gpu": str(sum(contract["gpus"].values())),
        **{f"requests.nvidia.com/mig-{profile}": str(count) for profile, count in contract["mig"].items()},
    }
    assert hard["requests.nvidia.com/gpu.shared"] == "0"


def test_extended_resources_are_quoted_as_requests_only() -> None:
    for _, body in quotas.resource_quotas(tenant("vision"), list(MODELS.values())):
        assert not [key for key in body["spec"]["hard"] if "nvidia.com" in key and not key.startswith("requests.")]


def test_whatever_kind_of_kubernetes_own_a_deployer_may_write_is_counted() -> None:
    role = named(access.roles(tenant("vision")), "deployer")
    written = {
        f"count/{resource}.{group}" if group else resource if resource == "services" else f"count/{resource}"
        for rule in role["rules"]
        if "create" in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        if group in ("", "apps", "policy")
    }
    hard = named(quotas.resource_quotas(tenant("vision"), list(MODELS.values())), "quota")["spec"]["hard"]
    assert len(written) == 4 and {kind for kind in written if not 0 < int(hard.get(kind, 0)) < 100} == set()


def test_the_quota_of_an_accelerator_counts_its_own_classes() -> None:
    body = named(quotas.resource_quotas(tenant("vision"), []), "quota-l4")
    (selector,) = body["spec"]["scopeSelector"]["matchExpressions"]
    assert selector["values"] == ["headway-vision-batch-l4", "headway-vision-latency-l4", "headway-vision-throughput-l4"]
    assert body["spec"]["hard"] == {"requests.nvidia.com/gpu": str(document("vision", "tenant")["quota"]["gpus"]["l4"])}


def test_an_accelerator_that_a_model_uses_in_slices_is_granted_no_whole_gpu() -> None:
    body = named(quotas.resource_quotas(tenant("vision"), [MODELS["embeddings"]]), "quota-a100-80gb")
    assert body["spec"]["hard"] == {"requests.nvidia.com/gpu": "0"}


def test_classes_outside_the_tenants_own_get_no_gpu() -> None:
    body = named(quotas.resource_quotas(tenant("vision"), []), "quota-foreign")
    (selector,) = body["spec"]["scopeSelector"]["matchExpressions"]
    assert selector["operator"] == "NotIn"
    assert len(selector["values"]) == len(WorkloadClass) * len(Accelerator)
    assert set(body["spec"]["hard"].values()) == {"0"}


def test_critical_tenants_come_before_standard_ones_and_batch_comes_last() -> None:
    def value(who: TenantPriority, what: WorkloadClass) -> int:
        return priority.value(who, what)

    latency, throughput, batch = WorkloadClass.LATENCY, WorkloadClass.THROUGHPUT, WorkloadClass.BATCH
    critical, standard = TenantPriority.CRITICAL, TenantPriority.STANDARD
    order = [value(critical, latency), value(critical, throughput), value(standard, latency), value(standard, throughput)]
    assert order == sorted(order, reverse=True)
    assert 0 < value(critical, batch) == value(standard, batch) < order[-1]
    assert max(order) < 1_000_000, "the platform's own pods stand above every tenant"


def test_no_tenant_is_called_as_the_platform_calls_something_of_its_own() -> None:
    roles = [m.name for m in release_guard.manifests("image") if m.kind == "ClusterRole"]
    own = {each.name for each in NAMESPACES} | LAYERS | {name.removeprefix("headway-release-") for name in roles}
    free = list[str]()
    for name in sorted(own | {place.rstrip("/") for place in (LEDGER_LEASES, LEDGER_VERIFICATIONS)}):
        try:
            Tenant.model_validate({**document("vision", "tenant"), "name": name})
            free.append(name)
        except ValidationError as refused:
            assert "name" in str(refused)
    assert free == []


def test_no_model_has_the_name_of_a_tenants_own_rules() -> None:
    rules = spending.token_alert(tenant("assist"), SURROUNDINGS)
    assert rules is not None
    with pytest.raises(ValidationError):
        Model.model_validate({**document("assist", "chat"), "name": rules["metadata"]["name"]})


def test_only_classes_in_use_are_made() -> None:
    classes = [m.name for m in plan().manifests() if m.kind == "PriorityClass"]
    assert classes == ["headway-vision-latency-l4", "headway-vision-throughput-a100-80gb"]


def test_the_namespace_is_restricted_and_in_the_mesh_from_the_start() -> None:
    first, *rest = plan().manifests()
    assert first.kind == "Namespace"
    labels = first.body["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    assert labels["istio-injection"] == "enabled"
    assert all(m.after == ("namespace",) for m in rest if m.body["metadata"].get("namespace"))


def test_nothing_may_talk_to_a_tenant_but_whom_it_names() -> None:
    policies = dict(isolation.network_policies("vision", SURROUNDINGS))
    assert policies["deny"]["spec"] == {"podSelector": {}, "policyTypes": ["Egress", "Ingress"]}
    sources = [next(iter(peer)) for rule in policies["ingress"]["spec"]["ingress"] for peer in rule["from"]]
    assert sources == ["namespaceSelector", "namespaceSelector", "podSelector"]


def test_a_namespace_names_only_the_queues_that_its_autoscalers_may_read() -> None:
    models = (MODELS["defects"], MODELS["defects-night"])
    namespace, *_ = TenantPlan(tenant=tenant("vision"), models=models, pools=POOLS, surroundings=SURROUNDINGS).manifests()
    scaler = next(each.body for each in service("defects-night").manifests() if each.role == "batch-autoscaler")
    (trigger,) = scaler["spec"]["triggers"]
    assert namespace.body["metadata"]["annotations"][QUEUES] == trigger["metadata"]["queueURL"]
    without, *_ = plan().manifests()
    assert QUEUES not in without.body["metadata"]["annotations"]


def test_a_tenants_pods_reach_no_private_address_but_the_identity_agent() -> None:
    egress = dict(isolation.network_policies("vision", SURROUNDINGS))["egress"]["spec"]["egress"]
    blocks = [peer["ipBlock"] for rule in egress for peer in rule["to"] if "ipBlock" in peer]
    assert blocks == [{"cidr": "169.254.170.23/32"}, {"cidr": "0.0.0.0/0", "except": list(isolation.PRIVATE_RANGES)}]
    private, of_pods, link_local = {"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"}, "100.64.0.0/10", "169.254.0.0/16"
    assert set(isolation.PRIVATE_RANGES) == {*private, of_pods, link_local}


def test_the_gateway_refuses_callers_without_a_token_of_the_tenant() -> None:
    rules = dict(access.gateway_rules(tenant("vision"), (), SURROUNDINGS))
    assert rules["hosts"]["spec"]["action"] == "DENY"
    nobody, elsewhere = rules["hosts"]["spec"]["rules"]
    issuer = document("vision", "tenant")["issuers"][0]
    assert nobody["from"] == [{"source": {"notRequestPrincipals": [f"{issuer['issuer']}/*"]}}]
    assert elsewhere["from"] == [{"source": {"requestPrincipals": [f"{issuer['issuer']}/*"]}}]
    assert elsewhere["when"] == [{"key": "request.auth.audiences", "notValues": issuer["audiences"]}]
    hosts = ["*.vision.inference.example.com"]
    assert nobody["to"] == elsewhere["to"] == [{"operation": {"hosts": hosts}}]


def test_servers_are_administered_by_nobody_from_outside_their_pod() -> None:
    container = next(each.runtime for each in MODELS.values() if isinstance(each.runtime, Container))
    rules = dict(isolation.mesh_rules("vision", SURROUNDINGS, [container, MODELS["defects"].runtime]))
    (rule,) = rules["no-administration"]["spec"]["rules"]
    assert {"/v2/repository/*", "/v2/cudasharedmemory*", "/v1/load_lora_adapter"} <= set(rule["to"][0]["operation"]["paths"])
    assert rules["mtls"]["spec"] == {"mtls": {"mode": "STRICT"}}


def test_of_servers_that_are_known_nothing_but_what_asks_a_model_is_open() -> None:
    rules = dict(isolation.mesh_rules("vision", SURROUNDINGS, [MODELS["chat"].runtime]))["no-administration"]["spec"]
    assert rules["action"] == "DENY"
    (operation,) = [each["operation"] for each in rules["rules"][0]["to"]]
    assert set(operation) == {"notPaths"} and "/v1/chat/completions" in operation["notPaths"]
    assert not [path for path in operation["notPaths"] if path.startswith("/v2")], "those of a server that it does not have"


def test_what_the_platform_itself_asks_of_a_server_is_open() -> None:
    runtime = MODELS["defects"].runtime
    assert isinstance(runtime, Triton)
    asked = {
        path(runtime.models[0]).replace(runtime.models[0].name, "{*}").replace("/1/", "/{*}/")
        for path in (triton.infer_path, triton.ready_path)
    }
    assert asked <= set(OPEN[Engine.TRITON])
    assert {vllm.COMPLETIONS, *vllm.PATH_BY_KEY.values()} <= set(OPEN[Engine.VLLM])


def test_viewers_change_nothing_and_nobody_reads_secrets() -> None:
    roles = dict(access.roles(tenant("vision")))
    assert {verb for rule in roles["viewer"]["rules"] for verb in rule["verbs"]} == {"get", "list", "watch"}
    for role in ("viewer", "deployer"):
        resources = {resource for rule in roles[role]["rules"] for resource in rule["resources"]}
        assert not resources & {"secrets", "pods/exec", "pods/attach", "pods/portforward", "*"}


def test_only_release_runners_may_run_commands_in_replicas() -> None:
    objects = dict(access.roles(tenant("vision")))
    deployer, runner = objects["deployer"]["rules"], objects["runner"]["rules"]
    assert [rule for rule in runner if rule not in deployer] == [
        {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create", "get"]}
    ]
    assert [rule for rule in deployer if rule not in runner] == []
    assert [subject["name"] for subject in objects["runners"]["subjects"]] == ["vision-releases"]
    without = tenant("vision").model_copy(update={"people": tenant("vision").people.model_copy(update={"runners": ()})})
    assert not {"runner", "runners"} & set(dict(access.roles(without)))


def test_releasing_only_reads_outside_the_tenants_namespace() -> None:
    objects = dict(access.roles(tenant("vision")))
    everywhere = objects["release-room"]["rules"]
    assert {verb for rule in everywhere for verb in rule["verbs"]} == {"get", "list"}
    assert [rule["resources"] for rule in everywhere if "list" in rule["verbs"]] == [["nodes"], ["pods"]]
    assert [subject["name"] for subject in objects["release-rooms"]["subjects"]] == ["vision-ml-engineers", "vision-releases"]


def test_releasing_asks_each_replica_of_prometheus_by_get_and_nothing_else() -> None:
    objects = dict(access.roles(tenant("vision")))
    role, binding = objects["release-metrics"], objects["release-metrics-readers"]
    assert role["metadata"]["namespace"] == binding["metadata"]["namespace"] == "monitoring"
    assert {verb for rule in role["rules"] for verb in rule["verbs"]} == {"get"}
    proxied = [rule for rule in role["rules"] if rule["resources"] == ["services/proxy"]]
    assert [rule["resourceNames"] for rule in proxied] == [
        ["kube-prometheus-stack-prometheus-0:9090", "kube-prometheus-stack-prometheus-1:9090"]
    ]
    # A refresh of the tenant's stack reads both objects by the runner's rights.
    assert [rule["resourceNames"] for rule in role["rules"] if rule not in proxied] == [[role["metadata"]["name"]]] * 2
    assert [subject["name"] for subject in binding["subjects"]] == ["vision-ml-engineers", "vision-releases"]


def test_deployers_change_releases_and_not_what_bounds_them() -> None:
    rules = dict(access.roles(tenant("vision")))["deployer"]["rules"]
    changed = {resource for rule in rules if "patch" in rule["verbs"] for resource in rule["resources"]}
    assert changed == {
        "configmaps",
        "deployments",
        "destinationrules",
        "poddisruptionbudgets",
        "scaledobjects",
        "services",
        "sidecars",
        "virtualservices",
    }


def test_a_pool_takes_classes_of_its_accelerator_and_batch_keeps_to_its_pools() -> None:
    table = admission.pools_by_class("vision", POOLS)
    assert table["headway-vision-batch-l4"] == ["l4-spot"]
    assert table["headway-vision-latency-l4"] == ["l4", "l4-dense", "l4-mps", "l4-slice"]
    assert table["headway-vision-throughput-h100"] == ["h100", "h100-mig"]
    assert "headway-vision-latency-h200" not in table


def test_a_pod_without_credentials_is_refused_where_somebody_gives_them() -> None:
    def said(**known: Any) -> str:
        surroundings = replace(SURROUNDINGS, **known)
        plan = TenantPlan(tenant=tenant("vision"), models=(), pools=POOLS, surroundings=surroundings)
        (policy,) = [m.body for m in plan.manifests() if m.role == "admission"]
        return str(policy["spec"]["validations"])

    assert "AWS_CONTAINER_CREDENTIALS_FULL_URI" in said(credentials=True)
    assert "AWS_CONTAINER_CREDENTIALS_FULL_URI" not in said(credentials=False), "the sandbox's pods would all be refused"


def test_what_refuses_a_pod_without_credentials_names_its_account() -> None:
    ((_, policy), _) = admission.admission("vision", POOLS, "vision-models")
    assert {frozenset(each) - {"message", "messageExpression"} for each in policy["spec"]["validations"]} == {
        frozenset({"expression", "reason"})
    }
    refusal = policy["spec"]["validations"][-1]
    assert "object.spec.serviceAccountName != 'vision-models'" in refusal["expression"]
    assert "service account vision-models." in refusal["message"]


def test_an_alert_tells_a_tenant_that_exceeds_its_token_quota() -> None:
    alert = spending.token_alert(tenant("assist"), SURROUNDINGS)
    assert alert is not None
    (rule,) = alert["spec"]["groups"][0]["rules"]
    assert rule["expr"] == (
        'sum(rate(vllm:generation_tokens_total{platform_io_tenant="assist"}[5m]))'
        ' + sum(rate(vllm:prompt_tokens_total{platform_io_tenant="assist"}[5m])) > 25000'
    )
    assert spending.token_alert(tenant("vision"), SURROUNDINGS) is None


@pytest.mark.parametrize(
    ("name", "resource", "dollars"),
    [
        ("h100", "nvidia.com/gpu", 1),
        ("h100-mig", "nvidia.com/mig-3g.40gb", Decimal("0.5")),
        ("l4-slice", "nvidia.com/gpu.shared", Decimal("0.25")),
        ("l4-spot", "nvidia.com/gpu", SPOT_DISCOUNT),
    ],
)
def test_a_device_costs_its_part_of_its_instance(name: str, resource: str, dollars: Decimal) -> None:
    pool = next(each for each in POOLS if each.name == name)
    assert spending.device_hour(pool, resource) == pool.instance_type.price.dollars / pool.instance_type.gpus * dollars


def test_a_replica_is_charged_as_its_contract_reckons_it() -> None:
    model, l4 = Model.model_validate(document("vision", "defects")), next(each for each in POOLS if each.name == "l4")
    assert model.envelope.gpu.resource == "nvidia.com/gpu"
    charged = spending.device_hour(l4, model.envelope.gpu.resource) * model.envelope.gpu.count
    assert abs(charged - cost(model, l4).replica_hour.dollars) < Decimal("0.000001")


def test_every_device_that_pools_offer_counts_for_the_budget() -> None:
    recorded, *alerts = spending.budget_alert(tenant("vision"), POOLS, SURROUNDINGS)["spec"]["groups"][0]["rules"]
    assert recorded["expr"].count('namespace="vision"') == sum(len(pool.resources_per_node) for pool in POOLS)
    assert len(alerts) == 2
    assert all("> 18000" in each["expr"] for each in alerts)
    assert all(tenant("vision").owner in each["annotations"]["description"] for each in alerts)


def test_an_environment_without_pools_costs_nothing() -> None:
    recorded, *_ = spending.budget_alert(tenant("vision"), (), SURROUNDINGS)["spec"]["groups"][0]["rules"]
    assert recorded["expr"] == "vector(0)"


@pytest.mark.parametrize(
    ("uri", "prefix"),
    [
        ("s3://models/vision/defects/1/", "models/vision/"),
        ("s3://models/vision/vision/1/", "models/vision/"),
    ],
)
def test_an_identity_reaches_up_to_the_tenants_own_part_of_a_prefix(uri: str, prefix: str) -> None:
    assert artifact_prefix("vision", uri) == prefix


def test_a_quota_grants_what_the_contract_says_and_no_pod_more() -> None:
    contract = Tenant.model_validate(
        {**document("vision", "tenant"), "quota": {**document("vision", "tenant")["quota"], "gpus": {"l4": 2}, "mig": {}}}
    )
    hard = named(quotas.resource_quotas(contract, []), "quota")["spec"]["hard"]
    assert hard["pods"] == "12"
    cpu = document("vision", "tenant")["quota"]["cpu"]
    assert hard["requests.cpu"] == str(cpu)
