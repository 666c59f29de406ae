"""Whether requests get where they should, and have their time: golden ones, copies, classes, a fallback, those in flight."""

from collections.abc import Iterator

from headway.contract.health import LONGEST_DRAIN
from headway.contract.model_parts import ModelParts
from headway.contract.runtime import Triton
from headway.problem import Problem, problem


def golden_requests_reach_a_model(model: ModelParts) -> Iterator[Problem]:
    names = model.model_names
    named = isinstance(model.runtime, Triton) or len(names) > 1
    for number, golden in enumerate(model.health.golden):
        unknown = golden.model is not None and (not named or golden.model not in names)
        if unknown or (isinstance(model.runtime, Triton) and golden.model is None and len(names) > 1):
            yield problem(
                "golden-asks-a-model",
                "health",
                "golden",
                number,
                "model",
                value=golden.model,
                fact=f"golden request {golden.name} asks {'a model that is not here' if unknown else 'none of several models'}",
                consequence="Warmup would fail and no replica would ever be ready",
                remedy=f"Use one of {', '.join(names)}" if named else "Leave model out: only Triton, and vLLM with adapters, serve several",
            )
        if golden.file is not None and golden.file not in {file.path for file in model.artifact.files}:
            yield problem(
                "artifact-holds-the-golden-request",
                "health",
                "golden",
                number,
                "file",
                value=golden.file,
                fact=f"the artifact has no {golden.file}",
                consequence="The golden request could not be sent and no replica would ever be ready",
                remedy="Put it into the artifact's folder, a request body as callers send it, and let `headway artifact FOLDER` list all files",
            )
    asked = {golden.model or next(iter(names)) for golden in model.health.golden} if named else set(names)
    for name in names:
        if name not in asked:
            yield problem(
                "every-model-is-proved",
                "health",
                "golden",
                value=name,
                fact=f"no golden request asks model {name}",
                consequence="The model could give wrong answers and still be declared ready",
                remedy=f"Add a golden request with model: {name}",
            )


def copies_can_be_compared(model: ModelParts) -> Iterator[Problem]:
    mirror = model.rollout.mirror
    if mirror is None or mirror.differ is None:
        return
    valued = model.health.valued
    if valued is None:
        yield problem(
            "copies-can-be-compared",
            "rollout",
            "mirror",
            "differ",
            value=mirror.differ,
            fact="no golden request says how two answers are compared: all of them look at a form or at parts of a text",
            consequence="No answer to a copied request would ever be compared, and no release would get past the mirror step",
            remedy="Add a golden request with compare: exact, near, top or cosine; or leave differ out",
        )
        return
    way = ["response", *(step for step in valued.answer.split("/")[1:] if not step.isdigit())]
    kept = any(field.split(".") == way[: len(field.split("."))] for field in model.data.log_fields)
    if not kept or not model.data.sampled:
        yield problem(
            "copies-can-be-compared",
            "data",
            "log_fields",
            value=list(model.data.log_fields),
            fact=f"samples of requests do not keep {'.'.join(way)}, which answers to copies are compared by (rollout.mirror.differ)",
            consequence="No answer to a copied request would ever be compared, and no release would get past the mirror step",
            remedy=f"Add {'.'.join(way[:2])} to data.log_fields, with a data.sample above 0 %; or leave rollout.mirror.differ out",
        )


def running_requests_can_finish(model: ModelParts) -> Iterator[Problem]:
    timeout, drain = model.envelope.largest_request.timeout, model.health.drain
    if timeout > drain:
        yield problem(
            "drain-outlasts-a-request",
            "health",
            "drain",
            value=drain,
            fact=f"a request may take {timeout}, and a draining replica ends after {drain}",
            consequence="Every rollout and every scale-down would cut off the longest requests",
            remedy=(
                f"Raise drain to at least {timeout}, or lower envelope.largest_request.timeout"
                if timeout <= LONGEST_DRAIN
                else f"Lower envelope.largest_request.timeout to {LONGEST_DRAIN} or less: no replica has longer to end. Longer work belongs in batch"
            ),
        )


def classes_fit_the_largest_body(model: ModelParts) -> Iterator[Problem]:
    body = model.envelope.largest_request.body
    for number, request_class in enumerate(model.rollout.classes):
        if request_class.body_up_to is not None and request_class.body_up_to >= body:
            yield problem(
                "class-is-reachable",
                "rollout",
                "classes",
                number,
                "body_up_to",
                value=request_class.body_up_to,
                fact=f"class {request_class.name} takes bodies up to {request_class.body_up_to}, and none is larger than {body}",
                consequence="The classes after it would never receive a request",
                remedy=f"Use less than {body}",
            )


def fallback_is_another(model: ModelParts) -> Iterator[Problem]:
    if model.degradation.fallback and model.degradation.fallback.model == model.name:
        yield problem(
            "fallback-is-another",
            "degradation",
            "fallback",
            "model",
            value=model.name,
            fact="the model is its own fallback",
            consequence="Under overload a request would be sent to the same model again and again",
            remedy="Name a lighter model of the same tenant, or leave fallback out",
        )
