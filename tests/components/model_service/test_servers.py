"""Configuration of Triton and vLLM. Expected values are written by hand."""

from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

from components.model_service.serving import Serving, serving
from components.model_service.triton import config_pbtxt
from headway.contract.model import Model
from headway.contract.runtime import Triton
from tests.components.contracts import CHAT, MODELS, changed
from tests.contract_samples import ADAPTED

# Triton's own schema, as far as the renderer uses it: name, type, repeated. Source: triton-inference-server/common model_config.proto.
_SCHEMA: dict[str, dict[str, str]] = {
    "Config": {
        "name": "string",
        "backend": "string",
        "platform": "string",
        "max_batch_size": "int32",
        "input": "[]Tensor",
        "output": "[]Tensor",
        "instance_group": "[]Group",
        "version_policy": "Policy",
        "dynamic_batching": "Batching",
        "optimization": "Optimization",
        "parameters": "[]Parameter",
        "model_repository_agents": "Agents",
    },
    "Tensor": {"name": "string", "data_type": "DataType", "dims": "[]int64"},
    "Group": {"count": "int32", "kind": "Kind"},
    "Policy": {"specific": "Specific"},
    "Specific": {"versions": "[]int64"},
    "Batching": {"preferred_batch_size": "[]int32", "max_queue_delay_microseconds": "uint64", "default_queue_policy": "Queue"},
    "Queue": {
        "timeout_action": "Action",
        "default_timeout_microseconds": "uint64",
        "allow_timeout_override": "bool",
        "max_queue_size": "uint32",
    },
    "Optimization": {"execution_accelerators": "Accelerators"},
    "Accelerators": {"gpu_execution_accelerator": "[]Accelerator"},
    "Accelerator": {"name": "string", "parameters": "[]Pair"},
    "Agents": {"agents": "[]Agent"},
    "Agent": {"name": "string", "parameters": "[]Pair"},
    "Pair": {"key": "string", "value": "string"},
    "Parameter": {"key": "string", "value": "Text"},
    "Text": {"string_value": "string"},
}


_ENUMS = {
    "DataType": [
        f"TYPE_{n}" for n in ["INVALID", "BOOL", "UINT8", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64", "STRING", "BF16"]
    ],
    "Kind": ["KIND_AUTO", "KIND_GPU", "KIND_CPU"],
    "Action": ["REJECT", "DELAY"],
}


def parse(text: str) -> Any:
    """The configuration as protobuf reads it; an unknown field or enum value fails."""
    file = descriptor_pb2.FileDescriptorProto(name="config.proto", package="t", syntax="proto3")
    for name, values in _ENUMS.items():
        enum = file.enum_type.add(name=name)
        for number, value in enumerate(values):
            enum.value.add(name=value, number=number)
    kinds = descriptor_pb2.FieldDescriptorProto
    for name, fields in _SCHEMA.items():
        message = file.message_type.add(name=name)
        for number, (field, kind) in enumerate(fields.items(), start=1):
            repeated, kind = kind.startswith("[]"), kind.removeprefix("[]")
            label = kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL
            if kind in _SCHEMA:
                message.field.add(name=field, number=number, label=label, type=kinds.TYPE_MESSAGE, type_name=f".t.{kind}")
            elif kind in _ENUMS:
                message.field.add(name=field, number=number, label=label, type=kinds.TYPE_ENUM, type_name=f".t.{kind}")
            else:
                message.field.add(name=field, number=number, label=label, type=getattr(kinds, f"TYPE_{kind.upper()}"))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return text_format.Parse(text, message_factory.GetMessageClass(pool.FindMessageTypeByName("t.Config"))())


def served(model: Model) -> Serving:
    return serving(model, 25)


@pytest.mark.parametrize("name", [name for name, model in MODELS.items() if isinstance(model.runtime, Triton)])
def test_tritons_own_parser_takes_every_rendered_configuration(name: str) -> None:
    runtime = MODELS[name].runtime
    assert isinstance(runtime, Triton)
    for model in runtime.models:
        found = parse(config_pbtxt(MODELS[name], model))
        assert (found.name, found.max_batch_size) == (model.name, model.max_batch)
        assert list(found.version_policy.specific.versions) == [model.version]
        assert [list(tensor.dims) for tensor in found.input] == [list(tensor.shape) for tensor in model.inputs]


def test_batching_of_a_contract_reaches_triton_in_microseconds() -> None:
    model = MODELS["defects"]
    assert isinstance(model.runtime, Triton)
    found = parse(config_pbtxt(model, model.runtime.models[0])).dynamic_batching
    assert list(found.preferred_batch_size) == [4, 8, 16]
    assert found.max_queue_delay_microseconds == 2_000
    assert (found.default_queue_policy.default_timeout_microseconds, found.default_queue_policy.max_queue_size) == (1_500_000, 128)


def test_triton_proves_files_again_that_have_an_md5() -> None:
    dense, plain = (
        parse(config_pbtxt(MODELS[name], runtime.models[0]))
        for name in ("defects-dense", "defects")
        if isinstance(runtime := MODELS[name].runtime, Triton)
    )
    (agent,) = dense.model_repository_agents.agents
    assert agent.name == "checksum"
    assert {pair.key: pair.value for pair in agent.parameters} == {"MD5:1/model.py": "c" * 32}
    assert not plain.HasField("model_repository_agents")


def test_a_model_that_batches_nothing_has_no_batcher() -> None:
    model = MODELS["defects-dense"]
    assert isinstance(model.runtime, Triton)
    assert not parse(config_pbtxt(model, model.runtime.models[0])).HasField("dynamic_batching")


def test_only_the_contracts_models_are_loaded_without_polling() -> None:
    command = served(MODELS["embeddings"]).command
    assert [c for c in command if c.startswith("--load-model")] == ["--load-model=image-encoder", "--load-model=text-encoder"]
    assert "--model-control-mode=explicit" in command


def test_warm_up_sends_every_dimension_and_the_batch_at_their_maximum() -> None:
    (plan,) = served(MODELS["defects"]).warmup
    (tensor,) = plan["request"]["zeros"]
    assert tensor == {"name": "image", "shape": [16, 3, 512, 512], "datatype": "FP32", "bytes": 16 * 3 * 512 * 512 * 4}


def test_the_server_takes_its_own_warm_up_whatever_callers_may_send() -> None:
    largest = 16 * 3 * 512 * 512 * 4
    assert largest > MODELS["defects"].envelope.largest_request.body
    assert f"--http-max-input-size={largest + 65536}" in served(MODELS["defects"]).command


OLDEST_TRITONS_FLAGS = frozenset({
    "allow-gpu-metrics", "disable-auto-complete-config", "exit-on-error", "exit-timeout-secs", "grpc-max-connection-age", "grpc-port",
    "http-max-input-size", "http-port", "load-model", "log-verbose", "metrics-config", "metrics-port", "model-control-mode",
    "model-repository", "strict-readiness",
})  # fmt: skip
"""Of what the command line says, what Triton 25.06 knows (triton-inference-server/server v2.59.0, src/command_line_parser.cc). A contract
may name no older one, and a server ends at a flag that it does not know.
"""


@pytest.mark.parametrize("name", ["defects", "embeddings"])
def test_the_oldest_server_that_a_contract_may_name_knows_every_flag(name: str) -> None:
    program, *flags = served(MODELS[name]).command
    assert program == "tritonserver"
    assert {flag.removeprefix("--").partition("=")[0] for flag in flags} <= OLDEST_TRITONS_FLAGS


@pytest.mark.parametrize(
    ("name", "flag"),
    [
        ("chat", "--max-model-len=16384"),
        ("chat", '--override-generation-config={"max_new_tokens":2048}'),
        ("chat", "--max-num-seqs=128"),
        ("chat", "--max-num-batched-tokens=8192"),
        ("chat", "--tensor-parallel-size=1"),
        ("chat", "--quantization=fp8"),
        ("chat", "--kv-cache-dtype=fp8"),
        ("chat", "--enable-prefix-caching"),
        ("chat", '--speculative-config={"method":"ngram","num_speculative_tokens":4}'),
        ("chat-mig", '--speculative-config={"method":"eagle","model":"/models/draft","num_speculative_tokens":3}'),
        ("chat-mig", "--kv-cache-dtype=auto"),
        ("chat-mig", "--shutdown-timeout=25"),
    ],
)
def test_a_field_becomes_its_flag(name: str, flag: str) -> None:
    assert flag in served(MODELS[name]).command


def test_a_head_of_eagle3_is_served_as_such_a_one() -> None:
    """As `eagle` its architecture would be one that vLLM does not know (vLLM 0.32, transformers_utils/configs/eagle.py, `EAGLEConfig`)."""
    files = [*CHAT["artifact"]["files"], {"path": "head/model.safetensors", "sha256": "a" * 64, "size": "200Mi"}]
    speculation = {"method": "eagle3", "tokens": 3, "folder": "head/"}
    command = served(changed(CHAT, artifact__files=files, optimisation__speculation=speculation)).command
    assert '--speculative-config={"method":"eagle3","model":"/models/head","num_speculative_tokens":3}' in command


def test_each_adapter_is_a_model_by_name_that_golden_requests_ask() -> None:
    found = served(changed(CHAT, **{path.replace("/", "__"): value for path, value in ADAPTED.items()}))
    start = found.command.index("--enable-lora")
    told = ("--max-loras=2", "--max-lora-rank=16", "--lora-modules", "tone=/models/adapters/tone", "terse=/models/adapters/terse")
    assert found.command[start + 1 : start + 6] == told
    assert [golden["body"]["model"] for golden in found.golden] == ["chat", "chat", "tone", "terse"]
    assert not [flag for flag in served(MODELS["chat"]).command if "lora" in flag]


def test_one_request_asks_for_no_more_answers_than_a_server_writes_at_once() -> None:
    assert served(MODELS["chat"]).environment["VLLM_MAX_N_SEQUENCES"] == "128"


def test_a_server_closes_no_idle_connection_before_its_proxy_does() -> None:
    upstream_idle_timeout = 3600  # Envoy's own, which istiod leaves: config/core/v3/protocol.proto, HttpProtocolOptions.idle_timeout
    assert int(served(MODELS["chat"]).environment["VLLM_HTTP_TIMEOUT_KEEP_ALIVE"]) > upstream_idle_timeout


def test_a_setting_that_is_off_becomes_no_flag_or_its_opposite() -> None:
    plain = served(changed(CHAT, optimisation={"prefix_caching": False})).command
    assert "--no-enable-prefix-caching" in plain
    assert not [flag for flag in plain if flag.startswith(("--quantization", "--speculative"))]


def test_the_longest_prompt_leaves_room_for_the_longest_answer() -> None:
    (plan,) = served(MODELS["chat"]).warmup
    assert plan["request"]["tokens"] == 16384 - 2048
    assert plan["request"]["body"]["max_tokens"] == 2048


def test_prompts_can_reach_no_log() -> None:
    assert not [flag for flag in served(MODELS["chat"]).command if "log-requests" in flag or "log-outputs" in flag]
