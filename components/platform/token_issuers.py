"""The API server's own word on whose keys an issuer of tokens has. Pure.

All tenants' callers enter by one gateway, and its proxies look a token's keys up by the issuer that it names, whichever
tenant stated them: with keys of its own for another's issuer, a tenant would sign tokens for the other's models.
`headway check` sees the contracts that lie in one checkout; this policy sees the objects of all. Each object that is
written is held against every one that is there, as parameters of the policy (Kubernetes, Validating Admission Policy,
"Parameter resources").
"""

from components.labels import labels
from components.manifests import Manifest, object_
from headway.wire import GATEWAY_NAMESPACE

NAME = "headway-issuer-keys"
_KIND = {"apiVersion": "security.istio.io/v1", "kind": "RequestAuthentication"}
_SAME_KEYS = (
    "object.spec.?jwtRules.orValue([]).all(mine, params.spec.?jwtRules.orValue([]).all(theirs, mine.issuer != theirs.issuer || "
    "(mine.?jwksUri.orValue('') == theirs.?jwksUri.orValue('') && mine.?jwks.orValue('') == theirs.?jwks.orValue(''))))"
)


def manifests() -> list[Manifest]:
    """The policy, and what binds it to the gateway's namespace."""
    kind, found = "admissionregistration.k8s.io/v1", labels("admission")
    written = {
        "apiGroups": ["security.istio.io"],
        "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["requestauthentications"],
    }
    gateway = {"matchLabels": {"kubernetes.io/metadata.name": GATEWAY_NAMESPACE}}
    policy = {
        "failurePolicy": "Fail",
        "paramKind": _KIND,
        "matchConstraints": {"namespaceSelector": gateway, "resourceRules": [written]},
        "validations": [
            {
                "expression": f"params.metadata.name == object.metadata.name || ({_SAME_KEYS})",
                "messageExpression": (
                    "params.metadata.name + ' states other keys for an issuer of this object: the gateway would take tokens that either "
                    "has signed for callers of both. State the keys that the issuer publishes, or an issuer of the tenant\\'s own.'"
                ),
                "reason": "Forbidden",
            }
        ],
    }
    binding = {
        "policyName": NAME,
        "paramRef": {"namespace": GATEWAY_NAMESPACE, "parameterNotFoundAction": "Allow", "selector": {}},
        "validationActions": ["Deny"],
    }
    return [
        Manifest(role="issuer-keys", body=object_(kind, "ValidatingAdmissionPolicy", NAME, labels=found, spec=policy)),
        Manifest(
            role="issuer-keys-binding",
            after=("issuer-keys",),
            body=object_(kind, "ValidatingAdmissionPolicyBinding", NAME, labels=found, spec=binding),
        ),
    ]
