"""`headway evaluate`: asks what serves its labelled requests, and does what the contract says where its answers became worse.

Without --watch it looks once. A version is taken back by a release of its own, which this command drives like `headway release start`; so run
it where releases run, as the same identity.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli import look_loop
from headway.cli.completion import services
from headway.cli.environment_choice import EnvironmentOption, to_write
from headway.cli.look_voice import LookVoice
from headway.cli.output import Output, OutputOption
from headway.cli.release_options import NotifyOption, ProjectOption, PrometheusOption
from headway.cli.unanswered import plainly
from headway.problem import Exit, UserError

if TYPE_CHECKING:
    from headway.contract.evaluation import Evaluation
    from headway.release.driver.event_kinds import ReleaseOutcome
    from headway.release.evaluation.decision import ServedVersion
    from headway.release.evaluator.evaluator import Evaluator, LookResult, TakeBack
    from headway.release.service_place import ServicePlace

_WORST = (Exit.ROLLED_BACK, Exit.REFUSED, Exit.ENVIRONMENT, Exit.UNDER_WAY)


def evaluate(
    service: Annotated[
        str | None,
        typer.Argument(
            metavar="TENANT/MODEL", autocompletion=services, help="One service; otherwise each whose contract has `evaluation`."
        ),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Look again whenever a round is due, until stopped.")] = False,
    serve: Annotated[
        str, typer.Option("--serve", metavar="ADDRESS:PORT", help="With --watch: answer /healthz and /metrics there.", show_default=False)
    ] = "",
    speed: Annotated[float, typer.Option("--speed", min=1, help="Sandbox only: how much faster minutes pass.")] = 1.0,
    in_cluster: Annotated[
        Path | None,
        typer.Option(
            "--in-cluster", metavar="FILE", help="Ask what the platform layer wrote there, as the pod's own identity; take nothing back."
        ),
    ] = None,
    unguarded: Annotated[bool, typer.Option("--unguarded", help="Take back although no release guard watches.")] = False,
    environment: EnvironmentOption = None,
    project: ProjectOption = None,
    prometheus: PrometheusOption = None,
    output: OutputOption = Output.TEXT,
    notify: NotifyOption = None,
) -> None:
    """Ask the serving version labelled requests; where its answers are proven to be worse, take it back or tell a person.

    Exit codes: 0 nothing is proven; 5 it was taken back; 1 a person has to decide; 6 a release is under way, and nothing was asked.
    """
    from headway.cli.release_start import in_time
    from headway.release.evaluator.in_cluster import evaluated_services

    here = (
        look_loop.inside(service, in_cluster, evaluated_services)
        if in_cluster
        else _places(service, to_write(environment, project), project, prometheus)
    )
    with plainly():
        if speed != 1.0 and here:
            in_time(here[0], speed)
        looking = Looking(here, speed=speed, guarded=not unguarded, acts=in_cluster is None, output=output, notify=notify)
        if watch:
            looking.watch(serve, alone=service is not None)
        codes = {looking.look(here[0]).code} if service else {looking.answered(each) for each in here}
    raise typer.Exit(next((code for code in _WORST if code in codes), Exit.OK))


def _places(service: str | None, environment: str, project: Path | None, prometheus: str | None) -> "tuple[ServicePlace, ...]":
    """Services with an evaluation. Raises UserError where there is none."""
    from headway.environment.checkout import find
    from headway.release.service_place import place, places

    if service:
        return (place(service, environment, project, prometheus),)
    found = tuple(each for each in places(find(project), environment) if each.evaluation() is not None)
    if not found:
        raise UserError(
            f"No contract of {environment} says what its serving version is asked.",
            "Nothing was asked.",
            "Add `evaluation` to a contract (docs/reference/evaluation.md).",
            Exit.USAGE,
        )
    return found


class Looking:
    """Looks at services by turns, and says what it found."""

    def __init__(
        self, here: "Sequence[ServicePlace]", *, speed: float, guarded: bool, acts: bool, output: Output, notify: str | None
    ) -> None:
        self._here, self._speed, self._guarded, self._acts = here, speed, guarded, acts
        self._voice = LookVoice(output=output, notify=notify)

    def look(self, here: "ServicePlace") -> "LookResult":
        """Once. Raises what a look raises, after whoever is to be told was told."""
        from headway.release.evaluator.words import said

        result = self._evaluator(here).look()
        self._voice.say(here.chain, result.document(), said(result))
        if result.new:
            self._voice.tell(here.chain, result.release, result.look.value, said(result))
        return result

    def answered(self, here: "ServicePlace") -> Exit:
        """How a look at one of several ended."""
        return self._voice.answered(here, lambda each: self.look(each).code)

    def watch(self, serve: str, *, alone: bool) -> None:
        """Until the process is stopped. What does not answer is said, and asked again."""
        from headway.release.evaluator.serving import EvaluationPulse

        if alone:
            self._evaluator(self._here[0])  # a contract that asks nothing is refused before the loop begins
        pulse = EvaluationPulse(time.monotonic, look_loop.PATIENCE_SECONDS, time.time)
        look_loop.for_ever(self._here, self.look, pulse=pulse, voice=self._voice, serve=serve, speed=self._speed)

    def _evaluator(self, here: "ServicePlace") -> "Evaluator":
        from datetime import UTC, datetime

        from headway.release.evaluator.evaluator import Evaluator
        from headway.release.evaluator.labelled_set import labelled_set

        evaluation = _evaluation(here)
        chance = SystemRandom()
        return Evaluator(
            rounds=here.evaluations(),
            releases=here.ledger(),
            evaluation=evaluation,
            holdout=lambda: labelled_set(here.port, evaluation),
            ask=lambda release, holdout, drawn: here.ask_labelled(release, evaluation, holdout, drawn, chance),
            take_back=self._taker_of(here),
            chance=chance,
            now=lambda: datetime.now(UTC),
            speed=self._speed,
        )

    def _taker_of(self, here: "ServicePlace") -> "TakeBack | None":
        """What takes versions of the service back; None where this loop may not."""
        if not self._acts:
            return None

        def take_back(version: "ServedVersion", reason: str) -> "ReleaseOutcome":
            from headway.cli.release_drive import drive, shown
            from headway.cli.release_start import begun, commit_of
            from headway.ledger.serving import released
            from headway.release.driver.start import StartOptions
            from headway.release.evaluator.way_back import way_back

            model = way_back(released(here.store, here.chain, version.digest))
            options = StartOptions(reason=reason, commit=commit_of(here.project), speed=self._speed)
            with shown(self._voice.output, here.chain, self._voice.notify) as view:
                under_way = begun(here, view, options, supersede=False, guarded=self._guarded, model=model)
                outcome = drive(here, view, under_way).outcome
            assert outcome is not None  # noqa: S101  driven to its end
            return outcome

        return take_back


def _evaluation(here: "ServicePlace") -> "Evaluation":
    evaluation = here.evaluation()
    if evaluation is None:
        raise UserError(
            f"The contract of {here.chain} does not say what its serving version is asked.",
            "Nothing was asked.",
            "Add `evaluation` to it (docs/reference/evaluation.md).",
            Exit.USAGE,
        )
    return evaluation
