"""What one layer takes from another: typed outputs of a stack that may not be deployed yet.

A missing output must not end a preview, or no one could preview a whole new environment; and it must end an update,
or the layer would be built on nothing.
"""

import asyncio
from typing import Any

import pulumi
from pulumi.output import UNKNOWN
from pulumi.runtime import is_dry_run


def _quiet(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """asyncio prints a traceback for each future that shares one failure; the engine already reports the failure
    itself.
    """
    if not isinstance(context.get("exception"), pulumi.RunError):
        loop.default_exception_handler(context)


class Upstream:
    """The outputs of `<environment>-<layer>`."""

    def __init__(self, environment: str, layer: str) -> None:
        self.stack = f"{environment}-{layer}"
        self._reference = pulumi.StackReference(
            f"{layer}-layer", stack_name=f"{pulumi.get_organization()}/{pulumi.get_project()}/{self.stack}"
        )
        self._warned = False

    def require(self, name: str) -> pulumi.Output[Any]:
        """The output `name`, secret if it is secret there. Where it is missing: unknown in a preview,
        pulumi.RunError in an update.
        """
        return self._reference.get_output(name).apply(lambda value: self._missing(name) if value is None else value)

    def _missing(self, name: str) -> pulumi.Output[Any]:
        if not is_dry_run():
            asyncio.get_running_loop().set_exception_handler(_quiet)
            raise pulumi.RunError(
                f"Stack {self.stack} has no output {name!r}.\n"
                f"  This layer is built on it, so nothing of it can be created.\n"
                f"  Remedy: deploy it first with `pulumi up -s {self.stack}`."
            )
        if not self._warned:
            self._warned = True
            pulumi.warn(f"{self.stack} is not deployed yet: what comes from it is unknown in this preview")
        return pulumi.Output.from_input(UNKNOWN)
