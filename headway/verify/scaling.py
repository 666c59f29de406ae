"""Whether a pool without nodes gets one when a pod needs it, and gives it back. The judgement is pure."""

from dataclasses import dataclass

from headway.contract.pool import Pool
from headway.environment.port import Facility
from headway.problem import Problem
from headway.verify.outcome import Sighting, failed
from headway.verify.probe import Probe
from headway.verify.site import Site
from headway.wire import POOL

RULE = "scale"
UP_SECONDS, DOWN_SECONDS = 1200.0, 1500.0
"""A node group's first node with its image; and the ten minutes for which the autoscaler must find a node unneeded, with
what it waits after it has added one (kubernetes/autoscaler, FAQ, "How does scale-down work?")."""
LOOK_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True)
class ScaleTimes:
    """Seconds until the pod had a node, and from the pod's end until the node was gone; None where that did not happen."""

    up: float | None = None
    down: float | None = None
    waits: str = ""


def look(site: Site) -> Sighting:
    """Ask the first empty pool for a GPU, then wait until its node has gone again."""
    if not site.environment.nodes_can_be_added:
        return Sighting(not_shown=("No node was added or removed: this environment's nodes are those that its layer made.",))
    empty = [pool for pool in site.pools if pool.size.min == 0 and not site.nodes(f"{POOL}={pool.name}")]
    if not empty:
        return Sighting()
    pool = empty[0]
    name = f"scale-{pool.name}"
    began = site.clock()
    lacks = site.environment.cannot_show(Facility.DEVICES)
    site.start([Probe(name=name, task="devices", pool=pool, resource=min(pool.resources_per_node))], only_placed=lacks is not None)
    seen = site.until(name, lambda found: bool(found.node), UP_SECONDS)
    if not seen.node:
        return judge(pool, ScaleTimes(waits=seen.pending))
    up = site.clock() - began
    if lacks is None:
        site.until(name, lambda found: found.over, UP_SECONDS)
    site.remove(name)
    began = site.clock()
    while site.clock() - began < DOWN_SECONDS:
        if not site.nodes(f"{POOL}={pool.name}"):
            return judge(pool, ScaleTimes(up=up, down=site.clock() - began))
        site.sleep(LOOK_SECONDS)
    return judge(pool, ScaleTimes(up=up))


def judge(pool: Pool, times: ScaleTimes) -> Sighting:
    """Whether the pool grew from nothing and shrank to nothing."""
    if times.up is None:
        return failed(
            _problem(
                pool,
                f"Pool {pool.name} got no node within {UP_SECONDS / 60:.0f} minutes ({times.waits or 'no reason was given'})",
                "Models of a pool that stands at zero never start",
                "`kubectl logs -n cluster-autoscaler -l app.kubernetes.io/name=aws-cluster-autoscaler`: the tags that describe the "
                "group's first node, or no capacity; docs/runbooks/nodes-not-added.md",
            ),
        )
    rose = f"Pool {pool.name} had no node, and one {times.up:.0f} s after a pod asked."
    if times.down is None:
        problem = _problem(
            pool,
            f"The node of pool {pool.name} is still there {DOWN_SECONDS / 60:.0f} minutes after its pod ended",
            "GPUs that nobody uses are paid for",
            "`kubectl describe configmap -n cluster-autoscaler cluster-autoscaler-status`: what keeps it, such as a pod that may not be evicted",
        )
        return Sighting(evidence=(rose,), problems=(problem,))
    return Sighting(evidence=(rose, f"It was gone {times.down:.0f} s after the pod had ended."))


def _problem(pool: Pool, fact: str, consequence: str, remedy: str) -> Problem:
    return Problem(rule=RULE, subject=f"pool {pool.name}", fact=fact, consequence=consequence, remedy=remedy)
