"""`headway drift`: whether what users send, and what they get, still is as it was after the promotion.

Without --watch it looks once. It reads samples of requests, so run it as one who may read them: whoever drives releases.
"""

import time
from collections.abc import Callable, Sequence
from random import SystemRandom
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.environment_choice import EnvironmentOption, to_write
from headway.cli.look_voice import LookVoice
from headway.cli.output import Output, OutputOption
from headway.cli.release_options import NotifyOption, ProjectOption
from headway.cli.unanswered import plainly
from headway.problem import Exit, UserError

if TYPE_CHECKING:
    from headway.contract.sampling import Sample
    from headway.release.evaluator.drift_watch import DriftResult, DriftWatch, ReadSamples
    from headway.release.service_place import ServicePlace

_PAUSE_SECONDS = 60.0
"""Between two looks of the loop: a release may be new."""
_WORST = (Exit.REFUSED, Exit.ENVIRONMENT, Exit.UNDER_WAY)


def drift(
    service: Annotated[
        str | None, typer.Argument(metavar="[TENANT/MODEL]", help="One service; otherwise each whose contract has `drift`.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Look again whenever there is something new, until stopped.")] = False,
    anew: Annotated[
        str, typer.Option("--anew", metavar="REASON", help="Learn from now on what is usual, for one service; kept in the ledger.")
    ] = "",
    environment: EnvironmentOption = None,
    project: ProjectOption = None,
    output: OutputOption = Output.TEXT,
    notify: NotifyOption = None,
) -> None:
    """Say whether users' requests or answers drifted since the promotion, at most 1 % of services ever falsely.

    Exit codes: 0 nothing is proven; 1 something drifted, and a person decides; 6 a release is under way, and nothing was read.
    """
    from headway.release.service_place import place, places

    where = to_write(environment, project)
    if anew and (service is None or watch):
        raise UserError("--anew is for one service, and not for the loop.", "Nothing was done.", "Name TENANT/MODEL.", Exit.USAGE)
    with plainly():
        if service:
            here = (place(service, where, project),)
        else:
            from headway.environment.checkout import find

            here = tuple(each for each in places(find(project), where) if each.contract().drift is not None)
        if not here:
            raise _unwatched(f"No contract of {where} says")
        looking = DriftLooking(here, output=output, notify=notify)
        if anew:
            looking.watch_of(here[0]).anew(anew)
        if watch:
            looking.watch()
        codes = {looking.look(here[0]).code} if service else {looking.answered(each) for each in here}
    raise typer.Exit(next((code for code in _WORST if code in codes), Exit.OK))


class DriftLooking:
    """Looks at services by turns, and says what it found."""

    def __init__(self, here: "Sequence[ServicePlace]", *, output: Output, notify: str | None) -> None:
        self._here, self._voice = here, LookVoice(output=output, notify=notify)
        self._watches: dict[str, DriftWatch] = {}

    def look(self, here: "ServicePlace") -> "DriftResult":
        """Once. Raises what a look raises, after whoever is to be told was told."""
        from headway.environment.request_samples import UnreadableSamplesError
        from headway.release.evaluator.drift_words import said

        try:
            result = self.watch_of(here).look()
        except UnreadableSamplesError as failure:
            raise UserError(
                f"Samples of {here.chain} cannot be read ({failure}).",
                "Nothing was counted; what serves goes on serving.",
                "Run it as one who may read them: whoever drives the tenant's releases.",
                Exit.ENVIRONMENT,
            ) from None
        self._voice.say(here.chain, result.document(), said(result))
        if result.new:
            self._voice.tell(here.chain, result.standing.release, result.look.value, said(result))
        return result

    def answered(self, here: "ServicePlace") -> Exit:
        """How a look at one of several ended."""
        return self._voice.answered(here, lambda each: self.look(each).code)

    def watch(self) -> None:
        """Until the process is stopped. What does not answer is said, and asked again."""
        for here in self._here:
            self.watch_of(here)  # a contract that watches nothing is refused before the loop begins
        while True:
            for here in self._here:
                self.answered(here)
            time.sleep(_PAUSE_SECONDS)

    def watch_of(self, here: "ServicePlace") -> "DriftWatch":
        """Its watch; a loop keeps it, for what was read before is not reckoned again. Raises UserError for a contract that watches nothing."""
        from datetime import UTC, datetime

        from headway.release.evaluator.drift_watch import DriftWatch

        if here.chain not in self._watches:
            contract = here.contract()
            if contract.drift is None:
                raise _unwatched(f"The contract of {here.chain} does not say")
            samples = here.port.request_samples(here.tenant, here.model, contract.data.retention)
            if samples is None:
                raise UserError(
                    f"Environment {here.environment} keeps no samples of requests.",
                    "Nothing was read.",
                    "Deploy its cluster and platform layers: they have the bucket and the collectors.",
                    Exit.REFUSED,
                )
            self._watches[here.chain] = DriftWatch(
                rounds=here.drifts(),
                releases=here.ledger(),
                drift=contract.drift,
                read=_of_users(here, samples.read),
                late_seconds=samples.late_seconds,
                chance=SystemRandom(),
                now=lambda: datetime.now(UTC),
            )
        return self._watches[here.chain]


def _of_users(here: "ServicePlace", read: "Callable[[float, float], list[Sample]]") -> "ReadSamples":
    """Samples of what a release answered to users, by the workload that the live route has for it."""
    from headway.environment.port import OutOfReachError

    def of_users(release: str, start: float, end: float) -> "list[Sample]":
        workload = here.cluster.route().hosts.get(release)
        if workload is None:
            raise OutOfReachError(f"the live route does not name {release}")
        return [sample for sample in read(start, end) if sample.workload == workload and not sample.mirrored]

    return of_users


def _unwatched(who: str) -> UserError:
    return UserError(
        f"{who} what is watched for drift.", "Nothing was read.", "Add `drift` to it (docs/reference/evaluation.md).", Exit.USAGE
    )
