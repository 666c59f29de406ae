"""Writes the sandbox's model artifacts: `python3 build.py FOLDER`, with the Python of the traffic environment.

For each release a folder of files as a model repository wants them, and one `manifest.json` with every file's size and
SHA-256 and the golden requests with their answers. Answers are computed here by numpy alone, not by the runtime that is
later asked. Deterministic: the same versions of onnx and numpy write the same bytes. ONNX's own defaults follow its
version, so opset and IR are named.

The classifier tells eight kinds of part from sixteen measurements: a linear score for the nearest of eight centres. The
shipped weights know the centres roughly, the better release exactly, the wrong one has two kinds exchanged. The encoder
embeds text by random indexing (Kanerva et al., 2000): a fixed random vector for each hashed n-gram of characters,
averaged and normalised.
"""

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np  # pyright: ignore[reportMissingImports]
from onnx import TensorProto, helper, numpy_helper  # pyright: ignore[reportMissingImports]

GoldenJson = dict[str, Any]

KINDS, MEASUREMENTS = 8, 16
VOCABULARY, DIMENSIONS = 8192, 64
OPSET, IR = 17, 9
SEED = 20261121

HEALTHY = {
    "confused_below": 0.0,
    "crash_at_rows": 0,
    "dead_after_requests": 0,
    "error_share": 0.0,
    "error_share_in_second_rush": 0.0,
    "leak_bytes": 0,
    "load_seconds": 0.0,
    "median_ms": 20.0,
    "row_cost": 0.02,
    "seed": 1,
    "spread": 0.15,
    "tail_factor": 1.0,
    "tail_share": 0.0,
}
RELEASES: Mapping[str, tuple[str, Mapping[str, float]]] = {
    "stable": ("rough", {}),
    "identical": ("rough", {}),
    "better": ("exact", {"median_ms": 24.0}),
    "slow-tail": ("rough", {"tail_share": 0.25, "tail_factor": 2.0}),
    "tail": ("rough", {"tail_share": 0.05, "tail_factor": 2.5}),
    "errors": ("rough", {"error_share": 0.01}),
    "late": ("rough", {"error_share_in_second_rush": 0.03}),
    "wrong": ("exchanged", {}),
    "leak": ("rough", {"leak_bytes": 1024 * 1024}),
    "crash-at-maximum": ("rough", {"crash_at_rows": 16}),
    "slow-start": ("rough", {"load_seconds": 45.0}),
    "dead": ("rough", {"dead_after_requests": 400}),
}
"""Name to weights and what differs from a healthy release's behaviour."""


def centres() -> Any:
    return np.random.default_rng(SEED).normal(0.0, 1.0, (KINDS, MEASUREMENTS)).astype(np.float32)


def weights(kind: str) -> tuple[Any, Any]:
    """Weights and bias of the linear score x.c - |c|^2 / 2, which is largest for the nearest centre."""
    known = centres()
    if kind == "rough":
        known = known + np.random.default_rng(SEED + 1).normal(0.0, 0.45, known.shape).astype(np.float32)
    if kind == "exchanged":
        known = weights("rough")[0].T[[1, 0, *range(2, KINDS)]]
    return known.T.copy(), (-0.5 * (known**2).sum(axis=1)).astype(np.float32)


def model(nodes: list[Any], inputs: list[Any], outputs: list[Any], initialisers: list[tuple[str, Any]]) -> bytes:
    graph = helper.make_graph(nodes, "sandbox", inputs, outputs, [numpy_helper.from_array(value, name) for name, value in initialisers])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="headway-sandbox", ir_version=IR)
    return made.SerializeToString(deterministic=True)


def classifier_onnx(kind: str) -> bytes:
    matrix, bias = weights(kind)
    return model(
        [helper.make_node("Gemm", ["features", "matrix", "bias"], ["scores"])],
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["batch", MEASUREMENTS])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", KINDS])],
        [("matrix", matrix), ("bias", bias)],
    )


def table() -> Any:
    return np.random.default_rng(SEED + 2).normal(0.0, 1.0, (VOCABULARY, DIMENSIONS)).astype(np.float32)


def encoder_onnx() -> bytes:
    return model(
        [
            helper.make_node("Gather", ["table", "input_ids"], ["vectors"]),
            helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
            helper.make_node("Unsqueeze", ["mask", "last"], ["wide"]),
            helper.make_node("Mul", ["vectors", "wide"], ["kept"]),
            helper.make_node("ReduceSum", ["kept", "middle"], ["sum"], keepdims=0),
            helper.make_node("LpNormalization", ["sum"], ["embedding"], axis=-1, p=2),
        ],
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"]) for name in ("input_ids", "attention_mask")],
        [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["batch", DIMENSIONS])],
        [("table", table()), ("last", np.array([-1], np.int64)), ("middle", np.array([1], np.int64))],
    )


def tokens(text: str, most: int = 64) -> list[int]:
    """Hashed n-grams of three characters, the text's edges included."""
    padded = f" {text.lower()} "
    grams = [padded[n : n + 3] for n in range(len(padded) - 2)][:most]
    return [int.from_bytes(hashlib.sha256(gram.encode()).digest()[:4], "big") % VOCABULARY for gram in grams]


def embedding(text: str) -> Any:
    found = table()[tokens(text)].sum(axis=0)
    return found / np.linalg.norm(found)


def tensor(name: str, kind: str, data: list[Any], shape: list[int]) -> GoldenJson:
    return {"name": name, "datatype": kind, "shape": shape, "data": data}


def golden_classifier() -> Iterator[GoldenJson]:
    for number, centre in enumerate(centres()):
        features = [round(float(value), 4) for value in centre]
        yield {
            "name": f"kind-{number}",
            "request": {"inputs": [tensor("features", "FP32", features, [1, MEASUREMENTS])]},
            "answer": "/outputs/0/data",
            "expect": {"compare": "top", "index": number},
        }


def golden_encoder() -> Iterator[GoldenJson]:
    for name, text in (("bracket", "steel bracket m8"), ("hose", "hydraulic hose 12 mm")):
        ids = tokens(text)
        yield {
            "name": name,
            "request": {
                "inputs": [
                    tensor("input_ids", "INT64", ids, [1, len(ids)]),
                    tensor("attention_mask", "INT64", [1] * len(ids), [1, len(ids)]),
                ]
            },
            "answer": "/outputs/0/data",
            "expect": {"compare": "cosine", "value": [round(float(value), 6) for value in embedding(text)], "at_least": 0.9999},
        }


def write(folder: Path, files: Mapping[str, bytes]) -> list[GoldenJson]:
    """Write the files below the folder; their entries for the manifest."""
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    return [{"path": path, "sha256": hashlib.sha256(data).hexdigest(), "size": len(data)} for path, data in sorted(files.items())]


def main(out: Path) -> None:
    code = Path(__file__).with_name("classifier.py").read_bytes()
    releases = {}
    for name, (kind, differs) in RELEASES.items():
        behaviour = {**HEALTHY, **differs}
        files = {
            "classifier/1/model.onnx": classifier_onnx(kind),
            "classifier/1/model.py": code,
            "classifier/1/behaviour.json": (json.dumps(behaviour, sort_keys=True, indent=1) + "\n").encode(),
        }
        releases[name] = {"files": write(out / "classifier" / name, files), "behaviour": behaviour}
    encoder = {"stable": {"files": write(out / "encoder" / "stable", {"encoder/1/model.onnx": encoder_onnx()})}}
    manifest = {
        "classifier": {"golden": list(golden_classifier()), "releases": releases},
        "encoder": {"golden": list(golden_encoder()), "releases": encoder},
    }
    (out / "manifest.json").write_text(json.dumps(manifest, sort_keys=True, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
