"""A layer's AWS resources as Terraform, for scanners that read nothing else: `python -m tests.components.terraform
prod-cluster > main.tf`.

Made of the registrations under mocks, with their references to each other restored, so that a bucket is found with
what closes it. The cluster inside the EKS component is written from the component's own arguments. It is text for
scanners, and never to be applied.
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from tests.components.program import layer
from tests.components.recording import EKS_CLUSTER, EKS_COMPONENT, Recording, Registration

NAMES: Mapping[str, str] = {
    "autoscaling/tag": "autoscaling_group_tag",
    "cloudwatch/logGroup": "cloudwatch_log_group",
    "cloudwatch/metricAlarm": "cloudwatch_metric_alarm",
    "ec2/vpcEndpoint": "vpc_endpoint",
    "vpc/securityGroupIngressRule": "vpc_security_group_ingress_rule",
}
"""Types whose Terraform name does not follow from Pulumi's."""
BARE = ("ec2",)
"""Modules whose name Terraform leaves out."""
SINGULAR: Mapping[str, str] = {
    "appliedFors": "applied_for",
    "costFilters": "cost_filter",
    "encryptionConfigurations": "encryption_configuration",
    "notifications": "notification",
    "rules": "rule",
    "taints": "taint",
}
MAPS = frozenset({"labels", "tags", "dimensions"})
"""Inputs that are maps and no blocks."""
POINTS: Mapping[str, str] = {
    "gatewayId": "aws_internet_gateway",
    "natGatewayId": "aws_nat_gateway",
    "routeTableId": "aws_route_table",
    "routeTableIds": "aws_route_table",
    "securityGroupId": "aws_security_group",
    "securityGroupIds": "aws_security_group",
    "subnetId": "aws_subnet",
    "subnetIds": "aws_subnet",
    "vpcId": "aws_vpc",
}
"""Inputs that hold the id of another resource, and its type."""


def terraform_type(token: str) -> str:
    module, _, name = token.split(":")[1].partition("/")
    known = NAMES.get(f"{module}/{name}")
    return f"aws_{known or snake(name if module in BARE else f'{module}_{name}')}"


def snake(name: str) -> str:
    return re.sub(r"[A-Z]", lambda found: f"_{found[0].lower()}", name)


def label(name: str) -> str:
    return re.sub(r"[^\w-]", "_", name)


def cluster_of(component: Mapping[str, Any]) -> dict[str, Any]:
    """The cluster's own inputs, by the component's arguments."""
    return {
        "name": component["name"],
        "version": component["version"],
        "enabledClusterLogTypes": component["enabledClusterLogTypes"],
        "encryptionConfig": {"resources": ["secrets"], "provider": {"keyArn": component["encryptionConfigKeyArn"]}},
        "vpcConfig": {
            key: component[key]
            for key in ("subnetIds", "endpointPrivateAccess", "endpointPublicAccess", "publicAccessCidrs")
            if key in component
        },
        "deletionProtection": component["deletionProtection"],
    }


class Writer:
    """Writes the resources of one recording."""

    def __init__(self, found: Recording) -> None:
        self._found = [r for r in found.registrations if r.type.startswith("aws:")]
        self._component = next((r for r in found.registrations if r.type == EKS_COMPONENT), None)
        self._arns = {f"arn:aws:mock:::{r.name}": f"{terraform_type(r.type)}.{label(r.name)}.arn" for r in self._found}
        self._buckets = {r.inputs["bucket"]: f"aws_s3_bucket.{label(r.name)}.id" for r in self._found if r.type == "aws:s3/bucket:Bucket"}

    def lines(self) -> Iterator[str]:
        for r in sorted(self._found, key=lambda r: (r.type, r.name)):
            yield f'resource "{terraform_type(r.type)}" "{label(r.name)}" {{'
            for key, value in sorted(self._inputs(r).items()):
                yield from self._member(key, value, "  ", itself=r.type == "aws:s3/bucket:Bucket")
            yield "}"

    def _inputs(self, r: Registration) -> Mapping[str, Any]:
        return cluster_of(self._component.inputs) if r.type == EKS_CLUSTER and self._component else r.inputs

    def _member(self, key: str, value: Any, indent: str, *, itself: bool = False) -> Iterator[str]:
        name = SINGULAR.get(key, snake(key))
        if isinstance(value, list) and value and isinstance(value[0], dict):
            for item in value:
                yield from self._member(key, item, indent)
        elif isinstance(value, dict) and key not in MAPS:
            yield f"{indent}{name} {{"
            for inner, item in sorted(value.items()):
                yield from self._member(inner, item, indent + "  ")
            yield f"{indent}}}"
        else:
            yield f"{indent}{name} = {self._literal('' if itself and key == 'bucket' else key, value)}"

    def _literal(self, key: str, value: Any) -> str:
        if isinstance(value, list):
            return f"[{', '.join(self._literal(key, item) for item in value)}]"
        if isinstance(value, dict):
            members = [f"{json.dumps(name)} = {self._literal('', item)}" for name, item in sorted(value.items())]
            return f"{{{', '.join(members)}}}"
        if isinstance(value, float) and value.is_integer():
            return str(int(value))
        if not isinstance(value, str):
            return json.dumps(value)
        if value in self._arns:
            return self._arns[value]
        if key in POINTS and value.endswith("-id"):
            return f"{POINTS[key]}.{label(value.removesuffix('-id'))}.id"
        if key in ("bucket", "targetBucket") and value in self._buckets:
            return self._buckets[value]
        return json.dumps(value).replace("${", "$${")


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in Writer(layer(sys.argv[1])).lines())
