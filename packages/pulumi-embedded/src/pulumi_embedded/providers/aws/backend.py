"""What stands behind a modelled type beside its record in the account: buckets in the object store, nodes in the cluster.

The default backend is the record alone. Methods run only outside previews, and each must be safe to repeat after a kill.
"""

from pulumi_embedded.engine.provider import Properties, ProviderStep
from pulumi_embedded.providers.aws.account import AccountObject
from pulumi_embedded.providers.aws.kind import Facts


class ObjectBackend:
    """`extra` is what a backend learns and the account keeps: outputs read it by `found(...)`."""

    def before(self, facts: Facts) -> Properties:
        """Called before a create or update is recorded: check what no table can, answer `extra`. ProviderError refuses."""
        return dict(facts.extra)

    def created(self, object: AccountObject, inputs: Properties, step: ProviderStep) -> Properties:
        """The object is recorded: make it so. Answers `extra`. ProviderError takes the record back; PartialFailureError keeps it."""
        return dict(object.extra)

    def updated(self, object: AccountObject, old: Properties, inputs: Properties, step: ProviderStep) -> Properties:
        """The change from `old` to `inputs` is checked: make it so. Answers `extra`."""
        return dict(object.extra)

    def deleted(self, object: AccountObject, step: ProviderStep) -> None:
        """The record is about to go: remove what it stood for. ProviderError refuses."""

    def live(self, object: AccountObject, inputs: Properties) -> Properties | None:
        """`inputs` with what is really there; None when it is gone."""
        return inputs

    def drifted(self, object: AccountObject) -> tuple[str, ...]:
        """Paths at which what is there is not what was recorded, where AWS itself would repair it."""
        return ()
