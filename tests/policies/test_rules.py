"""Each rule: content with the good world, and breached by one spoilt place."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.wire import RELEASE, WORKLOAD_CLASS
from policies.guardrails.registry import PACKS, RULES
from policies.guardrails.rule import evaluate
from policies.guardrails.supply_chain import registry
from policies.guardrails.view import UNKNOWN, InputNode, ResourceView, canonical
from policies.guardrails.workloads import HELM_RELEASE, gpu_demand
from tests.policies.world import ABSENT, DIGEST, GOOD, spoilt

BY_ID = {rule.id: rule for rule in RULES}
D, NG, LT = "kubernetes:apps/v1:Deployment", "aws:eks/nodeGroup:NodeGroup", "aws:ec2/launchTemplate:LaunchTemplate"
C, SO = "aws:eks/cluster:Cluster", "kubernetes:keda.sh/v1alpha1:ScaledObject"
EF = "kubernetes:networking.istio.io/v1:EnvoyFilter"
VS, ECR = "kubernetes:networking.istio.io/v1:VirtualService", "aws:ecr/repository:Repository"
POD = ("spec", "template", "spec")
SERVER = (*POD, "containers", 0)

UNBOUNDED = {"Sid": "Make", "Effect": "Allow", "Action": ["iam:CreateRole"], "Resource": ["arn:aws:iam::1:role/headway-*"]}

WRITES_ALL = {"Sid": "Write", "Effect": "Allow", "Action": ["s3:PutObject"], "Resource": ["arn:aws:s3:::headway-prod-ledger-1/*"]}
RBAC, HOOKS = "kubernetes:rbac.authorization.k8s.io/v1:", "kubernetes:admissionregistration.k8s.io/v1:"
CR, NP = f"{RBAC}ClusterRole", "kubernetes:networking.k8s.io/v1:NetworkPolicy"
AP, RA = "kubernetes:security.istio.io/v1:AuthorizationPolicy", "kubernetes:security.istio.io/v1:RequestAuthentication"
DR, SC, SE = (f"kubernetes:networking.istio.io/v1:{kind}" for kind in ("DestinationRule", "Sidecar", "ServiceEntry"))
VAP, VAPB, MWC = (
    f"{HOOKS}{kind}" for kind in ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "MutatingWebhookConfiguration")
)
ANP, WASM = "kubernetes:policy.networking.k8s.io/v1alpha1:AdminNetworkPolicy", "kubernetes:extensions.istio.io/v1:WasmPlugin"

MUTATIONS: list[tuple[str, str, tuple[str | int, ...], Any, str]] = [
    # rule, type, spoilt place, value, path that the message names
    ("gpu-limits-equal-requests", D, (*SERVER, "resources", "limits", "nvidia.com/gpu"), "2", "spec.template.spec.containers[0].resources.limits.nvidia.com/gpu"),
    ("gpu-amount-is-whole", D, (*SERVER, "resources", "limits", "nvidia.com/gpu"), "0.5", "spec.template.spec.containers[0].resources.limits.nvidia.com/gpu"),
    ("memory-limit-present", D, (*SERVER, "resources", "limits", "memory"), ABSENT, "spec.template.spec.containers[0].resources.limits.memory"),
    ("requests-present", D, (*SERVER, "resources", "requests", "cpu"), ABSENT, "spec.template.spec.containers[0].resources.requests.cpu"),
    ("one-gpu-kind-per-pod", D, (*SERVER, "resources", "limits", "nvidia.com/mig-1g.10gb"), "1", "spec.template.spec"),
    ("shared-gpu-is-single", D, (*SERVER, "resources", "limits", "nvidia.com/gpu.shared"), "2", "spec.template.spec.containers[0].resources.limits.nvidia.com/gpu.shared"),
    ("gpus-per-pod-bounded", D, (*SERVER, "resources", "limits", "nvidia.com/gpu"), "9", "spec.template.spec"),
    ("memory-volume-bounded", D, (*POD, "volumes", 0, "emptyDir", "sizeLimit"), ABSENT, "spec.template.spec.volumes[0].emptyDir.sizeLimit"),
    ("image-by-digest", D, (*SERVER, "image"), "nvcr.io/nvidia/tritonserver:26.08-py3", "spec.template.spec.containers[0].image"),
    ("runtime-allowed", D, ("spec", "template", "metadata", "labels", "platform.io/runtime"), "torchserve", "spec.template.metadata.labels.platform.io/runtime"),
    ("image-not-pulled-always", D, (*SERVER, "imagePullPolicy"), "Always", "spec.template.spec.containers[0].imagePullPolicy"),
    ("gpu-workload-is-labelled", D, ("spec", "template", "metadata", "labels", RELEASE), ABSENT, f"spec.template.metadata.labels.{RELEASE}"),
    ("gpu-workload-in-tenant-namespace", D, ("metadata", "namespace"), "default", "metadata.namespace"),
    ("gpu-taint-tolerated-by-gpu-pods-only", D, (*SERVER, "resources"), {"limits": {"cpu": "1"}}, "spec.template.spec.tolerations[0]"),
    ("gpu-pod-names-its-pool", D, (*POD, "nodeSelector"), ABSENT, "spec.template.spec.nodeSelector"),
    ("gpu-pod-has-priority", D, (*POD, "priorityClassName"), ABSENT, "spec.template.spec.priorityClassName"),
    ("objects-are-single-and-whole", "kubernetes:apps/v1:DeploymentList", ("items",), [{"kind": "Deployment"}], "items"),
    ("batch-yields-to-online", D, ("spec", "template", "metadata", "labels", WORKLOAD_CLASS), "batch", "spec.template.spec.priorityClassName"),
    ("batch-on-spare-capacity", NG, ("labels", WORKLOAD_CLASS), "batch", "capacityType"),
    ("no-host-access", D, (*POD, "hostNetwork"), True, "spec.template.spec.hostNetwork"),
    ("containers-unprivileged", D, (*SERVER, "securityContext", "allowPrivilegeEscalation"), True, "spec.template.spec.containers[0].securityContext.allowPrivilegeEscalation"),
    ("no-secret-in-environment", D, (*SERVER, "env", 0), {"name": "HF_TOKEN", "value": "hf_abc"}, "spec.template.spec.containers[0].env[0].value"),
    ("model-server-has-no-token", D, (*POD, "automountServiceAccountToken"), ABSENT, "spec.template.spec.automountServiceAccountToken"),
    ("probes-prove-an-answer", D, (*SERVER, "readinessProbe"), {"tcpSocket": {"port": 8000}}, "spec.template.spec.containers[0].readinessProbe.tcpSocket"),
    ("grace-period-bounded", D, (*POD, "terminationGracePeriodSeconds"), 5, "spec.template.spec.terminationGracePeriodSeconds"),
    ("replicas-owned-by-autoscaler", D, ("spec", "replicas"), 3, "spec.replicas"),
    ("tenant-namespace-enforces-pod-security", "kubernetes:core/v1:Namespace", ("metadata", "labels", "pod-security.kubernetes.io/enforce"), "privileged", "metadata.labels.pod-security.kubernetes.io/enforce"),
    ("no-public-service", "kubernetes:core/v1:Service", ("spec", "type"), "LoadBalancer", "spec.type"),
    ("route-weights-add-up", VS, ("spec", "http", 0, "route", 1, "weight"), 20, "spec.http[0].route"),
    ("route-has-timeout", VS, ("spec", "http", 0, "timeout"), ABSENT, "spec.http[0].timeout"),
    ("route-host-exact", VS, ("spec", "hosts", 0), "*.vision.example", "spec.hosts[0]"),
    ("proxy-filter-bounded", EF, ("metadata", "namespace"), "istio-system", "metadata.namespace"),
    ("proxy-filter-bounded", EF, ("spec", "workloadSelector"), ABSENT, "spec.workloadSelector.labels"),
    ("proxy-filter-bounded", EF, ("spec", "workloadSelector", "labels"), {}, "spec.workloadSelector.labels"),
    ("proxy-filter-bounded", EF, ("spec", "configPatches", 0, "match", "context"), "ANY", "spec.configPatches[0].match.context"),
    ("proxy-filter-bounded", EF, ("spec", "configPatches", 0, "match"), ABSENT, "spec.configPatches[0].match.context"),
    ("proxy-filter-bounded", EF, ("spec", "configPatches", 0, "applyTo"), "HTTP_ROUTE", "spec.configPatches[0].applyTo"),
    ("proxy-filter-bounded", EF, ("spec", "configPatches", 0, "patch", "value", "name"), "envoy.filters.http.lua", "spec.configPatches[0].patch.value.name"),
    ("proxy-filter-bounded", EF, ("spec", "configPatches", 0, "match", "listener"), ABSENT, "spec.configPatches[0].match.listener.filterChain.filter.subFilter.name"),
    ("proxy-filter-bounded", EF, ("spec", "configPatches", 1, "match", "routeConfiguration"), ABSENT, "spec.configPatches[1].match.routeConfiguration.vhost.domainName"),
    ("proxy-filter-bounded", EF, ("spec", "configPatches", 1, "match", "routeConfiguration", "vhost", "domainName"), "chat.assist.example", "spec.configPatches[1].match.routeConfiguration.vhost.domainName"),
    ("proxy-filter-bounded", EF, ("spec", "configPatches", 1, "patch", "operation"), "REPLACE", "spec.configPatches[1].patch.operation"),
    ("proxy-filter-bounded", EF, ("spec", "configPatches", 1, "patch", "value"), {"require_tls": "NONE"}, "spec.configPatches[1].patch.value.require_tls"),
    ("proxy-filter-bounded", EF, ("spec", "configPatches", 1, "patch", "value", "typed_per_filter_config"), {"envoy.filters.http.rbac": {}}, "spec.configPatches[1].patch.value.typed_per_filter_config.envoy.filters.http.rbac"),
    ("proxy-filter-bounded", EF, ("spec", "configPatches", 0, "patch", "operation"), "REPLACE", "spec.configPatches[0].patch.operation"),
    ("proxy-filter-bounded", EF, ("spec", "configPatches", 1, "patch", "value", "typed_per_filter_config", "headway.overload"), {"disabled": True}, "spec.configPatches[1].patch.value.typed_per_filter_config.headway.overload.disabled"),
    ("mutual-tls-strict", "kubernetes:security.istio.io/v1:PeerAuthentication", ("spec", "mtls", "mode"), "PERMISSIVE", "spec.mtls.mode"),
    ("disruption-budget-allows-one", "kubernetes:policy/v1:PodDisruptionBudget", ("spec", "maxUnavailable"), 0, "spec.maxUnavailable"),
    ("no-cluster-admin-binding", "kubernetes:rbac.authorization.k8s.io/v1:RoleBinding", ("roleRef", "name"), "cluster-admin", "roleRef.name"),
    ("role-names-verbs-and-resources", "kubernetes:rbac.authorization.k8s.io/v1:Role", ("rules", 0, "verbs"), ["*"], "rules[0].verbs"),
    ("no-cluster-admin-binding", "kubernetes:rbac.authorization.k8s.io/v1:RoleBinding", ("subjects", 0, "name"), "system:masters", "subjects[0].name"),
    ("no-default-role-binding", "kubernetes:rbac.authorization.k8s.io/v1:RoleBinding", ("roleRef",), {"kind": "ClusterRole", "name": "edit"}, "roleRef.name"),
    ("role-reads-no-secrets", CR, ("rules", 0, "resources"), ["configmaps", "secrets"], "rules[0].resources"),
    ("role-enters-no-container", CR, ("rules", 0, "resources"), ["pods/exec"], "rules[0].resources"),
    ("role-changes-no-webhook", CR, ("rules", 0), {"apiGroups": ["admissionregistration.k8s.io"], "resources": ["mutatingwebhookconfigurations"], "verbs": ["patch"]}, "rules[0].resources"),
    ("cluster-role-not-aggregated", CR, ("aggregationRule",), {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}, "aggregationRule"),
    ("cluster-role-not-aggregated", CR, ("metadata", "labels", "rbac.authorization.k8s.io/aggregate-to-view"), "true", "metadata.labels.rbac.authorization.k8s.io/aggregate-to-view"),
    ("network-policy-names-callers", NP, ("spec", "ingress", 0), {}, "spec.ingress[0]"),
    ("network-policy-names-callers", NP, ("spec", "ingress", 0, "from", 0, "namespaceSelector"), {}, "spec.ingress[0].from[0].namespaceSelector"),
    ("network-policy-names-callers", NP, ("spec", "ingress", 1, "from", 1, "ipBlock", "cidr"), "10.0.0.0/16", "spec.ingress"),
    ("network-policy-names-destinations", NP, ("spec", "egress", 0), {"ports": [{"port": 443}]}, "spec.egress[0]"),
    ("network-policy-names-destinations", NP, ("spec", "egress", 0, "ports"), ABSENT, "spec.egress[0].to[0].ipBlock"),
    ("network-policy-leaves-metadata-out", NP, ("spec", "egress", 0), {"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}], "ports": [{"port": 80}]}, "spec.egress[0].to[0].ipBlock"),
    ("packets-by-network-policy-alone", ANP, ("spec",), {}, ""),
    ("authorization-names-callers", AP, ("spec", "rules", 0), {}, "spec.rules[0]"),
    ("authorization-names-callers", AP, ("spec", "rules", 0, "from", 0, "source"), {"namespaces": ["*"]}, "spec.rules[0].from[0]"),
    ("authorization-names-callers", AP, ("metadata", "namespace"), "istio-ingress", "spec.selector"),
    ("token-issuer-vouched", RA, ("spec", "jwtRules", 0, "jwks"), '{"keys": []}', "spec.jwtRules[0].jwks"),
    ("token-issuer-vouched", RA, ("spec", "jwtRules", 0, "jwksUri"), "https://169.254.169.254/latest", "spec.jwtRules[0].jwksUri"),
    ("token-issuer-vouched", RA, ("spec", "jwtRules", 0, "audiences"), ABSENT, "spec.jwtRules[0].audiences"),
    ("token-issuer-vouched", RA, ("spec", "jwtRules", 0, "forwardOriginalToken"), True, "spec.jwtRules[0].forwardOriginalToken"),
    ("token-issuer-vouched", RA, ("spec", "jwtRules", 0, "fromParams"), ["token"], "spec.jwtRules[0].fromParams"),
    ("token-issuer-vouched", RA, ("spec", "jwtRules", 0, "outputClaimToHeaders", 0, "header"), "x-experiment", "spec.jwtRules[0].outputClaimToHeaders[0].header"),
    ("destination-by-mutual-tls", DR, ("spec", "trafficPolicy"), ABSENT, "spec.trafficPolicy.tls.mode"),
    ("destination-by-mutual-tls", DR, ("spec", "host"), "*.svc.cluster.local", "spec.host"),
    ("sidecar-stays-closed", SC, ("spec", "outboundTrafficPolicy"), {"mode": "ALLOW_ANY"}, "spec.outboundTrafficPolicy"),
    ("sidecar-stays-closed", SC, ("spec", "egress", 0, "hosts", 0), "*/*", "spec.egress[0].hosts[0]"),
    ("service-entry-outside", SE, ("spec", "addresses"), ["169.254.169.254/32"], "spec.addresses[0]"),
    ("service-entry-outside", SE, ("spec", "exportTo"), ["*"], "spec.exportTo"),
    ("service-leads-to-pods", "kubernetes:core/v1:Endpoints", ("subsets",), [], ""),
    ("proxies-run-no-foreign-code", WASM, ("spec",), {}, ""),
    ("admission-denies", VAPB, ("spec", "validationActions"), ["Audit", "Warn"], "spec.validationActions"),
    ("admission-fails-closed", VAP, ("spec", "failurePolicy"), "Ignore", "spec.failurePolicy"),
    ("admission-fails-closed", MWC, ("webhooks", 0, "failurePolicy"), "Ignore", "webhooks[0].failurePolicy"),
    ("admission-leaves-nothing-out", VAP, ("spec", "matchConstraints", "objectSelector"), {"matchLabels": {"judge": "yes"}}, "spec.matchConstraints.objectSelector"),
    ("admission-leaves-nothing-out", VAPB, ("spec", "matchResources", "excludeResourceRules"), [{"resources": ["pods"]}], "spec.matchResources.excludeResourceRules"),
    ("admission-leaves-nothing-out", VAPB, ("spec", "matchResources", "matchPolicy"), "Exact", "spec.matchResources.matchPolicy"),
    ("webhook-bounded", MWC, ("webhooks", 0, "namespaceSelector"), ABSENT, "webhooks[0].namespaceSelector"),
    ("webhook-bounded", MWC, ("webhooks", 0, "clientConfig"), {"url": "https://hooks.example.com"}, "webhooks[0].clientConfig.url"),
    ("webhook-bounded", MWC, ("webhooks", 0, "rules", 0, "resources"), ["*/*"], "webhooks[0].rules[0].resources"),
    ("webhook-bounded", MWC, ("webhooks", 0, "rules", 0, "resources"), ["secrets"], "webhooks[0].rules[0].resources"),
    ("plan-runs-no-program", "command:local:Command", ("create",), "curl evil.example", ""),
    ("plan-runs-no-program", "kubernetes:helm.sh/v3:Release", ("postrender",), "/tmp/run", "postrender"),
    ("provider-known", "pulumi:providers:command", ("version",), "1.0.0", ""),
    ("resources-are-seen", "aws:cloudformation/stack:Stack", ("templateBody",), "{}", ""),
    ("object-is-of-its-kind", D, ("kind",), "ClusterRoleBinding", "kind"),
    ("object-is-of-its-kind", D, ("apiVersion",), "rbac.authorization.k8s.io/v1", "apiVersion"),
    ("ledger-written-by-prefix", "aws:iam/policy:Policy", ("policy", "Statement", 0), WRITES_ALL, "policy.Statement[Write].Resource"),
    ("alert-has-runbook", "kubernetes:monitoring.coreos.com/v1:PrometheusRule", ("spec", "groups", 0, "rules", 0, "annotations"), {}, "spec.groups[0].rules[0].annotations.runbook_url"),
    ("chart-version-exact", "kubernetes:helm.sh/v3:Release", ("version",), ">=2.0", "version"),
    ("online-never-at-zero", SO, ("spec", "minReplicaCount"), 0, "spec.minReplicaCount"),
    ("replica-bounds-ordered", SO, ("spec", "maxReplicaCount"), 0, "spec.maxReplicaCount"),
    ("autoscaler-has-fallback", SO, ("spec", "fallback"), ABSENT, "spec.fallback"),
    ("missing-metric-is-no-zero", SO, ("spec", "triggers", 0, "metadata", "ignoreNullValues"), ABSENT, "spec.triggers[0].metadata.ignoreNullValues"),
    ("cluster-endpoint-private", C, ("vpcConfig", "endpointPublicAccess"), ABSENT, "vpcConfig.endpointPublicAccess"),
    ("cluster-access-by-entries", C, ("accessConfig", "bootstrapClusterCreatorAdminPermissions"), ABSENT, "accessConfig.bootstrapClusterCreatorAdminPermissions"),
    ("cluster-version-pinned", C, ("version",), ABSENT, "version"),
    ("cluster-secrets-encrypted", C, ("encryptionConfig",), ABSENT, "encryptionConfig"),
    ("cluster-deletion-protected", C, ("deletionProtection",), False, "deletionProtection"),
    ("cluster-audited", C, ("enabledClusterLogTypes",), ["api", "authenticator"], "enabledClusterLogTypes"),
    ("addon-version-pinned", "aws:eks/addon:Addon", ("addonVersion",), ABSENT, "addonVersion"),
    ("node-release-pinned", NG, ("releaseVersion",), ABSENT, "releaseVersion"),
    ("spot-for-batch-only", NG, ("capacityType",), "SPOT", "capacityType"),
    ("node-group-bounded", NG, ("scalingConfig", "maxSize"), 33, "scalingConfig.maxSize"),
    ("system-nodes-hold-the-platform", NG, ("labels", "workload"), "system", "instanceTypes"),
    ("latency-never-time-sliced", NG, ("labels", "nvidia.com/device-plugin.config"), "slice-4", "labels.nvidia.com/device-plugin.config"),
    ("node-without-remote-access", NG, ("remoteAccess",), {"ec2SshKey": "mine"}, "remoteAccess"),
    ("resource-policy-not-public", "aws:s3/bucketPolicy:BucketPolicy", ("policy",), '{"Statement": [{"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "s3:GetObject", "Resource": "*"}]}', "policy.Statement[0].Principal"),
    ("logs-encrypted-by-key", "aws:cloudwatch/logGroup:LogGroup", ("kmsKeyId",), ABSENT, "kmsKeyId"),
    ("repository-encrypted-by-key", ECR, ("encryptionConfigurations", 0, "encryptionType"), "AES256", "encryptionConfigurations"),
    ("gpu-nodes-are-repaired", NG, ("nodeRepairConfig", "enabled"), False, "nodeRepairConfig.enabled"),
    ("instance-metadata-protected", LT, ("metadataOptions", "httpPutResponseHopLimit"), 2, "metadataOptions.httpPutResponseHopLimit"),
    ("node-volumes-encrypted", LT, ("blockDeviceMappings", 0, "ebs", "encrypted"), ABSENT, "blockDeviceMappings[0].ebs.encrypted"),
    ("no-public-instance", LT, ("networkInterfaces", 0, "associatePublicIpAddress"), "true", "networkInterfaces[0].associatePublicIpAddress"),
    ("subnet-gives-no-public-address", "aws:ec2/subnet:Subnet", ("mapPublicIpOnLaunch",), True, "mapPublicIpOnLaunch"),
    ("no-ingress-from-anywhere", "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule", ("cidrIpv4",), "0.0.0.0/0", "cidrIpv4"),
    ("bucket-blocks-public-access", "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock", ("ignorePublicAcls",), ABSENT, "ignorePublicAcls"),
    ("bucket-encrypted-by-key", "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration", ("rules", 0, "applyServerSideEncryptionByDefault", "sseAlgorithm"), "AES256", "rules[0].applyServerSideEncryptionByDefault.sseAlgorithm"),
    ("bucket-tls-only", "aws:s3/bucketPolicy:BucketPolicy", ("policy",), '{"Statement": []}', "policy"),
    ("no-forced-destroy", "aws:s3/bucket:Bucket", ("forceDestroy",), True, "forceDestroy"),
    ("queue-encrypted", "aws:sqs/queue:Queue", ("kmsMasterKeyId",), ABSENT, "kmsMasterKeyId"),
    ("key-rotates", "aws:kms/key:Key", ("enableKeyRotation",), ABSENT, "enableKeyRotation"),
    ("repository-tags-immutable", ECR, ("imageTagMutability",), ABSENT, "imageTagMutability"),
    ("repository-scans-on-push", ECR, ("imageScanningConfiguration",), ABSENT, "imageScanningConfiguration.scanOnPush"),
    ("logs-have-retention", "aws:cloudwatch/logGroup:LogGroup", ("retentionInDays",), ABSENT, "retentionInDays"),
    ("iam-no-wildcard", "aws:iam/policy:Policy", ("policy", "Statement", 0, "Action"), "s3:*", "policy.Statement[Read].Action"),
    ("iam-trust-named", "aws:iam/role:Role", ("assumeRolePolicy", "Statement", 0, "Principal"), {"AWS": "*"}, "assumeRolePolicy.Statement[0].Principal"),
    ("iam-no-escalation", "aws:iam/policy:Policy", ("policy", "Statement", 0), UNBOUNDED, "policy.Statement[Make].Condition"),
    ("iam-people-bounded", "aws:iam/role:Role", ("assumeRolePolicy", "Statement", 0, "Principal"), {"AWS": "arn:aws:iam::1:role/sso"}, "permissionsBoundary"),
    ("iam-no-administrator", "aws:iam/rolePolicyAttachment:RolePolicyAttachment", ("policyArn",), "arn:aws:iam::aws:policy/AdministratorAccess", "policyArn"),
]  # fmt: skip
TOLD_ELSEWHERE = {"bucket-protected", "image-registry-allowed", "iam-no-long-lived-credentials", "tenant-quota-not-exceeded"}


def resource(
    type: str, properties: dict[str, Any], state: dict[str, Any] | None = None, name: str = "x", *, protect: bool = True
) -> ResourceView:
    return ResourceView(type, name, f"urn:pulumi:s::p::{type}::{name}", InputNode(properties), protect, {} if state is None else state)


@pytest.mark.parametrize("type", sorted(GOOD))
def test_no_rule_objects_to_a_well_made_resource(type: str) -> None:
    breaches = {r.id: v.breaches for r in RULES if r.covers(type) for v in [evaluate(r, resource(type, GOOD[type]))] if v.breaches}
    assert breaches == {}


@pytest.mark.parametrize(("rule", "type", "place", "value", "path"), MUTATIONS, ids=[m[0] for m in MUTATIONS])
def test_a_rule_names_the_place_of_the_breach(rule: str, type: str, place: tuple[str | int, ...], value: Any, path: str) -> None:
    verdict = evaluate(BY_ID[rule], resource(type, spoilt(type, place, value)))
    assert path in [b.dotted for b in verdict.breaches]


def test_every_rule_has_its_mutation() -> None:
    assert {m[0] for m in MUTATIONS} | TOLD_ELSEWHERE == set(BY_ID)


def test_a_message_says_fact_consequence_and_remedy() -> None:
    rule = BY_ID["image-by-digest"]
    (breach,) = evaluate(rule, resource(D, spoilt(D, (*SERVER, "image"), "triton:latest"))).breaches
    fact, consequence, remedy = str(breach).splitlines()
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
    assert len(evaluate(BY_ID["iam-no-long-lived-credentials"], resource(type, {})).breaches) == 1


@pytest.mark.parametrize("type", ["aws:s3/bucket:Bucket", "aws:kms/key:Key"])
def test_a_bucket_and_its_key_are_protected_unless_disposable(type: str) -> None:
    rule, bare = BY_ID["bucket-protected"], resource(type, GOOD[type], protect=False)
    assert [b.dotted for b in evaluate(rule, bare).breaches] == ["(options).protect"]
    assert evaluate(rule, bare, {"required": False}).breaches == ()


@pytest.mark.parametrize(
    ("low", "high", "types", "places"),
    [
        (3, 6, ["m7i.xlarge"], []),
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


@given(place=st.sampled_from([(m[1], m[2]) for m in MUTATIONS]), value=JSON)
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
