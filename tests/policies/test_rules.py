"""Each rule: content with the good world, and breached by one spoilt place."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.model_service.manifests import ServicePlan
from headway.contract.placement import WorkloadClass
from policies.guardrails.refused_examples import AP, CR, NG, NP, POD, RA, REFUSED_EXAMPLES, SERVER, SO, VAPB, VS, C, D
from policies.guardrails.registry import PACKS, RULES
from policies.guardrails.rule import evaluate
from policies.guardrails.supply_chain import registry
from policies.guardrails.view import UNKNOWN, InputNode, ResourceView, canonical
from policies.guardrails.workloads import HELM_RELEASE, gpu_demand
from tests.components.contracts import EMBEDDINGS, SURROUNDINGS, changed, pool_of
from tests.components.strangers import rendered, stranger
from tests.policies.world import DIGEST, GOOD, spoilt

BY_ID = {rule.id: rule for rule in RULES}
TOLD_ELSEWHERE = {"bucket-protected", "image-registry-allowed", "iam-no-long-lived-credentials", "tenant-quota-not-exceeded"}


def resource(
    type: str, properties: dict[str, Any], state: dict[str, Any] | None = None, name: str = "x", *, protect: bool = True
) -> ResourceView:
    return ResourceView(type, name, f"urn:pulumi:s::p::{type}::{name}", InputNode(properties), protect, {} if state is None else state)


@pytest.mark.parametrize("type", sorted(GOOD))
def test_no_rule_objects_to_a_well_made_resource(type: str) -> None:
    breaches = {r.id: v.breaches for r in RULES if r.covers(type) for v in [evaluate(r, resource(type, GOOD[type]))] if v.breaches}
    assert breaches == {}


def judged(body: dict[str, Any]) -> list[str]:
    """What rules object to in an object of a tenant's."""
    type = f"kubernetes:{'' if '/' in body['apiVersion'] else 'core/'}{body['apiVersion']}:{body['kind']}"
    known = json.loads(json.dumps(body))
    return [str(found) for rule in RULES if rule.covers(type) for found in evaluate(rule, resource(type, known)).breaches]


@pytest.mark.parametrize("seed", range(20))
def test_no_rule_objects_to_what_a_valid_contract_becomes(seed: int) -> None:
    at_zero = stranger(seed).scaling.min_replicas == 0 and stranger(seed).workload_class is WorkloadClass.LATENCY
    assert at_zero or [found for body in rendered(stranger(seed)) for found in judged(body)] == []


def test_no_rule_objects_to_a_service_that_sleeps() -> None:
    model = changed(EMBEDDINGS, scaling__min_replicas=0)
    bodies = [dict(each.body) for each in ServicePlan.of("vision", model, pool_of(model), SURROUNDINGS).manifests()]
    assert "activate.vision.embeddings" in {each["metadata"]["name"] for each in bodies}
    assert [found for body in bodies for found in judged(body)] == []


@pytest.mark.parametrize(("rule", "type", "place", "value", "path"), REFUSED_EXAMPLES, ids=[m[0] for m in REFUSED_EXAMPLES])
def test_a_rule_names_the_place_of_the_breach(rule: str, type: str, place: tuple[str | int, ...], value: Any, path: str) -> None:
    assert BY_ID[rule].covers(type)
    verdict = evaluate(BY_ID[rule], resource(type, spoilt(type, place, value)))
    assert path in [b.dotted for b in verdict.breaches]


@pytest.mark.parametrize(("rule", "type", "place", "value", "path"), REFUSED_EXAMPLES, ids=[m[0] for m in REFUSED_EXAMPLES])
def test_a_rule_reads_well_made_inputs_and_calls_what_they_name(
    rule: str, type: str, place: tuple[str | int, ...], value: Any, path: str
) -> None:
    breaches = evaluate(BY_ID[rule], resource(type, spoilt(type, place, value))).breaches
    assert not [b.fact for b in breaches if re.search(r"\bNone\b|cannot read", b.fact)]


def test_every_rule_has_its_mutation() -> None:
    assert {m[0] for m in REFUSED_EXAMPLES} | TOLD_ELSEWHERE == set(BY_ID)


def test_a_message_says_fact_consequence_and_remedy() -> None:
    rule = BY_ID["image-by-digest"]
    (breach,) = evaluate(rule, resource(D, spoilt(D, (*SERVER, "image"), "triton:latest"))).breaches
    fact, consequence, remedy = str(breach).splitlines()
    assert breach.rule == "image-by-digest"
    assert fact == "spec.template.spec.containers[0].image: triton:latest is not named by a digest."
    assert "rollback would not bring it back" in consequence
    assert remedy.startswith("  Remedy: Write image:")


def test_the_digest_of_a_starter_is_a_placeholder_and_no_digest() -> None:
    starter = spoilt(D, (*SERVER, "image"), "nvcr.io/nvidia/tritonserver@sha256:" + "0" * 64)
    (breach,) = evaluate(BY_ID["image-by-digest"], resource(D, starter)).breaches
    assert "placeholder" in breach.fact


def test_a_secret_is_never_repeated_in_a_message() -> None:
    spoiled = spoilt(D, (*SERVER, "env", 0), {"name": "DB_PASSWORD", "value": "hunter2"})
    rule = BY_ID["no-secret-in-environment"]
    assert all("hunter2" not in str(b) for b in evaluate(rule, resource(D, spoiled)).breaches)


def test_a_secret_is_found_beside_a_value_that_nobody_knows_yet() -> None:
    variables = [{"name": "PEER", "value": UNKNOWN}, {"name": "DB_PASSWORD", "value": "hunter2"}]
    verdict = evaluate(BY_ID["no-secret-in-environment"], resource(D, spoilt(D, (*SERVER, "env"), variables)))
    assert (len(verdict.breaches), verdict.unevaluated) == (1, None)


def test_a_token_limit_is_no_secret() -> None:
    fine = spoilt(D, (*SERVER, "env", 0), {"name": "MAX_TOKENS_PER_REQUEST", "value": "4096"})
    assert evaluate(BY_ID["no-secret-in-environment"], resource(D, fine)).breaches == ()


def test_an_image_from_elsewhere_is_refused_once_registries_are_listed() -> None:
    rule, allowed = BY_ID["image-registry-allowed"], {"registries": ["*.dkr.ecr.eu-west-1.amazonaws.com"]}
    assert evaluate(rule, resource(D, GOOD[D])).breaches == ()
    (breach,) = evaluate(rule, resource(D, GOOD[D]), allowed).breaches
    assert "nvcr.io is not among" in breach.fact
    mirrored = spoilt(D, (*SERVER, "image"), f"1.dkr.ecr.eu-west-1.amazonaws.com/triton@{DIGEST}")
    assert evaluate(rule, resource(D, mirrored), allowed).breaches == ()


@pytest.mark.parametrize(
    ("image", "host"),
    [("triton", "docker.io"), ("nvidia/triton", "docker.io"), ("nvcr.io/nvidia/triton", "nvcr.io"), ("localhost:5000/a", "localhost:5000")],
)
def test_an_image_name_without_a_registry_means_docker_hub(image: str, host: str) -> None:
    assert registry(image) == host


@pytest.mark.parametrize("type", ["aws:iam/user:User", "aws:iam/accessKey:AccessKey"])
def test_long_lived_credentials_are_refused_whatever_they_say(type: str) -> None:
    (breach,) = evaluate(BY_ID["iam-no-long-lived-credentials"], resource(type, {})).breaches
    assert breach.fact == f"{type.rpartition(':')[2]} creates a long-lived credential"


@pytest.mark.parametrize("type", ["aws:s3/bucket:Bucket", "aws:kms/key:Key"])
def test_a_bucket_and_its_key_are_protected_unless_disposable(type: str) -> None:
    rule, bare = BY_ID["bucket-protected"], resource(type, GOOD[type], protect=False)
    assert [b.dotted for b in evaluate(rule, bare).breaches] == ["(options).protect"]
    assert evaluate(rule, bare, {"required": False}).breaches == ()


@pytest.mark.parametrize(
    ("low", "high", "types", "places"),
    [
        (3, 6, ["m7i.xlarge"], []),
        (3, 4, ["m7i.xlarge"], []),
        (2, 6, ["m7i.xlarge"], ["scalingConfig.minSize"]),
        (3, 3, ["m7i.xlarge"], ["scalingConfig.maxSize"]),
        (2, 4, ["m7i.large"], ["scalingConfig.minSize", "scalingConfig.maxSize"]),
        (4, 6, ["m7i.large"], ["scalingConfig.minSize", "scalingConfig.maxSize"]),
        (3, 6, ["m7i.xlarge", "m7i.large"], ["scalingConfig.minSize", "scalingConfig.maxSize"]),
    ],
)
def test_system_nodes_without_room_for_the_platform_are_refused(low: int, high: int, types: list[str], places: list[str]) -> None:
    nodes = {"labels": {"workload": "system"}, "instanceTypes": types, "scalingConfig": {"minSize": low, "maxSize": high}}
    verdict = evaluate(BY_ID["system-nodes-hold-the-platform"], resource(NG, {**GOOD[NG], **nodes}))
    assert [b.dotted for b in verdict.breaches] == places


def test_a_floating_launch_template_is_no_pinned_release() -> None:
    floating = spoilt(NG, ("launchTemplate", "version"), "$Latest")
    assert [b.dotted for b in evaluate(BY_ID["node-release-pinned"], resource(NG, floating)).breaches] == ["launchTemplate.version"]


def test_a_statement_for_everyone_may_be_bound_by_a_condition() -> None:
    bound = {"Statement": [{"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Condition": {"StringEquals": {"a": "b"}}}]}
    policy = "aws:s3/bucketPolicy:BucketPolicy"
    assert evaluate(BY_ID["resource-policy-not-public"], resource(policy, {"policy": bound})).breaches == ()
    open_ = {"Statement": [{"Effect": "Allow", "Principal": ["*"], "Action": "s3:GetObject"}]}
    assert len(evaluate(BY_ID["resource-policy-not-public"], resource(policy, {"policy": open_})).breaches) == 1


QUOTA, SCALER = GOOD["kubernetes:core/v1:ResourceQuota"], GOOD[SO]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (0, 2, 1), (1, 0, 2), (2, 0, 1)])
def test_a_quota_exceeded_at_maximum_replicas_is_found_in_any_order(order: tuple[int, ...]) -> None:
    scaler = spoilt(SO, ("spec", "maxReplicaCount"), 5)
    planned = [("kubernetes:core/v1:ResourceQuota", QUOTA), (D, GOOD[D]), (SO, scaler)]
    state: dict[str, Any] = {}
    breaches = [b for i in order for b in evaluate(BY_ID["tenant-quota-not-exceeded"], resource(*planned[i], state)).breaches]
    assert [b.fact for b in breaches] == [
        "at maximum replicas namespace vision would use 5 nvidia.com/gpu (defects-r1 5 x 1); its quota is 4"
    ]


def test_a_quota_that_just_holds_is_no_breach() -> None:
    state: dict[str, Any] = {}
    for type, properties in [("kubernetes:core/v1:ResourceQuota", QUOTA), (D, GOOD[D]), (SO, SCALER)]:
        assert evaluate(BY_ID["tenant-quota-not-exceeded"], resource(type, properties, state)).breaches == ()


def test_two_workloads_share_one_quota() -> None:
    state: dict[str, Any] = {}
    rule = BY_ID["tenant-quota-not-exceeded"]
    evaluate(rule, resource("kubernetes:core/v1:ResourceQuota", QUOTA, state))
    first = spoilt(D, ("spec", "replicas"), 3)
    second = spoilt(D, ("spec", "replicas"), 2)
    second["metadata"]["name"] = "other"
    assert evaluate(rule, resource(D, first, state)).breaches == ()
    (breach,) = evaluate(rule, resource(D, second, state)).breaches
    assert "would use 5 nvidia.com/gpu (defects-r1 3 x 1, other 2 x 1)" in breach.fact


def test_a_public_endpoint_needs_named_networks_even_where_it_is_allowed() -> None:
    rule, allowed = BY_ID["cluster-endpoint-private"], {"publicEndpoint": True}
    anywhere = spoilt(C, ("vpcConfig", "endpointPublicAccess"), True)
    assert len(evaluate(rule, resource(C, anywhere), allowed).breaches) == 1
    anywhere["vpcConfig"]["publicAccessCidrs"] = ["203.0.113.0/24"]
    assert evaluate(rule, resource(C, anywhere), allowed).breaches == ()


def test_an_unknown_value_is_reported_and_not_judged() -> None:
    unknown = spoilt(D, (*SERVER, "image"), UNKNOWN)
    verdict = evaluate(BY_ID["image-by-digest"], resource(D, unknown))
    assert (verdict.breaches, verdict.unevaluated) == ((), "spec.template.spec.containers[0].image")


def test_a_breach_found_before_an_unknown_value_still_counts() -> None:
    mixed = spoilt(D, (*POD, "initContainers"), [{"name": "fetch", "image": "fetch:latest"}])
    mixed["spec"]["template"]["spec"]["containers"][0]["image"] = UNKNOWN
    verdict = evaluate(BY_ID["image-by-digest"], resource(D, mixed))
    assert [b.dotted for b in verdict.breaches] == ["spec.template.spec.initContainers[0].image"]
    assert verdict.unevaluated is not None


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.id)
def test_a_rule_says_why_and_what_to_do(rule: Any) -> None:
    assert rule.title.endswith(".")
    assert rule.rationale.endswith((".", ")."))
    assert rule.remedy


def test_every_rule_belongs_to_a_pack() -> None:
    assert {r.id for pack in PACKS.values() for r in pack} == set(BY_ID)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 200) | st.text(max_size=8) | st.just(UNKNOWN),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["spec", "containers", "resources", "limits", "name"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(place=st.sampled_from([(m[1], m[2]) for m in REFUSED_EXAMPLES]), value=JSON)
def test_no_shape_of_input_makes_a_rule_fail(place: tuple[str, tuple[str | int, ...]], value: Any) -> None:
    type, path = place
    for rule in RULES:
        if rule.covers(type):
            evaluate(rule, resource(type, spoilt(type, path, value)))


def test_a_shape_that_a_rule_cannot_read_is_a_breach_that_does_not_repeat_it() -> None:
    odd = spoilt(D, (*SERVER, "resources", "limits", "nvidia.com/gpu"), "hunter2")
    (breach,) = evaluate(BY_ID["tenant-quota-not-exceeded"], resource(D, odd)).breaches
    assert "cannot read (ValueError)" in breach.fact
    assert "hunter2" not in breach.fact


def test_listing_everything_needs_no_condition_if_the_action_has_no_resource() -> None:
    listing = {"Statement": [{"Effect": "Allow", "Action": ["ec2:DescribeImages"], "Resource": "*"}]}
    reading = {"Statement": [{"Effect": "Allow", "Action": ["ec2:DescribeImages", "s3:GetObject"], "Resource": "*"}]}
    policy = "aws:iam/policy:Policy"
    assert evaluate(BY_ID["iam-no-wildcard"], resource(policy, {"policy": listing})).breaches == ()
    (breach,) = evaluate(BY_ID["iam-no-wildcard"], resource(policy, {"policy": reading})).breaches
    assert breach.fact == "allows s3:GetObject on every resource, without a condition"


def test_a_placeholder_of_the_platform_serves_no_model() -> None:
    bare = spoilt(D, ("spec", "template", "metadata", "labels"), {})
    bare["metadata"]["namespace"] = "warm-capacity"
    for rule in ("gpu-workload-is-labelled", "runtime-allowed"):
        assert evaluate(BY_ID[rule], resource(D, bare)).breaches == ()


GPU_POD = {"containers": [{"name": "a", "image": "x", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}


def wrapped(kind: str) -> tuple[str, dict[str, Any]]:
    """A bare GPU pod as a stranger would write it, inside each kind of workload."""
    if kind == "core/v1:Pod":
        return f"kubernetes:{kind}", {"metadata": {"name": "a"}, "spec": GPU_POD}
    spec: dict[str, Any] = {"template": {"metadata": {}, "spec": GPU_POD}}
    return f"kubernetes:{kind}", {"metadata": {"name": "a"}, "spec": {"jobTemplate": {"spec": spec}} if kind.endswith("CronJob") else spec}


@pytest.mark.parametrize(
    "kind",
    [
        "apps/v1:DaemonSet",
        "apps/v1:Deployment",
        "apps/v1:ReplicaSet",
        "apps/v1:StatefulSet",
        "batch/v1:CronJob",
        "batch/v1:Job",
        "core/v1:Pod",
        "core/v1:ReplicationController",
    ],
)
def test_every_kind_that_makes_pods_is_bound_by_the_rules_of_gpu_pods(kind: str) -> None:
    type, properties = wrapped(kind)
    broken = {r.id for r in RULES if r.covers(type) and evaluate(r, resource(type, properties)).breaches}
    assert broken >= {
        "image-by-digest",
        "memory-limit-present",
        "gpu-workload-is-labelled",
        "gpu-workload-in-tenant-namespace",
        "runtime-allowed",
    }


def test_a_gpu_that_only_an_init_container_asks_for_is_a_gpu() -> None:
    pod = {"initContainers": GPU_POD["containers"], "containers": [{"name": "b", "image": "y"}]}
    found = resource("kubernetes:core/v1:Pod", {"metadata": {"name": "a"}, "spec": pod})
    assert evaluate(BY_ID["gpu-workload-is-labelled"], found).breaches
    ephemeral = resource("kubernetes:core/v1:Pod", {"spec": {"containers": [], "ephemeralContainers": [{"name": "debug", "image": "sh"}]}})
    assert [b.dotted for b in evaluate(BY_ID["image-by-digest"], ephemeral).breaches] == ["spec.ephemeralContainers[0].image"]


@pytest.mark.parametrize(
    ("init", "main", "asked"),
    [([], [2, 1], 3), ([(4, None)], [1], 4), ([(1, "Always"), (1, "Always")], [1], 3), ([(2, None), (1, "Always")], [2], 3)],
)
def test_a_pods_gpus_count_as_a_quota_counts_them(init: list[tuple[int, str | None]], main: list[int], asked: int) -> None:
    def container(count: int, policy: str | None = None) -> dict[str, Any]:
        return {"resources": {"limits": {"nvidia.com/gpu": count}}, **({"restartPolicy": policy} if policy else {})}

    pod = {"initContainers": [container(*each) for each in init], "containers": [container(count) for count in main]}
    assert gpu_demand(resource("kubernetes:core/v1:Pod", {"spec": pod})) == {"nvidia.com/gpu": asked}


def test_jobs_and_bare_pods_use_the_quota_too() -> None:
    state: dict[str, Any] = {}
    rule = BY_ID["tenant-quota-not-exceeded"]
    evaluate(rule, resource("kubernetes:core/v1:ResourceQuota", QUOTA, state))
    job = {"metadata": {"name": "night", "namespace": "vision"}, "spec": {"parallelism": 4, "template": {"spec": GPU_POD}}}
    assert evaluate(rule, resource("kubernetes:batch/v1:Job", job, state)).breaches == ()
    bare = {"metadata": {"name": "bare", "namespace": "vision"}, "spec": GPU_POD}
    (breach,) = evaluate(rule, resource("kubernetes:core/v1:Pod", bare, state)).breaches
    assert "would use 5 nvidia.com/gpu (bare 1 x 1, night 4 x 1)" in breach.fact


@pytest.mark.parametrize("kind", ["apps/v1:DeploymentPatch", "core/v1:PodPatch", "rbac.authorization.k8s.io/v1:RolePatch"])
def test_a_patch_is_refused_whatever_it_changes(kind: str) -> None:
    assert len(evaluate(BY_ID["objects-are-single-and-whole"], resource(f"kubernetes:{kind}", {"spec": {}})).breaches) == 1


KINDS = sorted(
    {kind for rule in RULES for kind in rule.applies if kind.startswith("kubernetes:") and kind[-1] not in ":/"} - {HELM_RELEASE}
)


@pytest.mark.parametrize("kind", KINDS)
def test_no_patch_or_list_of_a_judged_kind_goes_unjudged(kind: str) -> None:
    whole = BY_ID["objects-are-single-and-whole"]
    for written in (kind, kind.replace("/v1:", "/v1beta1:")):
        assert evaluate(whole, resource(canonical(f"{written}Patch"), {})).breaches
        assert evaluate(whole, resource(canonical(f"{written}List"), {"items": []})).breaches


def test_an_issuer_with_two_sets_of_keys_is_refused() -> None:
    state: dict[str, Any] = {}
    rule = BY_ID["token-issuer-vouched"]
    assert evaluate(rule, resource(RA, GOOD[RA], state)).breaches == ()
    assert evaluate(rule, resource(RA, GOOD[RA], state)).breaches == ()
    other = spoilt(RA, ("spec", "jwtRules", 0, "jwksUri"), "https://keys.example.com/mine")
    assert [b.dotted for b in evaluate(rule, resource(RA, other, state)).breaches] == ["spec.jwtRules[0].jwksUri"]


@pytest.mark.parametrize(
    ("rule", "type", "place"),
    [
        ("network-policy-names-callers", NP, ("spec", "ingress", 1, "from", 1, "ipBlock", "cidr")),
        ("authorization-names-callers", AP, ("spec", "rules", 0, "from", 0, "source", "namespaces")),
        ("admission-denies", VAPB, ("spec", "validationActions")),
        ("role-reads-no-secrets", CR, ("rules", 0, "resources")),
        ("ledger-written-by-prefix", "aws:iam/policy:Policy", ("policy",)),
    ],
)
def test_what_a_preview_does_not_know_is_said_and_not_passed(rule: str, type: str, place: tuple[str | int, ...]) -> None:
    verdict = evaluate(BY_ID[rule], resource(type, spoilt(type, place, UNKNOWN)))
    assert verdict.unevaluated is not None
    assert verdict.breaches == ()


@pytest.mark.parametrize(
    ("written", "known"),
    [
        ("kubernetes:v1:Pod", "kubernetes:core/v1:Pod"),
        ("kubernetes:networking.istio.io/v1beta1:VirtualService", VS),
        ("kubernetes:networking.istio.io/v1alpha3:VirtualService", VS),
        ("kubernetes:security.istio.io/v1beta1:PeerAuthentication", "kubernetes:security.istio.io/v1:PeerAuthentication"),
        (D, D),
        (NG, NG),
        ("kubernetes:example.com/v1beta1:Thing", "kubernetes:example.com/v1beta1:Thing"),
    ],
)
def test_an_object_has_one_name_whatever_version_it_is_written_in(written: str, known: str) -> None:
    assert canonical(written) == known
