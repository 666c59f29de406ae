"""Who has an identity in AWS has its credentials too: a pod into which nobody has written any is refused. Pure.

EKS writes them only while a pod is made, and an association takes effect some seconds after AWS has said that it is there
(EKS API reference, CreatePodIdentityAssociation; terraform-aws-modules/terraform-aws-eks-pod-identity#8). A pod of those
seconds would ask AWS in vain, however often it starts. Refused, its controller makes it again within seconds. The trap:
a policy matches pods, not what makes them; the refusal shows up as an event of the ReplicaSet.
"""

from components.labels import labels
from components.manifests import Manifest, object_
from components.naming import physical

CONTAINERS = "(object.spec.containers + (has(object.spec.initContainers) ? object.spec.initContainers : []))"
"""A pod's, as an expression."""
CREDENTIALS = ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_WEB_IDENTITY_TOKEN_FILE")
"""What EKS's webhook writes into each container, by Pod Identity or by IRSA (aws/amazon-eks-pod-identity-webhook,
pkg/handler/handler.go, `addEnvToContainer`).
"""
_KIND, _NAME_LIMIT = "admissionregistration.k8s.io/v1", 63


def has_credentials(service_account: str, in_vain: str) -> dict[str, str]:
    """The validation that refuses a pod of `service_account` into which nobody has written credentials; `in_vain`: what it could not do."""
    written = f"c.env.exists(e, e.name in {list(CREDENTIALS)})"
    return {
        "expression": (
            f"!has(object.spec.serviceAccountName) || object.spec.serviceAccountName != '{service_account}' || "
            f"{CONTAINERS}.exists(c, has(c.env) && {written})"
        ),
        "message": (
            f"EKS has written no AWS credentials into this pod of the service account {service_account}. It could never {in_vain}. Its "
            "controller makes it again; if this lasts, see that the account has its Pod Identity association, or with IRSA its role annotation."
        ),
        "reason": "Forbidden",
    }


def manifests(namespace: str, service_account: str) -> tuple[Manifest, Manifest]:
    """The policy about one service account of the platform, and what binds it to the account's namespace."""
    name, found = physical("headway-credentials", namespace, service_account, limit=_NAME_LIMIT), labels("admission")
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        },
        "validations": [has_credentials(service_account, "ask AWS for anything")],
    }
    binding = {"policyName": name, "validationActions": ["Deny"]}
    return (
        Manifest(role="policy", body=object_(_KIND, "ValidatingAdmissionPolicy", name, labels=found, spec=policy)),
        Manifest(
            role="binding", after=("policy",), body=object_(_KIND, "ValidatingAdmissionPolicyBinding", name, labels=found, spec=binding)
        ),
    )
