"""Whether a serving version can be asked the labelled requests of its contract, and whether its replicas have room for them."""

import re
from collections.abc import Iterator
from math import ceil

from headway.contract.data import DataClass
from headway.contract.evaluation import Evaluation
from headway.contract.model_parts import ModelParts
from headway.contract.runtime import Triton
from headway.contract.units import Duration
from headway.problem import Problem, problem

_OUTPUT = re.compile(r"/outputs/([0-9]{1,9})(?=/|$)")
LOAD_AT_MOST = 0.02
"""Part of what the smallest fleet serves that labelled requests may take from users."""


def labelled_requests_can_be_asked(model: ModelParts) -> Iterator[Problem]:
    evaluation = model.evaluation
    if evaluation is None:
        return
    names = [golden.name for golden in model.health.golden]
    if evaluation.like not in names:
        yield problem(
            "labelled-like-a-golden-request",
            "evaluation",
            "like",
            value=evaluation.like,
            fact=f"there is no golden request {evaluation.like}",
            consequence="Nobody could tell which model to ask and where its answer is",
            remedy=f"Use one of {', '.join(names)}",
        )
    else:
        yield from _answer_is_there(model, evaluation)
    if model.data.classification is DataClass.PERSONAL:
        yield problem(
            "holdout-without-personal-data",
            "evaluation",
            "holdout",
            fact="requests hold personal data, and labelled ones are sent through the API server",
            consequence="Its audit log keeps them, where no deletion request reaches",
            remedy="Leave evaluation out, or remove personal data before the request and classify it as confidential",
        )


def _answer_is_there(model: ModelParts, evaluation: Evaluation) -> Iterator[Problem]:
    """Of Triton the outputs are known: a model answers with those of its contract, in their order."""
    golden = next(each for each in model.health.golden if each.name == evaluation.like)
    found = _OUTPUT.match(evaluation.answer or golden.answer)
    if not isinstance(model.runtime, Triton) or found is None:
        return
    asked = next((each for each in model.runtime.models if each.name == (golden.model or each.name)), None)
    if asked is not None and int(found[1]) >= len(asked.outputs):
        yield problem(
            "labelled-answer-is-an-output",
            "evaluation",
            "answer",
            value=evaluation.answer,
            fact=f"model {asked.name} has {len(asked.outputs)} outputs, and none at {found[0]}",
            consequence="Every answer would count as wrong, and a sound version would be taken back",
            remedy="Use " + " or ".join(f"/outputs/{number}/data ({each.name})" for number, each in enumerate(asked.outputs)),
        )


def labelled_requests_have_room(model: ModelParts) -> Iterator[Problem]:
    evaluation = model.evaluation
    if evaluation is None:
        return
    served = model.scaling.capacity.per_second * max(1, model.scaling.min_replicas)
    if evaluation.per_second > LOAD_AT_MOST * served:
        least = Duration.of_seconds(ceil(evaluation.requests / (LOAD_AT_MOST * served)))
        yield problem(
            "evaluation-is-paid-for",
            "evaluation",
            "requests",
            value=evaluation.requests,
            fact=f"{evaluation.requests} labelled requests each {evaluation.every} are more than {LOAD_AT_MOST:.0%} of what"
            f" the smallest fleet serves ({served:.3g} a second)",
            consequence="Users would wait behind them",
            remedy=f"Ask fewer, or leave {least} between rounds",
        )
    longest = evaluation.requests * model.health.warmup.p99.seconds
    if longest > evaluation.every.seconds / 2:
        yield problem(
            "round-within-its-time",
            "evaluation",
            "every",
            value=evaluation.every,
            fact=f"{evaluation.requests} labelled requests one after the other may take {longest:.3g} s by health.warmup.p99",
            consequence="Rounds would take more than half of the time, and the version would be asked without a pause",
            remedy=f"Use at least {Duration.of_seconds(ceil(2 * longest))}, or fewer requests",
        )
