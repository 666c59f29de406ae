"""Brings every layer to what the program says: plan with the packs, apply what changed, stop at the first layer that is
refused.

A plan is made with a refresh, so that what somebody changed or lost in the cluster is found and repaired, and a layer
whose plan is empty is not applied. A layer that has a receipt is not planned: its live objects are compared with the
record, and only if one of them is not as it was asked to be does its program run again. Layers of one group run side by
side; all are looked at side by side first. What was never applied has nothing live to compare with, so there a
rehearsal, made while the servers start, is the plan.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from types import MappingProxyType

from pulumi.automation import EngineEvent, OpType, StepEventMetadata

from headway.environment.stacks import StackResult, StackRunner
from sandbox.plan import Layer
from sandbox.progress import Progress


@dataclass(frozen=True, kw_only=True)
class LayerResult:
    """What happened to one layer: its plan, and the update if one was needed. `applied` is None for a layer that did
    not change."""

    layer: Layer
    planned: StackResult
    applied: StackResult | None = None
    compared: int | None = None
    """How many live objects were compared with the record in place of a plan, which could only have been the last
    one again."""

    @property
    def ok(self) -> bool:
        return self.planned.ok and (self.applied is None or self.applied.ok)

    @property
    def last(self) -> StackResult:
        return self.applied or self.planned

    @property
    def changed(self) -> bool:
        return self.applied is not None and self.applied.changed > 0


def rehearse(
    groups: Sequence[Sequence[Layer]],
    runner: StackRunner,
    progress: Progress,
    told: Callable[[LayerResult], None],
    stopped: Callable[[], bool] = lambda: False,
) -> tuple[LayerResult, ...]:
    """Preview all layers with their packs and without a cluster; `told` hears of each as it ends. No preview begins
    once `stopped`."""

    def preview(layer: Layer) -> LayerResult | None:
        return None if stopped() else LayerResult(layer=layer, planned=_plan(layer, runner, progress, refresh=False, shown=True))

    results: list[LayerResult] = []
    with ThreadPoolExecutor(max_workers=2) as pool:
        for result in pool.map(preview, _flat(groups)):
            if result is not None:
                results.append(result)
                told(result)
    return tuple(results)


def deploy(
    groups: Sequence[Sequence[Layer]],
    runner: StackRunner,
    progress: Progress,
    told: Callable[[LayerResult], None],
    *,
    rehearsed: Sequence[LayerResult] = (),
    receipts: Mapping[str, StackResult] = MappingProxyType({}),
    stopped: Callable[[], bool] = lambda: False,
) -> tuple[LayerResult, ...]:
    """Apply every layer in order.

    `rehearsed` holds the plans of all layers where nothing was ever applied: they are carried out, since a plan made
    later would differ only in values of the layers above, and the packs look at every step again before it is taken.
    `receipts` holds the last results of the stacks of which nothing that a plan is made from has changed since.

    Ends after the first group with a failure, and before the next group once `stopped`; the results then end there too.
    """
    ahead = {r.layer.stack: r for r in rehearsed} or _examine_all(groups, receipts, runner, progress, stopped)
    results: list[LayerResult] = []
    stale = False
    for group in groups:
        if stopped():
            break
        plans = [None if stale else ahead.get(layer.stack) for layer in group]
        with ThreadPoolExecutor(max_workers=len(group) or 1) as pool:
            futures = [pool.submit(_bring, layer, plan, runner, progress) for layer, plan in zip(group, plans, strict=True)]
            done = [future.result() for future in futures]
        for result in done:
            results.append(result)
            told(result)
        stale = stale or (not rehearsed and any(r.changed for r in done))
        if not all(r.ok for r in done):
            break
    return tuple(results)


def _flat(groups: Sequence[Sequence[Layer]]) -> tuple[Layer, ...]:
    return tuple(layer for group in groups for layer in group)


def _examine_all(
    groups: Sequence[Sequence[Layer]],
    receipts: Mapping[str, StackResult],
    runner: StackRunner,
    progress: Progress,
    stopped: Callable[[], bool],
) -> dict[str, LayerResult]:
    """What is known of each layer before the first is applied; layers below one that is refused are left out, and
    what `stopped` forbids."""
    found: dict[str, LayerResult] = {}

    def examine(layer: Layer, above: Sequence[Layer]) -> None:
        if not stopped() and all(found[each.stack].ok for each in above if each.stack in found):
            found[layer.stack] = _examine(layer, receipts.get(layer.stack), runner, progress)

    with ThreadPoolExecutor(max_workers=2) as pool:
        for future in [pool.submit(examine, layer, _flat(groups[:number])) for number, group in enumerate(groups) for layer in group]:
            future.result()
    return found


def _examine(layer: Layer, last: StackResult | None, runner: StackRunner, progress: Progress) -> LayerResult:
    """By its live objects if it has a receipt and they are as they were asked to be, else by a plan."""
    if last is not None:
        key = f"layer/{layer.stack}"
        progress.step(key, "same inputs as last time; comparing its live objects")
        compared, drifted = 0, False

        def watch(event: EngineEvent) -> None:
            nonlocal compared, drifted
            if event.res_outputs_event:
                compared, drifted = compared + 1, drifted or _drifted(event.res_outputs_event.metadata)

        looked = runner.look(layer.stack, on_event=watch)
        if looked.ok and not drifted:
            progress.done(key, f"{compared} live objects compared")
            return LayerResult(layer=layer, planned=replace(last, seconds=looked.seconds), compared=compared)
    return LayerResult(layer=layer, planned=_plan(layer, runner, progress, refresh=True))


def _drifted(step: StepEventMetadata) -> bool:
    """Whether a refresh found what an update would undo, or nothing at all."""
    return step.op not in (OpType.SAME, OpType.READ)


def _plan(layer: Layer, runner: StackRunner, progress: Progress, *, refresh: bool, shown: bool = False) -> StackResult:
    """`shown`: the result is told at once, so progress does not say the same."""
    key = f"layer/{layer.stack}"
    progress.step(key, "planning with the policy pack")
    result = runner.preview(layer.stack, layer.packs, refresh=refresh, on_event=None)
    if result.ok:
        progress.done(key, "" if shown else "planned")
    else:
        progress.failed(key, "" if shown else "refused")
    return result


def _bring(layer: Layer, examined: LayerResult | None, runner: StackRunner, progress: Progress) -> LayerResult:
    result = examined or LayerResult(layer=layer, planned=_plan(layer, runner, progress, refresh=True, shown=True))
    plan = result.planned
    if not plan.ok or plan.changed == 0:
        return result
    key = f"layer/{layer.stack}"
    progress.step(key, f"applying {plan.changed} change{'' if plan.changed == 1 else 's'}")

    def watch(event: EngineEvent) -> None:
        if text := _doing(event):
            progress.step(key, text)

    applied = runner.up(layer.stack, layer.packs, refresh=True, on_event=watch)
    (progress.done if applied.ok else progress.failed)(key, "")
    return replace(result, applied=applied)


def _doing(event: EngineEvent) -> str:
    """What the engine is at, in a few words: the step that starts, or what a resource waits for."""
    if event.resource_pre_event and event.resource_pre_event.metadata.op not in (OpType.SAME, OpType.READ, OpType.REFRESH):
        metadata = event.resource_pre_event.metadata
        return f"{metadata.op.value} {metadata.urn.rsplit('::', 1)[-1]}"
    said = event.diagnostic_event
    if said and said.ephemeral and said.message.strip():
        name = (said.urn or "").rsplit("::", 1)[-1]
        return f"{name}: {said.message.strip()}" if name else said.message.strip()
    return ""
