"""Beginning a release: the plan for the room there is, the gate's numbers, the difference to what serves; registered
and written down.

Everything that later decides is fixed here, in one event. Meshes carry whole percent, so shares are turned into percent
once, here, and plan, gate and route all use those.
"""

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

from headway.contract.assignment import HASH
from headway.contract.difference import difference
from headway.contract.model import Model
from headway.contract.released import release_id, same_release
from headway.contract.rollout import Rollout as Policy
from headway.contract.rollout import Split, Strategy
from headway.contract.units import Share
from headway.ledger.chain import Ledger, register
from headway.ledger.events import Event
from headway.ledger.serving import released
from headway.ledger.store import LedgerStore
from headway.ledger.traffic_split import UserSplit
from headway.problem import Exit, UserError, shown
from headway.release.driver.event_kinds import EventKind
from headway.release.driver.judge import first_decision, gate_version, policy_document
from headway.release.driver.rollout_state import ServiceState, fold
from headway.release.gate import GatePolicy
from headway.release.plan import PoolCapacity, RolloutPlan, plan
from headway.release.tick_length import LONGEST_TICK_SECONDS, TICK_SECONDS, smallest_share, tick_seconds

TICKS_OF_AN_EXPERIMENT = 2_880
LONGEST_VALUE = 400
"""Characters of a changed value that the ledger keeps for people to read."""
FASTEST = 240.0
"""A tick of the sandbox is then a quarter of a second; shorter ones hold no request."""


@dataclass(frozen=True, kw_only=True)
class StartOptions:
    """What a person or CI says about a release that begins. `speed` above 1 is for the sandbox: minutes pass that much
    faster. `overrule`: the accusation of an evaluation, if there is one, which is then `overruled`."""

    reason: str = ""
    commit: str = ""
    speed: float = 1.0
    overrule: bool = False
    overruled: str = ""


@dataclass(frozen=True, kw_only=True)
class GoldenTrial:
    """Whether golden answers can be compared, tried on the stable version; and how many of its own differed."""

    compared: bool
    reason: str
    pairs: int = 0
    mismatches: int = 0
    simulated: bool = False
    """Whether replicas only pretend to run: then nothing answers copies either."""


def begin(
    ledger: Ledger,
    store: LedgerStore,
    model: Model,
    room: PoolCapacity,
    start: StartOptions,
    answers: GoldenTrial,
    requests_a_second: float | None = None,
) -> Event:
    """Write down that `model` is to be released. `requests_a_second`: of users, in the policy's time; None where nobody knows. Raises
    UserError for what cannot be, LostError when a race was lost."""
    service = fold(ledger.read())
    stable = possible(ledger.chain, service, store, model, start)
    made = plan(model.rollout, room, model.scaling.max_replicas)
    tick = _tick_seconds(model.rollout, made, answers, requests_a_second)
    policy = _policy(model.rollout, made, answers, tick)
    name = release_id(model)
    content = register(store, ledger.chain, {"id": name, "contract": model.model_dump(mode="json")})
    serving = str(service.stable)
    return ledger.append(
        EventKind.STARTED,
        {
            "release": name,
            "digest": content,
            "stable": serving,
            "stable_digest": service.known[serving],
            "strategy": model.rollout.strategy.value,
            "plan": made.document(),
            "room": room.document(),
            "policy": policy_document(policy),
            "gate": gate_version(),
            "first": first_decision(policy),
            "classes": [kind.name for kind in model.rollout.classes],
            "answers": asdict(answers),
            "unwatched_at_most": model.rollout.unwatched_at_most.seconds,
            "tick_seconds": tick,
            **_split(model.rollout),
            "speed": float(start.speed),
            "commit": start.commit,
            "reason": start.reason,
            **({"overruled": start.overruled} if start.overruled else {}),
            "difference": _difference(stable, model),
        },
    )


def _stable(chain: str, service: ServiceState, store: LedgerStore) -> Model:
    serving = service.stable
    if service.split is None or serving is None:
        raise UserError(
            f"The ledger does not know what serves {chain}.",
            "There is nothing to compare a new version with, and nothing to go back to.",
            "Deploy the tenant's stack first; what it deploys becomes the first release.",
            Exit.REFUSED,
        )
    return released(store, chain, service.split.digests[serving])


def possible(chain: str, service: ServiceState, store: LedgerStore, model: Model, start: StartOptions) -> Model:
    """The contract that serves, which `model` may be released against. Raises UserError where it may not."""
    stable = _stable(chain, service, store)
    running = service.running
    if running:
        raise UserError(
            f"Release {running.release} of {chain} is under way ({running.status}).",
            "Two new versions at once could not be told apart in the evidence.",
            f"Let it end (`headway release resume {chain}` where its runner is gone), or drain it first with --supersede.",
            Exit.BUSY,
        )
    if same_release(model, stable):
        raise UserError(
            f"The contract of {chain} describes release {service.stable}, which serves already.",
            "There is nothing to release: what it changed applies with the next update of the tenant's stack.",
            "Change what runs (artifact, image, envelope, ...), or update the stack with `pulumi up`.",
            Exit.REFUSED,
        )
    odd = [str(share) for share in model.rollout.weights if int(share) % Share.percent(1)]
    if odd and model.rollout.strategy is Strategy.CANARY:
        raise UserError(
            f"{chain}: rollout.weights holds {', '.join(odd)}, and a mesh carries whole percent only.",
            "Traffic would not be divided as the contract says.",
            "Write whole percentages.",
            Exit.REFUSED,
        )
    if not 1.0 <= start.speed <= FASTEST:
        raise UserError(
            f"A speed of {start.speed:g} is outside 1 to {FASTEST:g}.",
            "Ticks would hold no requests, or take longer than they say.",
            "Leave --speed out, or choose less.",
            Exit.USAGE,
        )
    return stable


def _tick_seconds(rollout: Policy, made: RolloutPlan, answers: GoldenTrial, requests_a_second: float | None) -> float:
    """How often the gate decides: each minute, or less often where requests are few."""
    if rollout.split is not None:
        return tick_of_an_experiment(rollout.split)
    return tick_seconds(rollout, requests_a_second, smallest_share(_policy(rollout, made, answers, TICK_SECONDS)))


def tick_of_an_experiment(split: Split) -> float:
    """Each minute, but in one of more than two days less often, or its ledger would hold a tick for every minute of weeks."""
    spread = math.ceil(split.duration.seconds / TICKS_OF_AN_EXPERIMENT / TICK_SECONDS) * TICK_SECONDS
    return min(max(TICK_SECONDS, spread), LONGEST_TICK_SECONDS)


def _split(rollout: Policy) -> dict[str, Any]:
    """With what anyone recomputes who met which version."""
    if rollout.split is None:
        return {}
    declared = rollout.split
    split = UserSplit(experiment=declared.experiment, share=declared.share, user_claim=declared.user_claim, hash=HASH)
    return {"split": split.document()}


def _policy(rollout: Policy, made: RolloutPlan, answers: GoldenTrial, tick: float) -> GatePolicy:
    weights = [step.weight.fraction for step in made.traffic if step.weight]
    mirror = next((step.mirror.fraction for step in made.traffic if step.mirror), 0.0)
    policy = GatePolicy.from_contract(
        rollout, weights=weights, tick_seconds=tick, golden=answers.compared, held_back=made.held_back.fraction
    )
    # A model that does not always agree with itself is allowed twice what the stable version does.
    mismatch = max(policy.mismatch, 2 * answers.mismatches / answers.pairs if answers.pairs else 0.0)
    copied = policy.mirrored if mirror and not answers.simulated else None
    return replace(policy, baseline=made.baseline_arm, mirror=mirror, mismatch=mismatch, mirrored=copied)


def _difference(old: Model, new: Model) -> dict[str, Any]:
    """What changes, as people read it; the contracts themselves are kept with their releases."""
    changed = difference(old, new)
    changes = [
        {"path": c.dotted, "old": _shown(c.old), "new": _shown(c.new), "effect": c.effect, "release": c.release} for c in changed.changes
    ]
    return {"changes": changes, "sums": [{"what": m.what, "old": m.old, "new": m.new} for m in changed.moved]}


def _shown(value: Any) -> str | None:
    """As a contract would have it on one line."""
    return None if value is None else shown(value, LONGEST_VALUE)
