"""The release that brings a version back which served before: all users at once, as soon as its replicas have proven themselves. Pure.

It is a release like any other: the gate of every release watches its bake, it is in the ledger, and a person can hold it or end it. Only
steps and copies are left out, because what serves meanwhile is known to be worse.
"""

from headway.contract.model import Model
from headway.contract.rollout import Strategy

_KEPT = {
    "at_most",
    "bake",
    "blind_at_most",
    "classes",
    "false_rollback",
    "on_inconclusive",
    "step_at_least",
    "step_at_most",
    "surge",
    "tolerances",
    "unwatched_at_most",
    "usual_requests",
}
"""Of its own rollout policy."""


def way_back(sound: Model) -> Model:
    """The contract of `sound`, released without steps; nobody is held back on the version that lost."""
    policy = sound.rollout.model_dump(mode="json", include=_KEPT)
    rollout = {**policy, "strategy": Strategy.BLUE_GREEN.value, "held_back": "0%"}
    return Model.model_validate({**sound.model_dump(mode="json"), "rollout": rollout})
