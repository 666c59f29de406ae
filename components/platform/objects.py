"""Registers plain manifests as one component. The builders beside this module are pure; this is their only wire to
the engine.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi

from components.manifests import Manifest, register


@dataclass(frozen=True, kw_only=True)
class PlatformObjectsArgs:
    """`after` is what all of them need: the definitions of their kinds, or their namespace."""

    manifests: Sequence[Manifest]
    after: Sequence[pulumi.Resource] = ()


class PlatformObjects(pulumi.ComponentResource):
    """Creates the Kubernetes objects of one concern, such as admission or the mesh. `by_role` finds each of them."""

    by_role: dict[str, pulumi.Resource]

    def __init__(self, name: str, args: PlatformObjectsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("headway:platform:Objects", name, {}, opts)

        def options(needed: list[pulumi.Resource]) -> pulumi.ResourceOptions:
            return pulumi.ResourceOptions(parent=self, depends_on=[*args.after, *needed])

        self.by_role = register(name, args.manifests, options)
        self.register_outputs({})
