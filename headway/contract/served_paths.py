"""Paths of model servers, by HTTP and by gRPC: which callers may ask, and which nobody may from outside the pod. Pure.

Written as Istio matches paths: exactly, `x*` by how it begins, `{*}` for one part between slashes.
"""

from collections.abc import Iterable

from headway.contract.runtime import Container, Engine, Runtime

_GRPC = "/inference.GRPCInferenceService/"

OPEN = {
    Engine.TRITON: (
        "/v2",
        "/v2/health/live",
        "/v2/health/ready",
        "/v2/models/{*}",
        "/v2/models/{*}/config",
        "/v2/models/{*}/generate",
        "/v2/models/{*}/generate_stream",
        "/v2/models/{*}/infer",
        "/v2/models/{*}/ready",
        "/v2/models/{*}/stats",
        "/v2/models/{*}/versions/{*}",
        "/v2/models/{*}/versions/{*}/config",
        "/v2/models/{*}/versions/{*}/generate",
        "/v2/models/{*}/versions/{*}/generate_stream",
        "/v2/models/{*}/versions/{*}/infer",
        "/v2/models/{*}/versions/{*}/ready",
        "/v2/models/{*}/versions/{*}/stats",
        "/grpc.health.v1.Health/Check",
        f"{_GRPC}ModelConfig",
        f"{_GRPC}ModelInfer",
        f"{_GRPC}ModelMetadata",
        f"{_GRPC}ModelReady",
        f"{_GRPC}ModelStatistics",
        f"{_GRPC}ServerLive",
        f"{_GRPC}ServerMetadata",
        f"{_GRPC}ServerReady",
    ),
    Engine.VLLM: (
        "/health",
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/embeddings",
        "/v1/messages",
        "/v1/messages/count_tokens",
        "/v1/models",
        "/v1/responses",
        "/detokenize",
        "/tokenize",
    ),
}
"""What asks a model, and of it. Left out, beside administration: vLLM's figures of everybody's requests (`/metrics`, `/load`), streams of
which neither proxy nor limit sees the end (`ModelStreamInfer`, `/v1/realtime`), answers kept for others (`/v1/responses/{id}`), and ways to
ask that no golden request can try or that say no tokens (`/inference/v1/generate`, `/invocations`, scoring).

Sources: Triton's http_server.cc (its regular expressions) and grpc_service.proto; the routers below vllm/entrypoints of vLLM 0.33.
"""

CLOSED = (
    "/v2/repository",
    "/v2/repository/*",
    "/v2/logging*",
    "/v2/trace/setting*",
    "/v2/models/{*}/trace/setting",
    "/v2/models/{*}/versions/{*}/trace/setting",
    "/v2/systemsharedmemory*",
    "/v2/cudasharedmemory*",
    f"{_GRPC}CudaSharedMemory*",
    f"{_GRPC}LogSettings",
    f"{_GRPC}ModelStreamInfer",
    f"{_GRPC}Repository*",
    f"{_GRPC}SystemSharedMemory*",
    f"{_GRPC}TraceSetting",
    "/v1/load_lora_adapter",
    "/v1/unload_lora_adapter",
    "/abort_requests",
    "/collective_rpc",
    "/fault_tolerance/*",
    "/finish_weight_update",
    "/inference/*",
    "/init_weight_transfer_engine",
    "/metrics",
    "/pause",
    "/release_kv_cache_memory",
    "/reset_encoder_cache",
    "/reset_mm_cache",
    "/reset_prefix_cache",
    "/resume",
    "/scale_elastic_ep",
    "/server_info",
    "/shutdown_weight_transfer_engine",
    "/sleep",
    "/start_draft_weight_update",
    "/start_profile",
    "/start_weight_update",
    "/stop_profile",
    "/update_weight*",
    "/wake_up",
    "/weight_checker",
)
"""What changes a server instead of asking it, or hangs a proxy, where a container of one's own may hold any server and what asks it is not
known. Scrapers read another port, past the mesh.
"""


def open_paths(runtimes: Iterable[Runtime]) -> tuple[str, ...] | None:
    """All that may be asked of servers of these kinds; None where that is not known, because one is a container of one's own."""
    found = list(runtimes)
    if not found or any(isinstance(each, Container) for each in found):
        return None
    return tuple(path for engine, paths in OPEN.items() if any(each.engine is engine for each in found) for path in paths)


def closed_by(path: str) -> str | None:
    """What of `CLOSED` a path is refused by."""
    return next((pattern for pattern in CLOSED if _matches(pattern, path)), None)


def _matches(pattern: str, path: str) -> bool:
    if pattern.endswith("*"):
        return path.startswith(pattern[:-1])
    parts, wanted = path.split("/"), pattern.split("/")
    return len(parts) == len(wanted) and all(want in ("{*}", part) for want, part in zip(wanted, parts, strict=True))
