"""Draws a cluster layer from its registrations: what stands in which zone, what runs it, what it stores, what it is
locked with.

Everything in the picture is read from what the program registers; only where the boxes stand is decided here. Plain
SVG, no library.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from tests.components.recording import EKS_COMPONENT, Recording, Registration

LINE, PAD, GAP, WIDTH = 17, 10, 12, 1120
FILL = {
    "account": "#f7f7f5",
    "vpc": "#ffffff",
    "zone": "#f2f6fb",
    "public": "#e3f1e3",
    "private": "#dfe9f6",
    "intra": "#ece6f5",
    "side": "#ffffff",
}
GPU_FILL, SYSTEM_FILL = "#cfe3a8", "#ffe6b8"
POOL = "platform.io/pool"


@dataclass
class Box:
    """A titled box of lines and of boxes below one another, or beside one another where `beside`."""

    title: str
    fill: str
    lines: Sequence[str] = ()
    boxes: "list[Box]" = field(default_factory=list)
    beside: bool = False

    def height(self) -> int:
        heights = [box.height() for box in self.boxes]
        inside = (max(heights, default=0) + (GAP if heights else 0)) if self.beside else sum(h + GAP for h in heights)
        return PAD * 2 + LINE * (1 + len(self.lines)) + inside

    def draw(self, x: int, y: int, width: int, height: int) -> Iterator[str]:
        yield f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="5" fill="{self.fill}" stroke="#8a8f98"/>'
        yield f'<text x="{x + PAD}" y="{y + PAD + 12}" font-weight="bold">{escape(self.title)}</text>'
        for number, line in enumerate(self.lines, start=1):
            yield f'<text x="{x + PAD}" y="{y + PAD + 12 + LINE * number}">{escape(line)}</text>'
        top = y + PAD + LINE * (1 + len(self.lines)) + GAP // 2
        if self.beside:
            each = (width - 2 * PAD - GAP * (len(self.boxes) - 1)) // max(1, len(self.boxes))
            tallest = max((box.height() for box in self.boxes), default=0)
            for number, box in enumerate(self.boxes):
                yield from box.draw(x + PAD + number * (each + GAP), top, each, tallest)
        else:
            for box in self.boxes:
                yield from box.draw(x + PAD, top, width - 2 * PAD, box.height())
                top += box.height() + GAP


def picture(found: Recording) -> str:
    """The layer as one SVG document."""
    cluster = found.one(EKS_COMPONENT).inputs
    account = Box(
        str(cluster["name"]),
        FILL["account"],
        _provider(found),
        [_vpc(found), _around(found, cluster)],
    )
    height = account.height()
    body = "\n".join(account.draw(0, 0, WIDTH, height))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-1 -1 {WIDTH + 2} {height + 2}" '
        f'font-family="DejaVu Sans, Verdana, sans-serif" font-size="12" fill="#1d2733">\n{body}\n</svg>\n'
    )


def _provider(found: Recording) -> list[str]:
    provider = found.one("pulumi:providers:aws").inputs
    return [f"region {provider['region']}"]


def _vpc(found: Recording) -> Box:
    vpc = found.one("aws:ec2/vpc:Vpc")
    subnets = found.of_type("aws:ec2/subnet:Subnet")
    zones = sorted({r.inputs["availabilityZone"] for r in subnets})
    endpoints = sorted(r.inputs["serviceName"].split(".", 3)[-1] for r in found.of_type("aws:ec2/vpcEndpoint:VpcEndpoint"))
    lines = [f"private ways to AWS: {', '.join(endpoints)}"] if endpoints else []
    flow = [r for r in found.of_type("aws:cloudwatch/logGroup:LogGroup") if r.name.endswith("-flow")]
    lines += [f"every flow is logged, {int(r.inputs['retentionInDays'])} days" for r in flow]
    return Box(f"VPC {vpc.inputs['cidrBlock']}", FILL["vpc"], lines, [_zone(found, zone) for zone in zones], beside=True)


def _zone(found: Recording, zone: str) -> Box:
    boxes: list[Box] = []
    for tier in ("public", "private", "intra"):
        subnet = next(r for r in found.of_type("aws:ec2/subnet:Subnet") if r.inputs["availabilityZone"] == zone and f"-{tier}-" in r.name)
        title = f"{tier} {subnet.inputs['cidrBlock']}"
        match tier:
            case "public":
                nat = [r for r in found.of_type("aws:ec2/natGateway:NatGateway") if r.inputs.get("subnetId") == f"{subnet.name}-id"]
                boxes.append(Box(title, FILL[tier], ["NAT gateway" for _ in nat] or ["load balancers"]))
            case "private":
                boxes.append(Box(title, FILL[tier], (), list(_groups(found, subnet))))
            case _:
                boxes.append(Box(title, FILL[tier], ["interfaces of the control plane"]))
    return Box(zone, FILL["zone"], (), boxes)


def _groups(found: Recording, subnet: Registration) -> Iterator[Box]:
    templates = {f"{r.name}-id": r.inputs for r in found.of_type("aws:ec2/launchTemplate:LaunchTemplate")}
    for r in sorted(found.of_type("aws:eks/nodeGroup:NodeGroup"), key=lambda r: r.inputs["labels"][POOL]):
        if f"{subnet.name}-id" not in r.inputs["subnetIds"]:
            continue
        size, labels = r.inputs["scalingConfig"], r.inputs["labels"]
        several = len(r.inputs["subnetIds"]) > 1
        types = r.inputs.get("instanceTypes") or [templates[r.inputs["launchTemplate"]["id"]].get("instanceType", "")]
        lines = [
            ", ".join(types),
            f"{int(size['minSize'])} to {int(size['maxSize'])} nodes{' over all zones' if several else ''}, {_bought(r, templates)}",
        ]
        if r.inputs.get("taints"):
            sharing = labels.get("nvidia.com/mig.config") or labels["nvidia.com/device-plugin.config"]
            lines.append(f"{labels['platform.io/accelerator']}, {sharing}, for {labels['platform.io/class']}")
        if warm := r.inputs.get("warmPoolConfig"):
            lines.append(f"{int(warm['minSize'])} warm, {warm['poolState'].lower()}")
        yield Box(f"pool {labels[POOL]}", GPU_FILL if r.inputs.get("taints") else SYSTEM_FILL, lines)


def _bought(r: Registration, templates: Mapping[str, Mapping[str, object]]) -> str:
    reserved = "capacityReservationSpecification" in templates[r.inputs["launchTemplate"]["id"]]
    kind = str(r.inputs["capacityType"]).lower().replace("_", " ")
    return "reserved" if reserved and kind == "on demand" else kind


def _around(found: Recording, cluster: Mapping[str, object]) -> Box:
    cidrs = cluster.get("publicAccessCidrs")
    endpoint = f"endpoint open to {', '.join(map(str, cidrs))}" if isinstance(cidrs, list) else "private endpoint only"
    plane = [
        f"Kubernetes {cluster['version']}, {endpoint}",
        "protected from deletion" if cluster["deletionProtection"] else "may be deleted",
        "access by entries, secrets under their own key",
    ]
    addons = sorted(f"{r.inputs['addonName']} {r.inputs['addonVersion']}" for r in found.of_type("aws:eks/addon:Addon"))
    buckets = sorted(found.of_type("aws:s3/bucket:Bucket"), key=lambda r: r.name)
    stored = [f"bucket {r.name.split('-', 1)[1].removesuffix('-bucket')}{_kept(r)}" for r in buckets]
    stored += sorted(f"queue {r.name.rsplit('-', 1)[-1]}" for r in found.of_type("aws:sqs/queue:Queue"))
    stored += sorted(f"images {r.inputs['name']}" for r in found.of_type("aws:ecr/repository:Repository"))
    stored += sorted(
        f"cache of {r.inputs['upstreamRegistryUrl']}" for r in found.of_type("aws:ecr/pullThroughCacheRule:PullThroughCacheRule")
    )
    keys = sorted(f"key for {r.inputs['description'].split(': ')[1].lower()}" for r in found.of_type("aws:kms/key:Key"))
    roles = sorted(f"role {r.inputs['name']}" for r in found.of_type("aws:iam/role:Role"))
    return Box(
        "around it",
        FILL["vpc"],
        (),
        [
            Box("EKS control plane", FILL["side"], [*plane, *addons]),
            Box("stored", FILL["side"], stored),
            Box("keys and roles", FILL["side"], [*keys, *roles]),
        ],
        beside=True,
    )


def _kept(r: Registration) -> str:
    locked = ", locked" if r.inputs.get("objectLockEnabled") else ""
    return f"{locked}{', protected' if r.protect else ''}"
