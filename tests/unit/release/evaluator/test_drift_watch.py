"""Watched numbers of a serving version: what is usual is learned, drift is proven once, and a night or a cluster is none."""

import itertools
import math
import re
from datetime import timedelta
from random import Random

import pytest

from headway.contract.model import Model
from headway.ledger.chain import Ledger
from headway.ledger.events import key
from headway.ledger.reading import verify
from headway.ledger.witness import of
from headway.problem import Exit, UserError
from headway.release.driver.event_kinds import ReleaseOutcome
from headway.release.evaluation.watched import drift_chain
from headway.release.evaluator.drift_watch import DriftLook, DriftWatch
from headway.release.evaluator.drift_words import said
from tests.drift_world import LATE, Users, drift
from tests.unit.release.town import Onlooker
from tests.unit.release_kill import Shelf
from tests.unit.release_world import CHAIN, Scene, quickly_baked


@pytest.fixture(scope="module")
def contract() -> Model:
    return quickly_baked()


@pytest.fixture
def users(contract: Model) -> Users:
    return Users(Scene.of(Shelf(), contract, mirror=None, weights=["10%"]))


def now(users: Users) -> float:
    return users.scene.world.clock.timestamp()


def test_what_is_usual_is_learned_of_the_last_hour_that_a_version_served(users: Users):
    found = users.watch().look()
    assert (found.look, found.code) == (DriftLook.COUNTED, Exit.OK)
    assert set(found.standing.numbers) == {"words", "score"}
    assert len(users.read) == 4
    assert all(release == users.scene.stable for release, _, _ in users.read)
    assert now(users) - LATE - 3600 - 900 <= users.read[0][1]
    assert users.read[-1][2] <= now(users) - LATE


def test_a_release_begins_what_is_usual_anew_after_its_end(users: Users):
    users.looks(2)
    assert users.scene.run().outcome is ReleaseOutcome.PROMOTED
    ended, found = now(users), users.watch().look()
    assert found.look is DriftLook.LEARNING
    assert 3000 < found.wait <= 3600 + 900 + LATE
    users.read.clear()
    users.scene.world.clock += timedelta(seconds=found.wait)
    assert users.watch().look().look is DriftLook.COUNTED
    assert min(start for _, start, _ in users.read) >= ended - 1
    assert {release for release, _, _ in users.read} == {users.scene.release}


def test_a_window_is_read_once_when_the_last_of_its_samples_have_arrived(users: Users):
    users.looks(3, every=0.1)
    windows = [(start, end) for _, start, end in users.read]
    assert windows == sorted(set(windows))
    assert all(later[0] == early[1] for early, later in itertools.pairwise(windows))
    assert windows[-1][1] <= now(users) - LATE
    assert now(users) - LATE - windows[-1][1] < 900


def test_nothing_is_said_of_users_who_stay_as_they_are(users: Users):
    found = users.looks(12, every=6)
    assert found.look is DriftLook.COUNTED
    assert found.standing.numbers["words"].seen > 11 * 4 * 39
    assert said(found).startswith("nothing drifted: ")


@pytest.mark.parametrize("what", ["words", "score"])
def test_drift_of_what_users_send_and_what_they_get_is_found_and_told_once(users: Users, what: str):
    onset = now(users) + 4 * 3600
    users.words = lambda at: 130.0 if what == "words" and at > onset else 100.0
    users.score = lambda at: 0.86 if what == "score" and at > onset else 0.9
    found = users.looks(12)
    assert (found.look, found.new, found.code) == (DriftLook.DRIFTED, True, Exit.REFUSED)
    usual, latest = re.findall(r"(\d+)% of", found.standing.found)
    assert found.standing.found.startswith(f"{what} drifted: {usual}% of its usual values lie below ")
    assert usual != latest
    assert 0 < now(users) - onset < 3 * 3600
    again = users.watch().look()
    assert (again.look, again.new) == (DriftLook.DRIFTED, False)
    assert [event.kind for event in users.rounds().read()].count("drift-proven") == 1


def test_of_two_values_it_is_told_how_often_each_came(users: Users):
    onset = now(users) + 4 * 3600
    users.words = lambda at: 20.0 if at > onset or int(at) % 2 else 16.0
    users.spread = 0.0
    found = users.looks(12)
    told = re.fullmatch(r"words drifted: (\d+)% of its usual values lie below ([\d.]+), and (\d+)% of the last \d+", found.standing.found)
    assert told is not None
    usual, edge, latest = map(float, told.groups())
    assert 16 < edge <= 20
    assert latest < usual / 2


def test_a_person_can_call_usual_what_drifted(users: Users):
    onset = now(users) + 2 * 3600
    users.words = lambda at: 150.0 if at > onset else 100.0
    assert users.looks(8).look is DriftLook.DRIFTED
    users.watch().anew("a new customer")
    assert users.watch().look().look is DriftLook.LEARNING
    assert users.looks(24).look is DriftLook.COUNTED


def test_a_night_is_no_drift_where_the_contract_says_that_traffic_has_a_rhythm(users: Users):
    users.words = lambda at: 100 + 40 * math.sin(at / 86_400 * 2 * math.pi)
    users.each = 12
    users.contract = drift(reference="2d", rhythm="day")
    assert users.looks(18, every=6).look is DriftLook.COUNTED
    blind = Users(users.scene, words=users.words, each=20, contract=drift(reference="2h"))
    assert blind.looks(12, every=2).look is DriftLook.DRIFTED


def test_of_requests_in_a_cluster_one_is_counted(users: Users):
    users.each, users.copies, users.contract = 200, 10, drift(reference="2h")
    before = users.looks(1).standing.numbers["words"].seen
    assert users.looks(0.25).standing.numbers["words"].seen - before == 20


def test_with_too_few_samples_nothing_is_watched_and_that_is_said(users: Users):
    users.each = 20
    found = users.watch().look()
    assert (found.look, found.code, found.fewest) == (DriftLook.FEW, Exit.OK, ("words", 80))
    assert said(found).startswith("80 samples have words, and 134 are needed")
    assert users.rounds().read() == ()


def test_a_service_that_the_ledger_does_not_know_is_named_as_people_know_it(users: Users):
    watch = DriftWatch(
        rounds=users.rounds(),
        releases=Ledger(Shelf(), CHAIN, "sandbox", "ci", users.scene.world.now),
        drift=users.contract,
        read=users.samples,
        late_seconds=LATE,
        chance=Random(1),
        now=users.scene.world.now,
    )
    with pytest.raises(UserError, match=f"what serves {CHAIN}\\."):
        watch.look()


def test_while_a_release_is_under_way_nothing_is_read(users: Users):
    users.looks(1)
    users.scene.begin()
    users.read.clear()
    found = users.watch().look()
    assert (found.look, found.code, users.read) == (DriftLook.UNDER_WAY, Exit.UNDER_WAY, [])


def test_the_ledger_holds_no_value_but_edges_and_letters_and_can_be_verified(users: Users):
    users.looks(3)
    assert not verify(users.scene.store, drift_chain(CHAIN), "sandbox")
    for event in users.rounds().read():
        for window in event.body["windows"]:
            assert set(window) == {"start", "cells"}
            assert all(set(cells) <= set("0123456789ABCDEFGHIJKLMNOPQRSTUV") for cells in window["cells"].values())


def test_everybody_who_reads_the_chain_comes_to_the_same_evidence(users: Users):
    first = users.looks(6).standing
    again = users.watch().look().standing
    assert again.value == first.value
    assert again.numbers["words"].evidence.observations > 500


def test_a_loop_that_slept_for_long_goes_on_with_the_last_day(users: Users):
    users.looks(2)
    users.scene.world.clock += timedelta(days=9)
    users.read.clear()
    assert users.watch().look().look is DriftLook.COUNTED
    assert len(users.read) == 96
    assert now(users) - users.read[-1][2] < 900 + LATE


def test_of_two_loops_that_count_a_window_at_once_one_is_kept(users: Users):
    users.looks(1)
    one, other = users.watch(), users.watch()
    before = one.look().standing.numbers["words"].seen
    users.scene.world.clock += timedelta(minutes=15)
    users.meanwhile = other.look
    found = one.look()
    assert (found.look, found.standing.numbers["words"].seen) == (DriftLook.COUNTED, before + 40)
    assert len({event.body["until"] for event in users.rounds().read()}) == len(users.rounds().read())


def test_numbers_that_were_cut_off_are_believed_by_no_loop(users: Users):
    """Neither by one that has read them before, nor by a new one."""
    users.scene.witness = Onlooker()
    users.looks(1)
    watch = users.watch()
    watch.look()
    assert isinstance(users.scene.store, Shelf)
    assert users.scene.witness.words[drift_chain(CHAIN)] == of(users.rounds().read()[-1])
    del users.scene.store.objects[key(drift_chain(CHAIN), len(users.rounds().read()))]
    with pytest.raises(UserError, match="it was read before, and now it is gone"):
        watch.look()
    with pytest.raises(UserError, match="is not the one that was witnessed"):
        Users(users.scene).watch().look()
    assert users.rounds().accept("restored")
    assert Users(users.scene).watch().look().standing.numbers


def test_in_the_sandbox_a_reference_of_an_hour_takes_fifteen_seconds(users: Users):
    users.speed = 240.0
    assert users.scene.run().outcome is ReleaseOutcome.PROMOTED
    found = users.watch().look()
    assert found.look is DriftLook.LEARNING
    assert 10 < found.wait - LATE <= 15 + 3.75
    users.scene.world.clock += timedelta(seconds=found.wait)
    assert users.watch().look().look is DriftLook.COUNTED
    assert [end - start for _, start, end in users.read] == [3.75] * 4
