"""Brings every layer to what the program says: plan with the packs, apply what changed, stop at the first layer that is refused.

A plan is made with a refresh, so that what somebody changed or lost in the cluster is found and repaired, and a layer whose plan is
empty is not applied. Layers of one group run side by side; all layers are planned side by side first, since on most runs none changes.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from pulumi.automation import EngineEvent, OpType

from headway.automation import Runner, StackResult
from sandbox.plan import Layer
from sandbox.progress import Progress


@dataclass(frozen=True, kw_only=True)
class LayerResult:
    """What happened to one layer: its plan, and the update if one was needed. `applied` is None for a layer that did not change."""

    layer: Layer
    planned: StackResult
    applied: StackResult | None = None

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
    groups: Sequence[Sequence[Layer]], runner: Runner, progress: Progress, told: Callable[[LayerResult], None]
) -> tuple[LayerResult, ...]:
    """Preview all layers with their packs and without a cluster; `told` hears of each as it ends."""
    results: list[LayerResult] = []
    with ThreadPoolExecutor(max_workers=2) as pool:
        futures = [(layer, pool.submit(_plan, layer, runner, progress, refresh=False)) for layer in _flat(groups)]
        for layer, future in futures:
            result = LayerResult(layer=layer, planned=future.result())
            results.append(result)
            told(result)
    return tuple(results)


def deploy(
    groups: Sequence[Sequence[Layer]],
    runner: Runner,
    progress: Progress,
    told: Callable[[LayerResult], None],
    *,
    fresh: bool,
    stopped: Callable[[], bool] = lambda: False,
) -> tuple[LayerResult, ...]:
    """Apply every layer in order. `fresh` says that nothing was ever applied, so that planning ahead would be wasted.

    Ends after the first group with a failure, and before the next group once `stopped`; the results then end there too.
    """
    ahead = {} if fresh else _plan_all(groups, runner, progress)
    results: list[LayerResult] = []
    stale = fresh
    for group in groups:
        if stopped():
            break
        plans = [None if stale else ahead[layer.stack] for layer in group]
        with ThreadPoolExecutor(max_workers=len(group) or 1) as pool:
            futures = [pool.submit(_bring, layer, plan, runner, progress) for layer, plan in zip(group, plans, strict=True)]
            done = [future.result() for future in futures]
        for result in done:
            results.append(result)
            told(result)
        stale = stale or any(r.changed for r in done)
        if not all(r.ok for r in done):
            break
    return tuple(results)


def _flat(groups: Sequence[Sequence[Layer]]) -> tuple[Layer, ...]:
    return tuple(layer for group in groups for layer in group)


def _plan_all(groups: Sequence[Sequence[Layer]], runner: Runner, progress: Progress) -> dict[str, StackResult]:
    layers = _flat(groups)
    with ThreadPoolExecutor(max_workers=2) as pool:
        futures = {layer.stack: pool.submit(_plan, layer, runner, progress, refresh=True) for layer in layers}
        return {stack: future.result() for stack, future in futures.items()}


def _plan(layer: Layer, runner: Runner, progress: Progress, *, refresh: bool) -> StackResult:
    key = f"layer/{layer.stack}"
    progress.step(key, "planning with the policy pack")
    result = runner.preview(layer.stack, layer.packs, refresh=refresh, on_event=None)
    progress.done(key, "planned") if result.ok else progress.failed(key, "refused")
    return result


def _bring(layer: Layer, planned: StackResult | None, runner: Runner, progress: Progress) -> LayerResult:
    plan = planned or _plan(layer, runner, progress, refresh=True)
    if not plan.ok or plan.changed == 0:
        return LayerResult(layer=layer, planned=plan)
    key = f"layer/{layer.stack}"
    progress.step(key, f"applying {plan.changed} changes")

    def watch(event: EngineEvent) -> None:
        if text := _doing(event):
            progress.step(key, text)

    applied = runner.up(layer.stack, layer.packs, refresh=True, on_event=watch)
    (progress.done if applied.ok else progress.failed)(key, "applied" if applied.ok else "failed")
    return LayerResult(layer=layer, planned=plan, applied=applied)


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
