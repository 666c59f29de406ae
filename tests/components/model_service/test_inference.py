"""Golden answers over gRPC: the probe script against a real gRPC server of the Open Inference Protocol, read and
written by protobuf itself.
"""

import json
import subprocess
import sys
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from components.model_service.scripts import inference

SCRIPT = Path(inference.__file__).with_name("probe.py")
F = descriptor_pb2.FieldDescriptorProto


def messages() -> tuple[Any, Any]:
    """ModelInferRequest and ModelInferResponse, as grpc_predict_v2.proto defines them (parameters left out)."""
    file = descriptor_pb2.FileDescriptorProto(name="v2.proto", package="inference", syntax="proto3")

    def message(holder: Any, name: str, *fields: tuple[str, int, int, str]) -> Any:
        made = holder.add(name=name)
        for called, number, kind, of in fields:
            repeated = called.endswith("s") or called in ("shape",)
            label = F.LABEL_REPEATED if repeated and called != "contents" else F.LABEL_OPTIONAL
            made.field.add(name=called, number=number, type=kind, label=label, type_name=of or None)  # pyright: ignore[reportArgumentType]
        return made

    message(
        file.message_type,
        "InferTensorContents",
        ("bools", 1, F.TYPE_BOOL, ""),
        ("ints", 2, F.TYPE_INT32, ""),
        ("int64s", 3, F.TYPE_INT64, ""),
        ("uints", 4, F.TYPE_UINT32, ""),
        ("uint64s", 5, F.TYPE_UINT64, ""),
        ("fp32s", 6, F.TYPE_FLOAT, ""),
        ("fp64s", 7, F.TYPE_DOUBLE, ""),
        ("bytess", 8, F.TYPE_BYTES, ""),
    )
    tensor = (
        ("name", 1, F.TYPE_STRING, ""),
        ("datatype", 2, F.TYPE_STRING, ""),
        ("shape", 3, F.TYPE_INT64, ""),
        ("contents", 5, F.TYPE_MESSAGE, ".inference.InferTensorContents"),
    )
    message(file.message_type, "Tensor", *tensor)
    common = (("model_name", 1, F.TYPE_STRING, ""), ("model_version", 2, F.TYPE_STRING, ""))
    message(file.message_type, "Request", *common, ("inputs", 5, F.TYPE_MESSAGE, ".inference.Tensor"))
    message(
        file.message_type, "Response", *common, ("outputs", 5, F.TYPE_MESSAGE, ".inference.Tensor"), ("raw_contents", 6, F.TYPE_BYTES, "")
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)  # pyright: ignore[reportUnknownMemberType]
    return tuple(message_factory.GetMessageClass(pool.FindMessageTypeByName(f"inference.{name}")) for name in ("Request", "Response"))  # pyright: ignore[reportReturnType]


REQUEST, RESPONSE = messages()


class Model:
    """Doubles FP32 numbers, and sends every other tensor back."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.fails: tuple[Any, str] | None = None
        self.raw = False
        self.factor = 2.0

    def infer(self, data: bytes, context: Any) -> bytes:
        request = REQUEST.FromString(data)
        self.asked.append(request)
        if self.fails:
            context.abort(*self.fails)
        answer = RESPONSE(model_name=request.model_name)
        for tensor in request.inputs:
            output = answer.outputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
            numbers = [number * self.factor for number in tensor.contents.fp32s]
            if self.raw:
                answer.raw_contents.append(inference.struct.pack(f"<{len(numbers)}f", *numbers))
            elif numbers:
                output.contents.fp32s.extend(numbers)
            else:
                output.contents.CopyFrom(tensor.contents)
        return answer.SerializeToString()


@contextmanager
def served(model: Model) -> Generator[int]:
    server = grpc.server(ThreadPoolExecutor(2), options=[("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)])
    handler = grpc.unary_unary_rpc_method_handler(model.infer)
    service = grpc.method_handlers_generic_handler("inference.GRPCInferenceService", {"ModelInfer": handler})
    server.add_generic_rpc_handlers((service,))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield port
    finally:
        server.stop(None).wait()


def ask(port: int, *inputs: dict[str, Any]) -> Any:
    return inference.exchange("127.0.0.1", port, {"model_name": "m", "inputs": list(inputs)}, 20)


def test_every_tensor_type_survives_the_way_there_and_back() -> None:
    tensors = [
        {"name": "b", "datatype": "BOOL", "shape": [2], "data": [True, False]},
        {"name": "i", "datatype": "INT32", "shape": [3], "data": [-1, 0, 2**31 - 1]},
        {"name": "l", "datatype": "INT64", "shape": [2], "data": [-(2**63), 5]},
        {"name": "u", "datatype": "UINT8", "shape": [1], "data": [255]},
        {"name": "d", "datatype": "FP64", "shape": [2], "data": [0.1, -1e300]},
        {"name": "s", "datatype": "BYTES", "shape": [2], "data": ["größer", ""]},
        {"name": "e", "datatype": "INT8", "shape": [1], "data": [-7]},
    ]
    model = Model()
    with served(model) as port:
        answer = ask(port, *tensors)
    assert answer == {"model_name": "m", "outputs": tensors}
    assert model.asked[0].inputs[5].contents.bytess == ["größer".encode(), b""]


@pytest.mark.parametrize("raw", [False, True], ids=["typed contents", "raw contents"])
def test_an_answer_larger_than_every_window_and_frame_arrives_whole(raw: bool) -> None:
    numbers = [float(number % 1000) for number in range(300_000)]
    model = Model()
    model.raw = raw
    with served(model) as port:
        answer = ask(port, {"name": "x", "datatype": "FP32", "shape": [300, 1000], "data": [numbers]})
    assert answer["outputs"][0]["shape"] == [300, 1000]
    assert answer["outputs"][0]["data"] == [2 * number for number in numbers]


@pytest.mark.parametrize(
    ("code", "busy"),
    [
        (grpc.StatusCode.RESOURCE_EXHAUSTED, True),
        (grpc.StatusCode.UNAVAILABLE, True),
        (grpc.StatusCode.INTERNAL, False),
        (grpc.StatusCode.NOT_FOUND, False),
    ],
)
def test_a_failed_call_is_told_with_its_status_and_whether_it_may_succeed_later(code: Any, busy: bool) -> None:
    model = Model()
    model.fails = (code, "größer: 100 % voll")
    with served(model) as port, pytest.raises(inference.Failed) as failed:
        ask(port, {"name": "x", "datatype": "FP32", "shape": [1], "data": [1]})
    assert failed.value.busy is busy
    assert f"gRPC status {code.value[0]}: größer: 100 % voll" in str(failed.value)


@pytest.mark.parametrize(
    ("packed", "text"),
    [("f1e3c2e5f23a6ba0ab90f4ff", "www.example.com"), ("a8eb10649cbf", "no-cache"), ("6402", "302"), ("25a849e95ba97d7f", "custom-key")],
)
def test_huffman_coded_headers_are_read_as_in_the_rfcs_own_examples(packed: str, text: str) -> None:
    assert inference.unpacked(bytes.fromhex(packed)) == text


def test_a_status_in_huffman_coded_trailers_is_read() -> None:
    # `grpc-status: 14` as an encoder writes it that packs every text, after the table size update that answers our settings.
    assert inference.headers(bytes.fromhex("2000889acac8b21234da8f820b5f")) == {"grpc-status": "14"}


def probe(port: int, tmp_path: Path, mode: str, expect: list[float]) -> subprocess.CompletedProcess[str]:
    body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [[1, 2.5]]}]}
    asked = {"path": "/predict", "model": "defects", "body": body, "timeout_seconds": 10}
    near = {"compare": "near", "value": expect, "absolute": 1e-3, "relative": 0.0}
    config = tmp_path / "probe.json"
    config.write_text(
        json.dumps(
            {
                "base": f"grpc://127.0.0.1:{port}",
                "state": str(tmp_path / "state"),
                "slice_seconds": 30.0,
                "timeout_seconds": 10,
                "fresh_seconds": 0.0,
                "no_progress_seconds": 0.0,
                "memory_limit_mib": None,
                "ready": [],
                "warmup": [{"name": "defects", "requests": 2, "budget_seconds": 10.0, "request": asked}],
                "golden": [{**asked, "name": "one", "answer": "/outputs/0/data", "expect": near}],
                "progress": {"url": "http://127.0.0.1:9/", "counters": [], "timeout_seconds": 1},
            }
        )
    )
    command = [sys.executable, "-I", str(SCRIPT), mode, str(config)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_grpc_server_is_ready_by_its_golden_answer_and_by_nothing_less(tmp_path: Path) -> None:
    model = Model()
    with served(model) as port:
        right = probe(port, tmp_path, "startup", [2.0, 5.0])
        assert (right.returncode, right.stdout, right.stderr) == (0, "", "")
        assert [request.model_name for request in model.asked] == ["defects"] * 3, "two to warm up, one golden"
        wrong = probe(port, tmp_path, "ready", [2.0, 6.0])
        assert (wrong.returncode, wrong.stderr) == (1, "")
        assert "golden request one: number 1 of the answer is 5.0" in wrong.stdout
    gone = probe(port, tmp_path, "ready", [2.0, 5.0])
    assert (gone.returncode, gone.stderr) == (1, "")
    assert "cannot be reached" in gone.stdout
