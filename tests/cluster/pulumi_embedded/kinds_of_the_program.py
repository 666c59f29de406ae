"""One object of each kind that the program registers, in the spelling that the API server likes least."""

from pulumi_embedded.engine.provider import Properties

RULES = "rbac.authorization.k8s.io"


def pod_template() -> Properties:
    return {
        "metadata": {"labels": {"app": "web"}},
        "spec": {
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "topologySpreadConstraints": [
                {
                    "maxSkew": 1,
                    "topologyKey": "zone",
                    "whenUnsatisfiable": "ScheduleAnyway",
                    "labelSelector": {"matchLabels": {"app": "web"}},
                }
            ],
            "initContainers": [{"name": "fetch", "image": "a", "restartPolicy": "Always", "resources": {}}],
            "containers": [
                {
                    "name": "server",
                    "image": "b",
                    "env": [{"name": "A", "value": ""}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                    "ports": [{"containerPort": 8000, "name": "http"}],
                    "resources": {"requests": {"cpu": "1000m", "memory": "1024Mi"}, "limits": {"cpu": 2, "memory": "2048Mi"}},
                    "readinessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 10},
                    "volumeMounts": [{"name": "cache", "mountPath": "/cache"}],
                }
            ],
            "volumes": [{"name": "cache", "emptyDir": {"sizeLimit": "1024Mi"}}],
        },
    }


def workload_kinds(team: str) -> dict[str, tuple[str, Properties]]:
    """What runs, and what it needs."""
    here: Properties = {"namespace": team}
    labels = {"matchLabels": {"app": "web"}}
    return {
        "account": ("core/v1:ServiceAccount", {"metadata": here, "automountServiceAccountToken": False}),
        "config": ("core/v1:ConfigMap", {"metadata": here, "data": {"a": ""}, "immutable": False}),
        "deployment": (
            "apps/v1:Deployment",
            {
                "metadata": {**here, "annotations": {"pulumi.com/skipAwait": "true"}},
                "spec": {"selector": labels, "template": pod_template()},
            },
        ),
        "service": (
            "core/v1:Service",
            {"metadata": here, "spec": {"selector": {"app": "none"}, "ports": [{"name": "http", "port": 80, "targetPort": "http"}]}},
        ),
        "budget": ("policy/v1:PodDisruptionBudget", {"metadata": here, "spec": {"maxUnavailable": 1, "selector": labels}}),
    }


def custom_kinds(team: str) -> dict[str, tuple[str, Properties]]:
    """Kinds of definitions that charts bring."""
    here: Properties = {"namespace": team}
    labels = {"matchLabels": {"app": "web"}}
    query = {"type": "prometheus", "metadata": {"serverAddress": "http://p", "query": "sum(x)", "threshold": "5"}}
    return {
        "monitor": (
            "monitoring.coreos.com/v1:PodMonitor",
            {"metadata": here, "spec": {"selector": labels, "podMetricsEndpoints": [{"port": "http", "interval": "15s"}]}},
        ),
        "routes": (
            "networking.istio.io/v1:VirtualService",
            {
                "metadata": here,
                "spec": {
                    "hosts": ["web"],
                    "http": [
                        {
                            "timeout": "30s",
                            "route": [{"destination": {"host": "a"}, "weight": 100}, {"destination": {"host": "b"}, "weight": 0}],
                        }
                    ],
                },
            },
        ),
        "rules": (
            "monitoring.coreos.com/v1:PrometheusRule",
            {"metadata": here, "spec": {"groups": [{"name": "g", "rules": [{"alert": "Down", "expr": "up == 0", "for": "5m"}]}]}},
        ),
        "scaling": (
            "keda.sh/v1alpha1:ScaledObject",
            {
                "metadata": here,
                "spec": {"scaleTargetRef": {"name": "web"}, "minReplicaCount": 1, "maxReplicaCount": 4, "triggers": [query]},
            },
        ),
        "traffic": (
            "networking.istio.io/v1:DestinationRule",
            {
                "metadata": here,
                "spec": {"host": "web", "trafficPolicy": {"outlierDetection": {"consecutive5xxErrors": 5, "interval": "10s"}}},
            },
        ),
    }


def policy_kinds(team: str) -> dict[str, tuple[str, Properties]]:
    """Rights, limits and rules."""
    here: Properties = {"namespace": team}
    expressions = [{"expression": "!has(object.spec.hostNetwork)", "message": "no host network"}]
    resources = [{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]}]
    metadata = {"name": f"headway-{team}"}
    return {
        "binding": (
            f"{RULES}/v1:RoleBinding",
            {
                "metadata": here,
                "roleRef": {"apiGroup": RULES, "kind": "Role", "name": "reader"},
                "subjects": [{"kind": "Group", "name": "team", "apiGroup": RULES}],
            },
        ),
        "limits": (
            "core/v1:LimitRange",
            {
                "metadata": here,
                "spec": {"limits": [{"type": "Container", "default": {"cpu": "1000m"}, "max": {"memory": "1024Gi", "cpu": 64}}]},
            },
        ),
        "network": (
            "networking.k8s.io/v1:NetworkPolicy",
            {
                "metadata": here,
                "spec": {
                    "podSelector": {},
                    "policyTypes": ["Ingress"],
                    "ingress": [{"from": [{"podSelector": {}}], "ports": [{"port": 80}]}],
                },
            },
        ),
        "policy": (
            "admissionregistration.k8s.io/v1:ValidatingAdmissionPolicy",
            {
                "metadata": metadata,
                "spec": {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": resources}, "validations": expressions},
            },
        ),
        "policy-binding": (
            "admissionregistration.k8s.io/v1:ValidatingAdmissionPolicyBinding",
            {"metadata": metadata, "spec": {"policyName": f"headway-{team}", "validationActions": ["Deny"]}},
        ),
        "priority": (
            "scheduling.k8s.io/v1:PriorityClass",
            {"metadata": metadata, "value": 1000, "globalDefault": False, "description": ""},
        ),
        "quota": (
            "core/v1:ResourceQuota",
            {"metadata": here, "spec": {"hard": {"requests.cpu": "64000m", "pods": 50, "requests.nvidia.com/gpu": 8}}},
        ),
        "role": (
            f"{RULES}/v1:Role",
            {"metadata": {**here, "name": "reader"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
        ),
    }


def kinds(team: str) -> dict[str, tuple[str, Properties]]:
    """What the program registers, in the spelling that the API server likes least."""
    return {**workload_kinds(team), **policy_kinds(team), **custom_kinds(team)}
