"""The roles in which a model's replicas serve: all alike, or those that read prompts (prefill) beside those that write answers (decode).

A role is the contract with what the role has of its own in place, so that every sum and rule about a model holds for it too. The trap: such a
contract exists for arithmetic alone; nothing is rendered from it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TypeVar

from headway.contract.model_parts import ModelParts
from headway.contract.prefill import Prefill
from headway.contract.units import Rate
from headway.problem import FieldPath, Problem

M = TypeVar("M", bound=ModelParts)
_OF_ENVELOPE = ("gpu", "cpu", "memory", "shared_memory")
_OF_SCALING = ("min_replicas", "max_replicas")


def prefill_of(model: M) -> M | None:
    """The role that reads prompts; None where every replica does both."""
    role = model.prefill
    if role is None:
        return None
    scaling = {
        **{name: getattr(role, name) for name in _OF_SCALING},
        "warm_replicas": 0,
        "capacity": Rate(max(1, int(role.token_capacity) // role.prompt_tokens)),
        "token_capacity": None,
    }
    return model.model_copy(
        update={
            "name": f"{model.name}, prefill",
            "envelope": model.envelope.model_copy(update={name: getattr(role, name) for name in _OF_ENVELOPE}),
            "batching": role.batching,
            "scaling": model.scaling.model_copy(update=scaling),
            "placement": model.placement.model_copy(update={"pool": role.pool}),
            "batch": None,
            "prefill": None,
        }
    )


def roles_of(model: M) -> tuple[M, ...]:
    """The model itself, and the role that reads its prompts if there is one."""
    prefill = prefill_of(model)
    return (model,) if prefill is None else (model, prefill)


def in_section(problems: Iterable[Problem]) -> Iterator[Problem]:
    """What is wrong with the role that reads prompts, where its contract says it."""
    return (replace(each, path=_place(each.path)) for each in problems)


def _place(path: FieldPath) -> FieldPath:
    if path[:1] == ("batching",):
        return ("prefill", *path)
    own = path[:1] in (("envelope",), ("scaling",), ("placement",)) and path[1:2] and path[1] in Prefill.model_fields
    return ("prefill", *path[1:]) if own else path
