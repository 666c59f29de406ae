"""The sample contracts as plain data, and a way to change one thing in them."""

import copy
from pathlib import Path
from typing import Any

from headway.contract.model import Model
from headway.contract.part import Part
from headway.contract.pool import Pool
from headway.contract.reading.document import read
from headway.contract.runtime import Engine
from headway.contract.starter import model_starter
from headway.contract.tenant import Tenant
from headway.problem import Problem
from tests.contract_data import contract_of

TENANTS = Path(__file__).parents[1] / "tenants"
GONE = object()
"""Stands for a key that is taken out."""


def _data(text: bytes, file: str) -> dict[str, Any]:
    document = read(text, file)
    assert not document.findings
    assert isinstance(document.data, dict)
    return document.data


DEFECTS = _data((TENANTS / "vision/defects.yaml").read_bytes(), "defects.yaml")
EMBEDDINGS = _data((TENANTS / "vision/embeddings.yaml").read_bytes(), "embeddings.yaml")
CHAT = _data((TENANTS / "assist/chat.yaml").read_bytes(), "chat.yaml")
CUSTOM = _data(model_starter("vision", "custom", Engine.CONTAINER).encode(), "custom.yaml")
VISION = _data((TENANTS / "vision/tenant.yaml").read_bytes(), "tenant.yaml")
ASSIST = _data((TENANTS / "assist/tenant.yaml").read_bytes(), "tenant.yaml")

AMI = {"release": "1.36.2-20260714", "driver": "580.159.03"}
ADAPTED: dict[str, Any] = {
    "runtime/adapters": [
        {"name": "tone", "folder": "adapters/tone/", "rank": 16},
        {"name": "terse", "folder": "adapters/terse/", "rank": 12},
    ],
    "runtime/architecture/intermediate": 14336,
    "artifact/files": [
        *CHAT["artifact"]["files"],
        *(
            {"path": f"adapters/{name}/{file}", "sha256": "ab" * 32, "size": size}
            for name in ("tone", "terse")
            for file, size in (("adapter_config.json", "600B"), ("adapter_model.safetensors", "80Mi"))
        ),
    ],
    "health/golden": [
        *CHAT["health"]["golden"],
        *({**copy.deepcopy(CHAT["health"]["golden"][0]), "name": f"capital-{name}", "model": name} for name in ("tone", "terse")),
    ],
}
"""What makes two adapters of the sample's language model."""
PREFILL: dict[str, Any] = {
    "gpu": {"share": "whole", "accelerator": "h100", "memory": "72Gi"},
    "cpu": "12",
    "memory": "96Gi",
    "shared_memory": "8Gi",
    "batching": {"kind": "continuous", "max_sequences": 16, "max_batched_tokens": 16384},
    "min_replicas": 1,
    "max_replicas": 2,
    "prompt_tokens": 3000,
    "token_capacity": "30000/s",
}
"""Replicas that read the prompts of the sample's language model."""
SPANNING: dict[str, Any] = {"pipeline": {"nodes": 2}, "envelope/gpu/count": 8, "optimisation": {}}
"""What divides the sample's language model over two nodes of eight GPUs."""

L4_POOL: dict[str, Any] = {
    "name": "l4",
    "instance_types": ["g6.xlarge"],
    "zones": ["us-west-2a", "us-west-2b"],
    "size": {"min": 0, "max": 8},
    "workload_class": "latency",
    "ami": AMI,
}
MIG_POOL: dict[str, Any] = {
    "name": "a100-mig",
    "instance_types": ["p4de.24xlarge"],
    "zones": ["us-west-2a"],
    "size": {"max": 1},
    "sharing": {"mode": "mig", "layout": {"1g.10gb": 7}},
    "workload_class": "throughput",
    "ami": AMI,
}
H100_POOL: dict[str, Any] = {
    "name": "h100",
    "instance_types": ["p5.48xlarge"],
    "zones": ["us-west-2a"],
    "size": {"max": 1},
    "workload_class": "throughput",
    "ami": AMI,
}


def changed(data: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """A copy of `data` with each dotted path set; list positions are numbers, GONE takes a key out."""
    result = copy.deepcopy(data)
    for dotted, value in changes.items():
        parts: list[Any] = [int(part) if part.isdigit() else part for part in dotted.split("/")]
        *above, last = parts
        target: Any = result
        for part in above:
            target = target[part]
        if value is GONE:
            del target[last]
        elif isinstance(target, list) and last == len(target):
            target.append(value)
        else:
            target[last] = value
    return result


def findings(data: dict[str, Any], kind: type[Part] = Model) -> dict[str, Problem]:
    """Rule to finding; empty when the contract is accepted."""
    _, found = contract_of(data, kind)
    return {finding.rule: finding for finding in found}


def model(data: dict[str, Any] = DEFECTS, **changes: Any) -> Model:
    return Model.model_validate(changed(data, {path.replace("__", "/"): value for path, value in changes.items()}))


def tenant(data: dict[str, Any] = VISION, **changes: Any) -> Tenant:
    return Tenant.model_validate(changed(data, {path.replace("__", "/"): value for path, value in changes.items()}))


def pool(data: dict[str, Any] = L4_POOL, **changes: Any) -> Pool:
    return Pool.model_validate(changed(data, {path.replace("__", "/"): value for path, value in changes.items()}))
