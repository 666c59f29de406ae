"""No EKS add-on is given a value that it does not know, or of another type: EKS refuses the add-on for it, in mid-apply.

`KNOWN` has of each add-on's own schema the part that we use, at the newest version whose source is public, which is
named; `*` is any key. EKS itself says what a version takes: `aws eks describe-addon-configuration`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from components.cluster.addons import configuration

KNOWN: Mapping[str, tuple[str, Mapping[str, type]]] = {
    "aws-ebs-csi-driver": (
        "kubernetes-sigs/aws-ebs-csi-driver v1.64.0, charts/aws-ebs-csi-driver/values.schema.json",
        {"controller.extraVolumeTags.*": str, "defaultStorageClass.enabled": bool, "node.tolerateAllTaints": bool},
    ),
    "coredns": (
        'EKS user guide, "Configuring CoreDNS autoscaling"',
        {"autoScaling.enabled": bool, "autoScaling.maxReplicas": int, "autoScaling.minReplicas": int},
    ),
    "eks-node-monitoring-agent": (
        "aws/eks-node-monitoring-agent v1.7.0, charts/configuration.schema.json",
        {"dcgmAgent.affinity": dict, "dcgmAgent.tolerations": list, "nodeAgent.monitors.neuron.enabled": bool},
    ),
    # Its switches are texts, unlike everybody else's.
    "vpc-cni": (
        'aws/amazon-vpc-cni-k8s v1.23.0, charts/aws-vpc-cni/values.yaml, and EKS user guide, "Restrict Pod network traffic with Kubernetes network policies"',
        {"enableNetworkPolicy": str, "env.ENABLE_PREFIX_DELEGATION": str, "env.WARM_PREFIX_TARGET": str},
    ),
}
GIVEN = configuration({"team": "platform"})


def unlike(given: Mapping[str, Any], known: Mapping[str, type], path: str = "") -> Iterator[str]:
    """Paths of `given` that the add-on does not take, or not with such a value."""
    for key, value in given.items():
        here = next((each for each in (f"{path}{key}", f"{path}*") if each in known), None)
        if here is not None:
            if type(value) is not known[here]:
                yield f"{path}{key}: {type(value).__name__}"
        elif isinstance(value, Mapping):
            yield from unlike(value, known, f"{path}{key}.")
        else:
            yield f"{path}{key}"


@pytest.mark.parametrize("addon", sorted(GIVEN))
def test_an_add_on_knows_every_value_that_it_is_given(addon: str) -> None:
    source, known = KNOWN[addon]
    assert list(unlike(GIVEN[addon], known)) == [], source


def test_a_misspelt_value_of_an_add_on_is_found_and_one_of_another_type() -> None:
    _, known = KNOWN["coredns"]
    given = {"autoScaling": {"enabled": "true", "maxReplica": 10, "minReplicas": 2}, "autoscaling": {"enabled": True}}
    assert list(unlike(given, known)) == ["autoScaling.enabled: str", "autoScaling.maxReplica", "autoscaling.enabled"]
