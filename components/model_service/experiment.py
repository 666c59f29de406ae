"""The gateway's part of an A/B release: which users meet the new version, decided by a bucket of their id. Pure.

The platform's script (`components/platform/gateway_scripts.py`, EXPERIMENT) reads the verified token's claim,
computes the bucket as `headway.contract.assignment` does, marks requests of the new version's users with
`x-experiment` for the route's `split` rule, and leaves experiment, arm and bucket for the access log; the user goes
nowhere. A bucket that comes out otherwise there than in Python divides users that nobody can find again; so the real
proxy is asked the same vectors.
"""

from typing import Any

from components.labels import labels
from components.platform.gateway_filters import EXPERIMENT
from components.tenant.gateway_filters import gateway_data, host_data
from components.tenant.surroundings import Surroundings
from headway.contract.assignment import buckets_of
from headway.contract.model import Model
from headway.ledger.traffic_split import UserSplit


def gateway_filter(tenant: str, model: Model, split: UserSplit, surroundings: Surroundings) -> dict[str, Any]:
    """What the gateway knows of a running experiment."""
    running = {"experiment": split.experiment, "claim": split.user_claim, "below": buckets_of(split.share.whole_percent)}
    patches = host_data(surroundings.public_hosts(tenant, model.name), {EXPERIMENT: running})
    found = labels("route", tenant=tenant, model=model.name)
    return gateway_data(f"experiment.{tenant}.{model.name}", patches, surroundings, found)
