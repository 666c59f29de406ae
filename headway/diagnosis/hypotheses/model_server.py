"""What the model's server may do: take longer in one of its phases, fail, hang, end, or run out of memory or cache."""

from headway.contract.runtime import Engine
from headway.diagnosis.asking import ONE_REPLICA, Above, Fell, OneOfThem, PartOf, Rose, Says, Unproven
from headway.diagnosis.facts import StateKind
from headway.diagnosis.hypothesis import LOGS, NODES, STATUS, CauseLayer, Hypothesis, Symptom


def _phase(name: str, says: str, part: str, engine: Engine | None = None) -> Hypothesis:
    return Hypothesis(
        name=name,
        layer=CauseLayer.MODEL_SERVER,
        says=says,
        explains=(Symptom.SLOW,),
        predicts=(PartOf(part, "latency"),),
        root=False,
        engine=engine,
    )


ALL = (
    _phase("model-longer", "the model itself takes longer", "compute", Engine.TRITON),
    _phase("queue-longer", "requests wait longer in the server's queue", "queue"),
    _phase("input-longer", "the server takes longer to read inputs", "input", Engine.TRITON),
    _phase("output-longer", "the server takes longer to write outputs", "output", Engine.TRITON),
    _phase("prefill-longer", "the engine takes longer to read prompts", "prefill", Engine.VLLM),
    _phase("decode-longer", "the engine takes longer to write answers", "decode", Engine.VLLM),
    Hypothesis(
        name="one-replica-slow",
        layer=CauseLayer.MODEL_SERVER,
        says="one replica takes longer than its siblings for the same work",
        explains=("model-longer", "prefill-longer", "decode-longer", Symptom.BROKEN),
        predicts=(ONE_REPLICA,),
        commands=(NODES, "headway logs {chain} -e {environment} --pod {where} --since 10m"),
    ),
    Hypothesis(
        name="cpu-quota-used-up",
        layer=CauseLayer.MODEL_SERVER,
        says="the container's CPU quota is used up",
        explains=("model-longer", "input-longer", "output-longer", "queue-longer", "prefill-longer", "decode-longer", "proxy-longer"),
        predicts=(Above("throttled", 0.1),),
        commands=("headway check --explain",),
    ),
    Hypothesis(
        name="model-longer-queues",
        layer=CauseLayer.MODEL_SERVER,
        engine=Engine.TRITON,
        says="requests wait because the model takes longer for each",
        explains=("queue-longer",),
        predicts=(Rose("compute"), Unproven("requests", by=1.2)),
        root=False,
    ),
    Hypothesis(
        name="model-slower",
        layer=CauseLayer.MODEL_SERVER,
        engine=Engine.TRITON,
        says="the version that serves takes longer for the same work, on every replica",
        explains=("model-longer", "model-longer-queues"),
        predicts=(
            Rose("compute"),
            Rose("busy", by=1.1),
            Unproven("requests", by=1.2),
            Unproven("request_size", by=1.2),
        ),
        excludes=(OneOfThem("compute_by_pod"),),
        runbook="slo-burn-rate",
        commands=(LOGS, 'headway release rollback {chain} -e {environment} --reason "answers take longer"'),
    ),
    Hypothesis(
        name="batch-larger",
        layer=CauseLayer.MODEL_SERVER,
        engine=Engine.TRITON,
        # Batches that fill because the model is slow keep its instances busier; those that wait to fill do not.
        says="more requests are computed together, so that each waits for more of them",
        explains=("model-longer", "queue-longer"),
        predicts=(Rose("batch_size"), Unproven("busy", by=1.1), Unproven("requests", by=1.2)),
        commands=("headway diff {contract}",),
    ),
    Hypothesis(
        name="cache-full",
        layer=CauseLayer.MODEL_SERVER,
        engine=Engine.VLLM,
        says="the KV cache is full, so sequences are thrown out and computed again",
        explains=("queue-longer", "decode-longer", "prefill-longer"),
        predicts=(Above("preemptions", 0.01),),
        runbook="kv-cache-full",
        commands=(STATUS,),
    ),
    Hypothesis(
        name="prefix-cache-cold",
        layer=CauseLayer.MODEL_SERVER,
        engine=Engine.VLLM,
        says="prompts find less of themselves in the prefix cache than before",
        explains=("prefill-longer", "queue-longer"),
        predicts=(Fell("prefix_hits", by=1.25, least=0.1), Unproven("prompt_tokens", by=1.2)),
        commands=(STATUS, LOGS),
    ),
    Hypothesis(
        name="out-of-memory",
        layer=CauseLayer.MODEL_SERVER,
        says="the kernel ends the server because it uses more memory than its limit",
        explains=(Symptom.ENDING, "server-ends"),
        predicts=(Says((StateKind.MEMORY_KILLED,)),),
        runbook="model-server-out-of-memory",
        commands=(LOGS, STATUS),
    ),
    Hypothesis(
        name="server-hangs",
        layer=CauseLayer.MODEL_SERVER,
        says="the server runs and answers nothing, so that its probe has it started again",
        explains=(Symptom.ENDING, "server-ends", "nobody-answers"),
        predicts=(Says((StateKind.PROBE_KILLED,)),),
        excludes=(Says((StateKind.MEMORY_KILLED,)),),
        runbook="requests-unanswered",
        commands=(LOGS, STATUS),
    ),
    Hypothesis(
        name="server-killed",
        layer=CauseLayer.MODEL_SERVER,
        says="the server ends again and again, by itself or by somebody's hand",
        explains=(Symptom.ENDING, "server-ends"),
        predicts=(Says((StateKind.ENDED,)),),
        excludes=(Says((StateKind.MEMORY_KILLED, StateKind.PROBE_KILLED)),),
        runbook="model-server-restarts",
        commands=(LOGS,),
    ),
    Hypothesis(
        name="nobody-answers",
        layer=CauseLayer.MODEL_SERVER,
        says="requests reach no replica that answers",
        explains=(Symptom.FAILING,),
        predicts=(Above("unreached", 0.01),),
        root=False,
        runbook="requests-unanswered",
    ),
    Hypothesis(
        name="server-ends",
        layer=CauseLayer.MODEL_SERVER,
        says="the server ended, and requests failed until it was there again",
        explains=("nobody-answers", Symptom.MISSING),
        predicts=(Says((StateKind.MEMORY_KILLED, StateKind.PROBE_KILLED, StateKind.ENDED)),),
        root=False,
    ),
    Hypothesis(
        name="model-fails",
        layer=CauseLayer.MODEL_SERVER,
        engine=Engine.TRITON,
        says="the version that serves fails requests itself",
        explains=(Symptom.FAILING,),
        predicts=(Above("failures", 0.001),),
        runbook="slo-burn-rate",
        commands=(LOGS, 'headway release rollback {chain} -e {environment} --reason "requests fail"'),
    ),
)
