"""The model contract: everything that a production model owes its operators, in one file `tenants/<tenant>/<model>.yaml`.

The fields are in `model_parts`, each part has its own module, and the rules between them are in `rules`. The tenant is the folder's, never
written here.
"""

from collections.abc import Iterator

from headway.contract.model_parts import ModelParts
from headway.contract.rules import disagreements
from headway.problem import Problem, problem

_TAKEN = ("-shadow", "-batch")


class Model(ModelParts):
    """One model service. Every object of the platform that belongs to it is derived from this contract, and from nothing else."""

    def violations(self) -> Iterator[Problem]:
        if self.name.endswith(_TAKEN):
            yield problem(
                "model-name-is-free",
                "name",
                value=self.name,
                fact=f"the name {self.name} has an ending that the platform uses itself",
                consequence="Proxies take requests to a host ...-shadow for copies, and ...-batch are the workers of a batch variant: the one "
                "would be counted as the other",
                remedy=f"Choose a name that ends with none of {', '.join(_TAKEN)}",
            )
        yield from disagreements(self)
