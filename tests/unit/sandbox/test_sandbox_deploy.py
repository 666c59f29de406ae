"""In which order layers are planned and applied, and when it stops."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import pytest
from pulumi.automation import DiffKind, EngineEvent, OpType, PropertyDiff, ResOutputsEvent, StepEventMetadata

from headway.environment.stacks import PackSource, StackResult, StackRunner
from sandbox.deploy import LayerResult, deploy, rehearse
from sandbox.plan import Layer, left_behind
from sandbox.progress import Silent


class Scripted:
    """A runner whose previews and updates end as told: stack -> (changes planned, whether the update succeeds)."""

    def __init__(
        self, plans: dict[str, int | None], failing: Sequence[str] = (), live: Mapping[str, Sequence[EngineEvent]] | None = None
    ) -> None:
        self.plans, self.failing, self.live, self.log = plans, failing, live or {}, list[str]()

    def preview(
        self, stack: str, packs: Sequence[PackSource] = (), *, refresh: bool = False, on_event: Callable[[Any], None] | None = None
    ) -> StackResult:
        self.log.append(f"preview {stack}")
        planned = self.plans[stack]
        if planned is None:
            return StackResult(stack=stack, operation="preview", ok=False, errors=("refused",))
        return StackResult(stack=stack, operation="preview", ok=True, changes={"create": planned, "same": 5} if planned else {"same": 5})

    def look(self, stack: str, *, on_event: Callable[[Any], None] | None = None) -> StackResult:
        self.log.append(f"look {stack}")
        for event in self.live.get(stack, ()):
            assert on_event
            on_event(event)
        return StackResult(stack=stack, operation="refresh", ok=stack in self.live)

    def up(
        self, stack: str, packs: Sequence[PackSource] = (), *, refresh: bool = False, on_event: Callable[[Any], None] | None = None
    ) -> StackResult:
        self.log.append(f"up {stack}")
        return StackResult(stack=stack, operation="up", ok=stack not in self.failing, changes={"create": self.plans[stack] or 0})


def found(op: OpType, *changed: str) -> EngineEvent:
    """What a comparison tells of one object, with the paths that an update would change back."""
    diffs = {path: PropertyDiff(diff_kind=DiffKind.UPDATE, input_diff=True) for path in changed}
    step = StepEventMetadata(op=op, urn="urn:x", type="t", provider="p", detailed_diff=diffs or None)
    return EngineEvent(sequence=0, timestamp=0, res_outputs_event=ResOutputsEvent(metadata=step))


def layer(name: str) -> Layer:
    return Layer(stack=name, packs=())


GROUPS = ((layer("cluster"),), (layer("platform"),), (layer("a"), layer("b")))


def run(
    plans: dict[str, int | None], failing: Sequence[str] = (), stopped: Callable[[Scripted], bool] = lambda _: False
) -> tuple[tuple[LayerResult, ...], list[str]]:
    runner = Scripted(plans, failing)
    results = deploy(GROUPS, cast(StackRunner, runner), Silent(), lambda _: None, stopped=lambda: stopped(runner))
    return results, runner.log


def updates(log: Sequence[str]) -> list[str]:
    return [entry for entry in log if entry.startswith("up")]


def test_a_first_run_carries_out_what_was_rehearsed_from_the_top_down() -> None:
    runner = cast(Any, Scripted({"cluster": 3, "platform": 2, "a": 1, "b": 1}))
    rehearsed = rehearse(GROUPS, runner, Silent(), lambda _: None)
    runner.log.clear()
    results = deploy(GROUPS, runner, Silent(), lambda _: None, rehearsed=rehearsed)
    assert runner.log[:2] == ["up cluster", "up platform"]
    assert sorted(runner.log[2:]) == ["up a", "up b"]
    assert all(r.ok and r.changed for r in results)


class Said(Silent):
    """Keeps what it was told of ends."""

    def __init__(self) -> None:
        self.ends: list[str] = []

    def done(self, key: str, text: str) -> None:
        self.ends.append(text)


def test_a_result_that_is_told_is_not_told_by_progress_too() -> None:
    runner, progress = cast(Any, Scripted({"cluster": 3, "platform": 2, "a": 1, "b": 1})), Said()
    deploy(GROUPS, runner, progress, lambda _: None, rehearsed=rehearse(GROUPS, runner, progress, lambda _: None))
    assert set(progress.ends) == {""}


def test_an_unchanged_environment_is_planned_once_and_never_applied() -> None:
    results, log = run({"cluster": 0, "platform": 0, "a": 0, "b": 0})
    assert sorted(log) == ["preview a", "preview b", "preview cluster", "preview platform"]
    assert not any(r.changed for r in results)


def test_layers_below_a_change_are_planned_again() -> None:
    _, log = run({"cluster": 0, "platform": 1, "a": 0, "b": 0})
    assert log.count("preview platform") == 1
    assert log.count("preview a") == 2


def test_nothing_below_a_refused_layer_is_touched() -> None:
    results, log = run({"cluster": 1, "platform": None, "a": 1, "b": 1})
    assert updates(log) == ["up cluster"]
    assert [r.ok for r in results] == [True, False]


def test_nothing_below_a_failed_update_is_touched() -> None:
    results, log = run({"cluster": 1, "platform": 1, "a": 1, "b": 1}, failing=["cluster"])
    assert updates(log) == ["up cluster"]
    assert not results[0].ok


def test_no_layer_is_begun_after_the_user_asked_to_stop() -> None:
    results, log = run({"cluster": 1, "platform": 1, "a": 1, "b": 1}, stopped=lambda runner: "up cluster" in runner.log)
    assert updates(log) == ["up cluster"]
    assert [r.layer.stack for r in results] == ["cluster"]


def test_one_tenants_refusal_does_not_stop_its_neighbour() -> None:
    results, log = run({"cluster": 0, "platform": 0, "a": None, "b": 1})
    assert "up b" in log
    assert {r.layer.stack: r.ok for r in results} == {"cluster": True, "platform": True, "a": False, "b": True}


def test_a_rehearsal_previews_everything_and_applies_nothing() -> None:
    runner = Scripted({"cluster": 3, "platform": None, "a": 1, "b": 1})
    told: list[str] = []
    rehearse(GROUPS, cast(StackRunner, runner), Silent(), lambda r: told.append(r.layer.stack))
    assert sorted(runner.log) == ["preview a", "preview b", "preview cluster", "preview platform"]
    assert told == ["cluster", "platform", "a", "b"]


def test_no_rehearsal_begins_once_what_it_bridges_has_ended() -> None:
    runner = Scripted({"cluster": 3, "platform": 1, "a": 1, "b": 1})
    assert rehearse(GROUPS, cast(StackRunner, runner), Silent(), lambda _: None, stopped=lambda: True) == ()
    assert runner.log == []


RECEIPTS = {name: StackResult(stack=name, operation="preview", ok=True, changes={"same": 7}) for name in ("cluster", "platform", "a", "b")}
UNCHANGED: dict[str, int | None] = {"cluster": 0, "platform": 0, "a": 0, "b": 0}
QUIET = (found(OpType.SAME), found(OpType.READ))


def brought(plans: dict[str, int | None], live: dict[str, Sequence[EngineEvent]]) -> tuple[dict[str, LayerResult], list[str]]:
    runner = Scripted(plans, live=live)
    results = deploy(GROUPS, cast(StackRunner, runner), Silent(), lambda _: None, receipts=RECEIPTS)
    return {r.layer.stack: r for r in results}, runner.log


def test_layers_with_a_receipt_are_compared_with_live_objects_and_not_planned() -> None:
    results, log = brought(UNCHANGED, dict.fromkeys(RECEIPTS, QUIET))
    assert sorted(log) == ["look a", "look b", "look cluster", "look platform"]
    assert all(r.ok and not r.changed and r.compared == 2 and r.last.changes == {"same": 7} for r in results.values())


DRIFT = {
    "deleted": found(OpType.DELETE),
    "changed": found(OpType.UPDATE, "spec.replicas"),
    "changed in a way that is not told": found(OpType.UPDATE),
}


@pytest.mark.parametrize("drift", DRIFT.values(), ids=DRIFT.keys())
def test_a_layer_with_an_object_that_somebody_touched_is_planned_and_repaired(drift: EngineEvent) -> None:
    results, log = brought({**UNCHANGED, "b": 1}, {**dict.fromkeys(RECEIPTS, QUIET), "b": (*QUIET, drift)})
    assert [entry for entry in log if not entry.startswith("look")] == ["preview b", "up b"]
    assert results["b"].changed and results["b"].compared is None


def test_a_layer_whose_objects_cannot_be_read_is_planned() -> None:
    _, log = brought(UNCHANGED, dict.fromkeys(("cluster", "platform", "a"), QUIET))
    assert "preview b" in log


def test_a_receipt_is_worth_nothing_below_a_layer_that_changed() -> None:
    _, log = brought({**UNCHANGED, "platform": 1}, {**dict.fromkeys(RECEIPTS, QUIET), "platform": (found(OpType.DELETE),)})
    assert {"up platform", "preview a", "preview b"} <= set(log)


@pytest.mark.parametrize(
    ("held", "told"),
    [
        pytest.param({"sandbox-gone": 57, "sandbox-here": 3}, {"sandbox-gone": 57}, id="a stack without a file"),
        pytest.param({"sandbox-gone": 0}, {}, id="one that was destroyed"),
        pytest.param({"prod-assist": 57}, {}, id="one of another environment"),
    ],
)
def test_what_runs_of_a_stack_that_has_no_file_any_more_is_counted(held: dict[str, int], told: dict[str, int]) -> None:
    assert left_behind(held, ["sandbox-here"]) == told
