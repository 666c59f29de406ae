"""What the loop of node health may change of a node, of which its role lets it patch everything. Pure.

Its quarantine, and the taint of a node that MIG has still to cut, which it may take off and not put there. It cannot
cordon, either: whoever drains for another reason would undo that (ADR 9).
"""

import json

from components.platform.rule import NODES, AdmissionRule
from headway.wire import MIG_STATE, MIG_TAINT, NODE_HEALTH_NAMESPACE, QUARANTINE


def _both(field: str) -> str:
    """That a field of a node is what it was, or is not there as it was not."""
    parent, _, name = field.rpartition(".")
    there = [f"has({root}.{parent}.{name})" for root in ("object", "oldObject")]
    return f"{there[0]} == {there[1]} && (!{there[0]} || object.{field} == oldObject.{field})"


def _taints(root: str) -> str:
    # dyn, because an empty list has no type of its own.
    return f"has({root}.spec.taints) ? dyn({root}.spec.taints) : dyn([])"


def _notes(root: str) -> str:
    return f"has({root}.metadata.annotations) ? {root}.metadata.annotations : {{}}"


_SUCCESS = f"'{MIG_STATE}' in variables.labels && variables.labels['{MIG_STATE}'] == 'success'"

RULE = AdmissionRule(
    name="nodes-stay-as-they-are",
    resources=NODES,
    user=f"system:serviceaccount:{NODE_HEALTH_NAMESPACE}:{NODE_HEALTH_NAMESPACE}",
    variables=(
        ("taints", _taints("object")),
        ("taintsBefore", _taints("oldObject")),
        ("notes", _notes("object")),
        ("notesBefore", _notes("oldObject")),
        ("own", json.dumps(sorted((MIG_TAINT, QUARANTINE)))),
        ("uncut", f"variables.taints.filter(t, t.key == '{MIG_TAINT}')"),
        ("uncutBefore", f"variables.taintsBefore.filter(t, t.key == '{MIG_TAINT}')"),
    ),
    expression=" && ".join(
        (
            "variables.taints.filter(t, !(t.key in variables.own)) == variables.taintsBefore.filter(t, !(t.key in variables.own))",
            f"variables.taints.all(t, t.key != '{QUARANTINE}' || t.effect == 'NoSchedule')",
            f"(variables.uncut == variables.uncutBefore || (variables.uncut.size() == 0 && {_SUCCESS}))",
            f"variables.notes.all(k, k == '{QUARANTINE}' || (k in variables.notesBefore && variables.notesBefore[k] == variables.notes[k]))",
            f"variables.notesBefore.all(k, k == '{QUARANTINE}' || k in variables.notes)",
            *(
                _both(field)
                for field in (
                    "metadata.finalizers",
                    "metadata.labels",
                    "metadata.ownerReferences",
                    "spec.configSource",
                    "spec.podCIDRs",
                    "spec.providerID",
                    "spec.unschedulable",
                )
            ),
        )
    ),
    message=(
        f"The loop of node health would change more of a node than its quarantine ({QUARANTINE}), or would admit one of which the MIG manager "
        "has not said success. Pods could land where they must not, or leave where they need not. Leave the rest of the node as it is."
    ),
)
