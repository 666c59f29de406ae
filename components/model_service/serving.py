"""What a runtime needs to serve a release: command line, ports, rendered files, and how it is asked for answers.

One value for all three runtimes; the pod, its probes and its routes are built from it and know no runtime by name.
The trap: a port's name begins with its protocol, because the mesh goes by that and would treat anything else as
opaque TCP.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from components.model_service import triton, vllm
from headway.contract.batching import ContinuousBatching
from headway.contract.health import Golden
from headway.contract.model import Model
from headway.contract.runtime import Backend, Container, Triton, Vllm
from headway.wire import RELAY_PORT

LOOPBACK = "http://127.0.0.1"
MODELS = "/models"
"""Where the artifact lies in every container."""

HTTP, GRPC, METRICS = "http", "grpc", "http-metrics"
"""Port names: the mesh reads the protocol from the part before the hyphen."""

KEEP_ALIVE_SECONDS = 3900
"""Longer than the hour after which a replica's proxy lets go of a connection that nothing uses. vLLM's own is five seconds, and no
retry covers a request that meets the closing: 19 of 1,800 were lost where requests came just as often.
"""


@dataclass(frozen=True, kw_only=True)
class Asks:
    """Where a request of any kind is sent, by what it is: `by_model` where it names a model, `by_key` where its body
    holds a key.
    """

    path: str
    by_model: Mapping[str, str] = field(default_factory=dict[str, str])
    by_key: Mapping[str, str] = field(default_factory=dict[str, str])
    defaults: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What a body holds unless it says otherwise."""


@dataclass(frozen=True, kw_only=True)
class Serving:
    """How one release is served. Ports are numbers by name; `files` are rendered texts by name, `places` where each
    must lie.
    """

    command: tuple[str, ...]
    environment: Mapping[str, str]
    ports: Mapping[str, int]
    metrics_path: str
    relayed: str | None
    """Address of the server's own metrics page, where it shares a port with requests: a sidecar then serves it on
    the metrics port.
    """
    base: str
    """Where the server is asked for answers from inside its pod."""
    ready: tuple[str, ...]
    """Paths that answer 2xx once a model is loaded; necessary, never sufficient."""
    warmup: tuple[Mapping[str, Any], ...]
    """The largest request of each model, in the words of the probe script."""
    golden: tuple[Mapping[str, Any], ...]
    asks: Asks
    progress: tuple[str, ...]
    """Counters of finished work on the metrics page; empty where the runtime has none that are known."""
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    places: Mapping[str, str] = field(default_factory=dict[str, str])
    bound: bool = False
    """The server computes in processes of its own, and ends with the first of them (`scripts/fate.py`)."""
    asks_by_grpc: bool = False
    """The server speaks gRPC only: questions are put by the Open Inference Protocol, by a script of its own."""

    @property
    def metrics_url(self) -> str:
        """The server's own metrics page, from inside its pod."""
        return self.relayed or f"{LOOPBACK}:{self.ports[METRICS]}{self.metrics_path}"


def serving(model: Model, exit_seconds: int) -> Serving:
    """How the model's runtime serves it, given `exit_seconds` to finish running requests after SIGTERM."""
    match model.runtime:
        case Triton() as runtime:
            return _triton(model, runtime, exit_seconds)
        case Vllm() as runtime:
            return _vllm(model, runtime, exit_seconds)
        case Container() as runtime:
            return _container(model, runtime)


def _triton(model: Model, runtime: Triton, exit_seconds: int) -> Serving:
    by_name = {served.name: served for served in runtime.models}
    return Serving(
        command=tuple(triton.arguments(model, runtime, exit_seconds)),
        environment={},
        ports={HTTP: triton.HTTP_PORT, GRPC: triton.GRPC_PORT, METRICS: triton.METRICS_PORT},
        metrics_path="/metrics",
        relayed=None,
        base=f"{LOOPBACK}:{triton.HTTP_PORT}",
        ready=tuple(triton.ready_path(served) for served in runtime.models),
        warmup=tuple(
            {"name": served.name, "request": {"path": triton.infer_path(served), "zeros": triton.zeros(served)}}
            for served in runtime.models
        ),
        golden=tuple(_golden(golden, triton.infer_path(by_name[golden.model or runtime.models[0].name])) for golden in model.health.golden),
        asks=Asks(
            path=triton.infer_path(runtime.models[0]), by_model={served.name: triton.infer_path(served) for served in runtime.models}
        ),
        progress=("nv_inference_count",),
        files={f"{served.name}.pbtxt": triton.config_pbtxt(model, served) for served in runtime.models},
        places={f"{served.name}.pbtxt": f"{MODELS}/{served.name}/config.pbtxt" for served in runtime.models},
        bound=any(each.backend is Backend.PYTHON for each in runtime.models),
    )


def _vllm(model: Model, runtime: Vllm, exit_seconds: int) -> Serving:
    largest = model.envelope.largest_request
    prompt = (largest.context_tokens or 0) - (largest.output_tokens or 0)
    batching = model.batching
    assert isinstance(batching, ContinuousBatching)  # noqa: S101  the contract has refused any other for this runtime
    body = {"model": model.name, "max_tokens": largest.output_tokens, "ignore_eos": True, "temperature": 0}
    return Serving(
        command=tuple(vllm.arguments(model, runtime, exit_seconds)),
        environment={
            "HF_HUB_OFFLINE": "1",
            "HOME": "/tmp",  # noqa: S108  the pod's scratch volume; the root file system is read-only
            # The image knows no user of the pod's number, and PyTorch's compiler asks for a name.
            "LOGNAME": "model",
            "VLLM_HTTP_TIMEOUT_KEEP_ALIVE": str(KEEP_ALIVE_SECONDS),
            # Answers that one request may ask for (`n`); by default 16,384, which are charged when all are written.
            "VLLM_MAX_N_SEQUENCES": str(batching.max_sequences),
            "VLLM_NO_USAGE_STATS": "1",
        },
        ports={HTTP: vllm.PORT, METRICS: RELAY_PORT},
        metrics_path="/metrics",
        relayed=f"{LOOPBACK}:{vllm.PORT}/metrics",
        base=f"{LOOPBACK}:{vllm.PORT}",
        ready=("/v1/models",),
        warmup=({"name": model.name, "request": {"path": "/v1/completions", "body": body, "tokens": prompt}},),
        golden=tuple(
            _golden(golden, vllm.golden_path(golden.request), {"model": golden.model or model.name}) for golden in model.health.golden
        ),
        asks=Asks(path=vllm.COMPLETIONS, by_key=vllm.PATH_BY_KEY, defaults={"model": model.name}),
        progress=("vllm:generation_tokens_total", "vllm:prompt_tokens_total"),
    )


def _container(model: Model, runtime: Container) -> Serving:
    """A container's largest request is not declared, so its warm-up repeats the first golden request."""
    by_grpc = runtime.protocol == "grpc"
    golden = tuple(_golden(golden, runtime.predict) | ({"model": model.name} if by_grpc else {}) for golden in model.health.golden)
    shared = runtime.metrics.port == runtime.port
    relay = RELAY_PORT if runtime.port != RELAY_PORT else RELAY_PORT + 1
    first = {key: value for key, value in golden[0].items() if key in ("path", "body", "file", "model")}
    return Serving(
        command=tuple(runtime.command),
        environment=dict(sorted(runtime.environment.items())),
        ports={runtime.protocol: runtime.port, METRICS: relay if shared else runtime.metrics.port},
        metrics_path=runtime.metrics.path,
        relayed=f"{LOOPBACK}:{runtime.port}{runtime.metrics.path}" if shared else None,
        base=f"grpc://127.0.0.1:{runtime.port}" if by_grpc else f"{LOOPBACK}:{runtime.port}",
        ready=() if by_grpc else (runtime.health,),
        warmup=({"name": model.name, "request": first},),
        golden=golden,
        asks=Asks(path=runtime.predict),
        progress=(),
        asks_by_grpc=by_grpc,
    )


def _golden(golden: Golden, path: str, defaults: Mapping[str, Any] | None = None) -> dict[str, Any]:
    body = {"file": f"{MODELS}/{golden.file}"} if golden.file else {"body": {**(defaults or {}), **(golden.request or {})}}
    return {
        "name": golden.name,
        "path": path,
        **body,
        "answer": golden.answer,
        "expect": golden.expect.model_dump(mode="json"),
    }
