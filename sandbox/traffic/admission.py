"""Marks the pods of served services as they are created, so that the node agent runs them and kwok leaves them alone.
Pure.

The program that renders the pods is the one that production runs and knows nothing of this: the API server adds the
annotations by a MutatingAdmissionPolicy of the sandbox. It acts on creation only; pods that were simulated before are
replaced by whoever applies it.
"""

from collections.abc import Iterable
from typing import Any

from headway.wire import MODEL, PREFIX, TENANT
from sandbox.cluster.nodes import RUN_BY_AGENT, STATUS_BY_OTHERS
from sandbox.traffic.profile import ServedModel

NAME = "headway-sandbox-served"
API = "/apis/admissionregistration.k8s.io/v1"
MARKS = {**RUN_BY_AGENT, **STATUS_BY_OTHERS}


def policy(served: Iterable[ServedModel]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The policy and its binding; `served` are the services whose new pods are marked."""
    names = sorted(f"{each.tenant}/{each.model}" for each in served)
    patches = ", ".join(
        f'JSONPatch{{op: "add", path: "/metadata/annotations/" + jsonpatch.escapeKey("{key}"), value: "{value}"}}'
        for key, value in sorted(MARKS.items())
    )
    labels = f"object.metadata.?labels['{TENANT}'].orValue('') + '/' + object.metadata.?labels['{MODEL}'].orValue('')"
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": NAME},
        "spec": {
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "matchConstraints": {
                "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]
            },
            "matchConditions": [
                {"name": "of-a-served-service", "expression": f"{labels} in {names!r}"},
                {"name": "has-annotations", "expression": "has(object.metadata.annotations)"},
            ],
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": f"[{patches}]"}}],
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": NAME},
        "spec": {"policyName": NAME},
    }
    return policy, binding


def specimen(served: ServedModel) -> dict[str, Any]:
    """A pod that the policy must mark; created as a trial only, it shows whether the policy is in force."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "specimen",
            "namespace": "default",
            "labels": {MODEL: served.model, TENANT: served.tenant},
            "annotations": {f"sandbox.{PREFIX}/trial": "true"},
        },
        "spec": {"containers": [{"name": "server", "image": "none"}]},
    }
