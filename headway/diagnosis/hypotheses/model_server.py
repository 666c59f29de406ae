"""What the model's server may do: take longer in one of its phases, fail, hang, end, or run out of memory or cache."""

from headway.contract.runtime import Engine
from headway.diagnosis.asking import ONE_REPLICA, Above, AnyOf, Fell, OneOfThem, PartOf, Reached, Rose, Says, Unproven
from headway.diagnosis.asking_changes import InUse
from headway.diagnosis.facts import ENDS, StateKind
from headway.diagnosis.hypothesis import LOGS, NODES, STATUS, CauseLayer, Hypothesis, Symptom
from headway.diagnosis.repeating import CallersRepeat


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


_CROWDED = InUse("busy_by_pod", "instances", least=0.5)
"""Below, most requests find a free instance: those that come at random see what holds on the average (Wolff, "Poisson arrivals see time
averages", 1982), so what they then wait for is a batch."""
_FULL = InUse("running_by_pod", "sequences", least=0.5)
_AS_BEFORE = (Unproven("requests", by=1.2), Unproven("request_size", by=1.2))
_FEWER = Fell("replicas", by=1.1, least=0.5)

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
        explains=("model-longer", "model-longer-queues", "callers-repeat"),
        predicts=(
            Rose("compute"),
            Rose("busy", by=1.1),
            AnyOf((Unproven("requests", by=1.2), CallersRepeat())),
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
        excludes=(_CROWDED,),
        commands=("headway diff {contract}",),
    ),
    Hypothesis(
        name="too-few-instances",
        layer=CauseLayer.MODEL_SERVER,
        engine=Engine.TRITON,
        says="requests wait because every instance of the model computes most of the time, though none takes longer",
        explains=("queue-longer",),
        # Larger batches take longer each, and keep instances no busier.
        predicts=(_CROWDED, *_AS_BEFORE, Unproven("busy", by=1.1)),
        excludes=(_FEWER,),
        commands=(STATUS, "headway diff {contract}"),
    ),
    Hypothesis(
        name="too-few-sequences",
        layer=CauseLayer.MODEL_SERVER,
        engine=Engine.VLLM,
        says="requests wait because as many sequences compute as the contract allows, though none takes longer",
        explains=("queue-longer",),
        predicts=(_FULL, *_AS_BEFORE, Unproven("prefill"), Unproven("decode"), Unproven("prompt_tokens"), Unproven("answer_tokens")),
        excludes=(_FEWER, Above("preemptions", 0.01)),
        commands=(STATUS, "headway diff {contract}"),
    ),
    Hypothesis(
        name="preempted",
        layer=CauseLayer.MODEL_SERVER,
        engine=Engine.VLLM,
        says="sequences are thrown out of the KV cache and computed again",
        explains=("queue-longer", "decode-longer", "prefill-longer"),
        predicts=(Above("preemptions", 0.01),),
        root=False,
    ),
    Hypothesis(
        name="cache-full",
        layer=CauseLayer.MODEL_SERVER,
        engine=Engine.VLLM,
        # Sequences wait where none of the cache's blocks is free, and are thrown out where one that computes needs another one
        # (vLLM, `vllm/v1/core/sched/scheduler.py`, `schedule`).
        says="the KV cache is full",
        explains=("preempted", "queue-longer"),
        predicts=(AnyOf((Reached("kv_cache", 0.9), Above("preemptions", 0.01))),),
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
        explains=(Symptom.ENDING, Symptom.MISSING, "server-ends", "nobody-answers", "fewer-replicas"),
        predicts=(Says((StateKind.HANGING, StateKind.PROBE_KILLED)),),
        excludes=(Says((StateKind.MEMORY_KILLED,)),),
        runbook="requests-unanswered",
        commands=(LOGS, STATUS),
    ),
    Hypothesis(
        name="load-failure",
        layer=CauseLayer.MODEL_SERVER,
        says="the server cannot load its model, and ends before it is ready",
        explains=(Symptom.ENDING, Symptom.MISSING, "server-ends", "fewer-replicas"),
        predicts=(Says((StateKind.LOAD_FAILED,)),),
        excludes=(Says((StateKind.MEMORY_KILLED,)),),
        runbook="model-server-restarts",
        commands=(LOGS, STATUS),
    ),
    Hypothesis(
        name="model-process-dead",
        layer=CauseLayer.MODEL_SERVER,
        says="a process in which the model computes died, and its server ended with it",
        explains=(Symptom.ENDING, "server-ends"),
        predicts=(Says((StateKind.PROCESS_DIED,)),),
        excludes=(Says((StateKind.MEMORY_KILLED,)),),
        runbook="model-server-restarts",
        commands=(LOGS,),
    ),
    Hypothesis(
        name="server-killed",
        layer=CauseLayer.MODEL_SERVER,
        says="the server ends again and again, by itself or by somebody's hand",
        explains=(Symptom.ENDING, "server-ends"),
        predicts=(Says((StateKind.ENDED,)),),
        excludes=(Says(tuple(each for each in ENDS if each is not StateKind.ENDED)),),
        runbook="model-server-restarts",
        commands=(LOGS,),
    ),
    Hypothesis(
        name="nobody-answers",
        layer=CauseLayer.MODEL_SERVER,
        says="requests reach no replica that answers",
        explains=(Symptom.FAILING, "callers-repeat", "gateway-repeats"),
        predicts=(Above("unreached", 0.01),),
        root=False,
        runbook="requests-unanswered",
    ),
    Hypothesis(
        name="server-ends",
        layer=CauseLayer.MODEL_SERVER,
        says="the server ended, and requests failed until it was there again",
        explains=("nobody-answers", Symptom.MISSING),
        predicts=(Says(ENDS),),
        root=False,
    ),
    Hypothesis(
        name="probe-fails",
        layer=CauseLayer.MODEL_SERVER,
        says="the server runs, and does not answer its probe as it should, so that it gets no requests",
        explains=("nobody-answers", "fewer-replicas", Symptom.MISSING),
        predicts=(Says((StateKind.PROBE_FAILING,)),),
        excludes=(Says(ENDS),),
        runbook="requests-unanswered",
        commands=(STATUS, LOGS),
    ),
    Hypothesis(
        name="model-fails",
        layer=CauseLayer.MODEL_SERVER,
        engine=Engine.TRITON,
        says="the version that serves fails requests itself",
        explains=(Symptom.FAILING, "callers-repeat"),
        predicts=(Above("failures", 0.001),),
        runbook="slo-burn-rate",
        commands=(LOGS, 'headway release rollback {chain} -e {environment} --reason "requests fail"'),
    ),
)
