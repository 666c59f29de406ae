"""A world in which every rule is content: one well-made resource of each type, to be spoilt in one place at a time."""

import copy
from typing import Any

from headway.wire import MODEL, RELEASE, TENANT, WORKLOAD_CLASS
from policies.guardrails.refused_examples import ABSENT
from policies.guardrails.view import canonical

DIGEST = "sha256:" + "ab" * 32
_LABELS = {TENANT: "vision", MODEL: "defects", RELEASE: "r1", "platform.io/runtime": "triton"}
_SERVER = {
    "name": "server",
    "image": f"nvcr.io/nvidia/tritonserver@{DIGEST}",
    "imagePullPolicy": "IfNotPresent",
    "resources": {
        "requests": {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"},
        "limits": {"memory": "16Gi", "nvidia.com/gpu": "1"},
    },
    "securityContext": {"runAsNonRoot": True, "allowPrivilegeEscalation": False},
    "env": [{"name": "MAX_TOKENS", "value": "4096"}],
    "startupProbe": {"exec": {"command": ["probe"]}},
    "readinessProbe": {"exec": {"command": ["probe"]}},
    "livenessProbe": {"exec": {"command": ["probe"]}},
}
_POD = {
    "containers": [_SERVER],
    "nodeSelector": {"platform.io/pool": "l4"},
    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
    "priorityClassName": "latency",
    "automountServiceAccountToken": False,
    "terminationGracePeriodSeconds": 60,
    "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}],
}
_ALLOW = {"Sid": "Read", "Effect": "Allow", "Action": ["s3:GetObject"], "Resource": ["arn:aws:s3:::models/vision/*"]}

GOOD: dict[str, dict[str, Any]] = {
    "kubernetes:apps/v1:Deployment": {
        "metadata": {"name": "defects-r1", "namespace": "vision"},
        "spec": {"template": {"metadata": {"labels": _LABELS}, "spec": _POD}},
    },
    "kubernetes:apps/v1:DeploymentList": {},
    "kubernetes:core/v1:Namespace": {
        "metadata": {"name": "vision", "labels": {TENANT: "vision", "pod-security.kubernetes.io/enforce": "restricted"}}
    },
    "kubernetes:core/v1:Service": {"metadata": {"name": "defects", "namespace": "vision"}, "spec": {"type": "ClusterIP"}},
    "kubernetes:core/v1:ResourceQuota": {
        "metadata": {"name": "gpus", "namespace": "vision"},
        "spec": {"hard": {"requests.nvidia.com/gpu": "4"}},
    },
    "kubernetes:keda.sh/v1alpha1:ScaledObject": {
        "metadata": {"name": "defects", "namespace": "vision", "labels": {WORKLOAD_CLASS: "latency"}},
        "spec": {
            "scaleTargetRef": {"name": "defects-r1"},
            "minReplicaCount": 1,
            "maxReplicaCount": 4,
            "fallback": {"failureThreshold": 3, "replicas": 2},
            "triggers": [{"type": "prometheus", "metadata": {"ignoreNullValues": "false"}}],
        },
    },
    "kubernetes:networking.istio.io/v1:VirtualService": {
        "metadata": {"name": "defects", "namespace": "vision"},
        "spec": {
            "hosts": ["defects.vision.example"],
            "http": [
                {
                    "timeout": "1s",
                    "route": [{"destination": {"host": "a"}, "weight": 90}, {"destination": {"host": "b"}, "weight": 10}],
                }
            ],
        },
    },
    "kubernetes:networking.istio.io/v1:EnvoyFilter": {
        "metadata": {"name": "tenant-vision", "namespace": "istio-ingress", "labels": {"platform.io/tenant": "vision"}},
        "spec": {
            "workloadSelector": {"labels": {"istio": "ingressgateway"}},
            "configPatches": [
                {
                    "applyTo": "HTTP_FILTER",
                    "match": {"context": "GATEWAY", "listener": {"filterChain": {"filter": {"subFilter": {"name": "headway.rate_limit"}}}}},
                    "patch": {"operation": "MERGE", "value": {"name": "headway.rate_limit"}},
                },
                {
                    "applyTo": "VIRTUAL_HOST",
                    "match": {"context": "GATEWAY", "routeConfiguration": {"vhost": {"domainName": "defects.vision.example"}}},
                    "patch": {
                        "operation": "MERGE",
                        "value": {"request_body_buffer_limit": 2**20, "typed_per_filter_config": {"headway.overload": {}}},
                    },
                },
            ],
        },
    },
    "kubernetes:security.istio.io/v1:PeerAuthentication": {"spec": {"mtls": {"mode": "STRICT"}}},
    "kubernetes:policy/v1:PodDisruptionBudget": {"spec": {"maxUnavailable": 1}},
    "kubernetes:rbac.authorization.k8s.io/v1:RoleBinding": {
        "roleRef": {"kind": "Role", "name": "viewer"},
        "subjects": [{"kind": "Group", "name": "vision-team"}],
    },
    "kubernetes:rbac.authorization.k8s.io/v1:Role": {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
    "kubernetes:rbac.authorization.k8s.io/v1:ClusterRole": {
        "metadata": {"name": "headway-cache", "labels": {"app": "cache"}},
        "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}],
    },
    "kubernetes:networking.k8s.io/v1:NetworkPolicy": {
        "metadata": {"name": "isolation", "namespace": "vision"},
        "spec": {
            "podSelector": {},
            "policyTypes": ["Egress", "Ingress"],
            "ingress": [
                {"from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "istio-ingress"}}}]},
                {"from": [{"podSelector": {}}, {"ipBlock": {"cidr": "10.0.224.0/28"}}]},
            ],
            "egress": [
                {
                    "to": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8", "169.254.0.0/16"]}}],
                    "ports": [{"port": 443, "protocol": "TCP"}],
                }
            ],
        },
    },
    "kubernetes:security.istio.io/v1:AuthorizationPolicy": {
        "metadata": {"name": "callers", "namespace": "vision"},
        "spec": {"action": "ALLOW", "rules": [{"from": [{"source": {"namespaces": ["istio-ingress", "vision"]}}]}]},
    },
    "kubernetes:security.istio.io/v1:RequestAuthentication": {
        "metadata": {"name": "tenant-vision", "namespace": "istio-ingress"},
        "spec": {
            "jwtRules": [
                {
                    "issuer": "https://login.example.com/a",
                    "audiences": ["vision"],
                    "jwksUri": "https://login.example.com/a/certs",
                    "outputClaimToHeaders": [{"header": "x-user-id", "claim": "sub"}],
                }
            ]
        },
    },
    "kubernetes:networking.istio.io/v1:DestinationRule": {
        "metadata": {"name": "defects", "namespace": "vision"},
        "spec": {"host": "defects.vision.svc.cluster.local", "trafficPolicy": {"tls": {"mode": "ISTIO_MUTUAL"}}},
    },
    "kubernetes:networking.istio.io/v1:Sidecar": {
        "metadata": {"name": "defects", "namespace": "vision"},
        "spec": {"egress": [{"hosts": ["./*", "istio-system/*"]}]},
    },
    "kubernetes:networking.istio.io/v1:ServiceEntry": {
        "metadata": {"name": "registry", "namespace": "vision"},
        "spec": {
            "hosts": ["models.example.com"],
            "location": "MESH_EXTERNAL",
            "resolution": "DNS",
            "ports": [{"number": 443, "name": "tls", "protocol": "TLS"}],
            "exportTo": ["."],
        },
    },
    "kubernetes:admissionregistration.k8s.io/v1:ValidatingAdmissionPolicy": {
        "spec": {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": [{"resources": ["pods"]}]}}
    },
    "kubernetes:admissionregistration.k8s.io/v1:ValidatingAdmissionPolicyBinding": {
        "spec": {"policyName": "rule", "validationActions": ["Deny"], "matchResources": {}}
    },
    "kubernetes:admissionregistration.k8s.io/v1:MutatingWebhookConfiguration": {
        "webhooks": [
            {
                "name": "inject.example.com",
                "failurePolicy": "Fail",
                "clientConfig": {"service": {"name": "inject", "namespace": "istio-system"}},
                "namespaceSelector": {"matchLabels": {"inject": "yes"}},
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
            }
        ]
    },
    "kubernetes:monitoring.coreos.com/v1:PrometheusRule": {
        "spec": {"groups": [{"name": "g", "rules": [{"alert": "Slow", "annotations": {"runbook_url": "docs/runbooks/slow.md"}}]}]}
    },
    "pulumi:providers:aws": {"region": "eu-west-1"},
    "kubernetes:helm.sh/v3:Release": {"chart": "keda", "version": "2.20.2"},
    "aws:eks/cluster:Cluster": {
        "version": "1.36",
        "deletionProtection": True,
        "enabledClusterLogTypes": ["api", "audit", "authenticator"],
        "encryptionConfig": {"provider": {"keyArn": "arn:aws:kms:eu-west-1:1:key/k"}, "resources": ["secrets"]},
        "accessConfig": {"authenticationMode": "API", "bootstrapClusterCreatorAdminPermissions": False},
        "vpcConfig": {"endpointPublicAccess": False, "endpointPrivateAccess": True},
    },
    "aws:eks/nodeGroup:NodeGroup": {
        "launchTemplate": {"id": "lt-1", "version": "3"},
        "amiType": "AL2023_x86_64_NVIDIA",
        "releaseVersion": "1.36.2-20260714",
        "capacityType": "ON_DEMAND",
        "scalingConfig": {"desiredSize": 1, "minSize": 0, "maxSize": 8},
        "labels": {WORKLOAD_CLASS: "latency", "nvidia.com/device-plugin.config": "exclusive"},
        "taints": [{"key": "nvidia.com/gpu", "value": "true", "effect": "NO_SCHEDULE"}],
        "nodeRepairConfig": {"enabled": True},
    },
    "aws:eks/addon:Addon": {"addonName": "vpc-cni", "addonVersion": "v1.23.1-eksbuild.1"},
    "aws:ec2/launchTemplate:LaunchTemplate": {
        "metadataOptions": {"httpTokens": "required", "httpPutResponseHopLimit": 1},
        "blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"encrypted": "true", "volumeSize": 200}}],
        "networkInterfaces": [{"associatePublicIpAddress": "false"}],
    },
    "aws:ec2/subnet:Subnet": {"cidrBlock": "10.0.0.0/19"},
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": {"cidrIpv4": "10.0.0.0/16"},
    "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock": {
        "blockPublicAcls": True,
        "blockPublicPolicy": True,
        "ignorePublicAcls": True,
        "restrictPublicBuckets": True,
    },
    "aws:s3/bucket:Bucket": {"bucket": "models"},
    "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration": {
        "rules": [{"applyServerSideEncryptionByDefault": {"sseAlgorithm": "aws:kms", "kmsMasterKeyId": "k"}}]
    },
    "aws:s3/bucketPolicy:BucketPolicy": {
        "policy": '{"Statement": [{"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Condition": {"Bool": {"aws:SecureTransport": "false"}}}]}'
    },
    "aws:sqs/queue:Queue": {"kmsMasterKeyId": "alias/queue"},
    "aws:kms/key:Key": {"enableKeyRotation": True},
    "aws:ecr/repository:Repository": {
        "imageTagMutability": "IMMUTABLE",
        "imageScanningConfiguration": {"scanOnPush": True},
        "encryptionConfigurations": [{"encryptionType": "KMS", "kmsKey": "k"}],
    },
    "aws:cloudwatch/logGroup:LogGroup": {"retentionInDays": 90, "kmsKeyId": "k"},
    "aws:iam/policy:Policy": {"policy": {"Statement": [_ALLOW]}},
    "aws:iam/role:Role": {
        "assumeRolePolicy": {
            "Statement": [{"Effect": "Allow", "Principal": {"Service": "pods.eks.amazonaws.com"}, "Action": "sts:AssumeRole"}]
        }
    },
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment": {"policyArn": "arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy"},
}


def spoilt(type: str, path: tuple[str | int, ...], value: Any) -> dict[str, Any]:
    """A copy of the good resource of `type` with one place changed: of a kind that has no good one, that place alone; without a place, `value` itself."""
    properties = copy.deepcopy(GOOD.get(canonical(type), {}))
    place: Any = properties
    if not path:
        return copy.deepcopy(value)
    for step in path[:-1]:
        place = place.setdefault(step, {}) if isinstance(place, dict) else place[step]
    if value is ABSENT:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return properties
