"""Carrying a release out from a terminal or a CI job: drive it, or follow whoever does; and show it meanwhile.

The lease is renewed by a thread of its own, beside an update that takes minutes.
"""

import contextlib
import sys
import threading
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

from headway.cli.output import Output
from headway.problem import Exit, UserError

if TYPE_CHECKING:
    from headway.cli.release_view import ReleaseView
    from headway.ledger.chain import Ledger
    from headway.ledger.events import Event
    from headway.release.driver.leased_run import EventListener, LeasedRun
    from headway.release.driver.rollout_state import RolloutState, ServiceState
    from headway.release.service_place import ServicePlace

_LOOK_SECONDS = 1.0


class ReleaseLeft(KeyboardInterrupt):
    """Ctrl-C while a release is under way. Whoever loops ends by it as by any other; a person is told what becomes of the release."""

    def __init__(self, told: UserError) -> None:
        super().__init__(told.fact)
        self.told = told


def drive(here: "ServicePlace", view: "ReleaseView", under_way: "RolloutState | None" = None, regate: str | None = None) -> "RolloutState":
    """Drive it here; while another runner does, follow, and take over when that one is gone. Answers how it ended.

    `regate`: see the driver.
    """
    from functools import partial

    from headway.diagnosis.of_rollback import of_rollback
    from headway.ledger.serving import released
    from headway.release.driver.driver import ReleaseDriver
    from headway.release.driver.holder import gone
    from headway.release.driver.holder import here as this_runner
    from headway.release.driver.leased_run import LeasedRun
    from headway.release.evidence import reading

    rollout = under_way or running(here)
    view.follows(rollout)
    world, told = here.world(released(here.store, here.chain, rollout.digest)), _once(view)
    ended: RolloutState | None = None
    driving = True
    try:
        while ended is None:
            leased_run = LeasedRun(here.ledger(), world, reading, this_runner(), gone=gone, told=told)
            try:
                with _kept(leased_run):
                    ended = ReleaseDriver(leased_run, regate=regate, diagnose=partial(of_rollback, here)).run()
            except UserError as refusal:
                if refusal.exit is not Exit.BUSY:
                    raise
                view.say(f"{refusal.fact} Following it.")
                driving = False
                ended = _followed(here, view, rollout, told, gone)
                driving = True
                if ended is None:
                    view.say("That runner is gone; taking over.")
    except KeyboardInterrupt:
        raise ReleaseLeft(_left_alone(here) if driving else _left(here)) from None
    from headway.release.report import summary

    summary.append(summary.markdown(here.chain, ended, here.ledger().read()))
    view.ended(ended)
    return ended


def follow(here: "ServicePlace", view: "ReleaseView", rollout: "RolloutState") -> "RolloutState":
    """Read the ledger until the release is over, and show how it ended. Says when nobody drives it any more."""
    from headway.release.driver.holder import gone

    view.follows(rollout)
    told = _once(view)
    try:
        ended = _followed(here, view, rollout, told, gone)
        if ended is None:
            view.say(f"Nobody drives it now; `headway release resume {here.chain} -e {here.environment}` takes it over.")
            ended = _followed(here, view, rollout, told, None)
    except KeyboardInterrupt:
        raise ReleaseLeft(_left(here) if _driven(here, gone) else _left_alone(here)) from None
    assert ended is not None  # noqa: S101  without a look at the lease it only returns at the end
    view.ended(ended)
    return ended


def _driven(here: "ServicePlace", gone: "Callable[[str], bool]") -> bool:
    """Whether a runner holds its lease, which may be another one than at first; True where nobody can say."""
    from headway.ledger.store import UnreachableError

    try:
        lease = here.ledger().lease()
    except UnreachableError:
        return True
    return lease is not None and lease.kept(gone)


def _left(here: "ServicePlace") -> UserError:
    return UserError(
        f"You have left the release of {here.chain}.",
        "It goes on where it is driven.",
        f"`headway release watch {here.chain} -e {here.environment}` shows it again.",
        Exit.INTERRUPTED,
    )


def _left_alone(here: "ServicePlace") -> UserError:
    about = f"{here.chain} -e {here.environment}"
    return UserError(
        f"You left the release of {here.chain}, and nobody drives it now.",
        "Users stay divided as they are; a guard, where one watches, takes the new version's traffic after `rollout.unwatched_at_most`.",
        f"`headway release resume {about}` goes on; `headway release rollback {about} --reason ...` takes it back.",
        Exit.INTERRUPTED,
    )


def _followed(
    here: "ServicePlace", view: "ReleaseView", rollout: "RolloutState", told: "EventListener", gone: "Callable[[str], bool] | None"
) -> "RolloutState | None":
    """Read the ledger until the release is over; or until nobody holds its lease, where `gone` tells the dead: then
    None."""
    from time import sleep

    from headway.ledger.store import UnreachableError
    from headway.release.driver.rollout_state import fold

    ledger, silent = here.ledger(), False
    service, seen = fold(()), 0
    while True:
        try:
            events = ledger.look()
            lease = ledger.lease() if gone else None
        except UnreachableError as failure:
            if not silent:
                view.say(f"The release ledger does not answer ({failure}); waiting for it.")
            silent = True
            sleep(_LOOK_SECONDS)
            continue
        silent = False
        for event in events[seen:]:
            service = fold((event,), service)
            told(event, service)
        seen = len(events)
        followed = service.begun_with(rollout.number)
        if followed and followed.over:
            return followed
        if gone and not (lease and lease.kept(gone)):
            return None
        sleep(_LOOK_SECONDS)


def _once(view: "ReleaseView") -> "EventListener":
    """Tells the view of each event once, whoever reads the chain, and however often."""
    newest = 0

    def told(event: "Event", service: "ServiceState") -> None:
        nonlocal newest
        if event.number > newest:
            newest = event.number
            view.told(event, service)

    return told


@contextlib.contextmanager
def _kept(leased_run: "LeasedRun") -> Generator[None]:
    """The lease is renewed beside whatever takes long."""
    stopped = threading.Event()
    keeper = threading.Thread(target=leased_run.keep, args=(stopped,), daemon=True)
    keeper.start()
    try:
        yield
    finally:
        stopped.set()
        keeper.join(timeout=5.0)


@contextlib.contextmanager
def shown(output: Output, chain: str, notify: str | None) -> "Generator[ReleaseView]":
    from headway.cli.release_view import JsonView, LogView, TerminalView
    from headway.release.notify import Webhook

    hook = Webhook(notify, chain) if notify else None
    made = JsonView(chain, hook) if output is Output.JSON else TerminalView(chain, hook) if sys.stdout.isatty() else LogView(chain, hook)
    with made as view:
        try:
            yield view
        finally:
            if hook and (trouble := hook.close()):
                view.say(trouble)


def say_unwitnessed(ledger: "Ledger", view: "ReleaseView") -> None:
    """Say of a chain that was read that no witness was asked, or none answered: its releases go on all the same."""
    if problem := ledger.unwitnessed:
        view.say(problem.brief)


def running(here: "ServicePlace", ledger: "Ledger | None" = None) -> "RolloutState":
    """The release under way, as `ledger` is read for it. Raises UserError."""
    from headway.release.driver.rollout_state import fold

    rollout = fold((ledger or here.ledger()).read()).running
    if rollout is None:
        about = f"{here.chain} -e {here.environment}"
        raise UserError(
            f"No release of {here.chain} is under way.",
            "Nothing was done.",
            f"`headway release history {about}` shows what was; `headway release start {about}` begins one.",
            Exit.REFUSED,
        )
    return rollout


def code(rollout: "RolloutState") -> Exit:
    from headway.release.driver.event_kinds import ReleaseOutcome

    back, refused = Exit.ROLLED_BACK, Exit.REFUSED
    codes = {
        ReleaseOutcome.PROMOTED: Exit.OK,
        ReleaseOutcome.ROLLED_BACK: back,
        ReleaseOutcome.OUT_OF_TIME: back,
        ReleaseOutcome.REFUSED: refused,
    }
    return codes[rollout.outcome] if rollout.outcome else Exit.UNDER_WAY
