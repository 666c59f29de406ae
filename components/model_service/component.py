"""The ModelService component: registers what `manifests` builds for one model service."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pulumi

from components.manifests import register
from components.model_service.manifests import Service


@dataclass(frozen=True, kw_only=True)
class ModelServiceArgs:
    """`service` shapes everything. `after` is what the first pod needs: the tenant's foundation."""

    service: Service
    after: Sequence[pulumi.Resource] = field(default=())


class ModelService(pulumi.ComponentResource):
    """One model: its stable route, and the objects of every release that lives."""

    hosts: list[str]
    """Where applications reach it."""
    releases: dict[str, int]
    """Weight by arm, in percent."""
    objects: dict[str, pulumi.Resource]

    def __init__(self, name: str, args: ModelServiceArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("headway:model_service:ModelService", name, {}, opts)

        def options(needed: list[pulumi.Resource]) -> pulumi.ResourceOptions:
            return pulumi.ResourceOptions(parent=self, depends_on=[*args.after, *needed])

        self.objects = register(name, args.service.manifests(), options)
        self.hosts = args.service.public_hosts
        self.releases = {live.key: live.weight for live in args.service.traffic.ordered}
        self.register_outputs({"hosts": self.hosts, "releases": self.releases})
