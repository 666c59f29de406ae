"""Beginning a release by the command: what is refused before anything moves, and what superseding does, in which order."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from headway.cli import release_start
from headway.cli.release_start import begun, in_time
from headway.contract.model import Model
from headway.contract.reading.loader import load_tenant
from headway.contract.released import release_id
from headway.environment.port import Environment, OutOfReachError
from headway.environment.selection import environment
from headway.ledger.chain import Ledger
from headway.ledger.reading import verify
from headway.ledger.witness import SilentWitnessError
from headway.problem import Exit, UserError
from headway.release.driver.event_kinds import EventKind, OperatorRequest, ReleaseOutcome
from headway.release.driver.requests import ask
from headway.release.driver.rollout_state import RolloutState
from headway.release.driver.start import StartOptions
from headway.release.evaluation.standing import evaluation_chain
from tests.unit.release_kill import Shelf
from tests.unit.release_world import CHAIN, ROOM, Scene


class _Said:
    """A view that remembers."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)


ANY: Any = _Said()


@dataclass
class Here:
    """A place in memory. `model` is the contract in the checkout."""

    scene: Scene
    model: Model
    environment: str = "sandbox"
    scrape_seconds: float = 1.0
    pools: tuple[Any, ...] = ()
    guarded: list[str] = field(default_factory=list)
    traffic: float | None = None
    filters: bool = True
    """Whether whoever starts may write filters of proxies."""
    counts_tokens: bool = False
    asked: list[str] = field(default_factory=list)

    chain = CHAIN

    @property
    def port(self) -> Environment:
        return environment(self.environment, Path(__file__).parents[4])

    @property
    def store(self) -> Any:
        return self.scene.store

    def ledger(self) -> Any:
        return self.scene.ledger("ci")

    def evaluations(self) -> Any:
        return Ledger(self.scene.store, evaluation_chain(CHAIN), "sandbox", "ci", self.scene.world.now)

    def contract(self) -> Model:
        return self.model

    def guard(self) -> None:
        self.guarded.append("guarded")

    def deployed(self) -> None:
        return None

    def world(self, _: Model) -> Any:
        return self

    def clocks_apart(self) -> str:
        return self.scene.world.apart

    def answers(self, _: str) -> Any:
        raise OutOfReachError("connection refused")

    def requests_a_second(self, arm: str, speed: float) -> float | None:
        assert arm == self.scene.stable
        return self.traffic

    @property
    def cluster(self) -> Any:
        return self

    def room(self, *_: Any, **__: Any) -> Any:
        return ROOM

    def may_patch(self, group: str, resource: str) -> bool:
        self.asked.append(f"{resource}.{group}")
        return self.filters


def version(scene: Scene, number: str, **rollout: Any) -> Model:
    document = scene.new.model_dump(mode="json")
    document["artifact"]["version"] = number
    document["rollout"] |= rollout
    return Model.model_validate(document)


@pytest.fixture
def scene() -> Scene:
    (found,) = load_tenant(Path(__file__).parents[4] / "tenants" / "vision").contracts
    return Scene.of(Shelf(), next(model for model in found.models if model.name == "defects"), mirror=None)


@pytest.fixture
def exposed(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """A release that has users, whose runner was interrupted; whoever drives it next does so in memory."""

    def stop(_event: Any, _service: Any) -> None:
        if scene.world.routed.get(scene.release, 0) >= 5:
            raise KeyboardInterrupt

    scene.begin()
    with pytest.raises(KeyboardInterrupt):
        scene.driver("one", told=stop).run()

    def drive(here: Any, view: Any, under_way: RolloutState | None = None) -> RolloutState:
        return scene.driver("two").run()

    monkeypatch.setattr(release_start, "drive", drive)
    return scene


def test_a_release_that_supersedes_drains_the_running_one_before_it_begins(exposed: Scene) -> None:
    second = version(exposed, "2027.2.1")
    assert begun(Here(exposed, second), ANY, StartOptions(reason="a fix"), supersede=True, guarded=True) is None  # type: ignore[arg-type]
    first, after = exposed.service().past[-1], exposed.service().running
    assert first.outcome is ReleaseOutcome.ROLLED_BACK
    assert first.failing is not None and first.failing.reason == f"superseded by release {release_id(second)}: a fix"
    assert exposed.world.routed == {exposed.stable: 100}
    assert after is not None and (after.release, after.stable) == (release_id(second), exposed.stable)
    kinds = exposed.kinds()
    assert kinds[-1] == "started" and kinds.index("drained") < len(kinds) - 1
    assert verify(exposed.store, CHAIN, "sandbox") == ()


def test_and_then_takes_its_own_way_to_all_traffic(exposed: Scene) -> None:
    second = version(exposed, "2027.2.1")
    begun(Here(exposed, second), ANY, StartOptions(), supersede=True, guarded=True)  # type: ignore[arg-type]
    assert exposed.driver("two").run().outcome is ReleaseOutcome.PROMOTED
    assert exposed.world.routed == {release_id(second): 100}


def larger(scene: Scene) -> Model:
    document = version(scene, "2027.2.1").model_dump(mode="json")
    document["envelope"]["largest_request"]["body"] = "3Mi"
    return Model.model_validate(document)


def test_who_may_not_write_filters_starts_no_release_that_changes_them(exposed: Scene) -> None:
    here = Here(exposed, larger(exposed), filters=False)
    kinds = exposed.kinds()
    with pytest.raises(UserError, match=r"largest body changes from 8Mi to 3Mi \(envelope\.largest_request\.body\)") as refused:
        begun(here, ANY, StartOptions(), supersede=True, guarded=True)  # type: ignore[arg-type]
    assert refused.value.exit is Exit.REFUSED
    assert here.asked == ["envoyfilters.networking.istio.io"]
    assert exposed.kinds() == kinds, "the release under way is not drained for one that cannot be"


def test_nor_one_that_divides_users(exposed: Scene) -> None:
    split = {"strategy": "ab", "split": {"share": "50%", "duration": "7d", "user_claim": "sub", "experiment": "one"}, "mirror": None}
    here = Here(exposed, version(exposed, "2027.2.1", **split), filters=False)
    with pytest.raises(UserError, match="an A/B release divides users"):
        begun(here, ANY, StartOptions(), supersede=True, guarded=True)  # type: ignore[arg-type]


def test_a_release_that_changes_no_filter_is_started_without_that_right(exposed: Scene) -> None:
    here = Here(exposed, version(exposed, "2027.2.1"), filters=False)
    assert begun(here, ANY, StartOptions(), supersede=True, guarded=True) is None  # type: ignore[arg-type]
    assert here.asked == []


def test_who_releases_again_what_was_rolled_back_is_told_why_it_was(exposed: Scene) -> None:
    ask(exposed.ledger("ci"), OperatorRequest.ROLLBACK, "wrong labels")
    first = exposed.driver("two").run()
    told: Any = _Said()
    begun(Here(exposed, exposed.new), told, StartOptions(), supersede=False, guarded=True)  # type: ignore[arg-type]
    (line,) = (line for line in told.lines if "rolled back before" in line)
    assert "rolled back before: Wrong labels." in line
    assert f"`headway release report {CHAIN} -e sandbox --number {first.number}`" in line


def test_without_being_asked_to_nobody_supersedes(exposed: Scene) -> None:
    before = dict(exposed.world.routed)
    with pytest.raises(UserError, match="is under way") as refused:
        begun(Here(exposed, version(exposed, "2027.2.1")), ANY, StartOptions(), supersede=False, guarded=True)  # type: ignore[arg-type]
    assert refused.value.exit is Exit.BUSY
    assert exposed.world.routed == before


@pytest.mark.parametrize(
    ("number", "rollout", "refusal"),
    [("serving", {}, "which serves already"), ("2027.2.1", {"weights": ["2.5%", "10%"]}, "whole percent only")],
)
def test_what_cannot_be_released_drains_nothing(exposed: Scene, number: str, rollout: dict[str, Any], refusal: str) -> None:
    model = exposed.old if number == "serving" else version(exposed, number, **rollout)
    before = (dict(exposed.world.routed), exposed.kinds())
    with pytest.raises(UserError, match=refusal):
        begun(Here(exposed, model), ANY, StartOptions(), supersede=True, guarded=True)  # type: ignore[arg-type]
    assert (exposed.world.routed, exposed.kinds()) == before


def test_the_release_of_this_contract_is_gone_on_with(exposed: Scene) -> None:
    found = begun(Here(exposed, exposed.new), ANY, StartOptions(), supersede=True, guarded=True)  # type: ignore[arg-type]
    assert found is not None and found.release == exposed.release
    assert exposed.kinds().count(EventKind.STARTED) == 1


def test_nothing_begins_before_somebody_guards_it(scene: Scene) -> None:
    here = Here(scene, scene.new)
    begun(here, ANY, StartOptions(), supersede=False, guarded=False)  # type: ignore[arg-type]
    assert here.guarded == []
    here = Here(Scene.of(Shelf(), scene.old), scene.new)
    begun(here, ANY, StartOptions(), supersede=False, guarded=True)  # type: ignore[arg-type]
    assert here.guarded == ["guarded"]


def test_answers_that_nobody_could_ask_for_are_recorded_as_not_compared(scene: Scene) -> None:
    begun(Here(scene, scene.new), ANY, StartOptions(), supersede=False, guarded=True)  # type: ignore[arg-type]
    body = scene.ledger().read()[-1].body
    assert "Golden answers will not be compared: the stable version's replicas could not be asked (connection refused)." in ANY.lines
    assert body["answers"]["compared"] is False and "connection refused" in body["answers"]["reason"]
    assert body["policy"]["golden"] is False


@pytest.mark.parametrize(
    ("named", "speed", "refusal"),
    [("prod", 2.0, "--speed is for the sandbox"), ("sandbox", 60.0, "Use at most --speed 30"), ("sandbox", 0.5, "outside 1 to")],
)
def test_a_pace_that_cannot_be_measured_is_refused(scene: Scene, named: str, speed: float, refusal: str) -> None:
    with pytest.raises(UserError) as refused:
        begun(Here(scene, scene.new, named), ANY, StartOptions(speed=speed), supersede=False, guarded=True)  # type: ignore[arg-type]
    assert refusal in f"{refused.value.fact} {refused.value.remedy}"
    assert scene.kinds() == ["adopted"]


def test_the_limit_of_the_pace_is_said_in_words_that_are_true_of_drift_too(scene: Scene) -> None:
    here: Any = Here(scene, scene.new)
    with pytest.raises(UserError) as refused:
        in_time(here, 60.0)
    assert refused.value.fact == "At a speed of 60 a minute lasts 1 s, and the sandbox measures every 1 s."


class Quiet:
    """A witness that does not answer."""

    def said(self, chain: str) -> str | None:
        raise SilentWitnessError("AccessDeniedException")

    def write(self, chain: str, text: str) -> None:
        raise SilentWitnessError("AccessDeniedException")


@pytest.mark.parametrize(
    ("witness", "said"),
    [(None, "nobody witnesses its ledger"), (Quiet(), "the witness of its ledger does not answer (AccessDeniedException)")],
)
def test_whoever_begins_is_told_that_no_witness_could_be_asked(scene: Scene, witness: Any, said: str) -> None:
    class Unwitnessed(Here):
        def ledger(self) -> Any:
            return Ledger(self.scene.store, CHAIN, "sandbox", "ci", self.scene.world.now, witness)

    told: Any = _Said()
    here: Any = Unwitnessed(scene, scene.new)
    begun(here, told, StartOptions(), supersede=False, guarded=True)
    assert [line for line in told.lines if said in line], told.lines


def test_nothing_begins_by_a_clock_that_is_wrong(scene: Scene) -> None:
    scene.world.apart = "3600 s behind the API server"
    here: Any = Here(scene, scene.new)
    with pytest.raises(UserError, match="The clock of this machine is 3600 s behind the API server"):
        begun(here, ANY, StartOptions(), supersede=False, guarded=True)
    assert here.guarded == [], "it could not tell whether the guard lives"
    assert scene.service().running is None


def test_of_two_who_begin_at_once_the_second_goes_on_with_what_the_first_began(scene: Scene) -> None:
    class Slow(Here):
        def answers(self, _: str) -> Any:
            if scene.service().running is None:
                scene.begin()
            return super().answers(_)

    here: Any = Slow(scene, scene.new)
    found = begun(here, ANY, StartOptions(), supersede=False, guarded=True)
    assert found is not None and found.release == scene.release
    assert scene.kinds().count(EventKind.STARTED) == 1


@pytest.mark.parametrize(("traffic", "seconds"), [(None, 60), (50.0, 60), (0.1, 300)])
def test_a_release_of_few_requests_is_judged_in_longer_ticks(scene: Scene, traffic: float | None, seconds: float) -> None:
    said: Any = _Said()
    model = version(scene, "2027.2.1", at_most="30m", step_at_most="20m")
    assert begun(Here(scene, model, traffic=traffic), said, StartOptions(), supersede=False, guarded=False) is None  # type: ignore[arg-type]
    running = scene.service().running
    assert running is not None
    assert running.body["tick_seconds"] == seconds
    assert running.body["policy"]["ticks_at_most"] == 1800 / seconds
    warned = [line for line in said.lines if line.startswith("At 0.1 requests a second, in ticks of 5 min, 0 of ")]
    assert len(warned) == (traffic == 0.1)
