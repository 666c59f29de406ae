"""Which tenants an environment has: those with a stack file, whatever folders there are.

A folder below `tenants/` is one contract for every environment; `stacks/Pulumi.<environment>-<tenant>.yaml` says that the environment has it.
"""

from collections.abc import Iterator
from pathlib import Path as FilePath

from headway.contract.reading.document import read_file
from headway.problem import Problem

LAYERS = frozenset({"access", "cluster", "platform"})
"""The other stacks of an environment; no tenant is called so."""


def stack_file(environment: str, tenant: str) -> str:
    """The name of the file by which `environment` has `tenant`."""
    return f"Pulumi.{environment}-{tenant}.yaml"


def tenants_of(environment: str, stacks: FilePath) -> list[str]:
    """Tenants that have a stack file in the folder `stacks`, sorted."""
    names = {path.stem.removeprefix(f"Pulumi.{environment}-") for path in stacks.glob(stack_file(environment, "*"))}
    return sorted(names - LAYERS)


def batch_bucket_of(environment: str, tenant: str, stacks: FilePath) -> str | None:
    """The bucket that the tenant's stack file names for stores `batches://...`; None where it names none, or there is no such file.

    What `stacks.settings` says of the value is not judged here.
    """
    file = stacks / stack_file(environment, tenant)
    if not file.is_file():
        return None
    found = read_file(file).data
    for key in ("config", "headway:batch", "bucket"):
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, str) else None


def folder_missing(environment: str, stacks: FilePath, tenants: FilePath) -> Iterator[Problem]:
    """A problem for each stack file whose tenant has no folder in `tenants`."""
    for name in tenants_of(environment, stacks):
        if not (tenants / name).is_dir():
            yield Problem(
                rule="stack-has-a-tenant",
                file=stack_file(environment, name),
                fact=f"there is no folder {name} among the tenants",
                consequence="An update of the stack would fail, and one of the platform would keep no room for its models",
                remedy=f"Write its contracts (`headway new tenant {name}`), or delete the file once `pulumi destroy -s {environment}-{name}` has ended",
            )
