"""GPUs as pods get them: one pod in each pool, what it sees, and how the pool's nodes are divided. The judgements are pure."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from headway.contract.gpu_resources import MIG_PREFIX, SHARED_GPU
from headway.contract.pool import Pool
from headway.contract.pool_parts import MigSharing
from headway.environment.port import Facility
from headway.problem import Problem
from headway.verify.outcome import Sighting, failed, together
from headway.verify.probe import Probe, ProbeSeen
from headway.verify.site import Site
from headway.wire import MIG_CONFIG, MIG_STATE, POOL

POD, MIG = "gpu-pods", "mig"
SECONDS = 1200.0
"""A node from zero, its driver's check and an image on it."""
_WHOLE, _SLICE = re.compile(r"^GPU \d+: .*\(UUID: GPU-"), re.compile(r"^\s+MIG ([0-9a-z.+]+)\s+Device\s+\d+:")
_RUNBOOK = "docs/runbooks/gpu-node-without-gpus.md"


def probes(pool: Pool) -> tuple[Probe, ...]:
    """One pod for each kind of GPU that a node of the pool offers."""
    return tuple(
        Probe(name=f"gpu-{pool.name}-{number}", task="devices", pool=pool, resource=resource)
        for number, resource in enumerate(sorted(pool.resources_per_node))
    )


def look(site: Site) -> Sighting:
    """Post one pod for each kind of GPU of each pool, all at once, and judge what each saw."""
    every = [(pool, probe) for pool in site.pools for probe in probes(pool)]
    lacks = site.environment.cannot_show(Facility.DEVICES)
    site.start([probe for _, probe in every], only_placed=lacks is not None)
    return together(_watched(site, pool, probe, lacks) for pool, probe in every)


def _watched(site: Site, pool: Pool, probe: Probe, lacks: str | None) -> Sighting:
    if lacks is None:
        return judge_pod(pool, probe.resource, site.until(probe.name, lambda found: found.over, SECONDS))
    seen = site.until(probe.name, lambda found: bool(found.node), 60.0 if not site.environment.nodes_can_be_added else SECONDS)
    return judge_place(pool, probe.resource, seen, lacks)


def judge_place(pool: Pool, resource: str, seen: ProbeSeen, lacks: str) -> Sighting:
    """What can be said of a pod that asked for a GPU where no GPU is: whether a scheduler found it a place."""
    if not seen.node:
        return failed(_without_place(pool, resource, seen))
    return Sighting(
        evidence=(f"Pool {pool.name}: a pod that asks for {resource} was given a place on {seen.node}.",),
        not_shown=(f"No pod saw a GPU: {lacks}.",),
    )


def judge_pod(pool: Pool, resource: str, seen: ProbeSeen) -> Sighting:
    """Whether a pod that asked for one `resource` ran, and saw just that."""
    if not seen.node:
        return failed(_without_place(pool, resource, seen))
    if seen.word is None:
        return failed(
            _problem(
                POD,
                pool,
                f"The pod with one {resource} on {seen.node} did not run to its end ({seen.pending or seen.phase})",
                "Models of this pool start as little as it does",
                f"`kubectl describe node {seen.node}`: the device plugin's pod and the image's pull",
            ),
        )
    listed = str(seen.word.get("listed") or "")
    if not listed:
        return failed(
            _problem(
                POD,
                pool,
                f"The pod with one {resource} on {seen.node} sees no GPU ({seen.word.get('wrong') or 'none listed'})",
                "Models of this pool start, and end because they find no device",
                f"Look at the container toolkit and the device plugin on the node; {_RUNBOOK}",
            ),
        )
    whole = [line for line in listed.splitlines() if _WHOLE.match(line)]
    slices = [found[1] for line in listed.splitlines() if (found := _SLICE.match(line))]
    given = f"{len(whole)} GPUs" + (f", slices {', '.join(slices)}" if slices else "")
    fits = (
        len(whole) == 1 and slices == [resource.removeprefix(MIG_PREFIX)]
        if resource.startswith(MIG_PREFIX)
        else len(whole) == 1 and not slices
    )
    if not fits:
        return failed(
            _problem(
                POD,
                pool,
                f"A pod that asked for one {resource} sees {given} on {seen.node}",
                "Its model would use GPUs of others, or other slices than its memory was reckoned for",
                f"See that no variable or runtime passes the device plugin by, and the pool's sharing; {_RUNBOOK}",
            ),
        )
    share = " of one that is shared" if resource == SHARED_GPU else ""
    return Sighting(evidence=(f"Pool {pool.name}: a pod with one {resource} sees {given}{share} on {seen.node}: {listed.splitlines()[0]}",))


def _without_place(pool: Pool, resource: str, seen: ProbeSeen) -> Problem:
    return _problem(
        POD,
        pool,
        f"A pod that asks for one {resource} got no node ({seen.pending or 'no reason was given'})",
        "Models that need this pool stay pending",
        "Where the pool is full, end something or raise its size.max; else look at the Cluster Autoscaler's log and the group's activity",
    )


def look_at_mig(site: Site) -> Sighting:
    """Judge every node of the pools that divide their GPUs."""
    divided = [pool for pool in site.pools if isinstance(pool.sharing, MigSharing)]
    lacks = site.environment.cannot_show(Facility.DEVICES)
    found = [judge_mig(pool, site.nodes(f"{POOL}={pool.name}"), lacks) for pool in divided]
    others = Sighting(not_shown=(f"No MIG manager divided a GPU: {lacks}.",)) if lacks and divided else Sighting()
    return together((*found, others))


def judge_mig(pool: Pool, nodes: Sequence[Mapping[str, Any]], lacks: str | None = None) -> Sighting:
    """Whether each node asks for the pool's layout, has it, and offers it."""
    if not isinstance(pool.sharing, MigSharing):
        return Sighting()
    wanted, problems = pool.resources_per_node, list[Problem]()
    for body in sorted(nodes, key=lambda each: each["metadata"]["name"]):
        name, labels = body["metadata"]["name"], body["metadata"].get("labels") or {}
        if labels.get(MIG_CONFIG) != pool.sharing.config:
            problems.append(
                _problem(
                    MIG,
                    pool,
                    f"Node {name} asks for MIG layout {labels.get(MIG_CONFIG)}, and the pool says {pool.sharing.config}",
                    "Its slices are others than models were placed by",
                    "Let the node group's update finish; a label that somebody changed by hand is undone by replacing the node",
                )
            )
            continue
        state = labels.get(MIG_STATE)
        if state != "success" and not (state is None and lacks):
            problems.append(
                _problem(
                    MIG,
                    pool,
                    f"The MIG manager on {name} says {state or 'nothing'}, not success",
                    "The node's GPUs are not divided as they should be, and nothing can be placed on it",
                    f"`kubectl logs -n gpu-operator -l app=nvidia-mig-manager`; it waits for pods that use a GPU; {_RUNBOOK}",
                )
            )
            continue
        allocatable = body.get("status", {}).get("allocatable") or {}
        offered = {key: int(count) for key, count in allocatable.items() if key.startswith(MIG_PREFIX) and int(count)}
        if offered != wanted:
            problems.append(
                _problem(
                    MIG,
                    pool,
                    f"Node {name} offers {_counts(offered)}, and the layout gives {_counts(wanted)}",
                    "The scheduler counts slices that are not there, or leaves some unused",
                    "Restart the device plugin's pod on the node once the MIG manager says success",
                )
            )
    said = f"Pool {pool.name}: {len(nodes)} nodes offer {_counts(wanted)} each, as layout {pool.sharing.config} says."
    none = f"Pool {pool.name} has no node now, so its layout {pool.sharing.config} was not seen."
    if not nodes:
        return Sighting(not_shown=(none,))
    return Sighting(evidence=() if problems else (said,), problems=tuple(problems))


def _counts(resources: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(resources.items())) or "no slice"


def _problem(rule: str, pool: Pool, fact: str, consequence: str, remedy: str) -> Problem:
    return Problem(rule=rule, subject=f"pool {pool.name}", fact=fact, consequence=consequence, remedy=remedy)
