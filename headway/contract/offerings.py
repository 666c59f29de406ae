"""Which regions offer the instance types of the catalogue.

Read from cfn-lint 1.58.0 (licence MIT-0), `data/schemas/extensions/aws_ec2_instance/instancetype_enum.json`, made
from AWS's price list; partitions other than `aws` are left out. The trap: a zone may lack what its region offers, and
an account may lack the quota; of zones only `aws ec2 describe-instance-type-offerings` knows.
"""

from collections.abc import Iterator, Mapping, Sequence

from headway.contract.accelerators import INSTANCE_TYPES
from headway.problem import Problem, problem

_OFFERED: Mapping[str, str] = {
    "af-south-1": "m7i",
    "ap-east-1": "m7i",
    "ap-east-2": "m7i",
    "ap-northeast-1": "g6 g6e m7i p4d p4de p5.4xlarge p5.48xlarge p5en",
    "ap-northeast-2": "g6 g6e m7i p4d p5.48xlarge p5en",
    "ap-northeast-3": "g6e m7i",
    "ap-south-1": "g6 g6e m7i p4d p5.4xlarge p5.48xlarge p5en",
    "ap-south-2": "g6 g6e m7i",
    "ap-southeast-1": "m7i p4d p4de",
    "ap-southeast-2": "g6 m7i p4d p5.4xlarge p5.48xlarge",
    "ap-southeast-3": "m7i p5.4xlarge p5.48xlarge p5en",
    "ap-southeast-4": "m7i",
    "ap-southeast-5": "g6 m7i",
    "ap-southeast-6": "m7i",
    "ap-southeast-7": "m7i",
    "ca-central-1": "g6 m7i p4d p5.48xlarge",
    "ca-west-1": "",
    "eu-central-1": "g6 g6e m7i p4d p4de",
    "eu-central-2": "g6 m7i",
    "eu-north-1": "g6 g6e m7i p4d p5.4xlarge p5.48xlarge p5en",
    "eu-south-1": "m7i",
    "eu-south-2": "g6 g6e m7i p5en",
    "eu-west-1": "m7i p4d",
    "eu-west-2": "g6 m7i p4d p5.4xlarge p5.48xlarge",
    "eu-west-3": "g6 m7i",
    "il-central-1": "m7i p4de",
    "me-central-1": "g6 g6e m7i p5en",
    "me-south-1": "",
    "mx-central-1": "m7i",
    "sa-east-1": "g6 m7i p4d p5.4xlarge p5.48xlarge",
    "us-east-1": "g6 g6e m7i p4d p4de p5.4xlarge p5.48xlarge p5en",
    "us-east-2": "g6 g6e m7i p4d p5.4xlarge p5.48xlarge p5en",
    "us-west-1": "m7i p5.48xlarge p5en",
    "us-west-2": "g6 g6e m7i p4d p4de p5.4xlarge p5.48xlarge p5en",
}
"""Families by region, or instance types where the sizes of a family differ."""


def regions_of(instance_type: str) -> frozenset[str]:
    """Regions that offer it; empty for a type that is not in the catalogue."""
    names = {instance_type, instance_type.partition(".")[0]}
    return frozenset(region for region, offered in _OFFERED.items() if names & set(offered.split()))


def is_offered(instance_type: str, region: str) -> bool:
    """Whether `region` offers it; what this table does not know is taken for offered."""
    return region not in _OFFERED or instance_type not in INSTANCE_TYPES or region in regions_of(instance_type)


def offering_problems(instance_types: Sequence[str], zones: Sequence[str]) -> Iterator[Problem]:
    """One problem for each of a pool's `instance_types` that the region of its `zones` does not offer."""
    for region in sorted({zone[:-1] for zone in zones}):
        for number, name in enumerate(instance_types):
            if not is_offered(name, region):
                gpus = bool(INSTANCE_TYPES[name].gpus)
                there = [t.name for t in INSTANCE_TYPES.values() if bool(t.gpus) is gpus and is_offered(t.name, region)]
                yield problem(
                    "instance-type-offered-in-region",
                    "instance_types",
                    number,
                    value=name,
                    fact=f"EC2 offers no {name} in {region}",
                    consequence="A preview would not show it, and EKS would refuse the node group when the cluster is there already",
                    remedy=f"Use a region that does ({', '.join(sorted(regions_of(name)))}), or here {', '.join(there) or 'none'}",
                )
