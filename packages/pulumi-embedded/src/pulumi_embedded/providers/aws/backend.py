"""What stands behind a modelled type beside its record in the account: buckets in the object store, nodes in the cluster.

The default backend is the record alone. Methods run only outside previews, and each must be safe to repeat after a kill.
"""

from pulumi_embedded.engine.provider import Properties, Step
from pulumi_embedded.providers.aws.account import Object
from pulumi_embedded.providers.aws.kind import Facts


class Backend:
    """`extra` is what a backend learns and the account keeps: outputs read it by `found(...)`."""

    def before(self, facts: Facts) -> Properties:
        """Called before a create or update is recorded: check what no table can, answer `extra`. ProviderError refuses."""
        return dict(facts.extra)

    def created(self, object: Object, inputs: Properties, step: Step) -> Properties:
        """The object is recorded: make it so. Answers `extra`. ProviderError takes the record back; PartialFailureError keeps it."""
        return dict(object.extra)

    def updated(self, object: Object, old: Properties, inputs: Properties, step: Step) -> Properties:
        """The change from `old` to `inputs` is checked: make it so. Answers `extra`."""
        return dict(object.extra)

    def deleted(self, object: Object, step: Step) -> None:
        """The record is about to go: remove what it stood for. ProviderError refuses."""

    def live(self, object: Object, inputs: Properties) -> Properties | None:
        """`inputs` with what is really there; None when it is gone."""
        return inputs

    def drifted(self, object: Object) -> tuple[str, ...]:
        """Paths at which what is there is not what was recorded, where AWS itself would repair it."""
        return ()
