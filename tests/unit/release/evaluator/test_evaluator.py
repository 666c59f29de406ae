"""After the promotion: a version that answers worse is taken back the way a release goes, or a person is told."""

from datetime import timedelta

import pytest

from headway.contract.model import Model
from headway.contract.released import release_id
from headway.environment.port import OutOfReachError
from headway.ledger.chain import register
from headway.ledger.events import key
from headway.ledger.reading import verify
from headway.ledger.witness import of
from headway.problem import Exit, UserError
from headway.release.driver.event_kinds import EventKind, ReleaseOutcome
from headway.release.evaluation.standing import EvaluationEvent
from headway.release.evaluator.evaluator import EvaluationLook, LookResult
from tests.evaluation_world import SHA256, Bench, evaluation
from tests.unit.release.driver.test_release_start import version
from tests.unit.release.town import Onlooker
from tests.unit.release_kill import KilledError, Shelf
from tests.unit.release_world import CHAIN, Scene, quickly_baked


@pytest.fixture(scope="module")
def contract() -> Model:
    return quickly_baked()


@pytest.fixture
def bench(contract: Model) -> Bench:
    return Bench(Scene.of(Shelf(), contract, mirror=None, weights=["10%"]))


def rounds(bench: Bench, count: int) -> LookResult:
    """So many rounds, or fewer where something follows."""
    found = bench.evaluator().look()
    for _ in range(count - 1):
        if found.look is not EvaluationLook.ASKED:
            break
        bench.scene.world.clock += timedelta(minutes=10)
        found = bench.evaluator().look()
    return found


def promoted(bench: Bench, *, known: bool = True) -> None:
    """The new version serves; the old one is known as sound, or was never asked."""
    if known:
        assert rounds(bench, 3).look is EvaluationLook.ASKED
    assert bench.scene.run().outcome is ReleaseOutcome.PROMOTED
    bench.wrong[bench.scene.release] = lambda _: 0.3


def test_a_sound_version_is_asked_at_its_rate_and_nothing_follows(bench: Bench):
    first = bench.evaluator().look()
    assert (first.look, first.wait, first.code) == (EvaluationLook.ASKED, 600.0, Exit.OK)
    bench.scene.world.clock += timedelta(minutes=9)
    early = bench.evaluator().look()
    assert (early.look, early.wait, early.code) == (EvaluationLook.WAITING, 60.0, Exit.OK)
    bench.scene.world.clock += timedelta(minutes=1)
    last = rounds(bench, 50)
    assert last.look is EvaluationLook.ASKED
    assert last.standing
    assert (last.standing.rounds, last.standing.streams["all"].asked) == (51, 51 * 40)
    assert last.standing.known_sound


def test_a_version_that_answers_worse_is_taken_back_to_the_sound_one(bench: Bench):
    promoted(bench)
    found = rounds(bench, 10)
    assert (found.look, found.code) == (EvaluationLook.BACK, Exit.ROLLED_BACK)
    service = bench.scene.service()
    assert service.stable == bench.scene.stable
    assert service.past[-1].release == bench.scene.stable
    assert service.past[-1].body["reason"] == bench.begun[0]
    assert "known as sound" in bench.begun[0]
    assert bench.scene.world.routed[bench.scene.stable] == 100
    assert rounds(bench, 3).look is EvaluationLook.ASKED
    assert bench.asked[-3:] == [bench.scene.stable] * 3


def test_the_way_back_gives_all_users_at_once_and_holds_nobody_back(bench: Bench):
    promoted(bench)
    bench.scene.world.done.clear()
    rounds(bench, 10)
    moved = [done for done in bench.scene.world.done if done.startswith("up")]
    assert [*dict.fromkeys(moved)] == ["up stable=100 canary=0", "up stable=0 canary=100", "up stable=100"]


def test_loss_in_a_slice_alone_is_found_and_named(bench: Bench):
    bench.contract = evaluation(wrong="20%")
    promoted(bench)
    bench.wrong[bench.scene.release] = lambda night: 0.4 if night else 0.01
    rounds(bench, 30)
    assert "of slice night" in bench.begun[0]


def test_where_the_contract_says_so_a_person_is_asked_and_nothing_moves(bench: Bench):
    bench.contract = evaluation(on_loss="ask")
    promoted(bench)
    found = rounds(bench, 10)
    assert (found.look, found.code) == (EvaluationLook.LOST, Exit.REFUSED)
    assert found.standing
    assert found.standing.answer
    assert "its contract has a person decide" in found.standing.answer.reason
    assert bench.begun == []
    assert bench.scene.service().stable == bench.scene.release


def test_a_version_that_was_never_asked_is_not_known_as_sound(bench: Bench):
    promoted(bench, known=False)
    found = rounds(bench, 10)
    assert found.look is EvaluationLook.LOST
    assert found.standing
    assert found.standing.answer
    assert "no version that served before is known as sound" in found.standing.answer.reason


def test_a_version_that_lost_is_never_gone_back_to(bench: Bench):
    promoted(bench)
    rounds(bench, 10)
    bench.wrong[bench.scene.stable] = lambda _: 0.3
    bench.scene.world.clock += timedelta(minutes=10)
    found = rounds(bench, 40)
    assert found.look is EvaluationLook.LOST
    assert bench.scene.service().stable == bench.scene.stable


def test_while_a_release_is_under_way_nothing_is_asked(bench: Bench):
    bench.scene.begin()
    found = bench.evaluator().look()
    assert (found.look, found.code, bench.asked) == (EvaluationLook.UNDER_WAY, Exit.UNDER_WAY, [])


def test_a_version_that_cannot_be_asked_is_not_accused(bench: Bench):
    bench.reachable = False
    with pytest.raises(OutOfReachError):
        bench.evaluator().look()
    assert bench.rounds().read() == ()


def test_a_runner_that_died_on_the_way_back_is_followed_by_the_next(bench: Bench):
    promoted(bench)
    bench.dies = True
    with pytest.raises(KeyboardInterrupt):
        rounds(bench, 10)
    assert bench.scene.service().running
    bench.dies = False
    assert bench.evaluator().look().look is EvaluationLook.BACK
    assert bench.scene.service().stable == bench.scene.stable


def test_a_way_back_that_ended_unseen_is_written_down_by_the_next(bench: Bench):
    promoted(bench)
    bench.dies = True
    with pytest.raises(KeyboardInterrupt):
        rounds(bench, 10)
    bench.scene.driver("another").run()
    bench.evaluator().look()
    last = [event for event in bench.rounds().read() if event.kind == "taken-back"]
    assert [(event.body["outcome"], event.body["serves"]) for event in last] == [("promoted", bench.scene.stable)]


def test_a_way_back_that_failed_is_left_to_a_person(bench: Bench):
    promoted(bench)
    bench.scene.world.findings = ("no metric shows the stable version",)
    found = rounds(bench, 10)
    assert (found.look, found.code) == (EvaluationLook.STAYED, Exit.REFUSED)
    assert bench.evaluator().look().look is EvaluationLook.STAYED
    assert len(bench.begun) == 1


def test_another_share_begins_the_evidence_anew(bench: Bench):
    promoted(bench)
    bench.contract = evaluation(wrong="40%", slices=[])
    found = bench.evaluator().look()
    assert found.standing
    assert (found.look, found.standing.rounds) == (EvaluationLook.ASKED, 1)


def test_rounds_lie_in_a_sound_chain_beside_that_of_the_releases(bench: Bench):
    promoted(bench)
    rounds(bench, 10)
    assert verify(bench.scene.store, f"{CHAIN}/evaluation", "sandbox") == ()
    assert verify(bench.scene.store, CHAIN, "sandbox") == ()
    kinds = [event.kind for event in bench.rounds().read()]
    assert kinds[-2:] == ["loss-proven", "taken-back"]
    assert set(kinds[:-2]) == {"evaluated"}
    assert {kind for kind in bench.scene.kinds() if kind not in set(EventKind)} == set()


def test_of_two_loops_that_asked_at_once_one_round_counts(bench: Bench):
    other = bench.evaluator()
    bench.meanwhile = lambda: other.look()
    found = bench.evaluator().look()
    assert found.standing
    assert len(bench.asked) == 2
    assert (found.look, found.standing.rounds, len(bench.rounds().read())) == (EvaluationLook.ASKED, 1, 1)


def test_a_loop_that_may_not_release_leaves_the_way_back_to_one_that_may(bench: Bench):
    promoted(bench)
    found = bench.evaluator(acts=False).look()
    while found.look is EvaluationLook.ASKED:
        bench.scene.world.clock += timedelta(minutes=10)
        found = bench.evaluator(acts=False).look()
    assert (found.look, found.code, found.new) == (EvaluationLook.DUE, Exit.REFUSED, True)
    assert bench.evaluator(acts=False).look().look is EvaluationLook.DUE
    assert bench.scene.service().stable == bench.scene.release
    assert bench.evaluator().look().look is EvaluationLook.BACK
    assert bench.evaluator(acts=False).look().look is EvaluationLook.ASKED


def test_nobody_goes_back_to_a_version_that_never_served(bench: Bench):
    """Whoever may write evaluations and release nothing could otherwise choose what is released."""
    promoted(bench)
    other = version(bench.scene, "2027.2.1")
    digest = register(bench.scene.store, CHAIN, {"id": release_id(other), "contract": other.model_dump(mode="json")})
    accepted = {"all": 0.03, "night": 0.1}
    found = {"stream": "all", "asked": 1, "wrong": 1, "value": 100.0, "reason": "so it is said"}
    head = {"release": bench.scene.release, "holdout": SHA256, "accepted": accepted}
    chain = bench.rounds()
    chain.read()
    chain.append(EvaluationEvent.LOSS, {**head, **found, "to": {"release": release_id(other), "digest": digest}})
    assert bench.evaluator().look().look is EvaluationLook.LOST
    assert bench.begun == []


def test_rounds_that_were_cut_off_are_believed_by_nobody_until_accepted(bench: Bench):
    bench.scene.witness = Onlooker()
    rounds(bench, 3)
    watching = bench.evaluator()
    assert watching.look().look is EvaluationLook.WAITING
    assert isinstance(bench.scene.store, Shelf)
    del bench.scene.store.objects[key(f"{CHAIN}/evaluation", 3)]
    with pytest.raises(UserError, match=f"`headway release accept {CHAIN}/evaluation -e sandbox --reason WHY`"):
        bench.evaluator().look()
    with pytest.raises(UserError, match="it was read before, and now it is gone"):
        watching.look()
    assert len(bench.asked) == 3
    assert bench.rounds().accept("restored")
    assert rounds(bench, 1).look is EvaluationLook.ASKED


def test_what_a_loop_could_not_tell_the_witness_the_next_look_tells(bench: Bench):
    class Dying(Onlooker):
        def write(self, chain: str, text: str) -> None:
            raise KilledError

    bench.scene.witness = Dying()
    with pytest.raises(KilledError):
        bench.evaluator().look()
    bench.scene.witness = heard = Onlooker()
    assert bench.evaluator().look().look is EvaluationLook.WAITING
    assert heard.words[f"{CHAIN}/evaluation"] == of(bench.rounds().read()[-1])


def test_a_witness_that_is_silent_delays_no_round(bench: Bench):
    bench.scene.witness = silent = Onlooker()
    silent.away = lambda: True
    assert rounds(bench, 3).look is EvaluationLook.ASKED
    assert not silent.words
