"""What serves each model according to the release ledger: its releases as they were registered, and the traffic split.

A live read of a plan; the other one is `stacks/live_cluster.py`. A model that the ledger does not know is left out: its contract is its only release.
Without an answer of the ledger nothing may be planned, because a plan from the contract alone would undo a running
release.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from components.model_service.release import Release
from headway.contract.assignment import HASH
from headway.contract.crosscheck import TenantContracts
from headway.contract.model import Model
from headway.contract.released import release_id, same_release, with_released
from headway.ledger.reading import witnessed
from headway.ledger.serving import released, serves
from headway.ledger.store import LedgerStore, MissingStoreError, UnreachableError
from headway.ledger.traffic_split import TrafficSplit, UserSplit
from headway.ledger.witness import LedgerWitness
from headway.problem import Problem, UserError
from stacks.settings_error import SettingsError


@dataclass(frozen=True, kw_only=True)
class LiveModel:
    """One model. `waiting` is the release that its contract describes, where that is not live yet."""

    contract: Model
    """The contract as it is now, but for what only a new release may change."""
    releases: Mapping[str, Release]
    traffic: TrafficSplit
    waiting: str | None
    bound: bool = True
    """Whether the ledger itself says that it is this service's in this environment."""
    unwitnessed: Problem | None = None
    """Why the ledger could not be compared with what is known of it elsewhere."""

    @property
    def primary(self) -> str:
        return self.traffic.primary.release


def live(
    contracts: TenantContracts, ledger: LedgerStore | None, environment: str, witness: LedgerWitness | None = None
) -> Mapping[str, LiveModel]:
    """Every model of the tenant that `ledger` knows, and `witness` does not contradict. Raises SettingsError with every
    model that cannot be planned."""
    models: dict[str, LiveModel] = {}
    refused: list[Problem] = []
    if ledger is None:
        return models
    for model in contracts.models:
        chain = f"{contracts.tenant.name}/{model.name}"
        try:
            found, word = witnessed(ledger, chain, environment, witness)
            split = serves(found.events)
            if split is not None:
                snapshots = {r: released(ledger, chain, d) for r, d in split.digests.items()}
                models[model.name] = replace(_live(model, split, snapshots), bound=found.end.bound, unwitnessed=word.unheard(chain))
        except MissingStoreError:
            return {}
        except UserError as error:
            refused += (replace(problem, subject=chain) for problem in error.problems)
        except UnreachableError as error:
            refused.append(
                Problem(
                    subject=chain,
                    fact=f"the release ledger does not answer ({error})",
                    consequence="Planning without it could undo a running release",
                    remedy="Try again; check the network and the permission to read the ledger's bucket",
                )
            )
            break
    if refused:
        raise SettingsError(f"Tenant {contracts.tenant.name}", refused)
    return models


def _live(model: Model, traffic: TrafficSplit, snapshots: Mapping[str, Model]) -> LiveModel:
    releases = {name: Release(model=snapshot, registered=name) for name, snapshot in snapshots.items()}
    _require_known_hash(model, traffic.user_split)
    primary = snapshots[traffic.primary.release]
    known = any(same_release(model, snapshot) for snapshot in (snapshots[arm.release] for arm in traffic.arms))
    return LiveModel(
        contract=with_released(model, primary),
        releases=releases,
        traffic=traffic,
        waiting=None if known else release_id(model),
    )


def _require_known_hash(model: Model, users: UserSplit | None) -> None:
    """Raises UserError for an experiment whose users this Headway would divide otherwise."""
    if users and users.hash != HASH:
        raise UserError(
            f"Users of experiment {users.experiment} are divided by {users.hash}, and this Headway computes {HASH}.",
            f"An update would move users of {model.name} from one version to the other.",
            "Deploy with the Headway that began the experiment, or end it first.",
        )
