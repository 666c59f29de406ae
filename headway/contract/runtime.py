"""What serves the model: Triton with its backends, vLLM, or a plain container, each from an image by digest.

A union over `engine`. What a runtime derives is not asked for: tensor parallelism is `envelope.gpu.count`, vLLM's memory share
follows from `envelope.gpu.memory`.
"""

import re
from collections import Counter
from collections.abc import Iterator
from enum import StrEnum, unique
from math import prod
from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from headway.contract.adapter import Adapter, adapter_violations
from headway.contract.part import Count, CountOrNone, Part, between
from headway.contract.secret_names import names_a_secret, secret_flags, secret_in
from headway.contract.units import Bytes
from headway.problem import Problem, problem


def _by_digest(value: str) -> str:
    if (
        re.fullmatch(
            r"[a-z0-9][a-z0-9.-]*(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)+(:[\w][\w.-]{0,127})?@sha256:[0-9a-f]{64}", value, re.ASCII
        )
        is None
    ):
        raise PydanticCustomError(
            "image",
            "{fact}",
            {"fact": f"{value[:120]!r} is no image by digest: write <registry>/<repository>[:<tag>]@sha256:<64 hex digits>"},
        )
    return value


Image = Annotated[str, AfterValidator(_by_digest), Field(max_length=400, json_schema_extra={"pattern": "@sha256:[0-9a-f]{64}$"})]
ImageSize = Annotated[Bytes, between(Bytes(2**20), Bytes(100 * 2**30))]
Driver = Annotated[str, Field(pattern=r"^[1-9][0-9]{2}(\.[0-9]{1,3}){1,2}$", examples=["570.86"])]
_NO_ENV: dict[str, str] = {}


@unique
class Engine(StrEnum):
    """The kind of server. Tenants allow them one by one."""

    TRITON = "triton"
    VLLM = "vllm"
    CONTAINER = "container"


@unique
class Backend(StrEnum):
    """What computes inside Triton; decides the file that a model version consists of."""

    TENSORRT = "tensorrt"
    ONNXRUNTIME = "onnxruntime"
    PYTORCH = "pytorch"
    TENSORFLOW = "tensorflow"
    XGBOOST = "xgboost"
    PYTHON = "python"

    @property
    def file(self) -> str:
        """Default file name (or folder) of a model version, as Triton's backends expect it."""
        return {
            Backend.TENSORRT: "model.plan",
            Backend.ONNXRUNTIME: "model.onnx",
            Backend.PYTORCH: "model.pt",
            Backend.TENSORFLOW: "model.savedmodel",
            Backend.XGBOOST: "xgboost.json",
            Backend.PYTHON: "model.py",
        }[self]


@unique
class DataType(StrEnum):
    """Element type of a tensor, in the words of the Open Inference Protocol."""

    BOOL = "BOOL"
    UINT8 = "UINT8"
    INT8 = "INT8"
    INT16 = "INT16"
    INT32 = "INT32"
    INT64 = "INT64"
    FP16 = "FP16"
    BF16 = "BF16"
    FP32 = "FP32"
    FP64 = "FP64"
    BYTES = "BYTES"

    @property
    def width(self) -> int:
        """Bytes of an element; a string is counted as 64."""
        if self is DataType.BYTES:
            return 64
        digits = "".join(filter(str.isdigit, self.value))
        return int(digits) // 8 if digits else 1


class Tensor(Part):
    """One input or output of a model."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,127}$")]
    """Its name in the model."""
    data_type: DataType
    """Its element type."""
    shape: Annotated[tuple[Annotated[int, Field(strict=True, ge=-1, le=2**31)], ...], Field(min_length=1, max_length=8)]
    """Its dimensions without the batch dimension; -1 for one that varies."""
    max_shape: Annotated[tuple[Annotated[int, Field(strict=True, ge=1, le=2**31)], ...], Field(min_length=1, max_length=8)] | None = None
    """The largest value of every dimension; required where `shape` has a -1. Warmup and the memory check use it."""

    def violations(self) -> Iterator[Problem]:
        if 0 in self.shape:
            yield problem(
                "tensor-dimension-not-zero",
                "shape",
                value=list(self.shape),
                fact="a dimension of the shape is 0",
                consequence="The tensor could hold no data",
                remedy="Write the size of the dimension, or -1 where it varies",
            )
        if self.max_shape is None:
            if -1 in self.shape:
                yield problem(
                    "tensor-declares-its-maximum",
                    "max_shape",
                    fact=f"the shape {list(self.shape)} varies and no maximum is declared",
                    consequence="Nothing can prove that the largest request fits into GPU memory",
                    remedy="Declare max_shape, with a number for every dimension",
                )
        elif len(self.max_shape) != len(self.shape) or any(d not in (-1, m) for d, m in zip(self.shape, self.max_shape, strict=True)):
            yield problem(
                "tensor-maximum-matches-shape",
                "max_shape",
                value=list(self.max_shape),
                fact=f"max_shape {list(self.max_shape)} does not fit shape {list(self.shape)}",
                consequence="Warmup would send a request that the model cannot take",
                remedy="Give every -1 a maximum and repeat every fixed dimension",
            )

    @property
    def largest_shape(self) -> tuple[int, ...]:
        return self.max_shape or self.shape

    @property
    def largest_bytes(self) -> int:
        """Bytes of this tensor at its maximum, for one item of a batch."""
        return prod(self.largest_shape) * self.data_type.width


class TritonModel(Part):
    """One model of Triton's repository; its files lie below `<name>/<version>/` in the artifact."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,62}$")]
    """Its name in the repository and in requests."""
    version: Annotated[Count, Field(le=2**31)] = 1
    """The version folder to load."""
    backend: Backend
    """What computes it. NVIDIA's images have no `tensorflow`."""
    inputs: Annotated[tuple[Tensor, ...], Field(min_length=1, max_length=64)]
    """Its inputs."""
    outputs: Annotated[tuple[Tensor, ...], Field(min_length=1, max_length=64)]
    """Its outputs."""
    max_batch: Annotated[CountOrNone, Field(le=4096)]
    """Largest batch; 0 when the model has no batch dimension."""
    instances: Annotated[Count, Field(le=32)] = 1
    """Copies that compute at the same time; each needs `activations`."""
    activations: Annotated[Bytes, between(Bytes(0), Bytes(2**40))]
    """GPU memory of one instance beside its weights, measured at the maximum shape and batch."""

    def violations(self) -> Iterator[Problem]:
        for side, tensors in (("inputs", self.inputs), ("outputs", self.outputs)):
            for name, times in Counter(tensor.name for tensor in tensors).items():
                if times > 1:
                    yield problem(
                        "tensor-named-once",
                        side,
                        value=name,
                        fact=f"{name} is named {times} times",
                        consequence="Triton refuses the configuration",
                        remedy="Name each tensor once",
                    )
        least = self.exchange_bytes
        if self.activations < least:
            yield problem(
                "activations-hold-the-tensors",
                "activations",
                value=self.activations,
                fact=f"inputs and outputs alone take {Bytes(least)} at the maximum shape and batch of {max(1, self.max_batch)}",
                consequence="The declared GPU memory is less than any run needs, and the largest batch would fail",
                remedy="Measure the model at its maximum shape and batch, and write the GPU memory that it takes",
            )

    @property
    def folder(self) -> str:
        """Where its files lie inside the artifact."""
        return f"{self.name}/{self.version}/"

    @property
    def exchange_bytes(self) -> int:
        """Bytes of all inputs and outputs of the largest batch: a lower bound of activations."""
        return max(1, self.max_batch) * sum(tensor.largest_bytes for tensor in (*self.inputs, *self.outputs))


OLDEST_RELEASE = "25.06"
"""Of Triton, the first that knows every flag of the command line (triton-inference-server/server#8174, v2.59.0)."""


class Triton(Part):
    """Triton Inference Server."""

    engine: Literal[Engine.TRITON]
    """`triton`."""
    image: Image
    """The server image, by digest; NVIDIA's from 25.06 on."""
    image_size: ImageSize
    """Size of the image as it is pulled (compressed layers); part of the start-up budget."""
    minimum_driver: Driver
    """Oldest NVIDIA driver that the image supports; checked against the AMI release of the pool."""
    models: Annotated[tuple[TritonModel, ...], Field(min_length=1, max_length=64)]
    """The models of this server, loaded explicitly; more than one makes it a shared server."""

    def violations(self) -> Iterator[Problem]:
        yield from self._missing()
        for name, times in Counter(model.name for model in self.models).items():
            if times > 1:
                yield problem(
                    "triton-model-named-once",
                    "models",
                    value=name,
                    fact=f"model {name} is named {times} times",
                    consequence="Both would claim one folder of the repository",
                    remedy="Give each model its own name",
                )

    def _missing(self) -> Iterator[Problem]:
        """What NVIDIA's image of that release lacks; of an image of one's own nothing is known."""
        release = re.search(r"/tritonserver:(\d{2}\.\d{2})\b", self.image, re.ASCII)
        if release is None:
            return
        if release[1] < OLDEST_RELEASE:
            yield problem(
                "triton-knows-its-flags",
                "image",
                value=self.image,
                fact=f"Triton {release[1]} does not know --http-max-input-size",
                consequence="The server would end at start, for it is told how large a request may be",
                remedy=f"Use {OLDEST_RELEASE} or later",
            )
        for number, model in enumerate(self.models):
            # Left out from 25.03 on (triton-inference-server/server, build.py of v2.56.0).
            if model.backend is Backend.TENSORFLOW:
                yield problem(
                    "backend-is-in-the-image",
                    "models",
                    number,
                    "backend",
                    value=model.backend,
                    fact=f"Triton {release[1]} has no TensorFlow backend",
                    consequence="The server would end at start, because it cannot load the model",
                    remedy="Convert the model to ONNX (backend: onnxruntime), or use an image of your own that has the backend",
                )


class SlidingWindow(Part):
    """Layers that see the newest tokens only, as in Gemma, gpt-oss and Mistral: they keep no others in the KV cache."""

    tokens: Annotated[Count, Field(le=10_000_000)]
    """`sliding_window`."""
    layers: Annotated[Count, Field(le=1000)]
    """How many layers are `sliding_attention` in `layer_types`, or all of them where that is missing."""


class Architecture(Part):
    """The shape of a transformer, as its `config.json` says it: what the KV cache is computed from."""

    layers: Annotated[Count, Field(le=1000)]
    """`num_hidden_layers`."""
    heads: Annotated[Count, Field(le=1024)]
    """`num_attention_heads`."""
    kv_heads: Annotated[Count, Field(le=1024)]
    """`num_key_value_heads`."""
    head_dimension: Annotated[Count, Field(le=4096)]
    """`head_dim`, or hidden size divided by heads."""
    hidden: Annotated[Count, Field(le=1_000_000)]
    """`hidden_size`."""
    vocabulary: Annotated[Count, Field(le=10_000_000)]
    """`vocab_size`."""
    intermediate: Annotated[Count, Field(le=1_000_000)] | None = None
    """`intermediate_size`; needed where there are adapters."""
    sliding_window: SlidingWindow | None = None
    """Layers with a window, if there are any. Without it each layer counts with the whole context."""
    latent: Annotated[Count, Field(le=100_000)] | None = None
    """Multi-head latent attention, as in DeepSeek: `kv_lora_rank` and `qk_rope_head_dim` together; each GPU keeps all of it."""

    def violations(self) -> Iterator[Problem]:
        if self.sliding_window and self.sliding_window.layers > self.layers:
            yield problem(
                "windowed-layers-are-layers",
                "sliding_window",
                value=self.sliding_window.layers,
                fact=f"more layers have a window than there are: {self.layers}",
                consequence="No such model exists, and the size of the KV cache would be computed wrongly",
                remedy="Count the sliding_attention layers in the layer_types of the model's config.json",
            )
        if self.heads % self.kv_heads:
            yield problem(
                "kv-heads-divide-heads",
                "kv_heads",
                value=self.kv_heads,
                fact=f"{self.heads} heads are not a multiple of {self.kv_heads} KV heads",
                consequence="No such model exists, and the size of the KV cache would be computed wrongly",
                remedy="Copy both from the model's config.json",
            )


OLDEST_VLLM = (0, 18)
"""The first vLLM that knows every flag of the command line (vllm-project/vllm#36666; kserve/kserve#5496 asks for it by this version)."""


class Vllm(Part):
    """vLLM, with its OpenAI-compatible API."""

    engine: Literal[Engine.VLLM]
    """`vllm`."""
    image: Image
    """The server image, by digest; the project's own from 0.18 on."""
    image_size: ImageSize
    """Size of the image as it is pulled (compressed layers); part of the start-up budget."""
    minimum_driver: Driver
    """Oldest NVIDIA driver that the image supports; checked against the AMI release of the pool."""
    data_type: Literal["bfloat16", "float16"] = "bfloat16"
    """Element type of activations, and of the KV cache unless `optimisation.kv_cache` says otherwise."""
    architecture: Architecture
    """The transformer's shape."""
    adapters: Annotated[tuple[Adapter, ...], Field(max_length=32)] = ()
    """LoRA adapters, each another model by name on the same engine; all of them are in GPU memory. Dense models only."""

    def violations(self) -> Iterator[Problem]:
        yield from adapter_violations(self.adapters, self.architecture.intermediate, self.architecture.latent)
        yield from self._missing()

    def _missing(self) -> Iterator[Problem]:
        """What the project's image of that version lacks; of an image of one's own nothing is known."""
        version = re.search(r"/vllm-openai:v(\d{1,4})\.(\d{1,4})\b", self.image, re.ASCII)
        if version and (int(version[1]), int(version[2])) < OLDEST_VLLM:
            yield problem(
                "vllm-knows-its-flags",
                "image",
                value=self.image,
                fact=f"vLLM {version[1]}.{version[2]} does not know --shutdown-timeout",
                consequence="The server would end at start, for it is told how long it may finish requests",
                remedy=f"Use {OLDEST_VLLM[0]}.{OLDEST_VLLM[1]} or later",
            )


PROXY_PORTS = range(15_000, 15_100)
"""Ten of them are used (`istioReservedPorts` in pilot/cmd/pilot-agent/status/server.go of Istio 1.31), none by anything else."""
_DEVICES = "NVIDIA_VISIBLE_DEVICES"


class Metrics(Part):
    """Where a container serves Prometheus metrics."""

    path: Annotated[str, Field(pattern=r"^/[A-Za-z0-9._/-]{0,127}$")] = "/metrics"
    """Path of the metrics page."""
    port: Annotated[Count, Field(ge=1024, le=65_535)]
    """Port of the metrics page."""


class Container(Part):
    """Any other server in a container. The rest of the contract applies to it as to all others."""

    engine: Literal[Engine.CONTAINER]
    """`container`."""
    image: Image
    """The server image, by digest."""
    image_size: ImageSize
    """Size of the image as it is pulled (compressed layers); part of the start-up budget."""
    minimum_driver: Driver
    """Oldest NVIDIA driver that the image supports; checked against the AMI release of the pool."""
    command: Annotated[tuple[Annotated[str, Field(min_length=1, max_length=1000)], ...], Field(max_length=200)] = ()
    """Command line; empty for the image's own. The artifact lies below /models."""
    environment: dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")], Annotated[str, Field(max_length=4096)]] = Field(
        default=_NO_ENV, max_length=100
    )
    """Environment variables. A variable whose name looks like a secret is refused."""
    protocol: Literal["http", "grpc"]
    """What it speaks on `port`; `grpc` is the Open Inference Protocol over gRPC, as golden requests are asked by it."""
    port: Annotated[Count, Field(ge=1024, le=65_535)]
    """The port that takes requests. Let its idle connections live longer than an hour: a request that meets their closing is lost."""
    health: Annotated[str, Field(pattern=r"^/[A-Za-z0-9._/-]{0,127}$")] = "/health"
    """HTTP path that answers 2xx when the server can take requests; not for `grpc`."""
    predict: Annotated[str, Field(pattern=r"^/[A-Za-z0-9._/-]{0,127}$")] = "/predict"
    """HTTP path that takes requests; golden ones are sent there. Not for `grpc`."""
    metrics: Metrics
    """Its metrics page; scaling and release gates have no other source inside the server."""
    working_memory: Annotated[Bytes, between(Bytes(0), Bytes(2**40))]
    """GPU memory beside the weights, measured at the largest request."""

    def violations(self) -> Iterator[Problem]:
        for name in sorted(self.environment):
            if names_a_secret(name):
                yield problem(
                    "no-secret-in-environment",
                    "environment",
                    name,
                    fact=f"the variable {name} looks like a secret",
                    consequence="Many people read contracts, and they are kept for ever; a secret in one is no longer secret",
                    remedy="Use the workload identity; if the value is not a secret, give the variable another name",
                )
            elif found := secret_in(self.environment[name]):
                yield _told("environment", name, fact=f"the value of {name} has {found} in it")
            elif name.startswith(_DEVICES):
                yield problem(
                    "devices-by-the-plugin",
                    "environment",
                    name,
                    value=self.environment[name],
                    fact=f"the variable {name} names the GPUs of the container",
                    consequence="It would win over what the device plugin gives, so the cluster refuses every such pod",
                    remedy="Leave it out: envelope.gpu says which GPUs the container gets",
                )
        flags = dict(secret_flags(self.command))
        for number, word in enumerate(self.command):
            if number in flags:
                yield _told("command", number, fact=f"{flags[number]} gives a secret in clear")
            elif found := secret_in(word):
                yield _told("command", number, fact=f"the command line has {found} in it")
        for path, port in ((("port",), self.port), (("metrics", "port"), self.metrics.port)):
            if port in PROXY_PORTS:
                yield problem(
                    "port-is-not-the-proxys",
                    *path,
                    value=port,
                    fact=f"port {port} is one of those of the mesh's proxy ({PROXY_PORTS.start} to {PROXY_PORTS.stop - 1})",
                    consequence="The server and its proxy could not both listen, or requests would get past the proxy",
                    remedy="Use another port, such as 8000",
                )


def _told(*path: str | int, fact: str) -> Problem:
    return problem(
        "no-secret-in-contract",
        *path,
        fact=fact,
        consequence="Many people read contracts, and they are kept for ever; a secret in one is no longer secret",
        remedy="Use the workload identity, or let the server read the secret from a store that only it may read",
    )


Runtime = Annotated[Triton | Vllm | Container, Field(discriminator="engine")]
