"""Which releases change filters of proxies. A tenant's runner may not write those (`components/tenant/access.py`): a filter reaches more than
its own tenant. Pure.
"""

from collections.abc import Sequence

from headway.contract.arithmetic.startup import longest_start
from headway.contract.arithmetic.surge import pool_for
from headway.contract.model import Model
from headway.contract.pool import Pool
from headway.contract.rollout import Strategy


def why_filters_change(was: Model, will: Model, pools: Sequence[Pool], *, counts_tokens: bool) -> str | None:
    """In words; None where releasing `will` after `was` changes none. `counts_tokens`: whether the tenant has a quota of tokens."""
    if will.rollout.strategy is Strategy.AB:
        return "an A/B release divides users"
    before, after = was.envelope.largest_request, will.envelope.largest_request
    if before.body != after.body:
        return f"the largest body changes from {before.body} to {after.body} (envelope.largest_request.body)"
    if counts_tokens and before.context_tokens != after.context_tokens:
        return f"the context changes from {before.context_tokens} to {after.context_tokens} (envelope.largest_request.context_tokens)"
    if not will.scaling.min_replicas and _held(was, pools) != _held(will, pools):
        return "requests to a service without a replica are held as long as a start may take (health.startup_budget), which changes"
    return None


def _held(model: Model, pools: Sequence[Pool]) -> int | None:
    pool = pool_for(model, pools)
    return int(longest_start(model, pool)) if pool else None
