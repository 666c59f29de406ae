"""Runs `model.onnx` beside it by onnxruntime, inside Triton's python backend: what the onnxruntime backend does on a GPU.

Copied as `model.py` into each version's folder, and run by the Python of the traffic environment. Requests that Triton hands over
together are run as one batch where their shapes agree. The trap: threads; one model process uses one, or two models fight for the cores.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np  # pyright: ignore[reportMissingImports]
import onnxruntime  # pyright: ignore[reportMissingImports]
import triton_python_backend_utils as pb_utils  # pyright: ignore[reportMissingImports]


class TritonPythonModel:
    """Triton's interface of a model."""

    def initialize(self, args: Any) -> None:
        config = json.loads(args["model_config"])
        self.inputs = [tensor["name"] for tensor in config["input"]]
        self.outputs = [tensor["name"] for tensor in config["output"]]
        self.types = {tensor["name"]: pb_utils.triton_string_to_numpy(tensor["data_type"]) for tensor in config["output"]}
        self.batched = config["max_batch_size"] > 0
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        path = Path(args["model_repository"]) / args["model_version"] / "model.onnx"
        self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def execute(self, requests: Any) -> Any:
        given = [{name: pb_utils.get_input_tensor_by_name(each, name).as_numpy() for name in self.inputs} for each in requests]
        shapes = {tuple(tensor.shape[1:] for tensor in tensors.values()) for tensors in given}
        if not self.batched or len(given) == 1 or len(shapes) != 1:
            return [self.response(self.session.run(self.outputs, tensors)) for tensors in given]
        together = {name: np.concatenate([tensors[name] for tensors in given]) for name in self.inputs}
        ends = np.cumsum([next(iter(tensors.values())).shape[0] for tensors in given])[:-1]
        parts = [np.split(found, ends) for found in self.session.run(self.outputs, together)]
        return [self.response([part[number] for part in parts]) for number in range(len(given))]

    def response(self, found: Any) -> Any:
        tensors = [pb_utils.Tensor(name, value.astype(self.types[name])) for name, value in zip(self.outputs, found, strict=True)]
        return pb_utils.InferenceResponse(output_tensors=tensors)
