"""Whether the server can do what the contract asks of it: batching, tokens, optimisation, the protocols of a container of one's own."""

from collections.abc import Iterator

from headway.contract.accelerators import GPUS
from headway.contract.batch import beside, beside_the_artifact
from headway.contract.inference_request import TENSOR_TYPES, wrong_in
from headway.contract.model_parts import ModelParts
from headway.contract.optimisation import KvCacheType
from headway.contract.runtime import Backend, Container, Engine, Triton, Vllm
from headway.contract.served_paths import closed_by
from headway.problem import Problem, problem


def batching_fits_runtime(model: ModelParts) -> Iterator[Problem]:
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
                fact="one of the models takes batches of one request only",
                consequence="Requests would wait for others that can never join their batch",
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
            fact=f"a step has {batching.max_batched_tokens} tokens for {batching.max_sequences} sequences",
            consequence="vLLM refuses to start",
            remedy=f"Use at least {batching.max_sequences}",
        )


def tokens_fit_runtime(model: ModelParts) -> Iterator[Problem]:
    largest = model.envelope.largest_request
    given = {"context_tokens": largest.context_tokens, "output_tokens": largest.output_tokens}
    for field, value in given.items():
        if isinstance(model.runtime, Vllm) and value is None:
            yield problem(
                "language-model-has-token-limits",
                "envelope",
                "largest_request",
                field,
                fact=f"a language model needs {field}",
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
                remedy="Leave it out; the largest shapes are declared in runtime.models",
            )
    if isinstance(model.runtime, Vllm) != (model.scaling.token_capacity is not None):
        missing = isinstance(model.runtime, Vllm)
        yield problem(
            "token-capacity-of-language-models",
            "scaling",
            "token_capacity",
            value=model.scaling.token_capacity,
            fact="a language model needs token_capacity" if missing else f"{model.runtime.engine} generates no tokens",
            consequence="Neither its cost per token nor its use of the token quota would be known"
            if missing
            else "The value would be ignored",
            remedy="Measure the tokens per second of one replica under load" if missing else "Leave it out",
        )
    if largest.context_tokens and largest.output_tokens and largest.output_tokens >= largest.context_tokens:
        yield problem(
            "room-for-a-prompt",
            "envelope",
            "largest_request",
            "output_tokens",
            value=largest.output_tokens,
            fact=f"answers may have {largest.output_tokens} tokens, and the context has {largest.context_tokens}",
            consequence="No tokens would be left for the prompt",
            remedy="Lower output_tokens or raise context_tokens",
        )


def optimisation_fits_runtime(model: ModelParts) -> Iterator[Problem]:
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
                consequence="The weights would not be quantised and would need twice the memory",
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
            fact="TensorRT compiles only ONNX models in Triton, and this contract has others",
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
            consequence="The server would not find its draft model and would not start",
            remedy="Add the draft model's files to artifact.files, or use method: ngram",
        )


def container_serves_files(model: ModelParts) -> Iterator[Problem]:
    runtime = model.runtime
    if isinstance(runtime, Container) and runtime.metrics.port == runtime.port and runtime.protocol == "grpc":
        yield problem(
            "metrics-are-http",
            "runtime",
            "metrics",
            "port",
            value=runtime.metrics.port,
            fact="metrics and gRPC requests share a port",
            consequence="Prometheus uses HTTP and could not read the metrics",
            remedy="Serve metrics on a port of their own",
        )
    if isinstance(runtime, Container) and runtime.protocol == "http" and (closed := closed_by(runtime.predict)):
        yield problem(
            "predict-is-open",
            "runtime",
            "predict",
            value=runtime.predict,
            fact=f"the mesh refuses {closed}, by which servers are administered",
            consequence="Golden requests would pass inside the pod, and every caller would get 403",
            remedy="Let the server take requests at another path, such as /predict",
        )


def grpc_containers_speak_the_open_protocol(model: ModelParts) -> Iterator[Problem]:
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
            consequence="Nothing would ever request this path",
            remedy="Leave it out: requests to a gRPC server use the Open Inference Protocol",
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
                fact="this is not a request of the Open Inference Protocol",
                consequence="The probes could not ask a gRPC server for an answer, and no replica would ever be ready",
                remedy="Write inputs: [{name, datatype, shape, data}] with a datatype of " + ", ".join(TENSOR_TYPES) + ", or serve HTTP",
            )


def batch_is_asked_by_http(model: ModelParts) -> Iterator[Problem]:
    runtime = model.runtime
    if model.batch and isinstance(runtime, Container) and runtime.protocol == "grpc":
        yield problem(
            "batch-is-asked-by-http",
            "batch",
            fact="the container speaks gRPC only, and batch workers send HTTP requests",
            consequence="No message could be turned into a request",
            remedy="Serve HTTP, or leave batch out",
        )
    if model.batch and beside(model.batch.store, model.artifact.uri):
        yield beside_the_artifact(model.batch.store)
