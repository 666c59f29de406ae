"""Whether what scales and judges the model is measured: signals that its runtime reports, objectives that can be missed."""

from collections.abc import Iterator

from headway.contract.model_parts import ModelParts
from headway.contract.runtime import Engine
from headway.contract.scaling import ScalingSignal
from headway.contract.slo import Availability, SloSignal
from headway.problem import Problem, problem

LARGEST_OVER_TYPICAL = 10
"""How much longer the largest request, which warmup sends, may take than those of which an objective speaks."""


def signals_exist(model: ModelParts) -> Iterator[Problem]:
    engine = model.runtime.engine
    no_triggers = {
        Engine.TRITON: {ScalingSignal.KV_CACHE_USE},
        Engine.VLLM: set[ScalingSignal](),
        Engine.CONTAINER: {ScalingSignal.WAITING, ScalingSignal.QUEUE_TIME, ScalingSignal.KV_CACHE_USE},
    }[engine]
    for number, trigger in enumerate(model.scaling.triggers):
        if trigger.signal in no_triggers:
            yield problem(
                "runtime-has-the-signal",
                "scaling",
                "triggers",
                number,
                "signal",
                value=trigger.signal,
                fact=f"{engine} does not report {trigger.signal}",
                consequence="The autoscaler would wait for a series that never exists",
                remedy=f"Use one of {', '.join(s for s in ScalingSignal if s not in no_triggers)}",
            )
    seen: set[tuple[SloSignal, int]] = set()
    for number, slo in enumerate(model.slo):
        if (slo.signal.of_tokens and engine is not Engine.VLLM) or (slo.signal is SloSignal.QUEUE_TIME and engine is Engine.CONTAINER):
            yield problem(
                "runtime-has-the-signal",
                "slo",
                number,
                "signal",
                value=slo.signal,
                fact=f"{engine} does not report {slo.signal}",
                consequence="The objective could never be measured and its alerts would never fire",
                remedy="Use availability or latency",
            )
        # One availability, whatever its objective: its rules and its error budget are named by the signal alone.
        promise = (slo.signal, 0 if isinstance(slo, Availability) else int(slo.objective))
        if promise in seen:
            yield problem(
                "one-objective-a-signal",
                "slo",
                number,
                value=slo.signal,
                fact=f"{slo.signal} is promised twice" + ("" if isinstance(slo, Availability) else f" at {slo.objective}"),
                consequence="Two alerts would fire for one fault, with different limits",
                remedy="Keep one of them",
            )
        seen.add(promise)
        timeout = model.envelope.largest_request.timeout
        if not isinstance(slo, Availability) and slo.threshold > timeout:
            yield problem(
                "objective-within-timeout",
                "slo",
                number,
                "threshold",
                value=slo.threshold,
                fact=f"the threshold {slo.threshold} is longer than any request may take ({timeout})",
                consequence="The objective can never be missed, so it promises nothing",
                remedy=f"Use less than {timeout}, or raise envelope.largest_request.timeout",
            )
        shown = model.health.warmup.p99
        if slo.signal is SloSignal.LATENCY and not isinstance(slo, Availability) and int(slo.threshold) * LARGEST_OVER_TYPICAL < int(shown):
            yield problem(
                "objective-as-warmup-shows",
                "slo",
                number,
                "threshold",
                value=slo.threshold,
                fact=f"the threshold {slo.threshold} is less than a tenth of what warmup lets pass ({shown})",
                consequence="Replicas would be declared ready that miss the objective with every request, and its alert would never end",
                remedy=f"Use {shown} or more, or lower health.warmup.p99 to what the server needs",
            )
