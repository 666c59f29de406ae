"""The EKS add-ons, each at a pinned version with the configuration that GPU nodes need.

Two groups: what a node needs to join (network, proxy, pod identities), installed before any; and what needs a node
to run on. The trap: the node monitoring agent's GPU half tolerates no taint by default, so on tainted nodes it never
starts, reports the GPUs as broken, and node repair replaces healthy nodes (aws/containers-roadmap#2567). Where it
tolerates all, it holds the GPUs of a node that MIG is to cut (NVIDIA/gpu-operator#2670).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_aws as aws

from components.identity import Binding, ClusterIdentity, WorkloadIdentity, WorkloadIdentityArgs
from components.permissions import Statement
from components.versions import ADDONS
from headway.wire import ACCELERATOR, MIG_CONFIG, MIG_STATE

AGENT = "eks-pod-identity-agent"
BEFORE_NODES = (AGENT, "kube-proxy", "vpc-cni")
ON_NODES = ("aws-ebs-csi-driver", "coredns", "eks-node-monitoring-agent", "metrics-server")
NAMESPACE = "kube-system"


def configuration(volume_tags: Mapping[str, str]) -> Mapping[str, Mapping[str, Any]]:
    """Configuration by add-on; volumes that pods claim get `volume_tags`, or nobody would know whose they are."""
    return {
        # Volumes may be needed on any node, GPU nodes included. The storage class is the platform's own: encrypted with its key.
        "aws-ebs-csi-driver": {
            "controller": {"extraVolumeTags": dict(volume_tags)},
            "defaultStorageClass": {"enabled": False},
            "node": {"tolerateAllTaints": True},
        },
        "coredns": {"autoScaling": {"enabled": True, "maxReplicas": 10, "minReplicas": 2}},
        "eks-node-monitoring-agent": {
            "dcgmAgent": {"affinity": gpus_are_cut(), "tolerations": [{"operator": "Exists"}]},
            "nodeAgent": {"monitors": {"neuron": {"enabled": False}}},
        },
        "vpc-cni": {"enableNetworkPolicy": "true", "env": {"ENABLE_PREFIX_DELEGATION": "true", "WARM_PREFIX_TARGET": "1"}},
    }


def gpus_are_cut() -> Mapping[str, Any]:
    """Where the agent's host engine of DCGM may run: on GPU nodes without MIG, and on those that MIG has cut.

    Left out for good it may not be, because the agent learns Xids from it alone (its `monitors/nvidia/dcgm`). The
    controller of DaemonSets takes the pod away when the labels no longer match (kubernetes, `NodeShouldRunDaemonPod`
    of `pkg/controller/daemon`), so a later cut finds the GPUs free too. The add-on's schema takes any affinity
    (`charts/configuration.schema.json` of aws/eks-node-monitoring-agent); a list replaces the chart's own, so it
    names the architecture again.
    """
    gpus = ({"key": ACCELERATOR, "operator": "Exists"}, {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]})
    whole = {"key": MIG_CONFIG, "operator": "DoesNotExist"}
    cut = {"key": MIG_STATE, "operator": "In", "values": ["success"]}
    terms = [{"matchExpressions": [*gpus, this]} for this in (whole, cut)]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


@dataclass(frozen=True, kw_only=True)
class AddonsArgs:
    """`identity` names the cluster; its waiting name must be set. Under IRSA the agent of Pod Identity is left out of `names`."""

    identity: ClusterIdentity
    names: Sequence[str]
    volumes_key_arn: pulumi.Input[str]
    volume_tags: Mapping[str, str]
    after: Sequence[pulumi.Resource] = ()


class Addons(pulumi.ComponentResource):
    """Installs some of the EKS add-ons, with the IAM roles that they need."""

    all: list[aws.eks.Addon]

    def __init__(self, name: str, args: AddonsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("headway:cluster:Addons", name, {}, opts)
        self.all = []
        # The agent hands out Pod Identity's credentials and does nothing else.
        names = sorted(set(args.names) - ({AGENT} if args.identity.binding is Binding.IRSA else set()))
        for addon in names:
            wanted = identity_of(addon, args)
            identity = WorkloadIdentity(f"{name}-{addon}", wanted, pulumi.ResourceOptions(parent=self)) if wanted else None
            configured = configuration(args.volume_tags).get(addon)
            self.all.append(
                aws.eks.Addon(
                    f"{name}-{addon}",
                    cluster_name=args.identity.waiting_name or args.identity.name,
                    addon_name=addon,
                    addon_version=ADDONS[addon],
                    configuration_values=json.dumps(configured, sort_keys=True) if configured else None,
                    resolve_conflicts_on_create="OVERWRITE",
                    resolve_conflicts_on_update="OVERWRITE",
                    service_account_role_arn=identity.addon_role_arn if identity else None,
                    opts=pulumi.ResourceOptions(parent=self, depends_on=[*args.after, *([identity] if identity else [])]),
                )
            )
        self.register_outputs({"names": names})


def identity_of(addon: str, args: AddonsArgs) -> WorkloadIdentityArgs | None:
    """The AWS identity that an add-on needs, if any."""
    match addon:
        case "vpc-cni":
            return WorkloadIdentityArgs(
                cluster=args.identity,
                namespace=NAMESPACE,
                service_account="aws-node",
                managed_policies={"network": "arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy"},
            )
        case "aws-ebs-csi-driver":
            return WorkloadIdentityArgs(
                cluster=args.identity,
                namespace=NAMESPACE,
                service_account="ebs-csi-controller-sa",
                # Without V2 every volume of the account (kubernetes-sigs/aws-ebs-csi-driver#2918); and V2 has no path `service-role/`.
                managed_policies={"volumes": "arn:aws:iam::aws:policy/AmazonEBSCSIDriverPolicyV2"},
                policies={"volumes-key": volumes_key(args.volumes_key_arn)},
            )
        case _:
            return None


def volumes_key(key_arn: pulumi.Input[str]) -> tuple[Statement, ...]:
    """Make and attach volumes that are encrypted with the volumes key."""
    return (
        Statement(
            sid="UseKey",
            actions=[
                "kms:Decrypt",
                "kms:DescribeKey",
                "kms:Encrypt",
                "kms:GenerateDataKeyWithoutPlaintext",
                "kms:ReEncryptFrom",
                "kms:ReEncryptTo",
            ],
            resources=[key_arn],
        ),
        Statement(
            sid="GrantKeyToVolumes",
            actions=["kms:CreateGrant", "kms:ListGrants", "kms:RevokeGrant"],
            resources=[key_arn],
            conditions={"Bool": {"kms:GrantIsForAWSResource": "true"}},
        ),
    )
