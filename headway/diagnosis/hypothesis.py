"""A hypothesis: what would have caused something, what it predicts, and what then to do. Data; one file a failure layer in `hypotheses/`.

Hypotheses form a graph without cycles: each names what it explains, a symptom or another hypothesis. A mechanism (a phase that takes
longer) is a link of the chain; a root is where a chain may end.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from headway.contract.runtime import Engine
from headway.diagnosis.asking import Test

STATUS = "headway status {chain} -e {environment}"
LOGS = "headway logs {chain} -e {environment} --since 10m"
NODES = "headway nodes -e {environment}"
DRIFT = "headway drift {chain} -e {environment}"
RELEASE = "headway release status {chain} -e {environment}"
"""Commands that several hypotheses name."""
RESTORE = "PULUMI_K8S_ENABLE_PATCH_FORCE=true pulumi up -s {environment}-{tenant} --refresh"
"""What somebody wrote by hand is his by Server-Side Apply, so an update that does not force ends with a conflict (docs/guide/day-two.md)."""


class Symptom(StrEnum):
    """What somebody feels or is told of."""

    SLOW = "slow"
    """Answers take longer than promised, or much longer than before."""
    FAILING = "failing"
    """Requests end in a server error, or nobody answers them."""
    BROKEN = "broken"
    """A promise is broken faster than it may, and neither the mean of answers nor their errors say why."""
    REFUSED = "refused"
    """Callers are turned away: too many, not proven, not allowed."""
    MISSING = "missing"
    """Fewer replicas are ready than are wanted."""
    ENDING = "ending"
    """Containers end and are started again."""
    UNTRUSTED = "untrusted"
    """Callers that look at the gateway's certificate do not speak to it."""
    ASTRAY = "astray"
    """Users get other versions than the ledger says, or none."""
    HELD = "held"
    """A release does not go on."""
    SET_APART = "set-apart"
    """A node under the service is out of use."""
    UNWATCHED = "unwatched"
    """It serves, and what should be measured of it is not."""


class CauseLayer(StrEnum):
    """Where a cause lies: the failure layers of dashboards and alerts."""

    REQUEST = "request"
    GATEWAY = "gateway"
    MODEL_SERVER = "model-server"
    GPU = "gpu"
    NODE = "node"
    SCHEDULER = "scheduler"
    DEPLOYMENT = "deployment"
    RELEASE = "release"
    WATCHERS = "watchers"


@dataclass(frozen=True, kw_only=True)
class Hypothesis:
    """All of `predicts` must hold, and none of `excludes`; the first of `predicts` is what a link of the chain says.

    `root`: a chain may end here as the cause. `commands`: what next, with {chain}, {tenant}, {contract}, {environment}, {where} (a pod or
    GPU), {node} (under it) and {symptom} filled in.
    """

    name: str
    layer: CauseLayer
    says: str
    explains: tuple[str, ...]
    predicts: tuple[Test, ...]
    excludes: tuple[Test, ...] = ()
    root: bool = True
    engine: Engine | None = None
    """Of services on this engine alone; None: of all."""
    runbook: str = ""
    commands: Sequence[str] = ()
