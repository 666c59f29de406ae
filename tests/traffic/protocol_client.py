"""Asks the classifier by the protocol's reference clients (tritonclient) or by plain Open Inference Protocol v2; run in .venv-traffic.

Its question comes as JSON on standard input, its answer goes out as JSON.
"""

import json
import sys

import numpy as np


def by_tritonclient(given, module, url, infer):
    client = module.InferenceServerClient(url=url)
    headers = {"authorization": f"Bearer {given['token']}"} | infer
    tensor = module.InferInput("features", [1, len(given["features"])], "FP32")
    tensor.set_data_from_numpy(np.array([given["features"]], np.float32))
    ready = client.is_model_ready("classifier", headers=headers)
    answer = client.infer("classifier", [tensor], outputs=[module.InferRequestedOutput("scores")], headers=headers)
    response = answer.get_response()
    version = response["model_version"] if isinstance(response, dict) else response.model_version
    return {"ready": ready, "kind": int(answer.as_numpy("scores").argmax()), "version": version}


def by_http(given):
    import tritonclient.http as module

    return by_tritonclient(given, module, f"127.0.0.1:{given['port']}", {"Host": given["host"]})


def by_grpc(given):
    import grpc
    import tritonclient.grpc as module

    # The authority is what the gateway routes by; tritonclient takes channel arguments for it.
    arguments = [("grpc.default_authority", given["host"])]
    client = module.InferenceServerClient(url=f"127.0.0.1:{given['port']}", channel_args=arguments)
    headers = {"authorization": f"Bearer {given['token']}"}
    tensor = module.InferInput("features", [1, len(given["features"])], "FP32")
    tensor.set_data_from_numpy(np.array([given["features"]], np.float32))
    assert grpc.__version__
    ready = client.is_model_ready("classifier", headers=headers)
    answer = client.infer("classifier", [tensor], headers=headers)
    return {"ready": ready, "kind": int(answer.as_numpy("scores").argmax()), "version": answer.get_response().model_version}


def by_protocol(given):
    """Open Inference Protocol v2 by its specification alone: model readiness and metadata, then inference."""
    import urllib.request

    def ask(path, body=None):
        headers = {"Host": given["host"], "Authorization": f"Bearer {given['token']}", "Content-Type": "application/json"}
        asked = urllib.request.Request(f"http://127.0.0.1:{given['port']}{path}", data=body, headers=headers)
        with urllib.request.urlopen(asked, timeout=10) as answer:
            return answer.status, answer.read()

    ready, _ = ask("/v2/models/classifier/ready")
    _, metadata = ask("/v2/models/classifier")
    described = json.loads(metadata)
    (tensor,) = described["inputs"]
    body = {"inputs": [{"name": tensor["name"], "datatype": tensor["datatype"], "shape": [1, 16], "data": given["features"]}]}
    _, answer = ask("/v2/models/classifier/infer", json.dumps(body).encode())
    found = json.loads(answer)
    scores = found["outputs"][0]["data"]
    return {"ready": ready == 200, "kind": scores.index(max(scores)), "version": found["model_version"]}


given = json.loads(sys.stdin.read())
asked = {"http": by_http, "grpc": by_grpc, "open-inference-protocol": by_protocol}[given["protocol"]]
sys.stdout.write(json.dumps(asked(given), sort_keys=True))
