"""The form of a request of the Open Inference Protocol that can be asked over gRPC. Pure.

The trap: the protocol's gRPC form has no typed contents for 16-bit floats; a golden request of one cannot be asked.
Source: kserve open-inference-protocol, `grpc_predict_v2.proto`.
"""

from math import prod
from typing import Any, cast

from headway.contract.runtime import DataType
from headway.problem import FieldPath

TENSOR_TYPES = tuple(sorted(set(DataType) - {DataType.FP16, DataType.BF16}))
"""Element types that typed contents can carry."""


def wrong_in(request: dict[str, Any]) -> FieldPath | None:
    """Where `request` is no inference request; None where it is one."""
    inputs = request.get("inputs")
    if not isinstance(inputs, list) or not inputs:
        return ("inputs",)
    for number, tensor in enumerate(cast(list[Any], inputs)):
        if not isinstance(tensor, dict):
            return ("inputs", number)
        found = cast(dict[str, Any], tensor)
        shape = found.get("shape")
        if not isinstance(found.get("name"), str):
            return ("inputs", number, "name")
        if found.get("datatype") not in TENSOR_TYPES:
            return ("inputs", number, "datatype")
        if not isinstance(shape, list) or not all(type(size) is int and size > 0 for size in cast(list[Any], shape)):
            return ("inputs", number, "shape")
        data = _flattened(found.get("data"))
        if len(data) != prod(cast(list[int], shape)) or not all(_fits(value, str(found["datatype"])) for value in data):
            return ("inputs", number, "data")
    return None


def _flattened(data: Any) -> list[Any]:
    """The elements of a nested list, in order."""
    return [element for part in cast(list[Any], data) for element in _flattened(part)] if isinstance(data, list) else [data]


def _fits(value: Any, datatype: str) -> bool:
    if datatype == "BYTES":
        return isinstance(value, str)
    if datatype == "BOOL":
        return isinstance(value, bool)
    return isinstance(value, int | float if datatype.startswith("FP") else int) and not isinstance(value, bool)
