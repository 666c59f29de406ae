"""Every field of a contract changes something that is rendered, or says here who else uses it."""

import json
import types
import typing
from collections.abc import Callable, Iterator
from dataclasses import replace
from enum import Enum
from functools import cache
from typing import Any, Literal

import pytest

from components.model_service.manifests import ServicePlan
from components.model_service.release import Release
from components.tenant.component import reads_artifacts
from components.tenant.manifests import TenantPlan
from headway.contract.arithmetic.surge import batch_pool_for
from headway.contract.difference import RELEASED
from headway.contract.model import Model
from headway.contract.part import Part
from headway.contract.rules.files import configuration_bytes
from headway.contract.tenant import Tenant
from tests.components.contracts import CHAT, DEFECTS, MODELS, POOLS, SURROUNDINGS, changed, pool_of, tenant
from tests.contract_samples import ADAPTED, PREFILL, SPANNING

MODEL_ELSEWHERE = {
    "artifact.files.size": "the fetcher checks it; a test of its own below, for it also sizes volumes",
    "batch.pool": "chooses the pool of the workers",
    "drift": "`headway drift` reads it from the checkout",
    "envelope.gpu[SharedGpu].share": "chooses the pool, whose nodes share their GPUs this way",
    "evaluation": "`headway evaluate` reads it from the checkout",
    "health.engine_start": "start-up arithmetic refuses a budget that cannot hold it",
    "placement.isolation": "the contract's own check that share and isolation agree",
    "pipeline": "judged by `check`: every environment refuses it",
    "placement.pool": "chooses the pool: test_a_model_runs_on_the_pool_it_names",
    "prefill": "judged by `check`: every environment refuses it",
    "rollout": "the release driver reads it from the snapshot in the ledger",
    "runtime[Container].image_size": "start-up arithmetic",
    "runtime[Container].minimum_driver": "checked against the pool's driver",
    "runtime[Container].working_memory": "memory arithmetic",
    "runtime[Triton].image_size": "start-up arithmetic",
    "runtime[Triton].minimum_driver": "checked against the pool's driver",
    "runtime[Triton].models.activations": "memory arithmetic",
    "runtime[Triton].models.outputs.max_shape": "memory arithmetic: outputs are not sent",
    "runtime[Vllm].architecture": "memory arithmetic: the KV cache",
    "runtime[Vllm].image_size": "start-up arithmetic",
    "runtime[Vllm].minimum_driver": "checked against the pool's driver",
    "scaling.capacity": "cost and quota arithmetic",
    "scaling.token_capacity": "cost and quota arithmetic",
    "scaling.warm_replicas": "charged to the quota; the platform layer keeps the places",
}
"""Fields, or whole parts, that no object of the service shows, and why that is right."""
MODEL_ELSEWHERE_BUT_RENDERED = ("rollout.classes", "rollout.split.experiment", "rollout.split.user_claim", "rollout.surge")

BASES = {
    **MODELS,
    "chat-adapted": changed(CHAT, **{path.replace("/", "__"): value for path, value in ADAPTED.items()}),
    "chat-apart": changed(CHAT, prefill=PREFILL),
    "chat-spanning": changed(CHAT, **{path.replace("/", "__"): value for path, value in SPANNING.items()}),
    "defects-split": changed(
        DEFECTS,
        batch=None,
        rollout={
            "strategy": "ab",
            "split": {"share": "10%", "duration": "14d", "user_claim": "sub", "experiment": "one"},
            "classes": [{"name": "small", "body_up_to": "1Mi"}, {"name": "large"}],
        },
        optimisation__provenance__pruned="half",
        scaling__triggers=[{"signal": "queue_time", "target": "20ms"}, {"signal": "gpu_activity", "target": "80%"}],
    ),
    "chat-short": changed(CHAT, scaling__policy="target", scaling__headroom=None),
}


def parts(annotation: Any) -> list[type[Part]]:
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return parts(typing.get_args(annotation)[0])
    if isinstance(annotation, type) and issubclass(annotation, Part):
        return [annotation]
    if origin in (typing.Union, types.UnionType, tuple, list):
        return [part for each in typing.get_args(annotation) if each is not type(None) for part in parts(each)]
    return []


def leaves(part: type[Part], prefix: str = "") -> Iterator[str]:
    """Paths of all fields that are no parts themselves; alternatives are marked by their type."""
    for name, field in part.model_fields.items():
        below = parts(field.annotation)
        if not below and not _names_its_alternative(field.annotation):
            yield prefix + name
        for each in below:
            yield from leaves(each, f"{prefix}{name}{f'[{each.__name__}]' if len(below) > 1 else ''}.")


def _names_its_alternative(annotation: Any) -> bool:
    return typing.get_origin(annotation) is Literal and len(typing.get_args(annotation)) == 1


def places(part: Part, prefix: str = "") -> Iterator[tuple[str, Any, Callable[[Any], Any]]]:
    """(path, value, how to get the whole with another value there) of every field of a contract that is set."""
    for name, field in type(part).model_fields.items():
        value, several = getattr(part, name), len(parts(field.annotation)) > 1

        def put(new: Any, name: str = name) -> Part:
            return part.model_copy(update={name: new})

        if isinstance(value, Part):
            mark = f"[{type(value).__name__}]" if several else ""
            for path, found, again in places(value, f"{prefix}{name}{mark}."):
                yield path, found, lambda new, put=put, again=again: put(again(new))
        elif isinstance(value, tuple) and value and isinstance(value[0], Part):
            for index, item in enumerate(value):
                mark = f"[{type(item).__name__}]" if several else ""
                for path, found, again in places(item, f"{prefix}{name}{mark}."):
                    yield (
                        path,
                        found,
                        lambda new, put=put, again=again, index=index, value=value: put((*value[:index], again(new), *value[index + 1 :])),
                    )
        elif value is not None:
            yield prefix + name, value, put


def others(value: Any) -> list[Any]:
    """Other values of the same kind; validity does not matter, only whether anyone looks."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, Enum):
        return [member for member in type(value) if member is not value]
    if isinstance(value, int):
        return [type(value)(int(value) * 2 + 1), type(value)(int(value) // 2)]
    if isinstance(value, float):
        return [value * 2 + 0.01]
    if isinstance(value, str):
        # Enumerations of texts (`FP16`) and free texts alike.
        return [f"{value}x", "draft", "float16", "grpc", "2g.20gb", "image-encoder", "text-encoder"]
    if isinstance(value, tuple):
        return [value[:-1], (*value, value[0])] if value else [("response.other",)]
    if isinstance(value, dict):
        return [{**value, "other": 1}, {}, {**value, **{k: v + 1 for k, v in value.items() if isinstance(v, int)}}]
    return []


def rendered(model: Model) -> str:
    """Everything of the service, without the names that only say that something else changed."""
    release = Release(model=model)
    fallback = model.degradation.fallback.model if model.degradation.fallback else None
    base = BASES_BY_ID.get(id(model), model)
    found = ServicePlan.of("vision", model, pool_of(base), SURROUNDINGS, fallback, batch_pool_for(base, POOLS))
    bodies = [
        *(dict(manifest.body) for manifest in found.manifests()),
        *({"kind": "Queue", "metadata": {}, "spec": dict(a)} for _, a in found.queues),
    ]
    names = [body["metadata"]["name"] for body in bodies if body["kind"] == "ConfigMap"]
    text = json.dumps(bodies, sort_keys=True)
    for name in sorted(names, key=len, reverse=True):
        if release.id in name:
            text = text.replace(name, "CONFIGURATION")
    return text.replace(release.id, "RELEASE")


BASES_BY_ID: dict[int, Model] = {}


def rendered_on(model: Model, base: Model) -> str:
    """As `rendered`, on the pool of `base`: a changed envelope may fit no pool."""
    BASES_BY_ID[id(model)] = base
    try:
        return rendered(model)
    finally:
        del BASES_BY_ID[id(model)]


@cache
def rendered_base(name: str) -> str:
    return rendered_on(BASES[name], BASES[name])


def elsewhere(path: str, table: dict[str, str]) -> bool:
    return any(path == key or path.startswith((f"{key}.", f"{key}[")) for key in table)


def model_fields() -> list[str]:
    return [
        path for path in sorted(set(leaves(Model))) if not elsewhere(path, MODEL_ELSEWHERE) or path.startswith(MODEL_ELSEWHERE_BUT_RENDERED)
    ]


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
@pytest.mark.parametrize("path", model_fields())
def test_every_field_of_a_model_shows_in_what_is_rendered(path: str) -> None:
    tried = 0
    for name, base in BASES.items():
        before = rendered_base(name)
        for found, value, put in places(base):
            if found != path:
                continue
            for other in others(value):
                tried += 1
                try:
                    after = rendered_on(put(other), base)
                except (AssertionError, AttributeError, KeyError, TypeError, ValueError):
                    continue
                if after != before:
                    return
    assert tried, f"no contract of the tests sets {path}: add one to BASES, or say in MODEL_ELSEWHERE who uses it"
    raise AssertionError(f"{path} changes nothing that is rendered: render it, or say in MODEL_ELSEWHERE who uses it")


def test_the_list_of_fields_used_elsewhere_names_fields_that_exist() -> None:
    known = set(leaves(Model))
    for key in (*MODEL_ELSEWHERE, *MODEL_ELSEWHERE_BUT_RENDERED):
        assert key in known or any(path.startswith((f"{key}.", f"{key}[")) for path in known), key


def everything(found: Tenant, models: tuple[Model, ...] = ()) -> str:
    plan = TenantPlan(tenant=found, models=models, pools=POOLS, surroundings=SURROUNDINGS)
    return json.dumps([dict(m.body) for m in plan.manifests()], sort_keys=True)


@pytest.mark.parametrize("path", sorted(set(leaves(Tenant))))
def test_every_field_of_a_tenant_shows_in_what_is_rendered(path: str) -> None:
    models = tuple(MODELS.values())
    for name in ("assist", "vision"):
        base = tenant(name)
        before = everything(base, models)
        for found, value, put in places(base):
            for other in others(value) if found == path else []:
                try:
                    after = everything(put(other), models)
                except (AttributeError, TypeError):
                    continue
                if after != before:
                    return
    raise AssertionError(f"{path} changes nothing that is rendered")


RELEASED_ONLY = {name for name in Model.model_fields if name in RELEASED}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(Model.model_fields) - RELEASED_ONLY))
def test_a_field_outside_the_release_never_reaches_a_pod_or_its_configuration(name: str) -> None:
    """Else changing an objective would restart a release that the ledger calls immutable."""
    for base in BASES.values():
        before = pods_of(base, base)
        for path, value, put in places(base):
            if path.split(".")[0].split("[")[0] == name and path != "name":
                for other in others(value):
                    try:
                        after = pods_of(put(other), base)
                    except (AssertionError, AttributeError, KeyError, TypeError, ValueError):
                        continue
                    assert after == before, f"{path} changes the pod of a release"


def pods_of(model: Model, base: Model) -> str:
    """What an online replica is made of; batch workers are no part of a release."""
    service = ServicePlan.of("vision", model, pool_of(base), SURROUNDINGS, None, batch_pool_for(base, POOLS))
    bodies = [m.body for m in service.manifests() if not m.role.startswith("batch-")]
    pods = [b["spec"]["template"] for b in bodies if b["kind"] == "Deployment"]
    files = [b["data"] for b in bodies if b["kind"] == "ConfigMap" and b.get("immutable")]
    return json.dumps([pods, files], sort_keys=True)


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
@pytest.mark.parametrize("name", RELEASED)
def test_a_change_of_a_released_field_is_another_release(name: str) -> None:
    base = MODELS["defects"]
    path, value, put = next((p, v, f) for p, v, f in places(base) if p.split(".")[0].split("[")[0] == name)
    assert Release(model=put(others(value)[0])).id != Release(model=base).id, path


def test_a_release_is_the_same_whatever_is_promised_scaled_or_owned() -> None:
    base = MODELS["defects"]
    promised = changed({**DEFECTS, "batch": None}, owner="somebody else", scaling__max_replicas=3, description="other words")
    assert Release(model=promised).id == Release(model=base).id


def test_a_model_runs_on_the_pool_it_names() -> None:
    spare = next(pool for pool in POOLS if pool.name == "l4").model_copy(update={"name": "l4-other"})
    service = replace(ServicePlan.of("vision", MODELS["defects"], pool_of(MODELS["defects"]), SURROUNDINGS), pool=spare)
    (server,) = [m.body for m in service.manifests() if m.kind == "Deployment"]
    assert server["spec"]["template"]["spec"]["nodeSelector"] == {"platform.io/pool": "l4-other"}


def test_the_size_of_an_artifact_sizes_its_cache_and_is_checked_when_fetched() -> None:
    files = [{**DEFECTS["artifact"]["files"][0], "size": "20Gi"}, *DEFECTS["artifact"]["files"][1:]]
    large = changed({**DEFECTS, "batch": None}, artifact__files=files, health__startup_budget="4h")
    text = rendered(large)
    assert "21474836480" in text
    assert '"sizeLimit": "21509Mi"' in text


def test_artifacts_of_two_prefixes_are_both_readable_and_listed_once() -> None:
    other = changed({**DEFECTS, "batch": None}, name="other", artifact__uri="s3://more-models/vision/other/1/")
    statement = reads_artifacts("vision", [MODELS["defects"], other, MODELS["embeddings"]], "ours")
    assert statement.resources == ["arn:aws:s3:::more-models/vision/*", "arn:aws:s3:::ours/vision/*"]


def test_an_absolute_uri_is_rendered_as_it_stands() -> None:
    assert "s3://more-models/vision/1/" in rendered(changed({**DEFECTS, "batch": None}, artifact__uri="s3://more-models/vision/1/"))
    assert "artifacts://" not in rendered(MODELS["defects"])


@pytest.mark.parametrize("name", MODELS)
def test_no_configuration_is_larger_than_its_contract_is_checked_for(name: str) -> None:
    first, *others = MODELS[name].health.model_dump(mode="json")["golden"]
    many = {**first, "expect": {"compare": "near", "value": [0.123456789] * 9_000, "relative": 0.1}}
    model = changed(MODELS[name].model_dump(mode="json"), health__golden=[many, *others])
    plan = ServicePlan.of("vision", model, pool_of(model), SURROUNDINGS, None, batch_pool_for(model, POOLS))
    kept = [m.body["data"] for m in plan.manifests() if m.role.endswith("-configuration")]
    assert 100_000 < max(sum(len(text.encode()) for text in data.values()) for data in kept) < configuration_bytes(model)
