"""In which order layers are planned and applied, and when it stops."""

from collections.abc import Callable, Sequence
from typing import Any, cast

from headway.automation import PackSource, Runner, StackResult
from sandbox.deploy import LayerResult, deploy, rehearse
from sandbox.plan import Layer
from sandbox.progress import Silent


class Scripted:
    """A runner whose previews and updates end as told: stack -> (changes planned, whether the update succeeds)."""

    def __init__(self, plans: dict[str, int | None], failing: Sequence[str] = ()) -> None:
        self.plans, self.failing, self.log = plans, failing, list[str]()

    def preview(
        self, stack: str, packs: Sequence[PackSource] = (), *, refresh: bool = False, on_event: Callable[[Any], None] | None = None
    ) -> StackResult:
        self.log.append(f"preview {stack}")
        planned = self.plans[stack]
        if planned is None:
            return StackResult(stack=stack, operation="preview", ok=False, errors=("refused",))
        return StackResult(stack=stack, operation="preview", ok=True, changes={"create": planned, "same": 5} if planned else {"same": 5})

    def up(
        self, stack: str, packs: Sequence[PackSource] = (), *, refresh: bool = False, on_event: Callable[[Any], None] | None = None
    ) -> StackResult:
        self.log.append(f"up {stack}")
        return StackResult(stack=stack, operation="up", ok=stack not in self.failing, changes={"create": self.plans[stack] or 0})


def layer(name: str) -> Layer:
    return Layer(stack=name, packs=())


GROUPS = ((layer("cluster"),), (layer("platform"),), (layer("a"), layer("b")))


def run(plans: dict[str, int | None], failing: Sequence[str] = (), fresh: bool = True) -> tuple[tuple[LayerResult, ...], list[str]]:
    runner = Scripted(plans, failing)
    return deploy(GROUPS, cast(Runner, runner), Silent(), lambda _: None, fresh=fresh), runner.log


def test_a_first_run_plans_each_layer_only_after_the_one_above_is_applied() -> None:
    results, log = run({"cluster": 3, "platform": 2, "a": 1, "b": 1})
    assert log[:4] == ["preview cluster", "up cluster", "preview platform", "up platform"]
    assert sorted(log[4:]) == ["preview a", "preview b", "up a", "up b"]
    assert all(r.ok and r.changed for r in results)


def test_an_unchanged_environment_is_planned_once_and_never_applied() -> None:
    results, log = run({"cluster": 0, "platform": 0, "a": 0, "b": 0}, fresh=False)
    assert sorted(log) == ["preview a", "preview b", "preview cluster", "preview platform"]
    assert not any(r.changed for r in results)


def test_layers_below_a_change_are_planned_again() -> None:
    _, log = run({"cluster": 0, "platform": 1, "a": 0, "b": 0}, fresh=False)
    assert log.count("preview platform") == 1
    assert log.count("preview a") == 2


def test_nothing_below_a_refused_layer_is_touched() -> None:
    results, log = run({"cluster": 1, "platform": None, "a": 1, "b": 1})
    assert "up platform" not in log and not any(entry.endswith((" a", " b")) for entry in log)
    assert [r.ok for r in results] == [True, False]


def test_nothing_below_a_failed_update_is_touched() -> None:
    results, log = run({"cluster": 1, "platform": 1, "a": 1, "b": 1}, failing=["cluster"])
    assert log == ["preview cluster", "up cluster"]
    assert not results[0].ok


def test_no_layer_is_begun_after_the_user_asked_to_stop() -> None:
    runner = Scripted({"cluster": 1, "platform": 1, "a": 1, "b": 1})
    results = deploy(GROUPS, cast(Runner, runner), Silent(), lambda _: None, fresh=True, stopped=lambda: "up cluster" in runner.log)
    assert runner.log == ["preview cluster", "up cluster"]
    assert [r.layer.stack for r in results] == ["cluster"]


def test_one_tenants_refusal_does_not_stop_its_neighbour() -> None:
    results, log = run({"cluster": 0, "platform": 0, "a": None, "b": 1}, fresh=True)
    assert "up b" in log
    assert {r.layer.stack: r.ok for r in results} == {"cluster": True, "platform": True, "a": False, "b": True}


def test_a_rehearsal_previews_everything_and_applies_nothing() -> None:
    runner = Scripted({"cluster": 3, "platform": None, "a": 1, "b": 1})
    told: list[str] = []
    rehearse(GROUPS, cast(Runner, runner), Silent(), lambda r: told.append(r.layer.stack))
    assert sorted(runner.log) == ["preview a", "preview b", "preview cluster", "preview platform"]
    assert told == ["cluster", "platform", "a", "b"]
