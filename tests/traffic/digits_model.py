"""Writes a stand-in for the guide's public model: the same tensors, made-up weights. `python3 digits_model.py FILE`, with the Python
of the traffic environment: a test has no way to the model itself."""

import sys
from pathlib import Path

import numpy as np  # pyright: ignore[reportMissingImports]
from onnx import TensorProto, helper, numpy_helper  # pyright: ignore[reportMissingImports]

weights = np.random.default_rng(12).normal(0.0, 0.1, (784, 10)).astype(np.float32)
shape = np.array([1, 784], dtype=np.int64)
graph = helper.make_graph(
    [helper.make_node("Reshape", ["Input3", "shape"], ["flat"]), helper.make_node("MatMul", ["flat", "weights"], ["Plus214_Output_0"])],
    "stand-in",
    [helper.make_tensor_value_info("Input3", TensorProto.FLOAT, [1, 1, 28, 28])],
    [helper.make_tensor_value_info("Plus214_Output_0", TensorProto.FLOAT, [1, 10])],
    [numpy_helper.from_array(weights, "weights"), numpy_helper.from_array(shape, "shape")],
)
made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="headway-sandbox", ir_version=9)
Path(sys.argv[1]).write_bytes(made.SerializeToString(deterministic=True))
