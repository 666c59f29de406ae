"""`headway drift`: whether what users send, and what they get, still is as it was after the promotion.

Without --watch it looks once. It reads samples of requests, so run it as one who may read them: whoever drives releases. It never takes a
version back, for drift of what users send is not the version's fault.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli import look_loop
from headway.cli.completion import services
from headway.cli.environment_choice import EnvironmentOption, to_write
from headway.cli.look_voice import LookVoice
from headway.cli.output import Output, OutputOption
from headway.cli.release_options import NotifyOption, ProjectOption
from headway.cli.unanswered import plainly
from headway.problem import Exit, UserError

if TYPE_CHECKING:
    from headway.contract.sampling import Sample
    from headway.release.evaluator.drift_watch import DriftResult, DriftWatch, ReadSamples
    from headway.release.evaluator.serving import DriftPulse
    from headway.release.service_place import ServicePlace

_WORST = (Exit.REFUSED, Exit.ENVIRONMENT, Exit.UNDER_WAY)


def drift(
    service: Annotated[
        str | None,
        typer.Argument(metavar="TENANT/MODEL", autocompletion=services, help="One service; otherwise each whose contract has `drift`."),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Look again whenever there is something new, until stopped.")] = False,
    serve: Annotated[
        str, typer.Option("--serve", metavar="ADDRESS:PORT", help="With --watch: answer /healthz and /metrics there.", show_default=False)
    ] = "",
    speed: Annotated[float, typer.Option("--speed", min=1, help="Sandbox only: how much faster minutes pass.")] = 1.0,
    in_cluster: Annotated[
        Path | None,
        typer.Option("--in-cluster", metavar="FILE", help="Watch what the platform layer wrote there, as the pod's own identity."),
    ] = None,
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
    from headway.cli.release_start import in_time

    if anew and (service is None or watch):
        raise UserError("--anew is for one service, and not for the loop.", "Nothing was done.", "Name TENANT/MODEL.", Exit.USAGE)
    from headway.release.evaluator.in_cluster import watched_services

    with plainly():
        if in_cluster:
            here: Sequence[ServicePlace] = look_loop.inside(service, in_cluster, watched_services)
        else:
            here = _places(service, to_write(environment, project), project)
        if speed != 1.0 and here:
            in_time(here[0], speed)
        looking = DriftLooking(here, speed=speed, output=output, notify=notify)
        if anew:
            looking.watch_of(here[0]).anew(anew)
        if watch:
            looking.watch(serve, alone=service is not None)
        codes = {looking.look(here[0]).code} if service else {looking.answered(each) for each in here}
    raise typer.Exit(next((code for code in _WORST if code in codes), Exit.OK))


def _places(service: str | None, environment: str, project: Path | None) -> "Sequence[ServicePlace]":
    """Services of which something is watched. Raises UserError where there is none."""
    from headway.environment.checkout import find
    from headway.release.service_place import place, places

    if service:
        return (place(service, environment, project),)
    found = tuple(each for each in places(find(project), environment) if each.watched() is not None)
    if not found:
        raise _unwatched(f"No contract of {environment} says")
    return found


class DriftLooking:
    """Looks at services by turns, and says what it found."""

    def __init__(self, here: "Sequence[ServicePlace]", *, speed: float = 1.0, output: Output, notify: str | None) -> None:
        self._here, self._speed, self._voice = here, speed, LookVoice(output=output, notify=notify)
        self._pulse: DriftPulse | None = None
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

    def watch(self, serve: str, *, alone: bool) -> None:
        """Until the process is stopped. What does not answer is said, and asked again."""
        from headway.release.evaluator.drift_watch import DriftLook
        from headway.release.evaluator.serving import DriftPulse

        if alone:
            self.watch_of(self._here[0])  # a contract that watches nothing is refused before the loop begins
        self._pulse = pulse = DriftPulse(time.monotonic, look_loop.PATIENCE_SECONDS, time.time)

        def well(result: "DriftResult") -> bool:
            return result.look is not DriftLook.FEW

        look_loop.for_ever(self._here, self.look, pulse=pulse, voice=self._voice, serve=serve, speed=self._speed, well=well)

    def _lives(self) -> None:
        """A sign of life: to read what two weeks have kept takes longer than the loop has patience."""
        if self._pulse:
            self._pulse.turned()

    def watch_of(self, here: "ServicePlace") -> "DriftWatch":
        """Its watch; a loop keeps it, for what was read before is not reckoned again. Raises UserError for a contract that watches nothing."""
        from datetime import UTC, datetime

        from headway.release.evaluator.drift_watch import DriftWatch

        if here.chain not in self._watches:
            watched = here.watched()
            if watched is None:
                raise _unwatched(f"The contract of {here.chain} does not say")
            samples = here.port.request_samples(here.tenant, here.model, watched.retention)
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
                drift=watched.drift,
                read=_of_users(here, samples.read, self._lives),
                late_seconds=samples.late_seconds,
                chance=SystemRandom(),
                now=lambda: datetime.now(UTC),
                speed=self._speed,
            )
        return self._watches[here.chain]


def _of_users(here: "ServicePlace", read: "Callable[[float, float], list[Sample]]", lives: Callable[[], None]) -> "ReadSamples":
    """Samples of what a release answered to users, by the workload that the live route has for it. `lives` is told before each reading."""
    from headway.environment.port import OutOfReachError

    def of_users(release: str, start: float, end: float) -> "list[Sample]":
        lives()
        workload = here.cluster.route().hosts.get(release)
        if workload is None:
            raise OutOfReachError(f"the live route does not name {release}")
        return [sample for sample in read(start, end) if sample.workload == workload and not sample.mirrored]

    return of_users


def _unwatched(who: str) -> UserError:
    return UserError(
        f"{who} what is watched for drift.", "Nothing was read.", "Add `drift` to it (docs/reference/evaluation.md).", Exit.USAGE
    )
