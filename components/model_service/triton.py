"""Triton: the model configuration and the command line that a contract means.

Written out in full, with completion by the server turned off: what is served is what was reviewed. The trap:
`version_policy: latest`, the default, would serve another version than the contract's as soon as the repository
holds two; the contract's version is named. Source of fields: triton-inference-server/common,
protobuf/model_config.proto; of flags: server, src/command_line_parser.cc, from 25.06 (`OLDEST_RELEASE`) to 26.07.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headway.contract.batching import DynamicBatching
from headway.contract.model import Model
from headway.contract.runtime import Backend, DataType, Tensor, Triton, TritonModel

HTTP_PORT, GRPC_PORT, METRICS_PORT = 8000, 8001, 8002
REPOSITORY = "/models"
HEADER_BYTES = 64 * 1024
"""The JSON before the binary tensors of a request."""
CONNECTION_AGE_MS = 300_000
"""gRPC clients reconnect every five minutes, so that new replicas get their share and old ones drain
(istio/istio#57357).
"""

_BACKENDS: Mapping[Backend, Mapping[str, str]] = {
    Backend.ONNXRUNTIME: {"backend": "onnxruntime", "platform": "onnxruntime_onnx"},
    Backend.PYTHON: {"backend": "python"},
    Backend.PYTORCH: {"backend": "pytorch", "platform": "pytorch_libtorch"},
    Backend.TENSORFLOW: {"backend": "tensorflow", "platform": "tensorflow_savedmodel"},
    Backend.TENSORRT: {"backend": "tensorrt", "platform": "tensorrt_plan"},
    Backend.XGBOOST: {"backend": "fil"},
}

Message = Mapping[str, Any]
"""A protobuf message as field name to value: str, bool, int, `Enum`, a message, or a list of these."""


class Enum(str):
    """A protobuf enum value: written without quotes."""

    __slots__ = ()


def config_pbtxt(model: Model, served: TritonModel) -> str:
    """`config.pbtxt` of one model of the server."""
    return "\n".join(_text(_configuration(model, served), 0)) + "\n"


def _configuration(model: Model, served: TritonModel) -> Message:
    configuration: dict[str, Any] = {
        "name": served.name,
        **_BACKENDS[served.backend],
        "max_batch_size": served.max_batch,
        "input": [_tensor(tensor) for tensor in served.inputs],
        "output": [_tensor(tensor) for tensor in served.outputs],
        "instance_group": [{"count": served.instances, "kind": Enum("KIND_GPU")}],
        "version_policy": {"specific": {"versions": [served.version]}},
    }
    if isinstance(model.batching, DynamicBatching):
        configuration["dynamic_batching"] = _dynamic_batching(model.batching)
    if model.optimisation.tensorrt:
        precision = {"key": "precision_mode", "value": model.optimisation.tensorrt}
        accelerator = {"name": "tensorrt", "parameters": [precision]}
        configuration["optimization"] = {"execution_accelerators": {"gpu_execution_accelerator": [accelerator]}}
    checksums = _checksums(model, served)
    if checksums:
        configuration["model_repository_agents"] = {"agents": [{"name": "checksum", "parameters": checksums}]}
    if served.backend is Backend.XGBOOST:
        configuration["parameters"] = [{"key": "model_type", "value": {"string_value": "xgboost_json"}}]
    return configuration


def _checksums(model: Model, served: TritonModel) -> list[Message]:
    """What Triton's checksum agent compares at every load: it knows MD5 only, and paths from the model's own folder.

    The fetching init container has proved SHA-256 before; this also catches what changes on the node later.
    Source: triton-inference-server/checksum_repository_agent, src/checksum.cc.
    """
    folder = f"{served.name}/"
    files = sorted((file.path, file.md5) for file in model.artifact.files if file.md5 and file.path.startswith(folder))
    return [{"key": f"MD5:{path.removeprefix(folder)}", "value": md5} for path, md5 in files]


def _tensor(tensor: Tensor) -> Message:
    kind = "STRING" if tensor.data_type is DataType.BYTES else tensor.data_type.value
    return {"name": tensor.name, "data_type": Enum(f"TYPE_{kind}"), "dims": list(tensor.shape)}


def _dynamic_batching(batching: DynamicBatching) -> Message:
    """A full queue answers 503 by the server itself, which a proxy may retry elsewhere; priorities are the gateway's
    business.
    """
    return {
        "preferred_batch_size": list(batching.preferred),
        "max_queue_delay_microseconds": int(batching.max_delay),
        "default_queue_policy": {
            "timeout_action": Enum("REJECT"),
            "default_timeout_microseconds": int(batching.queue_timeout),
            "allow_timeout_override": False,
            "max_queue_size": batching.max_queue,
        },
    }


def _text(message: Message, depth: int) -> Iterator[str]:
    """Protobuf text format, one field a line; lists of scalars as `[a, b]`, repeated messages one after the other."""
    pad = "  " * depth
    for key, value in message.items():
        items = list[Any](value) if isinstance(value, list) else [value]
        if items and isinstance(items[0], Mapping):
            for item in items:
                yield f"{pad}{key} {{"
                yield from _text(item, depth + 1)
                yield f"{pad}}}"
        elif isinstance(value, list):
            if items:
                yield f"{pad}{key}: [{', '.join(map(_scalar, items))}]"
        else:
            yield f"{pad}{key}: {_scalar(value)}"


def _scalar(value: Any) -> str:
    if isinstance(value, Enum):
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value) if isinstance(value, str) else str(value)


def arguments(model: Model, runtime: Triton, exit_seconds: int) -> Sequence[str]:
    """The command line. GPU metrics are left to DCGM. A client's shared memory would cross the boundary between
    containers: the mesh refuses its paths, and from 26.04 on the server takes none unless told to
    (triton-inference-server/server#8721; an older one ends at the flag).

    The largest batch, which warm-up sends as one request, may exceed the largest body of a caller; callers' bodies
    are limited by the proxy in front of the server.
    """
    batch = max(sum(tensor["bytes"] for tensor in zeros(served)) for served in runtime.models) + HEADER_BYTES
    return (
        "tritonserver",
        f"--model-repository={REPOSITORY}",
        "--model-control-mode=explicit",
        *(f"--load-model={served.name}" for served in runtime.models),
        "--strict-readiness=true",
        "--exit-on-error=true",
        f"--exit-timeout-secs={exit_seconds}",
        "--disable-auto-complete-config",
        f"--http-port={HTTP_PORT}",
        f"--grpc-port={GRPC_PORT}",
        f"--metrics-port={METRICS_PORT}",
        "--allow-gpu-metrics=false",
        "--metrics-config=counter_latencies=true",
        "--metrics-config=summary_latencies=true",
        f"--http-max-input-size={max(int(model.envelope.largest_request.body), batch)}",
        f"--grpc-max-connection-age={CONNECTION_AGE_MS}",
        "--log-verbose=0",
    )


def zeros(served: TritonModel) -> list[dict[str, Any]]:
    """The largest request as tensors of zeros: every dimension and the batch at their maximum. A string of length 0
    takes four bytes.
    """
    batch = (served.max_batch,) if served.max_batch else ()
    inputs: list[dict[str, Any]] = []
    for tensor in served.inputs:
        shape = [*batch, *tensor.largest_shape]
        elements = 1
        for dimension in shape:
            elements *= dimension
        width = 4 if tensor.data_type is DataType.BYTES else tensor.data_type.width
        inputs.append({"name": tensor.name, "shape": shape, "datatype": tensor.data_type.value, "bytes": elements * width})
    return inputs


def infer_path(served: TritonModel) -> str:
    return f"/v2/models/{served.name}/versions/{served.version}/infer"


def ready_path(served: TritonModel) -> str:
    return f"/v2/models/{served.name}/versions/{served.version}/ready"
