"""Contracts to render in tests: the three samples, and variants of them that cover every runtime, sharing mode and
workload class.
"""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from components.model_service.manifests import ServicePlan
from components.tenant.manifests import TenantPlan
from components.tenant.surroundings import Surroundings
from headway.contract.arithmetic.surge import batch_pool_for, pool_for
from headway.contract.model import Model
from headway.contract.pool import Pool
from headway.contract.pool_parts import Spot
from headway.contract.tenant import Tenant

TENANTS = Path(__file__).parents[2] / "tenants"
SURROUNDINGS = Surroundings(
    environment="test", region="us-west-2", account_id="111122223333", hosts=("inference.example.com",), gateway_replicas=2
)


def pool(name: str, instance_type: str, workload_class: str, **sharing: Any) -> Pool:
    ami = {"release": "1.36.2-20260714", "driver": "580.159.03"}
    given: dict[str, Any] = {"name": name, "instance_types": [instance_type], "zones": ["us-west-2a"], "size": {"max": 2}, "ami": ami}
    return Pool.model_validate({**given, "workload_class": workload_class, **({"sharing": sharing} if sharing else {})})


POOLS = (
    pool("l4-spot", "g6.12xlarge", "batch").model_copy(update={"capacity": Spot(kind="spot")}),
    pool("a100-mig", "p4de.24xlarge", "throughput", mode="mig", layout={"1g.10gb": 7}),
    pool("h100", "p5.48xlarge", "throughput"),
    pool("h100-mig", "p5.48xlarge", "latency", mode="mig", layout={"3g.40gb": 2}),
    pool("l4", "g6.12xlarge", "latency"),
    pool("l4-dense", "g6.12xlarge", "throughput"),
    pool("l4-mps", "g6.12xlarge", "latency", mode="mps", replicas=4),
    pool("l4-slice", "g6.12xlarge", "throughput", mode="slice", replicas=4),
)


def document(tenant: str, name: str) -> dict[str, Any]:
    """A sample contract as its file holds it."""
    return yaml.safe_load((TENANTS / tenant / f"{name}.yaml").read_text())


def tenant(name: str) -> Tenant:
    return Tenant.model_validate(document(name, "tenant"))


def changed(base: Mapping[str, Any], **changes: Any) -> Model:
    """A model contract with some places changed; `a__b=1` sets `a.b`, None takes a place away."""
    found = copy.deepcopy(dict(base))
    for path, value in changes.items():
        *way, last = path.split("__")
        place: Any = found
        for step in way:
            place = place[int(step)] if isinstance(place, list) else place.setdefault(step, {})
        if value is None:
            place.pop(last, None)
        elif isinstance(place, list):
            place[int(last)] = value
        else:
            place[last] = value
    return Model.model_validate(found)


DEFECTS, EMBEDDINGS, CHAT = document("vision", "defects"), document("vision", "embeddings"), document("assist", "chat")
CONTAINER = {
    "engine": "container",
    "image": DEFECTS["runtime"]["image"],
    "minimum_driver": "570.86",
    "image_size": "2Gi",
    "command": ["/server", "--port=9000"],
    "environment": {"LOG_LEVEL": "info"},
    "protocol": "http",
    "port": 9000,
    "metrics": {"port": 9001},
    "working_memory": "1Gi",
}
_REQUEST = {"name": "one", "request": {"x": [1, 2]}, "answer": "/y", "expect": {"compare": "near", "value": [3.0], "absolute": 0.1}}
_INFERENCE = {
    "name": "one",
    "request": {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1, 2.5]}]},
    "answer": "/outputs/0/data",
    "expect": {"compare": "near", "value": [3.0], "absolute": 0.1},
}
_JUDGED = [
    _REQUEST,
    {**_REQUEST, "name": "exact", "expect": {"compare": "exact", "value": 3}},
    {**_REQUEST, "name": "relative", "expect": {"compare": "near", "value": [3.0], "relative": 0.1}},
    {**_REQUEST, "name": "top", "expect": {"compare": "top", "index": 2}},
    {**_REQUEST, "name": "cosine", "expect": {"compare": "cosine", "value": [1.0, 2.0], "at_least": 0.9}},
    {**_REQUEST, "name": "contains", "expect": {"compare": "contains", "parts": ["blue"]}},
    {**_REQUEST, "name": "schema", "expect": {"compare": "schema", "document": {"type": "object"}}},
]
PLAIN: dict[str, Any] = {
    "batching": {"kind": "none", "max_concurrent": 4},
    "optimisation": None,
    "health__golden": _JUDGED,
    "scaling__triggers": [{"signal": "request_rate", "target": "20/s"}],
    "scaling__warm_replicas": None,
    "slo": [{"signal": "availability", "objective": "99.9%"}, {"signal": "latency", "quantile": "95%", "threshold": "250ms"}],
    "batch": None,
}

MODELS: dict[str, Model] = {
    "chat": changed(CHAT),
    "chat-mig": changed(
        CHAT,
        name="chat-mig",
        workload_class="latency",
        envelope__gpu={"share": "mig", "accelerator": "h100", "profile": "3g.40gb", "memory": "36Gi"},
        envelope__largest_request__context_tokens=8192,
        placement__isolation="mig",
        optimisation={"speculation": {"method": "eagle", "tokens": 3, "folder": "draft/"}},
        artifact__files=[*CHAT["artifact"]["files"], {"path": "draft/model.safetensors", "sha256": "a" * 64, "size": "200Mi"}],
    ),
    "defects": changed(DEFECTS, batch=None),
    "defects-dense": changed(
        DEFECTS,
        name="defects-dense",
        artifact__files__0__md5="c" * 32,
        artifact__files__0__path="defects/1/model.py",
        runtime__models__0__backend="python",
        workload_class="throughput",
        batch=None,
        batching={"kind": "none", "max_concurrent": 2},
        optimisation=None,
        scaling__headroom=None,
        rollout__surge="surge",
    ),
    "defects-mps": changed(
        DEFECTS,
        name="defects-mps",
        batch=None,
        envelope__gpu={"share": "mps", "accelerator": "l4", "memory": "5Gi"},
        envelope__shared_memory=None,
        placement__isolation="shared",
    ),
    "defects-slice": changed(
        DEFECTS,
        name="defects-slice",
        workload_class="throughput",
        batch=None,
        envelope__gpu={"share": "slice", "accelerator": "l4", "memory": "5Gi"},
        placement__isolation="shared",
        degradation__fallback={"model": "defects", "priorities": ["normal"]},
    ),
    "defects-night": changed(
        DEFECTS,
        name="defects-night",
        batch={
            "max_replicas": 2,
            "messages_per_replica": 500,
            "deadline": "12h",
            "message_timeout": "2m",
            "store": "s3://example-batch/vision/defects/",
        },
    ),
    "embeddings": changed(EMBEDDINGS),
    "plain": changed(DEFECTS, name="plain", runtime=CONTAINER, **PLAIN),
    "plain-grpc": changed(
        DEFECTS,
        name="plain-grpc",
        workload_class="throughput",
        runtime={**CONTAINER, "protocol": "grpc"},
        **{**PLAIN, "health__golden": [_INFERENCE]},
    ),
}
"""Eleven contracts by name. Golden requests of plain containers are JSON of their own; a gRPC one's are the Open
Inference Protocol's.
"""


def pool_of(model: Model) -> Pool:
    found = pool_for(model, POOLS)
    assert found is not None, f"no pool of the tests offers the envelope of {model.name}"
    return found


def service(name: str, tenant_name: str = "vision") -> ServicePlan:
    model = MODELS[name]
    fallback = model.degradation.fallback.model if model.degradation.fallback else None
    return ServicePlan.of(tenant_name, model, pool_of(model), SURROUNDINGS, fallback, batch_pool_for(model, POOLS))


def plan(name: str = "vision", models: tuple[Model, ...] = ()) -> TenantPlan:
    return TenantPlan(tenant=tenant(name), models=models, pools=POOLS, surroundings=SURROUNDINGS)


def bodies(found: ServicePlan, kind: str) -> list[dict[str, Any]]:
    return [dict(m.body) for m in found.manifests() if m.kind == kind]
