"""Asks the classifier by the protocol's reference clients (tritonclient) and by plain Open Inference Protocol v2; run in .venv-traffic.

Where and what to ask comes as JSON on standard input: `host` and `token` for the gateway, neither for the server itself. What was answered
goes out as JSON, by question: for HTTP the status and the body, for gRPC the status' name where it is not OK, and the message.
"""

import contextlib
import gzip
import http.client
import json
import queue
import struct
import sys

import grpc
import numpy as np
import tritonclient.grpc
import tritonclient.http
from google.protobuf.json_format import MessageToDict
from tritonclient.utils import InferenceServerException

MODEL = "/v2/models/classifier"
UNSTEADY = ("model_stats", "modelStats")
"""Counts of what has been asked: only that they are there."""


def plain(features):
    """(question, method, path, headers, body) of the protocol's HTTP form, its binary extension included."""
    rows = [features, features[::-1], features]
    tensor = {"name": "features", "datatype": "FP32", "shape": [1, 16], "data": features}

    def body(more=None, **changes):
        return json.dumps({"inputs": [{**tensor, **changes}], **(more or {})}).encode()

    binary = np.array(features, "<f4").tobytes()
    head = json.dumps(
        {"inputs": [{**{k: tensor[k] for k in ("name", "datatype", "shape")}, "parameters": {"binary_data_size": 64}}]}
    ).encode()
    sized = {"inference-header-content-length": str(len(head)), "content-type": "application/octet-stream"}
    for name, path in (
        ("live", "/v2/health/live"),
        ("ready", "/v2/health/ready"),
        ("server", "/v2"),
        ("model", MODEL),
        ("model ready", f"{MODEL}/ready"),
        ("version ready", f"{MODEL}/versions/1/ready"),
        ("configuration", f"{MODEL}/config"),
        ("statistics", f"{MODEL}/stats"),
        ("unknown model", "/v2/models/nobody"),
        ("unknown version", f"{MODEL}/versions/9"),
        ("unknown path", "/v2/nothing"),
        ("inference by GET", f"{MODEL}/infer"),
    ):
        yield name, "GET", path, {}, None
    for name, path, headers, sent in (
        ("inference", f"{MODEL}/infer", {}, body()),
        ("inference of the version", f"{MODEL}/versions/1/infer", {}, body()),
        ("three at once", f"{MODEL}/infer", {}, body(shape=[3, 16], data=rows)),
        ("with an id", f"{MODEL}/infer", {}, body({"id": "request-7"})),
        ("one output", f"{MODEL}/infer", {}, body({"outputs": [{"name": "scores"}]})),
        ("binary answer", f"{MODEL}/infer", {}, body({"parameters": {"binary_data_output": True}})),
        ("binary question", f"{MODEL}/infer", sized, head + binary),
        ("compressed question", f"{MODEL}/infer", {"content-encoding": "gzip"}, gzip.compress(body(), mtime=0)),
        ("compressed answer", f"{MODEL}/infer", {"accept-encoding": "gzip"}, body()),
        ("inference of nobody", "/v2/models/nobody/infer", {}, body()),
        ("inference of no version", f"{MODEL}/versions/9/infer", {}, body()),
        ("wrong shape", f"{MODEL}/infer", {}, body(shape=[1, 15], data=features[:15])),
        ("beyond the largest batch", f"{MODEL}/infer", {}, body(shape=[17, 16], data=[features] * 17)),
        ("wrong data type", f"{MODEL}/infer", {}, body(datatype="INT64", data=[1] * 16)),
        ("too few elements", f"{MODEL}/infer", {}, body(data=features[:3])),
        ("unknown input", f"{MODEL}/infer", {}, body(name="nothing")),
        ("unknown output", f"{MODEL}/infer", {}, body({"outputs": [{"name": "nothing"}]})),
        ("no input", f"{MODEL}/infer", {}, b'{"inputs": []}'),
        ("no JSON", f"{MODEL}/infer", {}, b'{"inputs": ['),
        ("nothing", f"{MODEL}/infer", {}, b""),
    ):
        yield name, "POST", path, headers, sent


def by_protocol(given):
    connection = http.client.HTTPConnection(given["address"], given["port"], timeout=30)
    known = {"Host": given["host"], "Authorization": f"Bearer {given['token']}"} if given.get("token") else {}
    found = {}
    for name, method, path, headers, body in plain(given["features"]):
        connection.request(method, path, body, {"Content-Type": "application/json", **known, **headers})
        answer = connection.getresponse()
        found[name] = [answer.status, read(answer.read(), answer.headers)]
    return found


def read(data, headers):
    """The body as JSON, with its binary tensors as numbers; as text where it is neither."""
    if headers.get("content-encoding") == "gzip":
        return ["gzip", read(gzip.decompress(data), {})]
    size = headers.get("inference-header-content-length")
    if size is not None:
        return [json.loads(data[: int(size)]), list(struct.unpack("<8f", data[int(size) :]))]
    try:
        found = json.loads(data)
    except ValueError:
        return data.decode(errors="replace")
    return {name: name if name in UNSTEADY else value for name, value in found.items()} if isinstance(found, dict) else found


def tensors(module, features, shape=(1, 16), kind="FP32"):
    tensor = module.InferInput("features", list(shape), kind)
    values = (features * shape[0])[: shape[0] * shape[1]]
    tensor.set_data_from_numpy(np.array(values, np.float32 if kind == "FP32" else np.int64).reshape(shape))
    return [tensor]


def scores(answer):
    return [round(float(value), 4) for value in answer.as_numpy("scores").ravel()]


def asked(question):
    """What a call of the reference client comes to."""
    try:
        found = question()
    except InferenceServerException as error:
        return [str(error.status()), str(error.message())]
    if hasattr(found, "DESCRIPTOR"):
        found = MessageToDict(found)
    return {name: name if name in UNSTEADY else value for name, value in found.items()} if isinstance(found, dict) else found


def by_client(module, client, headers, features):
    """What both reference clients can ask."""

    def infer(**more):
        return scores(client.infer("classifier", tensors(module, features), headers=dict(headers), **more))

    def refused(model="classifier", **changes):
        return scores(client.infer(model, tensors(module, features, **changes), headers=dict(headers)))

    return {
        "live": asked(lambda: client.is_server_live(headers=headers)),
        "ready": asked(lambda: client.is_server_ready(headers=headers)),
        "model ready": asked(lambda: client.is_model_ready("classifier", "1", headers=headers)),
        "nobody ready": asked(lambda: client.is_model_ready("nobody", headers=headers)),
        "server": asked(lambda: client.get_server_metadata(headers=headers)),
        "model": asked(lambda: client.get_model_metadata("classifier", headers=headers)),
        "configuration": asked(lambda: client.get_model_config("classifier", headers=headers)),
        "statistics": asked(lambda: client.get_inference_statistics("classifier", headers=headers)),
        "inference": asked(infer),
        "with an id": asked(lambda: infer(request_id="r7")),
        "with a priority": asked(lambda: infer(priority=1)),
        "inference of nobody": asked(lambda: refused("nobody")),
        "unknown model's configuration": asked(lambda: client.get_model_config("nobody", headers=headers)),
        "wrong shape": asked(lambda: refused(shape=(1, 15))),
        "beyond the largest batch": asked(lambda: refused(shape=(17, 16))),
        "wrong data type": asked(lambda: refused(kind="INT64")),
    }


def by_http(given):
    client = tritonclient.http.InferenceServerClient(url=f"{given['address']}:{given['port']}", concurrency=2)
    headers = {"authorization": f"Bearer {given['token']}", "Host": given["host"]} if given.get("token") else {}
    found = by_client(tritonclient.http, client, headers, given["features"])
    # This client writes into the headers that it is given.
    given_tensors = tensors(tritonclient.http, given["features"])
    for name, more in (
        ("compressed question", {"request_compression_algorithm": "gzip"}),
        ("compressed answer", {"response_compression_algorithm": "gzip"}),
    ):
        found[name] = asked(lambda more=more: scores(client.infer("classifier", given_tensors, headers=dict(headers), **more)))
    later = [client.async_infer("classifier", given_tensors, headers=dict(headers)) for _ in range(2)]
    found["two at once"] = [scores(each.get_result()) for each in later]
    return found


def by_grpc(given):
    # The authority is what the gateway routes by; tritonclient takes channel arguments for it.
    arguments = [("grpc.default_authority", given["host"])] if given.get("host") else None
    client = tritonclient.grpc.InferenceServerClient(url=f"{given['address']}:{given['port']}", channel_args=arguments)
    headers = {"authorization": f"Bearer {given['token']}"} if given.get("token") else {}
    found = by_client(tritonclient.grpc, client, headers, given["features"])
    given_tensors = tensors(tritonclient.grpc, given["features"])
    found["compressed question"] = asked(
        lambda: scores(client.infer("classifier", given_tensors, headers=headers, compression_algorithm="gzip"))
    )
    if given.get("token"):
        answers = queue.Queue()
        client.start_stream(lambda result, error: answers.put(str(error.status()) if error else scores(result)), headers=headers)
        with contextlib.suppress(InferenceServerException):  # refused before anything is sent
            client.async_stream_infer("classifier", given_tensors)
        found["ModelStreamInfer"] = answers.get(timeout=30)
        client.stop_stream(cancel_requests=True)
        found["administration"] = {
            name: asked(question)
            for name, question in {
                "RepositoryIndex": lambda: client.get_model_repository_index(headers=headers),
                "RepositoryModelLoad": lambda: client.load_model("nobody", headers=headers),
                "RepositoryModelUnload": lambda: client.unload_model("nobody", headers=headers),
                "TraceSetting": lambda: client.get_trace_settings(headers=headers),
                "LogSettings": lambda: client.get_log_settings(headers=headers),
                "SystemSharedMemoryStatus": lambda: client.get_system_shared_memory_status(headers=headers),
                "SystemSharedMemoryRegister": lambda: client.register_system_shared_memory("a", "/a", 64, headers=headers),
                "SystemSharedMemoryUnregister": lambda: client.unregister_system_shared_memory("a", headers=headers),
                "CudaSharedMemoryStatus": lambda: client.get_cuda_shared_memory_status(headers=headers),
                "CudaSharedMemoryUnregister": lambda: client.unregister_cuda_shared_memory("a", headers=headers),
            }.items()
        }
    return found


given = json.loads(sys.stdin.read())
assert grpc.__version__
answered = {"http": by_http, "grpc": by_grpc, "open-inference-protocol": by_protocol}[given["protocol"]](given)
sys.stdout.write(json.dumps(answered, sort_keys=True))
