"""What callers may do: ask more, larger, again, without proof or what nobody can answer."""

from headway.contract.runtime import Engine
from headway.diagnosis.asking import Above, Rose
from headway.diagnosis.hypothesis import DRIFT, LOGS, STATUS, CauseLayer, Hypothesis, Symptom
from headway.diagnosis.repeating import CallersRepeat

_OF_MORE = (
    "queue-longer",
    "model-longer",
    "prefill-longer",
    "decode-longer",
    "over-the-rate",
    "late-requests",
    "replicas-full",
    "pool-full",
)

ALL = (
    Hypothesis(
        name="callers-repeat",
        layer=CauseLayer.REQUEST,
        says="callers ask again for what failed, so that there are more requests than users want",
        explains=_OF_MORE,
        predicts=(CallersRepeat(), Rose("requests", by=1.2)),
        runbook="slo-burn-rate",
        commands=(STATUS,),
    ),
    Hypothesis(
        name="more-requests",
        layer=CauseLayer.REQUEST,
        says="callers ask more than before",
        explains=(*_OF_MORE, "gateway-throttled", "gateway-full"),
        predicts=(Rose("requests", by=1.2),),
        excludes=(CallersRepeat(),),
        runbook="at-maximum-replicas",
        commands=(STATUS,),
    ),
    Hypothesis(
        name="larger-requests",
        layer=CauseLayer.REQUEST,
        says="each request brings more to work on",
        explains=("model-longer", "input-longer", "queue-longer"),
        predicts=(Rose("request_size", by=1.2),),
        commands=(DRIFT,),
    ),
    Hypothesis(
        name="longer-prompts",
        layer=CauseLayer.REQUEST,
        engine=Engine.VLLM,
        says="prompts are longer than before",
        explains=("prefill-longer", "queue-longer"),
        predicts=(Rose("prompt_tokens", by=1.2),),
        commands=(DRIFT,),
    ),
    Hypothesis(
        name="longer-answers",
        layer=CauseLayer.REQUEST,
        engine=Engine.VLLM,
        says="answers are longer than before",
        explains=("decode-longer", "queue-longer"),
        predicts=(Rose("answer_tokens", by=1.2),),
        commands=(DRIFT,),
    ),
    Hypothesis(
        name="over-the-rate",
        layer=CauseLayer.REQUEST,
        says="callers ask more than the tenant has agreed, and the gateway refuses the rest",
        explains=(Symptom.REFUSED,),
        predicts=(Above("limited", 0.01),),
        runbook="tenant-rate-limited",
        commands=(STATUS,),
    ),
    Hypothesis(
        name="invalid-tokens",
        layer=CauseLayer.REQUEST,
        says="callers come with tokens that are not valid: expired, or signed by a key that their issuer does not have",
        explains=(Symptom.REFUSED,),
        predicts=(Above("unproven", 0.01),),
        runbook="callers-refused",
        commands=(STATUS,),
    ),
    Hypothesis(
        name="callers-not-allowed",
        layer=CauseLayer.REQUEST,
        says="callers come without a token, or with one of another tenant",
        explains=(Symptom.REFUSED,),
        predicts=(Above("forbidden", 0.01),),
        runbook="callers-refused",
        commands=(STATUS,),
    ),
    Hypothesis(
        name="malformed-requests",
        layer=CauseLayer.REQUEST,
        # Of which caller no series says: the gateway knows whose host is asked, and a token's user is no label.
        says="callers send what the server cannot read, or ask for what it does not have",
        explains=(Symptom.REFUSED,),
        predicts=(Above("malformed", 0.01),),
        runbook="callers-refused",
        commands=(LOGS,),
    ),
    Hypothesis(
        name="late-requests",
        layer=CauseLayer.REQUEST,
        says="requests run out of time before they are answered",
        explains=(Symptom.FAILING,),
        predicts=(Above("late", 0.01),),
        root=False,
    ),
)
