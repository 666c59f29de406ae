"""What callers and the way to a replica may do: more, larger, unproven or unroutable requests, and a slow way."""

from headway.contract.runtime import Engine
from headway.diagnosis.asking import Above, Rest, Rose
from headway.diagnosis.hypothesis import DRIFT, STATUS, CauseLayer, Hypothesis, Symptom

ALL = (
    Hypothesis(
        name="more-requests",
        layer=CauseLayer.REQUEST,
        says="callers ask more than before",
        explains=("queue-longer", "model-longer", "over-the-rate", "late-requests"),
        predicts=(Rose("requests", by=1.2),),
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
        name="way-longer",
        layer=CauseLayer.GATEWAY,
        says="the way between the gateway and the replicas takes longer",
        explains=(Symptom.SLOW,),
        predicts=(Rest("latency", "at_replica", "the way from the gateway to the replicas"),),
        commands=(STATUS,),
    ),
    Hypothesis(
        name="proxy-longer",
        layer=CauseLayer.GATEWAY,
        says="the replicas' own proxies take longer",
        explains=(Symptom.SLOW,),
        predicts=(Rest("at_replica", "served", "between a replica's proxy and its server"),),
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
