"""Which releases change more than a tenant's runner may write (`components/tenant/access.py`): filters of proxies, which reach more than their
own tenant, and what all releases of a tenant stand on. Pure.
"""

from collections.abc import Sequence

from headway.contract.arithmetic.startup import longest_start
from headway.contract.arithmetic.surge import pool_for
from headway.contract.model import Model
from headway.contract.pool import Pool
from headway.contract.rollout import Strategy
from headway.contract.runtime import Container

SCHEME = "s3://"


def why_beyond(was: Model, will: Model, pools: Sequence[Pool], *, counts_tokens: bool) -> str | None:
    """In words; None where a runner may release `will` after `was`. `counts_tokens`: whether the tenant has a quota of tokens."""
    if will.rollout.strategy is Strategy.AB:
        return "an A/B release divides users"
    before, after = was.envelope.largest_request, will.envelope.largest_request
    changes: list[tuple[str, str, object, object]] = [
        ("largest body", "envelope.largest_request.body", before.body, after.body),
        ("engine", "runtime.engine", was.runtime.engine, will.runtime.engine),
        ("workload class", "workload_class", was.workload_class, will.workload_class),
        ("accelerator", "envelope.gpu.accelerator", was.envelope.gpu.accelerator, will.envelope.gpu.accelerator),
        ("bucket of artifacts", "artifact.uri", _bucket(was), _bucket(will)),
    ]
    if counts_tokens:
        changes.append(("context", "envelope.largest_request.context_tokens", before.context_tokens, after.context_tokens))
    if isinstance(was.runtime, Container) and isinstance(will.runtime, Container):
        changes.append(("metrics page", "runtime.metrics.path", was.runtime.metrics.path, will.runtime.metrics.path))
    for what, field, old, new in changes:
        if old != new:
            return f"the {what} changes from {old} to {new} ({field})"
    if not will.scaling.min_replicas and _held(was, pools) != _held(will, pools):
        return "requests to a service without a replica are held as long as a start may take (health.startup_budget), which changes"
    return None


def _bucket(model: Model) -> str:
    uri = model.artifact.uri
    return uri.removeprefix(SCHEME).partition("/")[0] if uri.startswith(SCHEME) else "the environment's"


def _held(model: Model, pools: Sequence[Pool]) -> int | None:
    pool = pool_for(model, pools)
    return int(longest_start(model, pool)) if pool else None
