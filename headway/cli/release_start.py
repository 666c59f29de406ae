"""Beginning a release from a terminal or a CI job: what is refused, in which order, before anything is written or
moved.

Whoever supersedes drains the release under way; so all that can be refused is refused before that, and not after.
"""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.cli.release_drive import drive, say_unwitnessed
from headway.problem import Exit, UserError

if TYPE_CHECKING:
    from headway.cli.release_view import ReleaseView
    from headway.contract.model import Model
    from headway.release.driver.rollout_state import RolloutState, ServiceState
    from headway.release.driver.start import GoldenTrial, StartOptions
    from headway.release.plan import PoolCapacity
    from headway.release.service_place import ServicePlace


def begun(
    here: "ServicePlace", view: "ReleaseView", start: "StartOptions", *, supersede: bool, guarded: bool, model: "Model | None" = None
) -> "RolloutState | None":
    """Make sure that a release of `model`, or of the checkout's contract, is under way; answers the one that already
    was, None for a new one. Raises UserError."""
    from headway.ledger.chain import LostError

    while True:
        try:
            return _begun(here, view, start, supersede=supersede, guarded=guarded, model=model)
        except LostError:  # two began at once, or it was adopted meanwhile: look again, and go on with what is there
            continue


def _begun(
    here: "ServicePlace", view: "ReleaseView", start: "StartOptions", *, supersede: bool, guarded: bool, model: "Model | None"
) -> "RolloutState | None":
    from headway.contract.released import release_id
    from headway.environment.port import OutOfReachError
    from headway.ledger.store_proof import prove
    from headway.release.driver.adoption import adopt
    from headway.release.driver.clocks import refusal
    from headway.release.driver.event_kinds import OperatorRequest
    from headway.release.driver.requests import ask
    from headway.release.driver.rollout_state import fold
    from headway.release.driver.start import begin, possible

    in_time(here, start.speed)
    model = model or here.contract()
    with suppress(OutOfReachError):  # which the guard says in better words
        if how := here.world(model).clocks_apart():
            raise refusal(here.chain, how)
    if guarded:
        here.guard()
    prove(here.store)
    ledger = here.ledger()
    deployed = here.deployed()
    found = ledger.read()
    say_unwitnessed(ledger, view)
    if not found and deployed:
        adopt(ledger, here.store, deployed["contract"], deployed["release"])
    service = fold(ledger.read())
    if service.running and service.running.release == release_id(model):
        return service.running
    _may_be_written(here, service, model)
    if before := next((each for each in reversed(service.past) if each.release == release_id(model)), None):
        _say_taken_back(here, view, before)
    start = _not_accused(here, start, release_id(model))
    if service.running and supersede:
        possible(here.chain, replace(service, rollout=None), here.store, model, start)
        ask(ledger, OperatorRequest.ROLLBACK, f"superseded by release {release_id(model)}{': ' + start.reason if start.reason else ''}")
        drive(here, view, service.running)
    answers = _answers(here, model)
    if not answers.compared:
        trade = " So no trade can hold: it may be as slow as any version, and no slower." if model.rollout.trade else ""
        view.say(f"Golden answers will not be compared: {answers.reason}.{trade}")
    if answers.simulated and model.rollout.mirror and model.rollout.mirror.differ:
        view.say("Answers to copies will not be compared: the replicas are simulated.")
    room, other = _room(here, model), fold(here.ledger().read()).running
    if other and other.release == release_id(model):  # while replicas were asked, somebody else began it
        return other
    begin(here.ledger(), here.store, model, room, start, answers, _traffic(here, view, model, start.speed))
    return None


def _may_be_written(here: "ServicePlace", service: "ServiceState", model: "Model") -> None:
    """Whether whoever starts the release may write all that it changes. Raises UserError where not: it would fail halfway."""
    from headway.environment.port import OutOfReachError
    from headway.ledger.serving import released
    from headway.release.beyond_runners import why_beyond

    stable = released(here.store, here.chain, service.split.digests[service.stable]) if service.split and service.stable else model
    why = why_beyond(stable, model, here.pools, counts_tokens=here.counts_tokens)
    if why is None:
        return
    with suppress(OutOfReachError):  # which the driver says in better words
        if not here.cluster.may_patch("networking.istio.io", "envoyfilters"):
            raise UserError(
                f"You may not write all that this release of {here.chain} changes: {why}.",
                "The release would fail halfway; nothing was started.",
                "Have an identity of the platform's start it (docs/guide/releases.md).",
                Exit.REFUSED,
            )


def _say_taken_back(here: "ServicePlace", view: "ReleaseView", before: "RolloutState") -> None:
    """Say of a version that is released once more that it was taken back the last time."""
    from headway.release.driver.event_kinds import ReleaseOutcome
    from headway.release.messages import why

    if before.outcome is ReleaseOutcome.ROLLED_BACK:
        view.say(
            f"This very version was rolled back before: {why(before)} It is tried once more;"
            f" `headway release report {here.chain} -e {here.environment} --number {before.number}` shows what was seen."
        )


def _not_accused(here: "ServicePlace", start: "StartOptions", release: str) -> "StartOptions":
    """With the accusation that a person overrules. Raises UserError where nobody does, or nobody says why."""
    from headway.release.evaluation.accusation import accusation, refusal
    from headway.release.evaluation.standing import evaluated

    why = accusation(evaluated(here.evaluations().read()), release)
    if why is None:
        return start
    if not start.overrule:
        raise refusal(here.chain, release, why)
    if not start.reason.strip():
        raise UserError(
            "--overrule needs a reason.",
            "Nobody who reads the ledger later could tell why users got a version that was proven worse; nothing was done.",
            "Write --reason.",
            Exit.USAGE,
        )
    return replace(start, overruled=why)


def in_time(here: "ServicePlace", speed: float) -> None:
    """Whether minutes at that speed can be measured. Raises UserError."""
    from headway.release.tick_length import TICK_SECONDS

    if speed != 1.0 and not here.port.time_can_be_compressed:
        raise UserError(
            "--speed is for the sandbox.", "In production a minute takes a minute; nothing was done.", "Leave it out.", Exit.USAGE
        )
    if speed > 0 and TICK_SECONDS / speed < 2 * here.scrape_seconds:
        raise UserError(
            f"At a speed of {speed:g} a minute lasts {TICK_SECONDS / speed:.2g} s, and the sandbox measures every {here.scrape_seconds:g} s.",
            "Too little would be known of a minute to decide by it; nothing was done.",
            f"Use at most --speed {TICK_SECONDS / 2 / here.scrape_seconds:g}.",
            Exit.USAGE,
        )


def commit_of(project: Path) -> str:
    """The commit that the checkout is at; empty outside of git."""
    import subprocess

    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=project, capture_output=True, text=True, check=False)
    return head.stdout.strip() if head.returncode == 0 else ""


def _answers(here: "ServicePlace", model: "Model") -> "GoldenTrial":
    """Ask the stable version its golden requests: who cannot be asked now could not be compared later."""
    from headway.environment.port import OutOfReachError
    from headway.release.driver.rollout_state import fold
    from headway.release.driver.start import GoldenTrial

    try:
        trial = here.world(model).answers(fold(here.ledger().read()).stable or "")
    except OutOfReachError as failure:
        return GoldenTrial(compared=False, reason=f"the stable version's replicas could not be asked ({failure})")
    if trial is None:
        return GoldenTrial(compared=False, reason="the replicas are simulated", simulated=True)
    if not trial.pairs:
        return GoldenTrial(compared=False, reason=f"the stable version answered none of its golden requests ({'; '.join(trial.examples)})")
    said = f"the stable version gave {trial.pairs - trial.mismatches} of {trial.pairs} golden answers"
    return GoldenTrial(compared=True, reason=said, pairs=trial.pairs, mismatches=trial.mismatches)


def _traffic(here: "ServicePlace", view: "ReleaseView", model: "Model", speed: float) -> float | None:
    """Requests a second of users, in the policy's time, after saying what so few can prove; None where nobody knows."""
    from headway.environment.port import OutOfReachError
    from headway.ledger.traffic_split import ArmRole
    from headway.release.driver.rollout_state import fold
    from headway.release.tick_length import ENOUGH

    split = fold(here.ledger().read()).split
    stable = split.arm(ArmRole.STABLE) if split else None
    try:
        measured = here.world(model).requests_a_second(stable.key, speed) if stable else None
    except OutOfReachError:  # which the check of the evidence says in better words
        return None
    if measured is not None and measured < ENOUGH:
        from headway.release.forecast import said

        for sentence in said(model.rollout, measured):
            view.say(sentence)
    return measured


def _room(here: "ServicePlace", model: "Model") -> "PoolCapacity":
    from headway.contract.arithmetic.surge import pool_for
    from headway.release.driver.rollout_state import fold

    stable = fold(here.ledger().read()).stable or ""
    pool: Any = pool_for(model, here.pools)
    return here.cluster.room(pool, model, stable, grows=here.port.nodes_can_be_added)
