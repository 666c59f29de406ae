"""Rules between the parts of one model contract: what must agree for the whole to work.

Each rule looks at one agreement and yields every breach of it. The trap: they run only when every part is valid by itself.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from headway.contract.accelerators import GPUS
from headway.contract.inference_request import TENSOR_TYPES, wrong_in
from headway.contract.optimisation import KvCacheType, Quantisation
from headway.contract.part import Violation, problem
from headway.contract.placement import Isolation, WorkloadClass
from headway.contract.runtime import Backend, Container, Engine, Triton, Vllm
from headway.contract.scaling import ScalingSignal
from headway.contract.slo import Availability, SloSignal

if TYPE_CHECKING:
    from headway.contract.model import Model


def disagreements(model: "Model") -> Iterator[Violation]:
    """Every breach of every rule."""
    for rule in _RULES:
        yield from rule(model)


def _batching_fits_runtime(model: "Model") -> Iterator[Violation]:
    legal = {Engine.TRITON: ("dynamic", "none"), Engine.VLLM: ("continuous",), Engine.CONTAINER: ("none",)}[model.runtime.engine]
    batching, runtime = model.batching, model.runtime
    if batching.kind not in legal:
        yield problem(
            "batching-fits-runtime",
            "batching",
            "kind",
            value=batching.kind,
            fact=f"{runtime.engine} has no {batching.kind} batching",
            consequence="The setting would be ignored",
            remedy=f"Use kind: {' or '.join(legal)}",
        )
    elif isinstance(runtime, Triton) and batching.kind == "dynamic":
        largest = min(m.max_batch for m in runtime.models)
        if largest < 2:
            yield problem(
                "dynamic-batching-needs-a-batch",
                "batching",
                "kind",
                value="dynamic",
                fact="a model takes batches of one only",
                consequence="Requests would wait for others that can never join them",
                remedy="Raise max_batch of every model to 2 or more, or use kind: none",
            )
        for size in batching.preferred:
            if size > largest:
                yield problem(
                    "preferred-batch-within-maximum",
                    "batching",
                    "preferred",
                    value=size,
                    fact=f"preferred batch {size} exceeds the smallest max_batch of {largest}",
                    consequence="Triton refuses the configuration",
                    remedy=f"Prefer at most {largest}",
                )
    elif batching.kind == "continuous" and batching.max_batched_tokens < batching.max_sequences:
        yield problem(
            "a-token-for-every-sequence",
            "batching",
            "max_batched_tokens",
            value=batching.max_batched_tokens,
            fact=f"{batching.max_batched_tokens} tokens a step for {batching.max_sequences} sequences",
            consequence="vLLM refuses to start",
            remedy=f"Use at least {batching.max_sequences}",
        )


def _tokens_fit_runtime(model: "Model") -> Iterator[Violation]:
    largest = model.envelope.largest_request
    given = {"context_tokens": largest.context_tokens, "output_tokens": largest.output_tokens}
    for field, value in given.items():
        if isinstance(model.runtime, Vllm) and value is None:
            yield problem(
                "language-model-has-token-limits",
                "envelope",
                "largest_request",
                field,
                fact=f"a language model without {field}",
                consequence="One long prompt could fill the KV cache and starve all other requests",
                remedy=f"Declare {field}: the platform sizes GPU memory by it and the gateway enforces it",
            )
        if isinstance(model.runtime, Triton) and value is not None:
            yield problem(
                "token-limits-are-used",
                "envelope",
                "largest_request",
                field,
                value=value,
                fact="Triton models have no tokens",
                consequence="The limit would be ignored",
                remedy="Leave it out; the largest shapes stand in runtime.models",
            )
    if isinstance(model.runtime, Vllm) != (model.scaling.token_capacity is not None):
        missing = isinstance(model.runtime, Vllm)
        yield problem(
            "token-capacity-of-language-models",
            "scaling",
            "token_capacity",
            value=model.scaling.token_capacity,
            fact="a language model without token_capacity" if missing else f"{model.runtime.engine} generates no tokens",
            consequence="Neither its cost a token nor its use of the token quota is known" if missing else "The value would be ignored",
            remedy="Measure the tokens a second of one replica under load" if missing else "Leave it out",
        )
    if largest.context_tokens and largest.output_tokens and largest.output_tokens >= largest.context_tokens:
        yield problem(
            "room-for-a-prompt",
            "envelope",
            "largest_request",
            "output_tokens",
            value=largest.output_tokens,
            fact=f"answers of {largest.output_tokens} tokens in a context of {largest.context_tokens}",
            consequence="No token is left for the prompt",
            remedy="Lower output_tokens or raise context_tokens",
        )


def _isolation_is_what_the_share_gives(model: "Model") -> Iterator[Violation]:
    gpu, wanted = model.envelope.gpu, model.placement.isolation
    several = isinstance(model.runtime, Triton) and len(model.runtime.models) > 1
    given = Isolation.SHARED if several and gpu.share != "mig" else model.envelope.isolation_of_gpu
    if wanted is not given:
        why = "several models share this server" if several and given is Isolation.SHARED else f"the GPU share is {gpu.share}"
        yield problem(
            "isolation-is-real",
            "placement",
            "isolation",
            value=wanted,
            fact=f"isolation {wanted} is declared, but {why}, which gives {given}",
            consequence="Operators and neighbours would plan for an isolation that is not there",
            remedy=f"Write isolation: {given}, or change envelope.gpu.share or the number of models",
        )
    if gpu.share == "slice" and model.workload_class is WorkloadClass.LATENCY:
        yield problem(
            "latency-is-never-time-sliced",
            "envelope",
            "gpu",
            "share",
            value="slice",
            fact="a latency workload on a time-sliced GPU",
            consequence="Each neighbour's kernel delays every answer, and any neighbour can take all GPU memory",
            remedy="Use share: whole, mig or mps, or workload_class: throughput",
        )


def _hardware_can_do_it(model: "Model") -> Iterator[Violation]:
    gpu, optimisation = model.envelope.gpu, model.optimisation
    if optimisation.quantisation in (Quantisation.FP8, Quantisation.FP8_ON_LOAD) and not GPUS[gpu.accelerator].fp8:
        yield problem(
            "fp8-needs-its-hardware",
            "optimisation",
            "quantisation",
            value=optimisation.quantisation,
            fact=f"{gpu.accelerator} has no FP8 tensor cores",
            consequence="The server would refuse to start, or compute slower than without",
            remedy=f"Use one of {', '.join(sorted(g.accelerator for g in GPUS.values() if g.fp8))}, or int8, awq or gptq",
        )
    if isinstance(model.runtime, Vllm) and gpu.share == "whole":
        shape = model.runtime.architecture
        if shape.heads % gpu.count or (shape.kv_heads % gpu.count and gpu.count % shape.kv_heads):
            yield problem(
                "heads-divide-over-gpus",
                "envelope",
                "gpu",
                "count",
                value=gpu.count,
                fact=f"{shape.heads} heads and {shape.kv_heads} KV heads do not divide over {gpu.count} GPUs",
                consequence="vLLM refuses to start with this tensor parallelism",
                remedy="Use a number of GPUs that divides both",
            )


def _optimisation_fits_runtime(model: "Model") -> Iterator[Violation]:
    optimisation, runtime = model.optimisation, model.runtime
    if not isinstance(runtime, Vllm):
        for field in filter(optimisation.departs, ("kv_cache", "prefix_caching", "speculation")):
            yield problem(
                "optimisation-fits-runtime",
                "optimisation",
                field,
                fact=f"{runtime.engine} has no {field}",
                consequence="The setting would be ignored",
                remedy="Leave it out: it belongs to vLLM",
            )
        if optimisation.quantisation.shrinks_on_load:
            yield problem(
                "optimisation-fits-runtime",
                "optimisation",
                "quantisation",
                value=optimisation.quantisation,
                fact=f"{runtime.engine} does not quantise while loading",
                consequence="The weights would stay as they are and need twice the memory",
                remedy="Quantise the artifact and name its method",
            )
    elif optimisation.kv_cache is KvCacheType.FP8 and not GPUS[model.envelope.gpu.accelerator].fp8:
        yield problem(
            "fp8-needs-its-hardware",
            "optimisation",
            "kv_cache",
            value="fp8",
            fact=f"{model.envelope.gpu.accelerator} has no FP8 tensor cores",
            consequence="Each step would convert the cache in software",
            remedy="Use kv_cache: auto on this accelerator",
        )
    if optimisation.tensorrt and not (isinstance(runtime, Triton) and all(m.backend is Backend.ONNXRUNTIME for m in runtime.models)):
        yield problem(
            "optimisation-fits-runtime",
            "optimisation",
            "tensorrt",
            value=optimisation.tensorrt,
            fact="TensorRT compiles ONNX models in Triton, and this contract has others",
            consequence="The setting would be ignored",
            remedy="Leave it out, or serve ONNX models only",
        )
    speculation = optimisation.speculation
    if speculation and speculation.folder and not model.artifact.size_below(speculation.folder):
        yield problem(
            "artifact-holds-the-draft-model",
            "optimisation",
            "speculation",
            "folder",
            value=speculation.folder,
            fact=f"the artifact has no file below {speculation.folder}",
            consequence="The server would not find its draft model and not start",
            remedy="Add the draft model's files to artifact.files, or use method: ngram",
        )


def _signals_exist(model: "Model") -> Iterator[Violation]:
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
                consequence="The autoscaler would wait for a series that never comes",
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


def _golden_requests_reach_a_model(model: "Model") -> Iterator[Violation]:
    names = model.model_names
    triton = isinstance(model.runtime, Triton)
    for number, golden in enumerate(model.health.golden):
        unknown = golden.model is not None and (not triton or golden.model not in names)
        if unknown or (triton and golden.model is None and len(names) > 1):
            yield problem(
                "golden-asks-a-model",
                "health",
                "golden",
                number,
                "model",
                value=golden.model,
                fact=f"golden request {golden.name} asks {'a model that is not here' if unknown else 'none of several models'}",
                consequence="Warmup would fail and no replica would ever be ready",
                remedy=f"Use one of {', '.join(names)}" if triton else "Leave model out: only Triton serves several",
            )
        if golden.file is not None and golden.file not in {file.path for file in model.artifact.files}:
            yield problem(
                "artifact-holds-the-golden-request",
                "health",
                "golden",
                number,
                "file",
                value=golden.file,
                fact=f"the artifact has no {golden.file}",
                consequence="The golden request could not be sent and no replica would ever be ready",
                remedy="Add it to artifact.files",
            )
    asked = {golden.model or next(iter(names)) for golden in model.health.golden} if triton else set(names)
    for name in names:
        if name not in asked:
            yield problem(
                "every-model-is-proved",
                "health",
                "golden",
                value=name,
                fact=f"no golden request asks model {name}",
                consequence="It could answer nonsense and still be declared ready",
                remedy=f"Add a golden request with model: {name}",
            )


def _copies_can_be_compared(model: "Model") -> Iterator[Violation]:
    mirror = model.rollout.mirror
    if mirror is None or mirror.differ is None:
        return
    valued = model.health.valued
    if valued is None:
        yield problem(
            "copies-can-be-compared",
            "rollout",
            "mirror",
            "differ",
            value=mirror.differ,
            fact="no golden request says how two answers are compared: all of them look at a form or at parts of a text",
            consequence="No answer to a copy would ever be compared, and no release would get past its copies",
            remedy="Add a golden request with compare: exact, near, top or cosine; or leave differ out",
        )
        return
    way = ["response", *(step for step in valued.answer.split("/")[1:] if not step.isdigit())]
    kept = any(field.split(".") == way[: len(field.split("."))] for field in model.data.log_fields)
    if not kept or not model.data.sampled:
        yield problem(
            "copies-can-be-compared",
            "data",
            "log_fields",
            value=list(model.data.log_fields),
            fact=f"samples of requests do not keep {'.'.join(way)}, which answers to copies are compared by (rollout.mirror.differ)",
            consequence="No answer to a copy would ever be compared, and no release would get past its copies",
            remedy=f"Add {'.'.join(way[:2])} to data.log_fields, with a data.sample above 0 %; or leave rollout.mirror.differ out",
        )


def _artifact_holds_the_models(model: "Model") -> Iterator[Violation]:
    if isinstance(model.runtime, Triton):
        for number, served in enumerate(model.runtime.models):
            expected = served.folder + served.backend.file
            if not any(file.path == expected or file.path.startswith(expected + "/") for file in model.artifact.files):
                yield problem(
                    "artifact-holds-the-model",
                    "runtime",
                    "models",
                    number,
                    value=served.name,
                    fact=f"the artifact has no {expected}",
                    consequence="Triton would find no such model version and exit",
                    remedy=f"Add {expected} to artifact.files, or correct name, version or backend",
                )
    elif isinstance(model.runtime, Vllm):
        paths = [file.path for file in model.artifact.files]
        for kind, found in (
            ("config.json", "config.json" in paths),
            ("*.safetensors", any(path.endswith(".safetensors") and "/" not in path for path in paths)),
        ):
            if not found:
                yield problem(
                    "artifact-holds-the-model",
                    "artifact",
                    "files",
                    fact=f"the artifact has no {kind}",
                    consequence="vLLM would find no model and exit",
                    remedy=f"Add {kind} to artifact.files",
                )


def _md5_is_for_models_of_triton(model: "Model") -> Iterator[Violation]:
    folders = tuple(f"{served.name}/" for served in model.runtime.models) if isinstance(model.runtime, Triton) else ()
    for number, file in enumerate(model.artifact.files):
        if file.md5 is not None and not file.path.startswith(folders):
            yield problem(
                "md5-is-for-models-of-triton",
                "artifact",
                "files",
                number,
                "md5",
                value=file.md5,
                fact=f"{file.path} belongs to no model that Triton loads",
                consequence="Nothing would ever compare it; the SHA-256 is what proves this file",
                remedy="Leave md5 out here",
            )


def _running_requests_can_finish(model: "Model") -> Iterator[Violation]:
    timeout, drain = model.envelope.largest_request.timeout, model.health.drain
    if timeout > drain:
        yield problem(
            "drain-outlasts-a-request",
            "health",
            "drain",
            value=drain,
            fact=f"a request may take {timeout}, a draining replica ends after {drain}",
            consequence="Every rollout and every scale-down would cut off the longest requests",
            remedy=f"Raise drain to at least {timeout}, or lower envelope.largest_request.timeout",
        )


def _classes_fit_the_largest_body(model: "Model") -> Iterator[Violation]:
    body = model.envelope.largest_request.body
    for number, request_class in enumerate(model.rollout.classes):
        if request_class.body_up_to is not None and request_class.body_up_to >= body:
            yield problem(
                "class-is-reachable",
                "rollout",
                "classes",
                number,
                "body_up_to",
                value=request_class.body_up_to,
                fact=f"class {request_class.name} takes bodies up to {request_class.body_up_to}, and none is larger than {body}",
                consequence="The classes after it would never see a request",
                remedy=f"Use less than {body}",
            )


def _fallback_is_another(model: "Model") -> Iterator[Violation]:
    if model.degradation.fallback and model.degradation.fallback.model == model.name:
        yield problem(
            "fallback-is-another",
            "degradation",
            "fallback",
            "model",
            value=model.name,
            fact="the model is its own fallback",
            consequence="Overload would send requests round in a circle",
            remedy="Name a lighter model of the same tenant, or leave fallback out",
        )


def _container_serves_files(model: "Model") -> Iterator[Violation]:
    runtime = model.runtime
    if isinstance(runtime, Container) and runtime.metrics.port == runtime.port and runtime.protocol == "grpc":
        yield problem(
            "metrics-are-http",
            "runtime",
            "metrics",
            "port",
            value=runtime.metrics.port,
            fact="metrics and gRPC requests share a port",
            consequence="Prometheus speaks HTTP and could not read the metrics",
            remedy="Serve metrics on a port of their own",
        )


def _grpc_containers_speak_the_open_protocol(model: "Model") -> Iterator[Violation]:
    runtime = model.runtime
    if not isinstance(runtime, Container) or runtime.protocol != "grpc":
        return
    for field in filter(runtime.departs, ("health", "predict")):
        yield problem(
            "grpc-has-no-paths",
            "runtime",
            field,
            value=getattr(runtime, field),
            fact=f"{field} is an HTTP path, and the container speaks gRPC only",
            consequence="It would never be asked for",
            remedy="Leave it out: a gRPC server is asked by the Open Inference Protocol",
        )
    for number, golden in enumerate(model.health.golden):
        where = None if golden.request is None else wrong_in(golden.request)
        if where is not None:
            yield problem(
                "grpc-golden-is-an-inference-request",
                "health",
                "golden",
                number,
                "request",
                *where,
                fact="not a request of the Open Inference Protocol",
                consequence="The probes could not ask a gRPC server for an answer, and no replica would ever be ready",
                remedy="Write inputs: [{name, datatype, shape, data}] with a datatype of " + ", ".join(TENSOR_TYPES) + ", or serve HTTP",
            )


def _batch_is_asked_by_http(model: "Model") -> Iterator[Violation]:
    runtime = model.runtime
    if model.batch and isinstance(runtime, Container) and runtime.protocol == "grpc":
        yield problem(
            "batch-is-asked-by-http",
            "batch",
            fact="the container speaks gRPC only, whose messages the worker does not know",
            consequence="No message could be turned into a request",
            remedy="Serve HTTP, or leave batch out",
        )
    if model.batch and model.batch.store.startswith(model.artifact.uri):
        yield problem(
            "batch-writes-beside-the-artifact",
            "batch",
            "store",
            value=model.batch.store,
            fact="answers would be written below the artifact's own prefix",
            consequence="Artifacts are immutable, and workers would need the right to change them",
            remedy="Use another prefix, best in a bucket of its own",
        )


_RULES: tuple[Callable[["Model"], Iterator[Violation]], ...] = (
    _batching_fits_runtime,
    _tokens_fit_runtime,
    _isolation_is_what_the_share_gives,
    _hardware_can_do_it,
    _optimisation_fits_runtime,
    _signals_exist,
    _golden_requests_reach_a_model,
    _copies_can_be_compared,
    _artifact_holds_the_models,
    _md5_is_for_models_of_triton,
    _running_requests_can_finish,
    _classes_fit_the_largest_body,
    _fallback_is_another,
    _container_serves_files,
    _grpc_containers_speak_the_open_protocol,
    _batch_is_asked_by_http,
)
