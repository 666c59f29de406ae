"""An application's protocol clients are answered through the gateway as the server itself answers them, refusals included."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.traffic.bed import HOST, PROJECT
from tests.traffic.serving import CLASSIFIER, Serving

CLIENT = Path(__file__).parent / "protocol_client.py"
KIND = 3
"""Which golden request is asked, and what its answer is."""
REFUSED_BY_HTTP = {
    "beyond the largest batch": 400,
    "inference by GET": 405,
    "inference of no version": 404,
    "inference of nobody": 404,
    "no JSON": 500,
    "no input": 400,
    "nothing": 400,
    "too few elements": 500,
    "unknown input": 400,
    "unknown model": 404,
    "unknown output": 400,
    "unknown version": 404,
    "wrong data type": 400,
    "wrong shape": 400,
}
"""By question; Triton 2.51 calls two faults of a client its own."""
REFUSED_BY_CLIENT = {
    "http": {"nobody": "404", "invalid": "400"},
    "grpc": {"nobody": "StatusCode.NOT_FOUND", "invalid": "StatusCode.INVALID_ARGUMENT"},
}


def answered(serving: Serving, protocol: str, **where: Any) -> dict[str, Any]:
    features = serving.bed.artifacts.golden("classifier")[KIND]["request"]["inputs"][0]["data"]
    given = json.dumps({"protocol": protocol, "features": features, **where})
    python = PROJECT / ".venv-traffic" / "bin" / "python"
    done = subprocess.run([python, "-I", CLIENT], input=given, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def both(serving: Serving, protocol: str, port: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """(through the gateway, by the server itself)"""
    gateway = {"address": "127.0.0.1", "port": serving.addresses.gateway, "host": f"classifier.quality.{HOST}"}
    own = serving.pods(CLASSIFIER)[0]["metadata"]["annotations"]["sandbox.platform.io/address"]
    through = answered(serving, protocol, **gateway, token=serving.token(CLASSIFIER))
    return through, answered(serving, protocol, address=own, port=port)


def chosen(scores: list[float]) -> int:
    return scores.index(max(scores))


def test_the_protocol_alone_is_answered_as_the_server_answers_it(serving: Serving) -> None:
    through, direct = both(serving, "open-inference-protocol", 8000)
    assert (through.pop("unknown path")[0], direct.pop("unknown path")[0]) == (403, 404), "nothing is open that is not known to ask a model"
    assert through == direct
    assert {name: status for name, (status, _) in through.items() if status != 200} == REFUSED_BY_HTTP
    assert chosen(through["inference"][1]["outputs"][0]["data"]) == KIND
    assert through["compressed answer"][1][0] == "gzip"
    assert chosen(through["binary answer"][1][1]) == KIND
    assert through["binary question"][1]["outputs"] == through["inference"][1]["outputs"]
    assert through["with an id"][1]["id"] == "request-7"


@pytest.mark.parametrize(("protocol", "port"), [("http", 8000), ("grpc", 8001)])
def test_the_reference_client_is_answered_as_the_server_answers_it(serving: Serving, protocol: str, port: int) -> None:
    through, direct = both(serving, protocol, port)
    if protocol == "grpc":
        refused = through.pop("compressed question")[1]
        assert direct.pop("compressed question")
        assert "compressed" in refused, "no proxy sees how large such a message is"
    assert {name: through[name] for name in direct} == direct
    asked = ("inference", "with an id", "with a priority", *(["compressed question"] if protocol == "http" else []))
    assert [chosen(through[name]) for name in asked] == [KIND] * len(asked)
    refused = REFUSED_BY_CLIENT[protocol]
    assert through["inference of nobody"][0] == refused["nobody"]
    assert {through[name][0] for name in ("wrong shape", "wrong data type", "beyond the largest batch")} == {refused["invalid"]}
    if protocol == "grpc":
        denied = "StatusCode.PERMISSION_DENIED"
        assert through["ModelStreamInfer"] == denied, "it would hang: proxies hold a request until they know its size"
        assert {name: status for name, (status, _) in through["administration"].items() if status != denied} == {}
