"""Which stacks make up the sandbox, in which order, with which packs. Pure but for listing a folder."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from headway.contract.reading.tenants import tenants_of
from headway.environment.stacks import PackSource

ENVIRONMENT = "sandbox"


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One stack of the environment, and the packs that its previews run with."""

    stack: str
    packs: tuple[PackSource, ...]


def layers(project: Path) -> tuple[tuple[Layer, ...], ...]:
    """Groups of layers: a group is deployed after the one before it, its members side by side."""
    return (
        (_layer(project, "cluster", "cluster"),),
        (_layer(project, "platform", "platform"),),
        tuple(_layer(project, tenant, "tenant") for tenant in tenants_of(ENVIRONMENT, project / "stacks")),
    )


def left_behind(held: Mapping[str, int], stacks: Collection[str]) -> dict[str, int]:
    """What stacks of the sandbox hold that it is no longer made of: nobody updates it, and it runs on."""
    return {name: count for name, count in sorted(held.items()) if count and name.startswith(f"{ENVIRONMENT}-") and name not in stacks}


def _layer(project: Path, name: str, pack: str) -> Layer:
    config = project / "policies" / "config" / f"{ENVIRONMENT}.json"
    source = PackSource(path=project / "policies" / pack, config=config if config.exists() else None)
    return Layer(stack=f"{ENVIRONMENT}-{name}", packs=(source,))
