"""What a replica's start may do: come late, be waited for, and answer slowly at first."""

from headway.diagnosis.asking import ONE_REPLICA, Above, Says
from headway.diagnosis.asking_changes import ThereToo
from headway.diagnosis.facts import StateKind
from headway.diagnosis.hypothesis import STATUS, CauseLayer, Hypothesis, Symptom

ALL = (
    Hypothesis(
        name="replica-cold",
        layer=CauseLayer.MODEL_SERVER,
        says="the slow replica has just become ready, and its first requests take longer",
        explains=("one-replica-slow",),
        predicts=(ThereToo(ONE_REPLICA, (StateKind.YOUNG,)),),
        commands=(STATUS,),
    ),
    Hypothesis(
        name="artifacts-late",
        layer=CauseLayer.DEPLOYMENT,
        says="a replica's files come much slower than its siblings' did: the artifact store, or the way to it, is slow",
        explains=(Symptom.MISSING, "fewer-replicas"),
        predicts=(Says((StateKind.FETCH_SLOW,)),),
        runbook="replicas-missing",
        commands=("headway logs {chain} -e {environment} --container fetch", STATUS),
    ),
    Hypothesis(
        name="woken-from-zero",
        layer=CauseLayer.DEPLOYMENT,
        says="requests wait at the gateway for the first replica, because there was none",
        explains=("way-longer", Symptom.SLOW),
        predicts=(Above("held", 0.5),),
        commands=(STATUS, "headway diff {contract}"),
    ),
)
