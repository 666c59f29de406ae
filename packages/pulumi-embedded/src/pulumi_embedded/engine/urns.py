"""Resource names (URNs) and the names under which a resource may have been known before.

`urn:pulumi:STACK::PROJECT::PARENT_TYPE$TYPE::NAME`; the trap: a name may itself hold `::`, so only the first three separators count.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

ROOT_TYPE = "pulumi:pulumi:Stack"
STACK_REFERENCE_TYPE = "pulumi:pulumi:StackReference"
PROVIDER_PREFIX = "pulumi:providers:"


def qualified_type_of(urn: str) -> str:
    """The type with those of its ancestors: `a:b:C$d:e:F`."""
    return urn.split("::", 3)[2]


def name_of(urn: str) -> str:
    return urn.split("::", 3)[3]


def stack_of(urn: str) -> str:
    return urn.split("::", 1)[0].removeprefix("urn:pulumi:")


def package_of(token: str) -> str:
    """`aws` of `aws:s3/bucket:Bucket`; of a provider's own type, the package that it provides."""
    return token.removeprefix(PROVIDER_PREFIX) if token.startswith(PROVIDER_PREFIX) else token.split(":", 1)[0]


@dataclass(frozen=True, slots=True)
class Namer:
    """Builds URNs of one stack."""

    stack: str
    project: str

    def urn(self, type: str, name: str, parent: str = "", *, stack: str = "", project: str = "") -> str:
        above = qualified_type_of(parent) if parent else ""
        prefix = "" if above in ("", ROOT_TYPE) else f"{above}$"
        return f"urn:pulumi:{stack or self.stack}::{project or self.project}::{prefix}{type}::{name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AliasSpec:
    """One alias as the program gave it: a whole URN, or the parts that differ. An empty part is the resource's own."""

    urn: str = ""
    type: str = ""
    name: str = ""
    stack: str = ""
    project: str = ""
    parent: str = ""
    no_parent: bool = False


def aliases_of(
    namer: Namer, type: str, name: str, parent: str, specs: Iterable[AliasSpec], parent_aliases: Sequence[str]
) -> tuple[str, ...]:
    """Every earlier URN, most likely first: the resource's own aliases, then each of its names below each alias of its parent.

    A child that is named after its parent (`web-service` below `web`) also follows the parent's change of name, as Pulumi does
    (pkg/resource/deploy: inheritedChildAlias).
    """
    own = namer.urn(type, name, parent)
    found: dict[str, None] = {}
    bases = [(type, name)]
    for spec in specs:
        if spec.urn:
            found[spec.urn] = None
            bases.append((qualified_type_of(spec.urn).rsplit("$", 1)[-1], name_of(spec.urn)))
            continue
        base = (spec.type or type, spec.name or name)
        above = "" if spec.no_parent else spec.parent or parent
        found[namer.urn(*base, above, stack=spec.stack, project=spec.project)] = None
        if not spec.parent and not spec.no_parent:
            bases.append(base)
    parent_name = name_of(parent) if parent_aliases else ""
    for alias in parent_aliases:
        for base_type, base_name in bases:
            found[namer.urn(base_type, base_name, alias, stack=stack_of(alias))] = None
            if parent_name and base_name.startswith(parent_name):
                followed = name_of(alias) + base_name[len(parent_name) :]
                found[namer.urn(base_type, followed, alias, stack=stack_of(alias))] = None
    found.pop(own, None)
    return tuple(found)
