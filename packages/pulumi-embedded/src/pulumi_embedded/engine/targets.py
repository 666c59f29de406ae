"""Which resources an operation may touch: `--target`, `--exclude` and their dependents."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from pulumi_embedded.engine.graph import dependants, references, requirements
from pulumi_embedded.engine.model import OperationRequest, Resource
from pulumi_embedded.engine.urns import ROOT_TYPE


def matcher(patterns: Sequence[str]) -> Callable[[str], bool]:
    """Matches URNs; `*` stays within a name or type, `**` crosses everything."""
    exact = frozenset(pattern for pattern in patterns if "*" not in pattern)
    wild = [re.compile(re.escape(p).replace(r"\*\*", ".*").replace(r"\*", "[^:$]*")) for p in patterns if "*" in p]
    return lambda urn: urn in exact or any(pattern.fullmatch(urn) for pattern in wild)


@dataclass(frozen=True, slots=True)
class Selection:
    """The request's targets and excludes, ready to be asked."""

    targeted: Callable[[str], bool] | None
    excluded: Callable[[str], bool] | None
    target_dependents: bool
    exclude_dependents: bool
    asked: tuple[str, ...]
    """Targets and excludes as they were given."""

    @classmethod
    def of(cls, request: OperationRequest) -> Self:
        return cls(
            matcher(request.targets) if request.targets else None,
            matcher(request.excludes) if request.excludes else None,
            request.target_dependents,
            request.exclude_dependents,
            (*request.targets, *request.excludes),
        )

    @property
    def everything(self) -> bool:
        return self.targeted is None and self.excluded is None

    def registers(self, resource: Resource, chosen: Callable[[str], bool], left_out: Callable[[str], bool]) -> bool:
        """Whether a registration acts; `chosen` and `left_out` say what was decided for the resources it references.

        The stack and providers always act: without them nothing else could.
        """
        if self.everything or resource.is_provider or resource.type == ROOT_TYPE:
            return True
        if self.excluded is not None:
            return not (self.excluded(resource.urn) or (self.exclude_dependents and any(left_out(urn) for urn in references(resource))))
        if self.targeted is None or self.targeted(resource.urn):
            return True
        return self.target_dependents and any(chosen(urn) for urn in references(resource))

    def names(self, urn: str) -> bool:
        """Whether the user asked for this resource by name; what merely supports the others is not named."""
        if self.excluded is not None and self.excluded(urn):
            return False
        return self.targeted is None or self.targeted(urn)

    def of_state(self, resources: Sequence[Resource]) -> set[str]:
        """URNs of recorded resources that a refresh may read or a removal may take.

        What an excluded resource needs is excluded with it, or it would lose the ground it stands on.
        """
        if self.everything:
            return {resource.urn for resource in resources}
        if self.targeted is not None:
            found = {resource.urn for resource in resources if self.targeted(resource.urn)}
            return found | dependants(resources, found) if self.target_dependents else found
        kept = {resource.urn for resource in resources if not self.names(resource.urn)}
        if self.exclude_dependents:
            kept |= dependants(resources, kept)
        return {resource.urn for resource in resources} - kept

    def missing(self, known: Iterable[str]) -> list[str]:
        """Exact targets that no resource has."""
        return absent(self.asked, known)


def absent(patterns: Sequence[str], known: Iterable[str]) -> list[str]:
    """Patterns that name one URN, and none that is known."""
    present = set(known)
    return sorted(pattern for pattern in patterns if "*" not in pattern and pattern not in present)


def with_requirements(resources: Sequence[Resource], kept: set[str]) -> set[str]:
    """`kept` and everything it stands on."""
    return kept | requirements(resources, kept)
