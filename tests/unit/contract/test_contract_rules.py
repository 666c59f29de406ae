"""Every rule of a single contract: the happy path is accepted, and one change is refused by that rule, at that path, with a remedy.

The last test walks the source for rules, so that none stays without its change.
"""

import os
import re
from pathlib import Path
from typing import Any

import pytest

from headway.contract.model import Model
from headway.contract.part import Part
from headway.contract.pool import Pool, SystemPool
from headway.contract.tenant import Tenant
from headway.problem import dotted
from tests.contract_samples import (
    ADAPTED,
    ASSIST,
    CHAT,
    CUSTOM,
    DEFECTS,
    EMBEDDINGS,
    GONE,
    H100_POOL,
    L4_POOL,
    MIG_POOL,
    PREFILL,
    SPANNING,
    VISION,
    changed,
    findings,
)

SYSTEM_POOL: dict[str, Any] = {
    "name": "system",
    "instance_types": ["m7i.xlarge"],
    "zones": ["us-west-2a"],
    "size": {"min": 3, "max": 6},
    "release": "1.36.2-20260714",
}
SPLIT = {"share": "20%", "duration": "14d", "user_claim": "sub", "experiment": "tone"}
FILE = {"path": "x/1/model.onnx", "sha256": "ab" * 32, "size": "1B"}
COPIED = changed(DEFECTS, {"rollout/mirror": {"share": "100%", "differ": "5%"}, "data/log_fields": ["response.outputs"]})
DRIFTING = changed(
    DEFECTS,
    {
        "drift": {
            "numbers": [
                {"name": "words", "of": "request", "at": "/inputs/0/data", "take": "length"},
                {"name": "label", "of": "response", "at": "/outputs/0/data", "take": "place"},
            ]
        },
        "data/log_fields": ["request.inputs", "response.outputs"],
    },
)
ADAPTED_CHAT = changed(CHAT, ADAPTED)
APART = changed(CHAT, {"prefill": PREFILL})
OVER_NODES = changed(CHAT, SPANNING)
COPIED_CHAT = changed(CHAT, {"rollout/mirror": {"share": "10%"}})
ABSOLUTE = changed(DEFECTS, {"artifact/uri": "s3://models/vision/defects/2026.11.2/"})
BATCH = {
    "max_replicas": 1,
    "messages_per_replica": 10,
    "deadline": "1h",
    "message_timeout": "1m",
    "store": "s3://example-batch/vision/defects/",
}
TENSOR = "runtime/models/0/inputs/0"

# rule, happy path, change, path of the finding
GRPC = changed(
    CUSTOM,
    {
        "runtime/protocol": "grpc",
        "runtime/metrics/port": 9999,
        "runtime/health": GONE,
        "runtime/predict": GONE,
        "health/golden/0/request": {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [[1, 2.5]]}]},
    },
)
REFUSALS = Path(__file__).with_name("refusals.txt")
PRIVATE = "-----BEGIN RSA PRIVATE KEY-----"

MODEL_RULES: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("artifact-file-listed-once", DEFECTS, {"artifact/files/3": {**FILE, "path": "golden/clean.json"}}, "artifact.files"),
    (
        "configuration-fits",
        EMBEDDINGS,
        {"health/golden/0/expect": {"compare": "cosine", "value": [0.0123456789] * 50_000, "at_least": 0.99}},
        "health.golden",
    ),
    ("artifact-not-empty", CUSTOM, {"artifact/files/0/size": "0B"}, "artifact.files"),
    ("message-timeout-within-deadline", DEFECTS, {"batch": {**BATCH, "message_timeout": "2h"}}, "batch.message_timeout"),
    (
        "batch-writes-beside-the-artifact",
        changed(DEFECTS, {"batch": {**BATCH, "store": "s3://models/vision/"}}),
        {"artifact/uri": "s3://models/vision/answers/1/"},
        "batch.store",
    ),
    ("batch-writes-beside-the-artifact", ABSOLUTE, {"batch": {**BATCH, "store": ABSOLUTE["artifact"]["uri"] + "batch/"}}, "batch.store"),
    ("predict-is-open", CUSTOM, {"runtime/predict": "/metrics"}, "runtime.predict"),
    ("predict-is-open", CUSTOM, {"runtime/predict": "/v2/models/a/trace/setting"}, "runtime.predict"),
    ("predict-is-open", CUSTOM, {"runtime/predict": "/inference/v1/generate"}, "runtime.predict"),
    ("grpc-has-no-paths", GRPC, {"runtime/predict": "/other"}, "runtime.predict"),
    ("grpc-has-no-paths", GRPC, {"runtime/health": "/other"}, "runtime.health"),
    ("grpc-golden-is-an-inference-request", GRPC, {"health/golden/0/request": {"x": 1}}, "health.golden[0].request.inputs"),
    ("grpc-golden-is-an-inference-request", GRPC, {"health/golden/0/request/inputs/0": 3}, "health.golden[0].request.inputs[0]"),
    ("grpc-golden-is-an-inference-request", GRPC, {"health/golden/0/request/inputs/0/name": 3}, "health.golden[0].request.inputs[0].name"),
    (
        "grpc-golden-is-an-inference-request",
        GRPC,
        {"health/golden/0/request/inputs/0/datatype": "FP16"},
        "health.golden[0].request.inputs[0].datatype",
    ),
    (
        "grpc-golden-is-an-inference-request",
        GRPC,
        {"health/golden/0/request/inputs/0/shape": [-1]},
        "health.golden[0].request.inputs[0].shape",
    ),
    (
        "grpc-golden-is-an-inference-request",
        GRPC,
        {"health/golden/0/request/inputs/0/data": [1]},
        "health.golden[0].request.inputs[0].data",
    ),
    (
        "grpc-golden-is-an-inference-request",
        GRPC,
        {"health/golden/0/request/inputs/0/data": ["1", 2]},
        "health.golden[0].request.inputs[0].data",
    ),
    ("batch-is-asked-by-http", CUSTOM, {"runtime/protocol": "grpc", "runtime/metrics/port": 9999, "batch": BATCH}, "batch"),
    ("bucket-without-dots", DEFECTS, {"artifact/uri": "s3://models.example/vision/defects/1/"}, "artifact.uri"),
    ("bucket-without-dots", DEFECTS, {"batch": {**BATCH, "store": "s3://batch.example/vision/defects/"}}, "batch.store"),
    ("bucket-without-dots", EMBEDDINGS, {"evaluation/holdout/uri": "s3://sets.example/vision/1/"}, "evaluation.holdout.uri"),
    ("artifact-immutable", DEFECTS, {"artifact/uri": "s3://example-models/vision/defects/latest/"}, "artifact.uri"),
    ("artifact-holds-the-model", DEFECTS, {"runtime/models/0/version": 2}, "runtime.models[0]"),
    ("md5-is-for-models-of-triton", DEFECTS, {"artifact/files/1/md5": "c" * 32}, "artifact.files[1].md5"),
    ("md5-is-for-models-of-triton", CHAT, {"artifact/files/0/md5": "c" * 32}, "artifact.files[0].md5"),
    ("artifact-holds-the-model", CHAT, {"artifact/files/0/path": "other.json"}, "artifact.files"),
    ("artifact-holds-the-golden-request", DEFECTS, {"health/golden/0/file": "golden/gone.json"}, "health.golden[0].file"),
    (
        "artifact-holds-the-draft-model",
        CHAT,
        {"optimisation/speculation": {"method": "draft", "tokens": 4, "folder": "draft/"}},
        "optimisation.speculation.folder",
    ),
    (
        "speculation-needs-its-model",
        CHAT,
        {"optimisation/speculation": {"method": "eagle", "tokens": 4}},
        "optimisation.speculation.folder",
    ),
    ("speculation-needs-its-model", CHAT, {"optimisation/speculation/folder": "draft/"}, "optimisation.speculation.folder"),
    ("gpu-memory-exists", DEFECTS, {"envelope/gpu/memory": "24Gi"}, "envelope.gpu.memory"),
    ("gpu-memory-exists", EMBEDDINGS, {"envelope/gpu/memory": "10Gi"}, "envelope.gpu.memory"),
    ("gpu-count-power-of-two", CHAT, {"envelope/gpu/count": 3}, "envelope.gpu.count"),
    ("mig-profile-exists", EMBEDDINGS, {"envelope/gpu/profile": "2g.10gb"}, "envelope.gpu.profile"),
    ("mig-profile-exists", EMBEDDINGS, {"envelope/gpu/accelerator": "l4"}, "envelope.gpu.accelerator"),
    ("shared-memory-within-ram", DEFECTS, {"envelope/shared_memory": "6Gi"}, "envelope.shared_memory"),
    ("triton-knows-its-flags", DEFECTS, {"runtime/image": f"nvcr.io/nvidia/tritonserver:25.05-py3@sha256:{'0' * 64}"}, "runtime.image"),
    ("vllm-knows-its-flags", CHAT, {"runtime/image": f"a.example/vllm/vllm-openai:v0.17.1@sha256:{'0' * 64}"}, "runtime.image"),
    ("backend-is-in-the-image", DEFECTS, {"runtime/models/0/backend": "tensorflow"}, "runtime.models[0].backend"),
    (
        "shared-memory-is-the-daemons-under-mps",
        DEFECTS,
        {"envelope/gpu/share": "mps", "envelope/gpu/memory": "5Gi", "placement/isolation": "shared"},
        "envelope.shared_memory",
    ),
    (
        "tensor-dimension-not-zero",
        DEFECTS,
        {f"{TENSOR}/shape": [3, 0, 512], f"{TENSOR}/max_shape": GONE},
        "runtime.models[0].inputs[0].shape",
    ),
    ("tensor-declares-its-maximum", DEFECTS, {f"{TENSOR}/max_shape": GONE}, "runtime.models[0].inputs[0].max_shape"),
    ("tensor-maximum-matches-shape", DEFECTS, {f"{TENSOR}/max_shape": [4, 512, 512]}, "runtime.models[0].inputs[0].max_shape"),
    ("tensor-maximum-matches-shape", DEFECTS, {f"{TENSOR}/max_shape": [3, 512]}, "runtime.models[0].inputs[0].max_shape"),
    (
        "tensor-named-once",
        DEFECTS,
        {"runtime/models/0/outputs/1": {"name": "scores", "data_type": "FP32", "shape": [1]}},
        "runtime.models[0].outputs",
    ),
    ("activations-hold-the-tensors", DEFECTS, {"runtime/models/0/activations": "40Mi"}, "runtime.models[0].activations"),
    ("triton-model-named-once", EMBEDDINGS, {"runtime/models/1/name": "image-encoder"}, "runtime.models"),
    (
        "windowed-layers-are-layers",
        CHAT,
        {"runtime/architecture/sliding_window": {"tokens": 512, "layers": 33}},
        "runtime.architecture.sliding_window",
    ),
    ("kv-heads-divide-heads", CHAT, {"runtime/architecture/kv_heads": 7}, "runtime.architecture.kv_heads"),
    ("no-secret-in-environment", CUSTOM, {"runtime/environment": {"API_TOKEN": "x"}}, "runtime.environment.API_TOKEN"),
    ("no-secret-in-contract", CUSTOM, {"runtime/environment": {"DB": "postgres://me:hunter2@db/x"}}, "runtime.environment.DB"),
    ("no-secret-in-contract", CUSTOM, {"runtime/command": ["serve", "--api-key", "sk-1"]}, "runtime.command[2]"),
    (
        "no-secret-in-contract",
        CUSTOM,
        {"runtime/environment": {"AUTHORIZATION": "Bearer 0a1b2c3d4e5f"}},
        "runtime.environment.AUTHORIZATION",
    ),
    ("no-secret-in-contract", CUSTOM, {"runtime/environment": {"PEM": PRIVATE}}, "runtime.environment.PEM"),
    ("no-secret-in-contract", CUSTOM, {"runtime/environment": {"AT": "https://a.example/b?x=1&sig=0a1b2c"}}, "runtime.environment.AT"),
    ("objective-as-warmup-shows", DEFECTS, {"slo/1/threshold": "1ms", "health/warmup/p99": "45ms"}, "slo[1].threshold"),
    ("no-secret-in-contract", CUSTOM, {"runtime/environment": {"WHO": f"AKIA{'A' * 16}"}}, "runtime.environment.WHO"),
    ("no-secret-in-contract", CUSTOM, {"runtime/command": ["serve", "--header", "a: Bearer 0a1b2c3d"]}, "runtime.command[2]"),
    (
        "devices-by-the-plugin",
        CUSTOM,
        {"runtime/environment": {"NVIDIA_VISIBLE_DEVICES": "all"}},
        "runtime.environment.NVIDIA_VISIBLE_DEVICES",
    ),
    ("port-is-not-the-proxys", CUSTOM, {"runtime/port": 15000}, "runtime.port"),
    ("port-is-not-the-proxys", CUSTOM, {"runtime/metrics/port": 15099}, "runtime.metrics.port"),
    ("metrics-are-http", CUSTOM, {"runtime/protocol": "grpc"}, "runtime.metrics.port"),
    ("preferred-batches-ascend", DEFECTS, {"batching/preferred": [8, 4]}, "batching.preferred"),
    ("preferred-batch-within-maximum", DEFECTS, {"batching/preferred": [4, 32]}, "batching.preferred"),
    ("batching-fits-runtime", CHAT, {"batching": {"kind": "none", "max_concurrent": 4}}, "batching.kind"),
    ("batching-fits-runtime", CUSTOM, {"batching": DEFECTS["batching"]}, "batching.kind"),
    ("dynamic-batching-needs-a-batch", DEFECTS, {"runtime/models/0/max_batch": 0, "batching/preferred": []}, "batching.kind"),
    ("a-token-for-every-sequence", CHAT, {"batching/max_batched_tokens": 127}, "batching.max_batched_tokens"),
    ("language-model-has-token-limits", CHAT, {"envelope/largest_request/context_tokens": GONE}, "envelope.largest_request.context_tokens"),
    ("language-model-has-token-limits", CHAT, {"envelope/largest_request/output_tokens": GONE}, "envelope.largest_request.output_tokens"),
    ("token-limits-are-used", DEFECTS, {"envelope/largest_request/context_tokens": 10}, "envelope.largest_request.context_tokens"),
    ("token-capacity-of-language-models", CHAT, {"scaling/token_capacity": GONE}, "scaling.token_capacity"),
    ("token-capacity-of-language-models", DEFECTS, {"scaling/token_capacity": "5/s"}, "scaling.token_capacity"),
    ("room-for-a-prompt", CHAT, {"envelope/largest_request/output_tokens": 16384}, "envelope.largest_request.output_tokens"),
    ("isolation-is-real", DEFECTS, {"placement/isolation": "shared"}, "placement.isolation"),
    ("isolation-is-real", EMBEDDINGS, {"envelope/gpu": {"share": "whole", "accelerator": "l4", "memory": "8Gi"}}, "placement.isolation"),
    (
        "latency-is-never-time-sliced",
        DEFECTS,
        {"envelope/gpu/share": "slice", "placement/isolation": "shared"},
        "envelope.gpu.share",
    ),
    (
        "fp8-needs-its-hardware",
        CHAT,
        {"envelope/gpu/accelerator": "a100-80gb", "optimisation/kv_cache": "auto"},
        "optimisation.quantisation",
    ),
    (
        "fp8-needs-its-hardware",
        CHAT,
        {"envelope/gpu/accelerator": "a100-80gb", "optimisation/quantisation": "none"},
        "optimisation.kv_cache",
    ),
    (
        "heads-divide-over-gpus",
        CHAT,
        {"envelope/gpu/count": 8, "runtime/architecture/heads": 36, "runtime/architecture/kv_heads": 4},
        "envelope.gpu.count",
    ),
    ("optimisation-fits-runtime", DEFECTS, {"optimisation/kv_cache": "fp8"}, "optimisation.kv_cache"),
    ("optimisation-fits-runtime", DEFECTS, {"optimisation/quantisation": "fp8_on_load"}, "optimisation.quantisation"),
    ("optimisation-fits-runtime", CHAT, {"optimisation/tensorrt": "FP16"}, "optimisation.tensorrt"),
    ("runtime-has-the-signal", DEFECTS, {"scaling/triggers/0": {"signal": "kv_cache_use", "target": "80%"}}, "scaling.triggers[0].signal"),
    ("runtime-has-the-signal", CUSTOM, {"scaling/triggers/0": {"signal": "waiting", "target": 5}}, "scaling.triggers[0].signal"),
    ("runtime-has-the-signal", DEFECTS, {"slo/1/signal": "ttft"}, "slo[1].signal"),
    ("runtime-has-the-signal", CUSTOM, {"slo/1/signal": "queue_time"}, "slo[1].signal"),
    ("one-objective-a-signal", DEFECTS, {"slo/2": {"signal": "availability", "objective": "99%"}}, "slo[2]"),
    ("one-objective-a-signal", DEFECTS, {"slo/2": {"signal": "latency", "quantile": "99%", "threshold": "80ms"}}, "slo[2]"),
    ("objective-within-timeout", DEFECTS, {"slo/1/threshold": "3s"}, "slo[1].threshold"),
    ("golden-asks-a-model", EMBEDDINGS, {"health/golden/0/model": "other"}, "health.golden[0].model"),
    ("golden-asks-a-model", EMBEDDINGS, {"health/golden/0/model": GONE}, "health.golden[0].model"),
    ("golden-asks-a-model", CHAT, {"health/golden/0/model": "chat"}, "health.golden[0].model"),
    ("golden-asks-a-model", ADAPTED_CHAT, {"health/golden/2/model": "tine"}, "health.golden[2].model"),
    ("every-model-is-proved", ADAPTED_CHAT, {"health/golden/2/model": "terse"}, "health.golden"),
    ("adapter-named-once", ADAPTED_CHAT, {"runtime/adapters/1/name": "tone"}, "runtime.adapters"),
    ("adapter-is-another", ADAPTED_CHAT, {"runtime/adapters/1/name": "chat"}, "runtime.adapters[1].name"),
    ("adapters-have-a-size", ADAPTED_CHAT, {"runtime/architecture/intermediate": GONE}, "runtime.architecture.intermediate"),
    ("adapters-have-a-size", ADAPTED_CHAT, {"runtime/architecture/latent": 576}, "runtime.adapters"),
    ("artifact-holds-the-adapter", ADAPTED_CHAT, {"runtime/adapters/1/folder": "adapters/tine/"}, "runtime.adapters[1].folder"),
    ("every-model-is-proved", EMBEDDINGS, {"health/golden/1/model": "image-encoder"}, "health.golden"),
    ("replicas-in-order", APART, {"prefill/min_replicas": 3}, "prefill.max_replicas"),
    ("prefill-is-vllms", DEFECTS, {"prefill": PREFILL}, "prefill"),
    ("picker-is-for-vllm", DEFECTS, {"routing": "endpoint_picker"}, "routing"),
    ("picker-finds-prefixes", CHAT, {"routing": "endpoint_picker", "optimisation/prefix_caching": False}, "routing"),
    (
        "roles-on-whole-gpus",
        APART,
        {"envelope/gpu": {"share": "mig", "accelerator": "h100", "profile": "3g.40gb", "memory": "36Gi"}},
        "envelope.gpu.share",
    ),
    ("roles-attend-alike", APART, {"prefill/gpu": {"share": "whole", "accelerator": "l40s", "memory": "40Gi"}}, "prefill.gpu.accelerator"),
    ("roles-without-adapters", APART, ADAPTED, "runtime.adapters"),
    ("mean-prompt-within-context", APART, {"prefill/prompt_tokens": 16384}, "prefill.prompt_tokens"),
    ("kv-heads-reach-decode", APART, {"prefill/gpu/count": 4, "runtime/architecture/kv_heads": 2}, "prefill.gpu.count"),
    ("a-token-for-every-sequence", APART, {"prefill/batching/max_batched_tokens": 15}, "prefill.batching.max_batched_tokens"),
    (
        "heads-divide-over-gpus",
        APART,
        {"prefill/gpu/count": 8, "runtime/architecture/heads": 36, "runtime/architecture/kv_heads": 12},
        "prefill.gpu.count",
    ),
    ("shared-memory-within-ram", APART, {"prefill/shared_memory": "50Gi"}, "prefill.shared_memory"),
    ("pipeline-is-vllms", DEFECTS, {"pipeline": {"nodes": 2}}, "pipeline"),
    ("every-node-has-a-layer", OVER_NODES, {"runtime/architecture/layers": 1}, "pipeline.nodes"),
    (
        "pipeline-on-whole-gpus",
        OVER_NODES,
        {"envelope/gpu": {"share": "mig", "accelerator": "h100", "profile": "3g.40gb", "memory": "36Gi"}},
        "envelope.gpu.share",
    ),
    ("decode-stays-on-a-node", OVER_NODES, {"prefill": PREFILL}, "pipeline.nodes"),
    ("batch-stays-on-a-node", OVER_NODES, {"batch": {**BATCH, "store": "s3://example-batch/assist/chat/"}}, "batch"),
    ("copies-can-be-compared", COPIED, {"data/log_fields": ["request.inputs"]}, "data.log_fields"),
    ("copies-can-be-compared", COPIED, {"data/sample": "0%"}, "data.log_fields"),
    ("copies-can-be-compared", COPIED_CHAT, {"rollout/mirror/differ": "5%"}, "rollout.mirror.differ"),
    ("labelled-like-a-golden-request", EMBEDDINGS, {"evaluation/like": "other"}, "evaluation.like"),
    ("labelled-answer-is-an-output", EMBEDDINGS, {"evaluation/answer": "/outputs/1/data"}, "evaluation.answer"),
    ("labelled-answer-is-an-output", EMBEDDINGS, {"evaluation/answer": "/outputs/1"}, "evaluation.answer"),
    ("holdout-without-personal-data", EMBEDDINGS, {"data/classification": "personal"}, "evaluation.holdout"),
    ("holdout-immutable", EMBEDDINGS, {"evaluation/holdout/uri": "artifacts://vision/latest/"}, "evaluation.holdout.uri"),
    ("evaluation-is-paid-for", EMBEDDINGS, {"evaluation/every": "1m", "evaluation/requests": 205}, "evaluation.requests"),
    ("round-within-its-time", EMBEDDINGS, {"evaluation/every": "1m", "evaluation/requests": 76}, "evaluation.every"),
    ("slice-named-once", EMBEDDINGS, {"evaluation/slices/1": {"name": "part-numbers", "wrong": "5%"}}, "evaluation.slices"),
    ("slice-is-a-part", EMBEDDINGS, {"evaluation/slices/0/name": "all"}, "evaluation.slices"),
    ("watched-number-is-kept", DRIFTING, {"drift/numbers/0/at": "/parameters/x"}, "drift.numbers[0].at"),
    ("watched-number-is-kept", DRIFTING, {"data/sample": "0%"}, "drift.numbers[1].at"),
    ("samples-outlive-the-reference", DRIFTING, {"data/retention": "1d"}, "data.retention"),
    ("watched-number-named-once", DRIFTING, {"drift/numbers/1/name": "words"}, "drift.numbers"),
    ("reference-holds-the-rhythm", DRIFTING, {"drift/rhythm": "week"}, "drift.reference"),
    ("golden-named-once", DEFECTS, {"health/golden/1/name": "scratch"}, "health.golden"),
    ("golden-has-one-request", DEFECTS, {"health/golden/0/request": {}}, "health.golden[0].request"),
    ("golden-has-one-request", DEFECTS, {"health/golden/0/file": GONE}, "health.golden[0].request"),
    (
        "near-needs-a-tolerance",
        DEFECTS,
        {"health/golden/0/expect": {"compare": "near", "value": [1.0]}},
        "health.golden[0].expect.relative",
    ),
    ("liveness-timeout-within-interval", DEFECTS, {"health/liveness/timeout": "16s"}, "health.liveness.timeout"),
    ("startup-budget-holds-the-engine", DEFECTS, {"health/engine_start": "12m"}, "health.startup_budget"),
    ("drain-outlasts-a-request", DEFECTS, {"envelope/largest_request/timeout": "31s"}, "health.drain"),
    ("drain-outlasts-a-request", DEFECTS, {"envelope/largest_request/timeout": "20m"}, "health.drain"),
    ("replicas-in-order", DEFECTS, {"scaling/min_replicas": 7}, "scaling.max_replicas"),
    ("one-trigger-a-signal", DEFECTS, {"scaling/triggers/2": {"signal": "in_flight", "target": 3}}, "scaling.triggers"),
    ("activity-is-no-demand", DEFECTS, {"scaling/triggers": [{"signal": "gpu_activity", "target": "80%"}]}, "scaling.triggers"),
    ("target-within-capacity", EMBEDDINGS, {"scaling/triggers/1/target": "171/s"}, "scaling.triggers[1].target"),
    ("headroom-is-used", DEFECTS, {"scaling/policy": "target", "scaling/headroom": 3.0}, "scaling.headroom"),
    ("tolerances-in-order", DEFECTS, {"rollout/tolerances/latency": "25%"}, "rollout.tolerances.latency_unacceptable"),
    ("tolerances-in-order", DEFECTS, {"rollout/tolerances/error_floor": "0.5%"}, "rollout.tolerances.error_unacceptable"),
    ("weights-ascend", DEFECTS, {"rollout/weights": ["5%", "1%"]}, "rollout.weights"),
    ("canary-has-weights", DEFECTS, {"rollout/weights": []}, "rollout.weights"),
    ("weights-are-used", EMBEDDINGS, {"rollout/weights": ["5%"]}, "rollout.weights"),
    ("split-belongs-to-ab", DEFECTS, {"rollout/strategy": "ab"}, "rollout.split"),
    (
        "split-belongs-to-ab",
        DEFECTS,
        {"rollout/split": {"share": "50%", "duration": "7d", "user_claim": "sub", "experiment": "e1"}},
        "rollout.split",
    ),
    ("split-in-whole-percent", DEFECTS, {"rollout": {"strategy": "ab", "split": {**SPLIT, "share": "2.5%"}}}, "rollout.split.share"),
    (
        "experiment-is-ended-by-a-person",
        DEFECTS,
        {"rollout": {"strategy": "ab", "at_most": "30d", "split": SPLIT}},
        "rollout.at_most",
    ),
    ("rolling-has-no-arms", EMBEDDINGS, {"rollout/strategy": "rolling"}, "rollout.mirror"),
    ("step-times-in-order", DEFECTS, {"rollout/step_at_least": "31m"}, "rollout.step_at_most"),
    ("trade-widens-the-tolerance", DEFECTS, {"rollout/trade": {"gain": "2%", "latency": "10%"}}, "rollout.trade.latency"),
    ("rollout-outlasts-a-step", CHAT, {"rollout/at_most": "59m"}, "rollout.at_most"),
    ("class-named-once", DEFECTS, {"rollout/classes/1/name": "small"}, "rollout.classes"),
    ("classes-cover-all-sizes", DEFECTS, {"rollout/classes/1/body_up_to": "2Mi"}, "rollout.classes"),
    ("class-is-reachable", DEFECTS, {"rollout/classes/0/body_up_to": "8Mi"}, "rollout.classes[0].body_up_to"),
    (
        "one-rung-a-priority",
        DEFECTS,
        {"degradation/fallback": {"model": "embeddings", "priorities": ["low"]}},
        "degradation.fallback.priorities",
    ),
    ("high-priority-is-kept", DEFECTS, {"degradation/reject": ["high"]}, "degradation.reject"),
    ("retry-after-in-seconds", DEFECTS, {"degradation/retry_after": "1500ms"}, "degradation.retry_after"),
    (
        "fallback-is-another",
        DEFECTS,
        {"degradation/fallback": {"model": "defects", "priorities": ["normal"]}},
        "degradation.fallback.model",
    ),
    ("model-name-is-free", CHAT, {"name": "chat-shadow"}, "name"),
    ("personal-data-is-not-logged", CHAT, {"data/log_fields": ["request.messages"]}, "data.log_fields"),
    ("personal-data-is-short-lived", CHAT, {"data/retention": "31d"}, "data.retention"),
]

TENANT_RULES: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("no-secret-in-contract", VISION, {"issuers/0/jwks_uri": "https://login.example.com/keys?token=0a1b2c"}, "issuers[0].jwks_uri"),
    ("no-secret-in-contract", VISION, {"issuers/0/jwks_uri": "https://me:hunter2@login.example.com/keys"}, "issuers[0].jwks_uri"),
    ("no-secret-in-contract", VISION, {"issuers/0/issuer": "https://me:hunter2@login.example.com"}, "issuers[0].issuer"),
    ("mig-profile-exists", VISION, {"quota/mig": {"9g.1gb": 1}}, 'quota.mig["9g.1gb"]'),
    ("tenant-name-is-free", VISION, {"name": "kube-system"}, "name"),
    ("tenant-name-is-free", VISION, {"name": "evaluation"}, "name"),
    ("issuer-named-once", VISION, {"issuers/1": VISION["issuers"][0]}, "issuers[0]"),
    ("group-is-of-people", VISION, {"people/deployers": ["team", "system:masters"]}, "people.deployers[1]"),
    ("group-is-of-people", VISION, {"people/runners": ["system:authenticated"]}, "people.runners[0]"),
    ("group-is-of-people", VISION, {"people/viewers": ["system:serviceaccounts"]}, "people.viewers[0]"),
    ("runtime-named-once", VISION, {"runtimes": ["triton", "triton"]}, "runtimes"),
]

POOL_RULES: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("instance-type-in-catalogue", L4_POOL, {"instance_types/0": "g7.xlarge"}, "instance_types[0]"),
    ("instance-type-in-catalogue", L4_POOL, {"instance_types/0": "m7i.xlarge"}, "instance_types[0]"),
    ("zone-named-once", L4_POOL, {"zones/1": "us-west-2a"}, "zones"),
    ("spot-for-batch-only", L4_POOL, {"capacity": {"kind": "spot"}}, "capacity.kind"),
    (
        "reservation-of-one-type",
        L4_POOL,
        {
            "capacity": {"kind": "reservation", "id": "cr-0123456789abcdef0"},
            "instance_types": ["g6.2xlarge", "g6.4xlarge"],
            "zones": ["us-west-2a"],
        },
        "instance_types",
    ),
    (
        "taint-named-once",
        L4_POOL,
        {"taints": [{"key": "example.com/x"}, {"key": "example.com/x", "effect": "NoExecute"}]},
        "taints",
    ),
    ("reservation-in-one-zone", L4_POOL, {"capacity": {"kind": "reservation", "id": "cr-0123456789abcdef0"}}, "zones"),
    (
        "warm-nodes-on-demand-only",
        MIG_POOL,
        {"capacity": {"kind": "reservation", "id": "cr-0123456789abcdef0"}, "warm": {"size": 1}},
        "warm",
    ),
    (
        "block-starts-empty",
        H100_POOL,
        {"capacity": {"kind": "block", "id": "cr-0123456789abcdef0", "ends": "2026-12-01T11:30:00Z"}, "size": {"min": 1, "max": 4}},
        "size.min",
    ),
    ("latency-is-never-time-sliced", L4_POOL, {"sharing": {"mode": "slice", "replicas": 4}}, "sharing.mode"),
    ("update-within-size", L4_POOL, {"update": {"max_unavailable": 9}}, "update.max_unavailable"),
    ("size-in-order", L4_POOL, {"size/min": 9}, "size.max"),
    ("node-label-reserved", L4_POOL, {"labels": {"node-role.kubernetes.io/gpu": "true"}}, 'labels["node-role.kubernetes.io/gpu"]'),
    ("operations-need-size", L4_POOL, {"disk": {"size": "50Gi", "iops": 30_000}}, "disk.iops"),
    ("throughput-needs-operations", L4_POOL, {"disk": {"iops": 3000, "throughput": "1000Mi/s"}}, "disk.iops"),
    ("one-gpu-shape-a-pool", L4_POOL, {"instance_types/1": "g6.12xlarge"}, "instance_types[1]"),
    ("instance-type-offered-in-region", H100_POOL, {"zones": ["eu-west-1a"]}, "instance_types[0]"),
    ("efa-needs-a-device-plugin", H100_POOL, {"efa": True}, "efa"),
    ("image-reads-the-nodes-settings", L4_POOL, {"ami/family": "BOTTLEROCKET_x86_64_NVIDIA"}, "ami.family"),
    ("gpu-nodes-do-not-hibernate", L4_POOL, {"warm": {"size": 1, "state": "hibernated"}}, "warm.state"),
    ("stopped-nodes-keep-no-instance-store", L4_POOL, {"warm": {"size": 1}}, "model_cache"),
    ("mig-needs-its-hardware", L4_POOL, {"sharing": {"mode": "mig", "layout": {"1g.10gb": 7}}}, "sharing.mode"),
    ("mig-profile-exists", MIG_POOL, {"sharing/layout": {"1g.5gb": 7}}, 'sharing.layout["1g.5gb"]'),
    ("mig-layout-fits", MIG_POOL, {"sharing/layout": {"4g.40gb": 2}}, "sharing.layout"),
]

SYSTEM_POOL_RULES: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("instance-type-in-catalogue", SYSTEM_POOL, {"instance_types/0": "g6.xlarge"}, "instance_types[0]"),
    ("instance-type-offered-in-region", SYSTEM_POOL, {"zones": ["ca-west-1a"]}, "instance_types[0]"),
]

CASES = [
    (kind, *case)
    for kind, cases in ((Model, MODEL_RULES), (Tenant, TENANT_RULES), (Pool, POOL_RULES), (SystemPool, SYSTEM_POOL_RULES))
    for case in cases
]


@pytest.mark.parametrize(
    ("kind", "happy"),
    [
        *((Model, data) for data in (DEFECTS, EMBEDDINGS, CHAT, CUSTOM, GRPC)),
        *((Tenant, data) for data in (VISION, ASSIST)),
        *((Pool, data) for data in (L4_POOL, MIG_POOL, H100_POOL)),
        (SystemPool, SYSTEM_POOL),
    ],
    ids=lambda value: value["name"] if isinstance(value, dict) else value.__name__,
)
def test_a_valid_contract_is_accepted(kind: type[Part], happy: dict[str, Any]) -> None:
    assert findings(happy, kind) == {}


@pytest.mark.parametrize(("kind", "rule", "happy", "change", "path"), CASES, ids=[f"{case[1]}-{n}" for n, case in enumerate(CASES)])
def test_one_change_is_refused_by_its_rule_at_its_path_with_a_remedy(
    kind: type[Part], rule: str, happy: dict[str, Any], change: dict[str, Any], path: str
) -> None:
    found = findings(changed(happy, change), kind)
    assert rule in found, f"accepted, or refused by {sorted(found)}"
    finding = found[rule]
    assert dotted(finding.path) == path
    assert finding.fact, "states what is so"
    assert finding.consequence, "states what follows"
    assert finding.remedy, "states what to do"
    assert "'" + rule not in finding.fact


@pytest.mark.parametrize(
    ("image", "refused"),
    [
        ("nvcr.io/nvidia/tritonserver:25.06-py3", True),
        ("mirror.example.com/nvidia/tritonserver:26.07-py3", True),
        ("registry.example.com/vision/tritonserver-tensorflow:26.07", False),
        ("registry.example.com/vision/tritonserver", False),
    ],
)
def test_tensorflow_is_in_images_of_ones_own(image: str, refused: bool) -> None:
    change = {"runtime/models/0/backend": "tensorflow", "runtime/image": f"{image}@sha256:{'0' * 64}"}
    assert ("backend-is-in-the-image" in findings(changed(DEFECTS, change), Model)) is refused


@pytest.mark.parametrize("data", [DEFECTS, EMBEDDINGS, CHAT, CUSTOM], ids=lambda data: data["name"])
def test_a_snapshot_with_every_field_written_out_is_the_same_contract(data: dict[str, Any]) -> None:
    contract = Model.model_validate(data)
    assert Model.model_validate(contract.model_dump(mode="json")) == contract
    assert Model.model_validate_json(contract.model_dump_json()) == contract


@pytest.mark.parametrize(
    "change",
    [{"envelope/gpu": GONE}, {"envelope/gpu": {"share": "none"}}, {"envelope/gpu": {"share": "cpu"}}],
    ids=["left out", "none", "cpu"],
)
def test_a_model_without_a_gpu_is_refused_with_what_to_do_instead(change: dict[str, Any]) -> None:
    (finding,) = findings(changed(DEFECTS, change)).values()
    assert (finding.rule, dotted(finding.path)) == ("every-model-holds-a-gpu", "envelope.gpu")
    assert "share: mps" in finding.remedy


def test_only_models_are_told_that_they_need_a_gpu() -> None:
    assert "every-model-holds-a-gpu" not in findings({**L4_POOL, "envelope": {}}, Pool)


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({"type": "array", "uniqueItems": True}, "uniqueItems"),
        ({"type": "arrray"}, "type"),
        ({"pattern": "("}, "pattern"),
        ({"items": {"properties": {"a": {"minimum": "1"}}}}, "items.properties.a.minimum"),
        ({"additionalProperties": 3}, "additionalProperties"),
        ({"properties": []}, "properties"),
        ({"enum": []}, "enum"),
        ({"required": "a"}, "required"),
        ({"minItems": -1}, "minItems"),
    ],
)
def test_an_answer_schema_that_no_probe_can_evaluate_is_refused_where_it_stands(schema: dict[str, Any], path: str) -> None:
    (finding,) = findings(changed(DEFECTS, {"health/golden/0/expect": {"compare": "schema", "document": schema}})).values()
    assert (finding.rule, dotted(finding.path)) == ("schema-can-be-evaluated", f"health.golden[0].expect.document.{path}")


def test_an_answer_schema_of_every_keyword_is_accepted() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "t",
        "type": ["object", "null"],
        "required": ["a"],
        "properties": {"a": {"type": "string", "minLength": 1, "maxLength": 3, "pattern": "^x"}, "type": {"enum": [1]}},
        "additionalProperties": {"type": "array", "items": {"minimum": 0, "maximum": 1.5}, "minItems": 1, "maxItems": 2},
    }
    assert findings(changed(DEFECTS, {"health/golden/0/expect": {"compare": "schema", "document": schema}})) == {}


def test_tokens_of_a_text_are_no_secrets() -> None:
    told = {
        "runtime/environment": {"TOKENIZERS_PARALLELISM": "false", "MAX_TOKENS": "4096"},
        "runtime/command": ["serve", "--eos-token", "</s>"],
    }
    assert findings(changed(CUSTOM, told), Model) == {}


def test_what_looks_like_a_secret_is_never_shown() -> None:
    for value in (271828182845, "hunter2" * 2):
        for finding in findings(changed(CUSTOM, {"runtime/environment": {"DB_PASSWORD": value}})).values():
            assert str(value) not in f"{finding.value} {finding.fact} {finding.remedy}"


def test_no_rule_is_without_a_test() -> None:
    source = Path(__file__).parents[3] / "headway" / "contract"
    stated = {
        rule
        for file in (*source.glob("*.py"), *source.glob("rules/*.py"))
        for rule in re.findall(r'yield problem\(\s*"([a-z0-9-]+)"', file.read_text(encoding="utf-8"))
    }
    assert len(stated) > 60
    assert stated - {case[1] for case in CASES} == {"schema-can-be-evaluated"}, "which has cases of its own above"


def test_a_tag_of_an_image_has_letters_that_registries_take() -> None:
    image = f"registry.example.com/server:{{}}@sha256:{'a' * 64}"
    assert findings(changed(CUSTOM, {"runtime/image": image.format("v1")}), Model) == {}
    assert "value-wrong-form" in findings(changed(CUSTOM, {"runtime/image": image.format("v1-é")}), Model)


def test_what_each_refusal_says_is_what_people_have_read() -> None:
    """After a wanted change: `HEADWAY_UPDATE_GOLDEN=1 pytest tests/unit/contract/test_contract_rules.py`, then read the difference."""
    said = [
        f"{rule}: {path} is {finding.value!r}\n  {finding.fact}.\n  {finding.consequence}.\n  {finding.remedy}.\n"
        for kind, rule, happy, change, path in CASES
        for finding in [findings(changed(happy, change), kind)[rule]]
    ]
    if os.environ.get("HEADWAY_UPDATE_GOLDEN"):
        REFUSALS.write_text("\n".join(said), encoding="utf-8")
    assert "\n".join(said) == REFUSALS.read_text(encoding="utf-8")
