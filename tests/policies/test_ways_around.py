"""Ways around the rules that somebody who wants to get past them would try, each beside what is still allowed."""

import re
from typing import Any

import pytest

from headway.wire import POOL, TENANT
from policies.guardrails.refused_examples import ABSENT
from policies.guardrails.registry import RULES
from policies.guardrails.rule import evaluate
from policies.guardrails.view import UNKNOWN, InputNode, ResourceView, canonical
from tests.policies.world import DIGEST, GOOD, spoilt

BY_ID = {rule.id: rule for rule in RULES}
D, SO = "kubernetes:apps/v1:Deployment", "kubernetes:keda.sh/v1alpha1:ScaledObject"
VS, GATE = "kubernetes:networking.istio.io/v1:VirtualService", "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
ROLE, IAM = "aws:iam/role:Role", "aws:iam/policy:Policy"
POD = ("spec", "template", "spec")
SERVER = (*POD, "containers", 0)
LIMITS, SECURITY = (*SERVER, "resources", "limits"), (*SERVER, "securityContext")
IMAGE = f"nvcr.io/nvidia/tritonserver@{DIGEST}"
SECOND: dict[str, Any] = {"name": "second", "image": IMAGE, "securityContext": {"runAsNonRoot": True, "allowPrivilegeEscalation": False}}


def statement(**changes: Any) -> dict[str, Any]:
    allow = {"Sid": "A", "Effect": "Allow", "Action": ["s3:GetObject"], "Resource": ["arn:aws:s3:::models/vision/*"]}
    return {"Statement": [{key: value for key, value in {**allow, **changes}.items() if value is not None}]}


def trust(condition: dict[str, Any], host: str = "issuer") -> dict[str, Any]:
    issuer = {"Federated": f"arn:aws:iam::1:oidc-provider/{host}"}
    return {"Statement": [{"Effect": "Allow", "Principal": issuer, "Action": "sts:AssumeRoleWithWebIdentity", "Condition": condition}]}


def passing(**changes: Any) -> dict[str, Any]:
    one = {"Action": "iam:PassRole", "Resource": "arn:aws:iam::1:role/headway-*"}
    return statement(**{**one, "Condition": {"StringEquals": {"iam:PassedToService": ["ec2.amazonaws.com"]}}, **changes})


def writing(resource: str, action: str = "s3:PutObject") -> dict[str, Any]:
    return statement(Action=[action], Resource=[resource])


def blocks(*cidrs: str) -> list[dict[str, Any]]:
    return [{"ipBlock": {"cidr": cidr}} for cidr in cidrs]


def sources(**source: list[str]) -> list[dict[str, Any]]:
    return [{"source": source}]


def in_gateway(ports: list[dict[str, Any]]) -> dict[str, Any]:
    return {"metadata": {"namespace": "istio-ingress"}, "spec": {"podSelector": {}, "ingress": [{"ports": ports}]}}


NP, AP = "kubernetes:networking.k8s.io/v1:NetworkPolicy", "kubernetes:security.istio.io/v1:AuthorizationPolicy"
RA, HOOKS = "kubernetes:security.istio.io/v1:RequestAuthentication", "kubernetes:admissionregistration.k8s.io/"
DR, SC, SE, EF = (f"kubernetes:networking.istio.io/v1:{kind}" for kind in ("DestinationRule", "Sidecar", "ServiceEntry", "EnvoyFilter"))
PLACES = ("metadata", "permissionsBoundary", "rules", "spec", "webhooks")
"""Where inputs that leave something out are told to put it."""
CR, ROLE_IN, BINDING = (f"kubernetes:rbac.authorization.k8s.io/v1:{kind}" for kind in ("ClusterRole", "Role", "RoleBinding"))
EKS = "oidc.eks.eu-west-1.amazonaws.com/id/A"
PLAIN = {"Bool": {"aws:SecureTransport": "false"}}


def token(audience: str | None) -> dict[str, Any]:
    projected: dict[str, Any] = {"path": "t", **({"audience": audience} if audience else {})}
    return {"name": "t", "projected": {"sources": [{"serviceAccountToken": projected}]}}


def sidecar(gpus: int) -> list[dict[str, Any]]:
    return [{**SECOND, "restartPolicy": "Always", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}]


def required(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


POOLS = {"matchExpressions": [{"key": POOL, "operator": "In", "values": ["l4"]}]}
LINUX = {"matchExpressions": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]}

REFUSED: list[tuple[str, str, tuple[str | int, ...], Any]] = [
    ("memory-limit-present", D, (*LIMITS, "memory"), "0"),
    ("requests-present", D, (*SERVER, "resources", "requests", "cpu"), "0"),
    ("memory-volume-bounded", D, (*POD, "volumes", 0, "emptyDir", "sizeLimit"), "0"),
    ("gpus-per-pod-bounded", D, (*POD, "initContainers"), sidecar(8)),
    ("image-by-digest", D, (*SERVER, "image"), f"{IMAGE}\n"),
    ("image-by-digest", D, (*POD, "volumes", 0), {"name": "weights", "image": {"reference": "docker.io/someone/weights:latest"}}),
    ("gpu-workload-is-labelled", D, ("spec", "template", "metadata", "labels", TENANT), ""),
    ("gpu-workload-is-labelled", D, ("spec", "template", "metadata", "labels", TENANT), "assist"),
    ("gpu-taint-tolerated-by-gpu-pods-only", D, (*POD, "tolerations", 0), {"key": "", "operator": "Exists"}),
    ("gpu-pod-names-its-pool", D, (*POD, "nodeSelector"), {}),
    ("gpu-pod-names-its-pool", D, (*POD, "nodeSelector"), {"kubernetes.io/os": "linux"}),
    ("gpu-pod-names-its-pool", D, (*POD, "nodeName"), "ip-10-0-0-7"),
    ("gpu-pod-has-priority", D, (*POD, "priorityClassName"), ""),
    ("gpu-pod-has-priority", D, (*POD, "priorityClassName"), "system-node-critical"),
    ("no-host-access", D, (*POD, "hostPID"), "true"),
    ("no-host-access", D, (*POD, "volumes", 0), {"name": "node", "hostPath": {"path": "/"}}),
    ("no-host-access", D, (*SERVER, "ports"), [{"containerPort": 8000, "hostPort": 8000}]),
    ("no-host-access", D, (*POD, "initContainers"), [{**SECOND, "ports": [{"containerPort": 1, "hostPort": 22}]}]),
    ("containers-unprivileged", D, (*SECURITY, "privileged"), "true"),
    ("containers-unprivileged", D, (*SECURITY, "capabilities"), {"add": ["SYS_ADMIN"]}),
    ("containers-unprivileged", D, (*SECURITY, "procMount"), "Unmasked"),
    ("containers-unprivileged", D, (*SECURITY, "seccompProfile"), {"type": "Unconfined"}),
    ("containers-unprivileged", D, (*POD, "securityContext"), {"runAsUser": 0}),
    ("containers-unprivileged", D, (*POD, "ephemeralContainers"), [{"name": "debug", "image": IMAGE}]),
    ("no-secret-in-environment", D, (*SERVER, "env", 0), {"name": "DATABASE_URL", "value": "postgres://writer:hunter2@db/releases"}),
    ("no-secret-in-environment", D, (*SERVER, "env", 0), {"name": "AUTHORIZATION", "value": "Bearer 0a1b2c3d4e5f"}),
    ("no-secret-in-environment", D, (*SERVER, "args"), ["--header", "Authorization: Bearer 0a1b2c3d4e5f"]),
    ("disruption-budget-allows-one", "kubernetes:policy/v1:PodDisruptionBudget", ("spec", "maxUnavailable"), "00%"),
    ("disruption-budget-allows-one", "kubernetes:policy/v1:PodDisruptionBudget", ("spec", "minAvailable"), "0100%"),
    ("no-secret-in-environment", D, (*SERVER, "args"), ["--api-key=sk-123"]),
    ("no-secret-in-environment", D, (*SERVER, "command"), ["serve", "--hf-token", "hf_123"]),
    ("model-server-has-no-token", D, (*POD, "volumes", 0), token(None)),
    ("model-server-has-no-token", D, (*POD, "volumes", 0), token("https://kubernetes.default.svc")),
    ("latency-never-at-zero", SO, ("spec", "idleReplicaCount"), 0),
    ("iam-no-wildcard", IAM, ("policy",), statement(Action=None, NotAction=["iam:*"])),
    ("iam-no-wildcard", IAM, ("policy",), statement(Resource=None, NotResource=["arn:aws:s3:::ledger/*"])),
    ("iam-no-wildcard", IAM, ("policy",), statement(Action="s3:**")),
    ("iam-no-wildcard", IAM, ("policy",), statement(Action="s3:?*")),
    ("iam-no-wildcard", IAM, ("policy",), statement(Resource="arn:aws:s3:::*")),
    ("iam-no-wildcard", IAM, ("policy",), statement(Resource="arn:aws:s3:::*/*")),
    ("iam-trust-named", ROLE, ("assumeRolePolicy",), trust({})),
    ("iam-trust-named", ROLE, ("assumeRolePolicy", "Statement", 0, "Principal"), {"AWS": "*", "Service": "ec2.amazonaws.com"}),
    ("iam-trust-named", ROLE, ("assumeRolePolicy", "Statement", 0, "Principal"), {"AWS": ["arn:aws:iam::1:root", "*"]}),
    ("iam-trust-named", ROLE, ("assumeRolePolicy",), trust({"StringEquals": {"issuer:aud": "sts.amazonaws.com"}})),
    ("iam-trust-named", ROLE, ("assumeRolePolicy",), trust({"StringLike": {"issuer:sub": "system:serviceaccount:*:*"}})),
    ("iam-trust-named", ROLE, ("assumeRolePolicy",), {"Statement": [{"Effect": "Allow", "NotPrincipal": {"AWS": "1"}, "Action": "sts:AssumeRole"}]}),
    ("iam-trust-named", ROLE, ("assumeRolePolicy",), trust({"StringLike": {"issuer:sub": "repo:acme/models:*"}})),
    ("iam-trust-named", ROLE, ("assumeRolePolicy",), trust({"StringLike": {"issuer:sub": "system:serviceaccount:*:models"}})),
    ("iam-trust-named", ROLE, ("assumeRolePolicy",), trust({"StringLike": {"issuer:sub": "system:serviceaccount:vision-?:models"}})),
    ("iam-trust-named", ROLE, ("assumeRolePolicy",), trust({"StringNotEquals": {"issuer:sub": "system:serviceaccount:keda:operator"}})),
    ("iam-trust-named", ROLE, ("assumeRolePolicy",), trust({"StringNotLike": {"issuer:sub": "repo:acme/models:environment:prod"}})),
    ("iam-people-bounded", ROLE, ("assumeRolePolicy",), trust({"StringEquals": {"issuer:sub": "repo:acme/models:environment:prod"}})),
    ("iam-no-escalation", IAM, ("policy",), statement(Action="iam:Put*")),
    ("iam-no-escalation", IAM, ("policy",), statement(Action=["iam:PassRole"], Resource="arn:aws:iam::1:role/headway-*")),
    ("iam-no-administrator", ROLE, ("managedPolicyArns",), ["arn:aws:iam::aws:policy/AdministratorAccess"]),
    ("no-cluster-admin-binding", "kubernetes:rbac.authorization.k8s.io/v1:RoleBinding", ("subjects", 0, "name"), "system:serviceaccounts"),
    ("no-public-service", "kubernetes:core/v1:Service", ("spec", "externalIPs"), ["203.0.113.7"]),
    ("no-public-service", "kubernetes:core/v1:Service", ("metadata", "annotations"), {"service.beta.kubernetes.io/aws-load-balancer-internal": "false"}),
    ("route-has-timeout", VS, ("spec", "http", 0, "timeout"), "0s"),
    ("route-host-exact", VS, ("spec", "hosts"), []),
    ("no-ingress-from-anywhere", GATE, ("cidrIpv4",), "0.0.0.0/1"),
    ("no-ingress-from-anywhere", GATE, ("cidrIpv4",), "1.2.3.4/0"),
    ("no-ingress-from-anywhere", GATE, ("cidrIpv6",), "0::/0"),
    ("no-ingress-from-anywhere", "aws:ec2/securityGroup:SecurityGroup", (), {"ingress": [{"ipv6CidrBlocks": ["fd00::/8", "::/0"]}]}),
    ("resource-policy-not-public", "aws:s3/bucketPolicy:BucketPolicy", ("policy",), statement(NotPrincipal={"AWS": "arn:aws:iam::1:root"})),
    ("role-names-verbs-and-resources", "kubernetes:rbac.authorization.k8s.io/v1:Role", ("rules", 0, "verbs"), ["get", "escalate"]),
    ("bucket-tls-only", "aws:s3/bucketPolicy:BucketPolicy", ("policy",), statement(Effect="Deny", Principal="*", Condition=PLAIN)),
    *(("iam-no-escalation", IAM, ("policy",), passing(Condition=c)) for c in (
        {"StringLike": {"iam:PassedToService": "*"}},
        {"StringLike": {"iam:PassedToService": "*.amazonaws.com"}},
        {"StringNotEquals": {"iam:PassedToService": "ec2.amazonaws.com"}},
        {"StringEqualsIfExists": {"iam:PassedToService": "ec2.amazonaws.com"}},
        {"Null": {"iam:PassedToService": "true"}},
        {"ForAllValues:StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}},
    )),
    *(("iam-no-escalation", IAM, ("policy",), passing(Resource=x)) for x in ("*", "arn:aws:iam::1:role/*", "arn:aws:iam::*:rol*", "arn:aws:iam::1:role/?*")),
    ("iam-no-escalation", IAM, ("policy",), passing(Action="IAM:passrole", Condition=None)),
    ("iam-no-escalation", IAM, ("policy",), statement(Action="iam:createrole", Resource="arn:aws:iam::1:role/headway-*")),
    *(("ledger-written-by-prefix", IAM, ("policy",), writing(x)) for x in (
        "*", "arn:aws:s3:::*", "arn:aws:s3:::headway-*", "arn:aws:s3:::headway-prod-l?dger-1/*", "arn:aws:s3:::*/*.json",
        "arn:aws:s3:::headway-prod-ledger-1/leases/*", "arn:aws:s3:::headway-prod-ledger-1/*/00*", "arn:aws:s3:::headway-prod-ledger-1/n*",
    )),
    ("ledger-written-by-prefix", IAM, ("policy",), writing("arn:aws:s3:::headway-prod-ledger-1/*", "s3:deleteobjectversion")),
    ("ledger-written-by-prefix", IAM, ("policy",), writing("arn:aws:s3:::headway-prod-ledger-1/*", "s3:Put*")),
    ("ledger-written-by-prefix", "aws:s3/bucketPolicy:BucketPolicy", ("policy",), writing("arn:aws:s3:::headway-prod-ledger-1/*")),
    *(("network-policy-names-callers", NP, ("spec", "ingress", 0, "from"), x) for x in (
        [], [{}], [{"namespaceSelector": {}}], [{"namespaceSelector": {}, "podSelector": {"matchLabels": {"a": "b"}}}],
        [{"namespaceSelector": {"matchLabels": {"pod-security.kubernetes.io/enforce": "restricted"}}}],
        [{"namespaceSelector": {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "Exists"}]}}],
        [{"namespaceSelector": {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["x"]}]}}],
        [{"namespaceSelector": {"matchExpressions": [{"key": TENANT, "operator": "Exists"}]}}],
        blocks("0.0.0.0/0"), blocks("0.0.0.0/1", "128.0.0.0/1"), blocks(*(f"10.0.{n}.0/24" for n in range(17))), blocks("::/0"), blocks("2600::/12"),
    )),
    ("network-policy-names-callers", NP, ("spec", "ingress", 0), {"ports": [{"port": 443}]}),
    *(("network-policy-names-callers", NP, (), in_gateway(x)) for x in ([{"port": "https"}], [{"port": 80, "endPort": 8080}], [{"port": 80}, {"port": 15000}], [])),
    *(("network-policy-names-destinations", NP, ("spec", "egress", 0, "to"), x) for x in ([], [{}], [{"namespaceSelector": {}}])),
    *(("network-policy-leaves-metadata-out", NP, ("spec", "egress", 0), x) for x in (
        {}, {"ports": [{"port": 80}]}, {"to": blocks("169.254.169.254/32")}, {"to": blocks("169.254.0.0/16"), "ports": [{"port": "http"}]},
        {"to": blocks("128.0.0.0/1"), "ports": [{"port": 1, "endPort": 90}]}, {"to": blocks("fd00::/8"), "ports": [{"port": 80, "protocol": "TCP"}]},
    )),
    *(("packets-by-network-policy-alone", f"kubernetes:{x}", ("spec",), {}) for x in (
        "networking.k8s.aws/v1alpha1:PolicyEndpoint", "crd.projectcalico.org/v1:GlobalNetworkPolicy", "cilium.io/v2:CiliumNetworkPolicy",
        "policy.networking.k8s.io/v1alpha2:ClusterNetworkPolicy",
    )),
    *(("authorization-names-callers", AP, ("spec", "rules", 0, "from"), x) for x in (
        [], [{}], [{"source": {}}], sources(namespaces=["*"]), sources(namespaces=["vis*"]), sources(namespaces=[]), sources(principals=["*"]),
        sources(principals=["cluster.local/*"]), sources(principals=["*/ns/vision/sa/models"]), sources(principals=["cluster.local/ns/*"]),
        sources(notNamespaces=["assist"]), sources(notPrincipals=["x"]), sources(ipBlocks=["10.0.0.7"]), sources(requestPrincipals=["*"]),
        [*sources(namespaces=["vision"]), {"source": {"notNamespaces": ["x"]}}],
    )),
    ("authorization-names-callers", AP, ("spec", "rules", 0), {"to": [{"operation": {"paths": ["/metrics"]}}]}),
    ("authorization-names-callers", AP, ("spec", "rules", 0), {"when": [{"key": "source.namespace", "values": ["vision"]}]}),
    ("authorization-names-callers", AP, ("spec",), {"rules": [{}]}),
    *(("token-issuer-vouched", RA, ("spec", "jwtRules", 0, "jwksUri"), x) for x in (
        "", "http://login.example.com/certs", "https://keys.vision.svc.cluster.local/certs", "https://kubernetes.default.svc./openid/v1/jwks",
        "https://10.0.0.7/certs", "https://[fd00:ec2::254]/certs", "https://localhost/certs", "https://2852039166/certs",
        "https://metadata.google.internal/certs",
    )),
    ("destination-by-mutual-tls", DR, ("spec", "trafficPolicy", "tls", "mode"), "SIMPLE"),
    ("destination-by-mutual-tls", DR, ("spec", "trafficPolicy", "portLevelSettings"), [{"port": {"number": 8000}, "tls": {"mode": "DISABLE"}}]),
    ("destination-by-mutual-tls", DR, ("spec", "subsets"), [{"name": "a", "trafficPolicy": {"tls": {"mode": "DISABLE"}}}]),
    ("destination-by-mutual-tls", DR, ("spec", "subsets"), [{"name": "a", "trafficPolicy": {"portLevelSettings": [{"tls": {"mode": "DISABLE"}}]}}]),
    *(("sidecar-stays-closed", SC, ("spec", key), x) for key, x in (
        ("outboundTrafficPolicy", {}), ("outboundTrafficPolicy", {"mode": "REGISTRY_ONLY", "egressProxy": {"host": "x"}}),
        ("ingress", [{"captureMode": "NONE"}]), ("egress", [{"hosts": ["./*"], "captureMode": "NONE"}]), ("egress", [{"hosts": ["*/x.example"]}]),
    )),
    *(("service-entry-outside", SE, ("spec", key), x) for key, x in (
        ("hosts", ["*"]), ("hosts", ["*.com"]), ("hosts", ["instance-data.ec2.internal"]), ("hosts", ["chat.assist.svc.cluster.local"]),
        ("hosts", ["10.0.0.7"]), ("hosts", ["*.10.0.0.7"]), ("hosts", ["models"]), ("addresses", ["10.0.0.0/8"]), ("addresses", ["0.0.0.0/1"]), ("addresses", ["fd00:ec2::254"]),
        ("endpoints", [{"address": "100.64.0.9"}]), ("endpoints", [{"address": "unix:///run/x"}]), ("endpoints", [{"address": "a.assist.svc"}]),
        ("exportTo", []), ("exportTo", [".", "assist"]),
    )),
    ("service-entry-outside", SE, (), {"spec": {"hosts": ["a.example.com"], "resolution": "NONE", "ports": [{"number": 22, "protocol": "TCP"}], "exportTo": ["."]}}),
    *(("service-leads-to-pods", x, ("spec",), {}) for x in (
        "kubernetes:networking.istio.io/v1beta1:WorkloadEntry", "kubernetes:discovery.k8s.io/v1beta1:EndpointSlice", "kubernetes:v1:Endpoints",
    )),
    *(("proxies-run-no-foreign-code", f"kubernetes:{x}", ("spec",), {}) for x in (
        "extensions.istio.io/v1alpha1:WasmPlugin", "networking.istio.io/v1beta1:ProxyConfig",
    )),
    *(("no-default-role-binding", BINDING, ("roleRef",), x) for x in (
        {"kind": "ClusterRole", "name": "admin"}, {"name": "edit"}, {"kind": "ClusterRole", "name": "view"},
        {"kind": "ClusterRole", "name": "system:aggregate-to-admin"}, {"kind": "ClusterRole", "name": "system:kube-controller-manager"},
    )),
    *(("role-reads-no-secrets", CR, ("rules", 0), {"verbs": ["get"], **x}) for x in (
        {"apiGroups": ["*"], "resources": ["secrets"]}, {"apiGroups": [""], "resources": ["*"]}, {"apiGroups": ["apps", ""], "resources": ["secrets"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"]}, {"apiGroups": [""], "resources": ["secrets"], "verbs": ["watch"]},
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["certificate"]},
        {"apiGroups": [""], "resources": ["serviceaccounts/token"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["*/token"], "verbs": ["create"]},
    )),
    ("role-reads-no-secrets", ROLE_IN, ("rules", 0, "resources"), ["secrets"]),
    *(("role-enters-no-container", CR, ("rules", 0, "resources"), [x]) for x in ("nodes/proxy", "pods/attach", "pods/portforward", "*/exec", "*")),
    ("role-enters-no-container", CR, (), {"metadata": {"name": "runner"}, "rules": [{"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"]}]}),
    ("role-names-verbs-and-resources", ROLE_IN, ("rules", 0, "apiGroups"), ["*"]),
    ("role-names-verbs-and-resources", ROLE_IN, ("rules", 0, "resources"), ["*/status"]),
    ("role-changes-no-webhook", CR, ("rules", 0), {"apiGroups": ["*"], "resources": ["*"], "verbs": ["update"]}),
    ("role-changes-no-webhook", CR, ("rules", 0), {"apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "verbs": ["sign"]}),
    *(("admission-denies", f"{HOOKS}v1beta1:ValidatingAdmissionPolicyBinding", ("spec", "validationActions"), x) for x in ([], ["Warn"], ["Audit"])),
    ("admission-fails-closed", f"{HOOKS}v1alpha1:MutatingAdmissionPolicy", ("spec", "failurePolicy"), "Ignore"),
    ("admission-fails-closed", f"{HOOKS}v1:ValidatingWebhookConfiguration", ("webhooks",), [{"name": "a"}]),
    ("admission-leaves-nothing-out", f"{HOOKS}v1:ValidatingWebhookConfiguration", ("webhooks",), [{"objectSelector": {"matchLabels": {"a": "b"}}}]),
    ("webhook-bounded", f"{HOOKS}v1:ValidatingWebhookConfiguration", ("webhooks",), [{"name": "a", "namespaceSelector": {}}]),
    ("webhook-bounded", f"{HOOKS}v1beta1:MutatingAdmissionPolicyBinding", ("spec",), {"policyName": "x"}),
    *(("plan-runs-no-program", x, ("create",), "x") for x in (
        "command:remote:Command", "command:remote:CopyToRemote", "command:local:run", "pulumi-python:dynamic:Resource",
        "pulumi-python:dynamic/mine:Thing", "pulumi-nodejs:dynamic:Resource",
    )),
    *(("provider-known", f"pulumi:providers:{x}", ("version",), "1") for x in ("pulumi-python", "aws-native", "terraform-provider", "docker")),
    *(("resources-are-seen", x, ("type",), "x") for x in ("aws:cloudcontrol/resource:Resource", "aws-native:iam:Role", "aws:cloudformation/stackSet:StackSet")),
    *(("object-is-of-its-kind", D, (), x) for x in (
        {"kind": "List", "items": []}, {"kind": "deployment"}, {"apiVersion": "v1"}, {"apiVersion": "example.com/v1", "kind": "Deployment"},
    )),
]  # fmt: skip
ALLOWED: list[tuple[str, str, tuple[str | int, ...], Any]] = [
    ("memory-limit-present", D, (*LIMITS, "memory"), "1Mi"),
    ("requests-present", D, (*SERVER, "resources", "requests", "cpu"), "1m"),
    ("gpus-per-pod-bounded", D, (*POD, "initContainers"), sidecar(7)),
    ("image-by-digest", D, (*POD, "volumes", 0), {"name": "weights", "image": {"reference": IMAGE}}),
    ("gpu-pod-has-priority", D, (*POD, "priorityClassName"), UNKNOWN),
    ("no-host-access", D, (*POD, "hostUsers"), False),
    ("no-host-access", D, (*SERVER, "ports"), [{"containerPort": 8000}]),
    ("containers-unprivileged", D, (*SECURITY, "capabilities"), {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}),
    ("containers-unprivileged", D, (*SECURITY, "runAsUser"), 1000),
    ("no-secret-in-environment", D, (*SERVER, "args"), ["--api-key=$(API_KEY)", "--max-num-batched-tokens", "8192", "--eos-token", "</s>"]),
    ("no-secret-in-environment", D, (*SERVER, "env", 0), {"name": "AWS_WEB_IDENTITY_TOKEN_FILE", "value": "/var/run/token"}),
    ("no-secret-in-environment", D, (*SERVER, "env", 0), {"name": "NOTE", "value": "bearer authentication is off; basic features on"}),
    ("no-secret-in-environment", D, (*SERVER, "env", 0), {"name": "PEER", "value": "http://counts.rate-limit:6379/0"}),
    ("model-server-has-no-token", D, (*POD, "volumes", 0), {"name": "t", "projected": {"sources": [{"configMap": {"name": "x"}}]}}),
    ("model-server-has-no-token", D, (*POD, "volumes", 0), token("artifact-cache")),
    ("iam-no-wildcard", IAM, ("policy",), statement(Action="s3:Get*")),
    ("no-ingress-from-anywhere", GATE, ("cidrIpv4",), "10.0.0.0/8"),
    ("no-ingress-from-anywhere", GATE, ("cidrIpv6",), "fd00::/8"),
    ("route-has-timeout", VS, ("spec", "http", 0, "timeout"), "0.5s"),
    ("iam-no-wildcard", IAM, ("policy",), statement(Effect="Deny", Action="*", Resource="*")),
    ("iam-trust-named", ROLE, ("assumeRolePolicy",), trust({"StringEquals": {"issuer:sub": "system:serviceaccount:keda:operator"}})),
    ("iam-trust-named", ROLE, ("assumeRolePolicy",), trust({"StringLike": {"issuer:sub": "system:serviceaccount:keda:*"}})),
    ("iam-people-bounded", ROLE, ("assumeRolePolicy",), trust({"StringEquals": {"eks:sub": "system:serviceaccount:keda:operator"}}, EKS)),
    ("iam-no-escalation", IAM, ("policy",), passing()),
    ("iam-no-escalation", IAM, ("policy",), passing(Condition={"ForAnyValue:StringEquals": {"iam:passedtoservice": ["ec2.amazonaws.com"]}})),
    *(("ledger-written-by-prefix", IAM, ("policy",), writing(x)) for x in (
        "arn:aws:s3:::headway-prod-ledger-1/vision/*", "arn:aws:s3:::headway-prod-ledger-1/leases/vision/*", "arn:aws:s3:::models/*",
        "arn:aws:s3:::headway-prod-ledger-1/${aws:PrincipalTag/kubernetes-namespace}/*", "arn:aws:s3:::headway-prod-ledger-1",
    )),
    ("ledger-written-by-prefix", IAM, ("policy",), writing("arn:aws:s3:::headway-prod-ledger-1/*", "s3:GetObject")),
    ("ledger-written-by-prefix", IAM, ("policy",), statement(Effect="Deny", Action="s3:PutObject", Resource="*")),
    *(("network-policy-names-callers", NP, ("spec", "ingress", 0, "from"), x) for x in (
        [{"namespaceSelector": {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["monitoring"]}]}}],
        [{"podSelector": {"matchLabels": {"a": "b"}}}], blocks("10.0.0.0/21"), blocks("fd00::/64"),
    )),
    ("network-policy-names-callers", NP, (), in_gateway([{"port": 80}, {"port": 443, "protocol": "TCP"}])),
    ("network-policy-leaves-metadata-out", NP, ("spec", "egress", 0), {"to": blocks("169.254.170.23/32"), "ports": [{"port": 80}]}),
    ("network-policy-leaves-metadata-out", NP, ("spec", "egress", 0), {"to": blocks("169.254.0.0/16"), "ports": [{"port": 443}, {"port": 80, "protocol": "UDP"}]}),
    *(("authorization-names-callers", AP, ("spec", "rules", 0, "from"), x) for x in (
        sources(principals=["cluster.local/ns/vision/sa/*"]), sources(serviceAccounts=["vision/models"]), sources(requestPrincipals=["https://login.example/*"]),
        sources(namespaces=["vision"], principals=["*"]),
    )),
    ("authorization-names-callers", AP, ("spec",), {}),
    ("authorization-names-callers", AP, ("spec",), {"action": "DENY", "rules": [{}]}),
    ("authorization-names-callers", AP, (), {"metadata": {"namespace": "istio-ingress"}, "spec": {"selector": {"matchLabels": {"istio": "g"}}, "rules": [{}]}}),
    ("sidecar-stays-closed", SC, ("spec", "outboundTrafficPolicy"), {"mode": "REGISTRY_ONLY"}),
    ("service-entry-outside", SE, (), {"metadata": {"namespace": "istio-system"}, "spec": {"hosts": ["*.s3.eu-west-1.amazonaws.com"], "exportTo": ["*"], "resolution": "NONE", "ports": [{"protocol": "TLS"}]}}),
    ("service-entry-outside", SE, ("spec", "addresses"), ["8.8.8.8"]),
    ("service-entry-outside", SE, (), {"spec": {"hosts": ["a.example.com"], "addresses": ["8.8.8.8"], "resolution": "NONE", "ports": [{"protocol": "TCP"}], "exportTo": ["."]}}),
    ("no-default-role-binding", BINDING, ("roleRef",), {"kind": "Role", "name": "view"}),
    ("role-reads-no-secrets", ROLE_IN, ("rules", 0), {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"], "resourceNames": ["own"]}),
    ("role-reads-no-secrets", CR, ("rules", 0), {"apiGroups": ["example.com"], "resources": ["secrets"], "verbs": ["get"]}),
    ("role-enters-no-container", ROLE_IN, (), {"metadata": {"name": "runner"}, "rules": [{"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"]}]}),
    ("role-enters-no-container", CR, ("rules", 0), {"apiGroups": [""], "resources": ["services/proxy"], "verbs": ["get"], "resourceNames": ["prometheus:9090"]}),
    ("admission-fails-closed", f"{HOOKS}v1:ValidatingAdmissionPolicy", ("spec", "failurePolicy"), ABSENT),
    ("webhook-bounded", f"{HOOKS}v1:MutatingAdmissionPolicyBinding", ("spec",), {"matchResources": {"namespaceSelector": {"matchLabels": {"a": "b"}}}}),
    ("object-is-of-its-kind", D, (), {"apiVersion": "apps/v1beta2", "kind": "Deployment"}),
    ("object-is-of-its-kind", "kubernetes:core/v1:Pod", (), {"apiVersion": "v1", "kind": "Pod"}),
]  # fmt: skip


def resource(type: str, properties: dict[str, Any], state: dict[str, Any] | None = None) -> ResourceView:
    return ResourceView(canonical(type), "x", f"urn:pulumi:s::p::{type}::x", InputNode(properties), True, {} if state is None else state)


def breached(rule: str, type: str, properties: dict[str, Any]) -> bool:
    breaches = evaluate(BY_ID[rule], resource(type, properties)).breaches
    assert not [b.fact for b in breaches if re.search(r"cannot read|\bNone\b", b.fact)], "judged by chance"
    assert len({(b.path, b.fact) for b in breaches}) == len(breaches), "told twice"
    return bool(breaches)


@pytest.mark.parametrize(("rule", "type", "place", "value"), REFUSED, ids=[f"{r[0]}-{n}" for n, r in enumerate(REFUSED)])
def test_a_known_way_around_a_rule_is_refused(rule: str, type: str, place: tuple[str | int, ...], value: Any) -> None:
    assert breached(rule, type, spoilt(type, place, value))


@pytest.mark.parametrize(("rule", "type", "place", "value"), ALLOWED, ids=[f"{r[0]}-{n}" for n, r in enumerate(ALLOWED)])
def test_what_resembles_a_way_around_is_allowed(rule: str, type: str, place: tuple[str | int, ...], value: Any) -> None:
    assert not breached(rule, type, spoilt(type, place, value))


@pytest.mark.parametrize(("rule", "type", "place", "value"), REFUSED, ids=[f"{r[0]}-{n}" for n, r in enumerate(REFUSED)])
def test_a_refusal_names_a_place_of_the_resource(rule: str, type: str, place: tuple[str | int, ...], value: Any) -> None:
    properties = spoilt(type, place, value)
    known = {*properties, *GOOD.get(canonical(type), {}), *map(str, place[:1]), *PLACES}
    breaches = evaluate(BY_ID[rule], resource(type, properties)).breaches
    assert {re.split(r"[.\[]", b.dotted)[0] for b in breaches if b.path} <= known


@pytest.mark.parametrize(
    ("rule", "type", "place", "value", "fact"),
    [
        ("sidecar-stays-closed", SC, ("spec", "outboundTrafficPolicy"), {}, "(ALLOW_ANY)"),
        ("sidecar-stays-closed", SC, ("spec", "outboundTrafficPolicy"), {"mode": "ALLOW_ANY", "egressProxy": {}}, "(ALLOW_ANY)"),
        (
            "admission-denies",
            f"{HOOKS}v1:ValidatingAdmissionPolicyBinding",
            ("spec", "validationActions"),
            ["Warn", "Audit"],
            "(it answers with Warn, Audit)",
        ),
        ("admission-denies", f"{HOOKS}v1:ValidatingAdmissionPolicyBinding", ("spec", "validationActions"), [], "(it answers with nothing)"),
        ("proxy-filter-bounded", EF, ("spec", "configPatches", 0, "match"), ABSENT, "context ANY reaches"),
        ("destination-by-mutual-tls", DR, ("spec", "host"), "", "no host takes in"),
        ("destination-by-mutual-tls", DR, ("spec", "host"), "*.vision.svc", "*.vision.svc takes in"),
        ("proxy-filter-bounded", EF, ("spec", "configPatches", 0, "match", "listener"), ABSENT, "a filter without a name in the gateway"),
    ],
)
def test_a_refusal_says_what_stands_there(rule: str, type: str, place: tuple[str | int, ...], value: Any, fact: str) -> None:
    breaches = evaluate(BY_ID[rule], resource(type, spoilt(type, place, value))).breaches
    assert any(fact in b.fact for b in breaches), breaches


@pytest.mark.parametrize("key", ["httpTokens", "httpPutResponseHopLimit"])
def test_instance_metadata_that_is_left_open_is_named_by_its_option(key: str) -> None:
    template = "aws:ec2/launchTemplate:LaunchTemplate"
    (breach,) = evaluate(
        BY_ID["instance-metadata-protected"], resource(template, spoilt(template, ("metadataOptions", key), ABSENT))
    ).breaches
    assert breach.dotted == f"metadataOptions.{key}"


def test_a_way_in_clear_is_told_once_where_it_is_said() -> None:
    (breach,) = evaluate(
        BY_ID["destination-by-mutual-tls"], resource(DR, spoilt(DR, ("spec", "trafficPolicy", "tls", "mode"), "SIMPLE"))
    ).breaches
    assert breach.dotted == "spec.trafficPolicy.tls.mode"


@pytest.mark.parametrize(
    ("terms", "refused"), [([POOLS], False), ([POOLS, POOLS], False), ([POOLS, LINUX], True), ([LINUX], True), ([], True)]
)
def test_every_alternative_of_an_affinity_names_a_pool(terms: list[dict[str, Any]], refused: bool) -> None:
    pod = spoilt(D, (*POD, "nodeSelector"), ABSENT)
    pod["spec"]["template"]["spec"]["affinity"] = required(*terms)
    assert breached("gpu-pod-names-its-pool", D, pod) is refused


def test_a_volume_of_the_cluster_is_no_way_to_a_nodes_disk() -> None:
    for kind in ("hostPath", "local"):
        assert breached("no-host-access", "kubernetes:core/v1:PersistentVolume", {"spec": {kind: {"path": "/"}}})
    assert not breached("no-host-access", "kubernetes:core/v1:PersistentVolume", {"spec": {"csi": {"driver": "ebs.csi.aws.com"}}})


@pytest.mark.parametrize(
    "type",
    [
        "kubernetes:networking.k8s.io/v1:Ingress",
        "kubernetes:networking.istio.io/v1beta1:Gateway",
        "kubernetes:gateway.networking.k8s.io/v1beta1:Gateway",
    ],
)
def test_only_the_gateway_is_reachable_from_outside(type: str) -> None:
    assert breached("no-public-service", type, {"metadata": {"namespace": "vision"}, "spec": {}})
    assert not breached("no-public-service", type, {"metadata": {"namespace": "istio-ingress"}, "spec": {}})


def test_a_load_balancer_of_aws_is_internal() -> None:
    assert breached("no-public-service", "aws:lb/loadBalancer:LoadBalancer", {"name": "x"})
    assert not breached("no-public-service", "aws:lb/loadBalancer:LoadBalancer", {"internal": True})


@pytest.mark.parametrize(
    ("written", "known"),
    [
        ("kubernetes:extensions/v1beta1:Deployment", D),
        ("kubernetes:apps/v1beta2:StatefulSet", "kubernetes:apps/v1:StatefulSet"),
        ("kubernetes:batch/v1beta1:CronJob", "kubernetes:batch/v1:CronJob"),
        ("kubernetes:rbac.authorization.k8s.io/v1beta1:RoleBinding", "kubernetes:rbac.authorization.k8s.io/v1:RoleBinding"),
        ("kubernetes:extensions/v1beta1:Ingress", "kubernetes:extensions/v1beta1:Ingress"),
    ],
)
def test_an_older_version_of_a_kind_is_the_same_kind(written: str, known: str) -> None:
    assert canonical(written) == known


class TestQuota:
    """Ways to have more GPUs than a quota of four grants, each in two objects."""

    RULE = BY_ID["tenant-quota-not-exceeded"]

    def breaches(self, *objects: tuple[str, dict[str, Any]]) -> list[str]:
        state: dict[str, Any] = {}
        return [breach.fact for type, properties in objects for breach in evaluate(self.RULE, resource(type, properties, state)).breaches]

    @staticmethod
    def workload(name: str = "a", **spec: Any) -> dict[str, Any]:
        pod = {"containers": [{"name": "s", "resources": {"limits": {"nvidia.com/gpu": "3"}}}]}
        return {"metadata": {"name": name, "namespace": "vision"}, "spec": {"template": {"spec": pod}, **spec}}

    QUOTA = ("kubernetes:core/v1:ResourceQuota", GOOD["kubernetes:core/v1:ResourceQuota"])

    def test_one_workload_of_three_fits(self) -> None:
        assert self.breaches(self.QUOTA, (D, self.workload())) == []

    def test_a_quota_of_limits_counts_as_one_of_requests(self) -> None:
        limited = {"metadata": {"namespace": "vision"}, "spec": {"hard": {"limits.nvidia.com/gpu": "2"}}}
        (fact,) = self.breaches((self.QUOTA[0], limited), (D, self.workload()))
        assert "would use 3 nvidia.com/gpu (a 1 x 3)" in fact

    def test_two_workloads_of_one_name_and_different_kinds_are_two(self) -> None:
        (fact,) = self.breaches(self.QUOTA, (D, self.workload()), ("kubernetes:batch/v1:Job", self.workload()))
        assert "would use 6 nvidia.com/gpu (a 1 x 3, a 1 x 3)" in fact

    def test_any_kind_of_autoscaler_counts_to_its_maximum(self) -> None:
        scaler = {"metadata": {"namespace": "vision"}, "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "a"}, "maxReplicas": 2}}
        (fact,) = self.breaches(self.QUOTA, (D, self.workload()), ("kubernetes:autoscaling/v2:HorizontalPodAutoscaler", scaler))
        assert "would use 6 nvidia.com/gpu (a 2 x 3)" in fact

    def test_scaled_jobs_count_to_their_maximum(self) -> None:
        pod = self.workload()["spec"]["template"]
        job = {"metadata": {"name": "j", "namespace": "vision"}, "spec": {"jobTargetRef": {"template": pod}, "maxReplicaCount": 2}}
        (fact,) = self.breaches(self.QUOTA, ("kubernetes:keda.sh/v1alpha1:ScaledJob", job))
        assert "would use 6 nvidia.com/gpu (j 2 x 3)" in fact
