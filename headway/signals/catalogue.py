"""Every signal, defined once: read by autoscaling, alerts, dashboards, release gates and diagnosis alike.

Names of scaling and SLO signals are those of the contract. The trap: a ratio of two rates is NaN without traffic, which autoscalers take
for a failure; `clamp_min` makes it zero, while a silent source stays absent.
"""

from collections.abc import Iterable, Mapping

from headway.signals.definition import Aggregation, Direction, Signal, Source, Unit, UnknownSignalError

_NEVER_ZERO = "1e-9"
_MIB = 2**20


def _triton_mean(duration: str) -> str:
    return (
        f"sum(rate(nv_inference_{duration}_duration_us{{$scope}}[$window])) / 1e6"
        f" / clamp_min(sum(rate(nv_inference_request_success{{$scope}}[$window])), {_NEVER_ZERO})"
    )


def _mean(histogram: str) -> str:
    return f"sum(rate({histogram}_sum{{$scope}}[$window])) / clamp_min(sum(rate({histogram}_count{{$scope}}[$window])), {_NEVER_ZERO})"


def _quantile(histogram: str, scale: str = "") -> str:
    return f"histogram_quantile($quantile, sum by (le) (rate({histogram}_bucket{{$scope}}[$window]))){scale}"


_MESH_REQUESTS = "sum(rate(istio_requests_total{$scope}[$window]))"
_MESH_REFUSED = 'sum(rate(istio_requests_total{$scope,response_code=~"4.."}[$window]) or 0 * rate(istio_requests_total{$scope}[$window]))'
_MESH_ERRORS = 'sum(rate(istio_requests_total{$scope,response_code=~"5.."}[$window]) or 0 * rate(istio_requests_total{$scope}[$window]))'

_SIGNALS = (
    Signal(
        name="in_flight",
        meaning="Requests in the server, running or waiting. Triton, mesh: mean over the window, by Little's law from the time spent in it",
        unit=Unit.REQUESTS,
        direction=Direction.NEITHER,
        aggregation=Aggregation.TOTAL,
        loads={
            Source.TRITON: "rate(nv_inference_request_duration_us{$scope}[$window]) / 1e6",
            Source.VLLM: "(vllm:num_requests_running{$scope} + vllm:num_requests_waiting{$scope})",
        },
        expressions={Source.MESH: "sum(rate(istio_request_duration_milliseconds_sum{$scope}[$window])) / 1e3"},
    ),
    Signal(
        name="waiting",
        meaning="Requests in the server's queue",
        unit=Unit.REQUESTS,
        direction=Direction.HIGHER_IS_WORSE,
        aggregation=Aggregation.TOTAL,
        loads={
            Source.TRITON: "nv_inference_pending_request_count{$scope}",
            Source.VLLM: "vllm:num_requests_waiting{$scope}",
        },
    ),
    Signal(
        name="request_rate",
        meaning="Requests answered a second, well or not",
        unit=Unit.REQUESTS_PER_SECOND,
        direction=Direction.NEITHER,
        aggregation=Aggregation.TOTAL,
        loads={
            # One rate of both names: a server that has never failed has no series of failures, and a sum with it would be absent.
            Source.TRITON: 'rate({__name__=~"nv_inference_request_(failure|success)",$scope}[$window])',
            Source.VLLM: "rate(vllm:request_success_total{$scope}[$window])",
        },
        expressions={Source.MESH: _MESH_REQUESTS},
    ),
    Signal(
        name="queue_time",
        meaning="Mean time between a request's arrival at the server and its computation",
        unit=Unit.SECONDS,
        direction=Direction.HIGHER_IS_WORSE,
        aggregation=Aggregation.LEVEL,
        expressions={Source.TRITON: _triton_mean("queue"), Source.VLLM: _mean("vllm:request_queue_time_seconds")},
    ),
    Signal(
        name="compute_time",
        meaning="Mean time a request spends on the model itself",
        unit=Unit.SECONDS,
        direction=Direction.HIGHER_IS_WORSE,
        aggregation=Aggregation.LEVEL,
        expressions={Source.TRITON: _triton_mean("compute_infer"), Source.VLLM: _mean("vllm:request_inference_time_seconds")},
    ),
    *(
        Signal(
            name=f"{part}_time",
            meaning=f"Mean time in which the server {does} of a request, beside its model",
            unit=Unit.SECONDS,
            direction=Direction.HIGHER_IS_WORSE,
            aggregation=Aggregation.LEVEL,
            expressions={Source.TRITON: _triton_mean(f"compute_{part}")},
        )
        for part, does in (("input", "reads the inputs"), ("output", "writes the outputs"))
    ),
    Signal(
        name="batch_size",
        meaning="Mean number of requests computed together",
        unit=Unit.REQUESTS,
        direction=Direction.NEITHER,
        aggregation=Aggregation.LEVEL,
        expressions={
            Source.TRITON: (
                "sum(rate(nv_inference_count{$scope}[$window]))"
                f" / clamp_min(sum(rate(nv_inference_exec_count{{$scope}}[$window])), {_NEVER_ZERO})"
            )
        },
    ),
    Signal(
        name="kv_cache_use",
        meaning="Filled share of the cache of attention keys and values, mean of the replicas",
        unit=Unit.RATIO,
        direction=Direction.HIGHER_IS_WORSE,
        aggregation=Aggregation.LEVEL,
        expressions={Source.VLLM: "avg(vllm:kv_cache_usage_perc{$scope})"},
    ),
    Signal(
        name="preemptions",
        meaning="Sequences thrown out of a full cache, to be computed again, a second",
        unit=Unit.REQUESTS_PER_SECOND,
        direction=Direction.HIGHER_IS_WORSE,
        aggregation=Aggregation.TOTAL,
        expressions={Source.VLLM: "sum(rate(vllm:num_preemptions_total{$scope}[$window]))"},
    ),
    Signal(
        name="tokens_per_second",
        meaning="Tokens generated a second",
        unit=Unit.TOKENS_PER_SECOND,
        direction=Direction.NEITHER,
        aggregation=Aggregation.TOTAL,
        expressions={Source.VLLM: "sum(rate(vllm:generation_tokens_total{$scope}[$window]))"},
    ),
    Signal(
        name="ttft",
        meaning="Time to the first token, at a quantile",
        unit=Unit.SECONDS,
        direction=Direction.HIGHER_IS_WORSE,
        aggregation=Aggregation.LEVEL,
        expressions={Source.VLLM: _quantile("vllm:time_to_first_token_seconds")},
        quantiles=True,
    ),
    Signal(
        name="inter_token",
        meaning="Time between two tokens, at a quantile",
        unit=Unit.SECONDS,
        direction=Direction.HIGHER_IS_WORSE,
        aggregation=Aggregation.LEVEL,
        expressions={Source.VLLM: _quantile("vllm:inter_token_latency_seconds")},
        quantiles=True,
    ),
    Signal(
        name="time_per_token",
        meaning="Time for each token of an answer after its first, mean of the answer, at a quantile: longer answers alone do not raise it",
        unit=Unit.SECONDS,
        direction=Direction.HIGHER_IS_WORSE,
        aggregation=Aggregation.LEVEL,
        expressions={Source.VLLM: _quantile("vllm:request_time_per_output_token_seconds")},
        quantiles=True,
    ),
    Signal(
        name="prompt_tokens",
        meaning="Mean tokens of a prompt",
        unit=Unit.TOKENS,
        direction=Direction.NEITHER,
        aggregation=Aggregation.LEVEL,
        expressions={Source.VLLM: _mean("vllm:request_prompt_tokens")},
    ),
    Signal(
        name="answer_tokens",
        meaning="Mean tokens of an answer: what a longer one costs, and how much longer it takes",
        unit=Unit.TOKENS,
        direction=Direction.NEITHER,
        aggregation=Aggregation.LEVEL,
        expressions={Source.VLLM: _mean("vllm:request_generation_tokens")},
    ),
    Signal(
        name="truncated",
        meaning="Share of answers that ended at their limit of tokens, not by themselves",
        unit=Unit.RATIO,
        direction=Direction.HIGHER_IS_WORSE,
        aggregation=Aggregation.LEVEL,
        expressions={
            Source.VLLM: (
                'sum(rate(vllm:request_success_total{$scope,finished_reason="length"}[$window]))'
                f" / clamp_min(sum(rate(vllm:request_success_total{{$scope}}[$window])), {_NEVER_ZERO})"
            )
        },
    ),
    Signal(
        name="prefix_cache_hits",
        meaning="Share of the prompts' tokens whose attention was still in the cache",
        unit=Unit.RATIO,
        direction=Direction.NEITHER,
        aggregation=Aggregation.LEVEL,
        expressions={
            Source.VLLM: (
                "sum(rate(vllm:prefix_cache_hits_total{$scope}[$window]))"
                f" / clamp_min(sum(rate(vllm:prefix_cache_queries_total{{$scope}}[$window])), {_NEVER_ZERO})"
            )
        },
    ),
    Signal(
        name="refused",
        meaning="Share of requests that were turned away with 4xx: too long, or beyond a limit; those without a valid token count nowhere",
        unit=Unit.RATIO,
        direction=Direction.HIGHER_IS_WORSE,
        aggregation=Aggregation.LEVEL,
        expressions={Source.MESH: f"{_MESH_REFUSED} / clamp_min({_MESH_REQUESTS}, {_NEVER_ZERO})"},
    ),
    Signal(
        name="latency",
        meaning="Time from request to whole answer, as the gateway saw it, at a quantile",
        unit=Unit.SECONDS,
        direction=Direction.HIGHER_IS_WORSE,
        aggregation=Aggregation.LEVEL,
        expressions={Source.MESH: _quantile("istio_request_duration_milliseconds", " / 1000")},
        quantiles=True,
    ),
    Signal(
        name="error_ratio",
        meaning="Share of requests answered by a server error",
        unit=Unit.RATIO,
        direction=Direction.HIGHER_IS_WORSE,
        aggregation=Aggregation.LEVEL,
        expressions={Source.MESH: f"{_MESH_ERRORS} / clamp_min({_MESH_REQUESTS}, {_NEVER_ZERO})"},
    ),
    Signal(
        name="availability",
        meaning="Share of requests answered without a server error; 1 without requests",
        unit=Unit.RATIO,
        direction=Direction.LOWER_IS_WORSE,
        aggregation=Aggregation.LEVEL,
        expressions={Source.MESH: f"1 - {_MESH_ERRORS} / clamp_min({_MESH_REQUESTS}, {_NEVER_ZERO})"},
    ),
    Signal(
        name="gpu_activity",
        meaning="Share of time with busy multiprocessors, mean of the GPUs. Not the device utilisation, which is 1 whenever a kernel runs",
        unit=Unit.RATIO,
        direction=Direction.NEITHER,
        aggregation=Aggregation.LEVEL,
        expressions={Source.DCGM: "avg(DCGM_FI_PROF_SM_ACTIVE{$scope})"},
    ),
    Signal(
        name="gpu_memory",
        meaning="GPU memory in use on the fullest device",
        unit=Unit.BYTES,
        direction=Direction.HIGHER_IS_WORSE,
        aggregation=Aggregation.LEVEL,
        expressions={Source.DCGM: f"max(DCGM_FI_DEV_FB_USED{{$scope}}) * {_MIB}"},
    ),
    Signal(
        name="gpu_faults",
        meaning="Xid events of the GPUs in use within the window",
        unit=Unit.EVENTS,
        direction=Direction.HIGHER_IS_WORSE,
        aggregation=Aggregation.TOTAL,
        expressions={Source.DCGM: "sum(max_over_time(DCGM_EXP_XID_ERRORS_COUNT{$scope}[$window]))"},
    ),
)


def _by_name(signals: Iterable[Signal]) -> Mapping[str, Signal]:
    return {signal.name: signal for signal in sorted(signals, key=lambda signal: signal.name)}


SIGNALS: Mapping[str, Signal] = _by_name(_SIGNALS)
"""All signals by name."""


def signal(name: str) -> Signal:
    """The signal of that name; raises UnknownSignalError with the names there are."""
    if name not in SIGNALS:
        raise UnknownSignalError(f"no signal is called {name!r}; there are {', '.join(SIGNALS)}")
    return SIGNALS[name]
