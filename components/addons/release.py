"""One add-on as a Helm release: pinned, atomic, with values that a reviewer can read.

Add-ons only: what the platform itself defines is native typed objects, because a policy cannot look inside a chart.
The trap: a chart that makes up secrets differs on every run, so every value that a chart would generate is given or
switched off here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from components.addons import images
from components.versions import HelmChart

TIMEOUT_SECONDS = 900
"""Pulls of large images on fresh nodes take minutes."""


@dataclass(frozen=True, kw_only=True)
class AddOnArgs:
    """`after` is what must be there first: definitions that the chart's own objects need, identities that its pods
    use.
    """

    chart: HelmChart
    namespace: pulumi.Input[str]
    values: Mapping[str, Any]
    mirror: str | None = None
    """The registry that charts and images come from instead of their makers'."""
    release: str | None = None
    """The release's name where it is not the chart's."""
    seconds: int = TIMEOUT_SECONDS
    """How long its pods may take to be ready."""
    after: Sequence[pulumi.Resource] = ()


class AddOn(pulumi.ComponentResource):
    """Installs one Helm chart. Other resources wait for `release`."""

    release: kubernetes.helm.v3.Release

    def __init__(self, name: str, args: AddOnArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("headway:addons:AddOn", name, {}, opts)
        chart, repository = images.chart_source(args.chart, args.mirror)
        self.release = kubernetes.helm.v3.Release(
            f"{name}-release",
            name=args.release or args.chart.chart,
            chart=chart,
            version=args.chart.version,
            repository_opts=kubernetes.helm.v3.RepositoryOptsArgs(repo=repository) if repository else None,
            namespace=args.namespace,
            create_namespace=False,
            values=images.switched(args.chart.chart, args.values, args.mirror),
            atomic=True,
            cleanup_on_fail=True,
            timeout=args.seconds,
            opts=pulumi.ResourceOptions(parent=self, depends_on=list(args.after)),
        )
        self.register_outputs({"status": self.release.status})
