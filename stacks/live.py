"""What serves each model according to the release ledger: its releases as they were registered, and the division of traffic.

The only live read of a plan. A model that the ledger does not know is left out: its contract is its only release. The trap: without an
answer of the ledger nothing may be planned, because a plan from the contract alone would undo a running release.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from components.model_service.release import Release
from components.model_service.traffic import Arm, Mirror, Traffic
from components.model_service.traffic import Live as LiveArm
from components.model_service.traffic import Split as UserSplit
from headway.contract.assignment import HASH
from headway.contract.crosscheck import TenantContracts
from headway.contract.model import Model
from headway.contract.released import release_id, same_release, with_released
from headway.ledger.store import MissingStoreError, Store, UnreachableError
from headway.ledger.traffic_split import CANARY, Division, latest, released
from headway.problem import Problem, UserError
from stacks.settings_error import SettingsError


@dataclass(frozen=True, kw_only=True)
class Live:
    """One model. `waiting` is the release that its contract describes, where that is not live yet."""

    contract: Model
    """The contract as it is now, but for what only a new release may change."""
    releases: Mapping[str, Release]
    traffic: Traffic
    waiting: str | None

    @property
    def primary(self) -> str:
        return self.traffic.primary.release


def live(contracts: TenantContracts, ledger: Store | None) -> Mapping[str, Live]:
    """Every model of the tenant that `ledger` knows. Raises SettingsError with every model that cannot be planned."""
    found: dict[str, Live] = {}
    refused: list[Problem] = []
    if ledger is None:
        return found
    for model in contracts.models:
        chain = f"{contracts.tenant.name}/{model.name}"
        try:
            division = latest(ledger, chain)
            if division is not None:
                found[model.name] = _live(model, division, {r: released(ledger, chain, d) for r, d in division.digests.items()})
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
    return found


def _live(model: Model, division: Division, snapshots: Mapping[str, Model]) -> Live:
    releases = {name: Release(model=snapshot, registered=name) for name, snapshot in snapshots.items()}
    traffic = Traffic(
        arms=tuple(
            LiveArm(release=p.release, arm=Arm(p.arm), weight=p.weight, fixed_replicas=p.replicas, at_least=p.at_least, at_most=p.at_most)
            for p in division.portions
        ),
        mirror=Mirror(release=division.mirrored, percent=division.copies) if division.mirrored else None,
        split=_split(model, division),
    )
    primary = snapshots[traffic.primary.release]
    known = any(same_release(model, snapshot) for snapshot in _arms(division, snapshots))
    return Live(
        contract=with_released(model, primary),
        releases=releases,
        traffic=traffic,
        waiting=None if known else release_id(model),
    )


def _split(model: Model, division: Division) -> UserSplit | None:
    """The experiment under way. Raises UserError for one whose users this Headway would divide otherwise."""
    found, canary = division.split, division.arm(CANARY)
    if found is None or canary is None:
        return None
    if found.hash != HASH:
        raise UserError(
            f"users of experiment {found.experiment} are divided by {found.hash}, and this Headway computes {HASH}",
            f"An update would move users of {model.name} from one version to the other",
            "Deploy with the Headway that began the experiment, or end it first",
        )
    return UserSplit(release=canary.release, experiment=found.experiment, percent=found.share, user_claim=found.user_claim)


def _arms(division: Division, snapshots: Mapping[str, Model]) -> Iterator[Model]:
    return (snapshots[portion.release] for portion in division.portions)
