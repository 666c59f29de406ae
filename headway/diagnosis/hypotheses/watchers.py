"""Why nobody measures what should be measured of a service."""

from headway.diagnosis.asking import Above, Test
from headway.diagnosis.hypothesis import STATUS, CauseLayer, Hypothesis, Symptom


def _unwatched(name: str, says: str, test: Test, runbook: str, *commands: str) -> Hypothesis:
    return Hypothesis(
        name=name,
        layer=CauseLayer.WATCHERS,
        says=says,
        explains=(Symptom.UNWATCHED,),
        predicts=(test,),
        runbook=runbook,
        commands=commands,
    )


ALL = (
    _unwatched(
        "replicas-unread",
        "Prometheus cannot read the pages of replicas that serve, so phases and siblings are those of the others alone",
        Above("unread", 0.01),
        "model-server-silent",
        STATUS,
        "kubectl -n {tenant} get podmonitors,networkpolicies",
    ),
    _unwatched(
        "gpu-telemetry-silent",
        "the exporter says nothing of GPUs that are in use, so which fault of a GPU there is cannot be seen",
        Above("gpus_silent", 0.01),
        "gpu-telemetry-silent",
        "kubectl -n gpu-operator get pods -o wide",
    ),
    _unwatched(
        "rules-failing",
        "Prometheus cannot evaluate rules, so promises that they count are not watched",
        Above("rules_failing", 0.001),
        "rules-failing",
    ),
)
