"""What arithmetic and a pool say of replicas that span nodes, which come together or not at all."""

from collections.abc import Iterator

from headway.contract.arithmetic.pipelined import spanning
from headway.contract.model import Model
from headway.contract.pool import Pool
from headway.problem import Problem, problem


def joined_by_tcp(model: Model) -> Iterator[Problem]:
    found = spanning(model)
    if found and model.pipeline:
        yield problem(
            "nodes-of-a-replica-are-joined",
            "pipeline",
            "nodes",
            value=model.pipeline.nodes,
            fact=f"TCP alone joins the {model.pipeline.nodes} nodes of a replica, for the platform offers pods no EFA",
            consequence=f"In a step of {found.tokens} tokens each hands on {found.bytes.brief}: at least {found.least.brief} more until the "
            "first token",
            remedy="Use one node with larger GPUs, or a quantised model; else measure the first token's time",
        )


def on_pool(model: Model, pool: Pool) -> Iterator[Problem]:
    """A group that never fits is refused before anything is applied: its first nodes would be paid for, and wait for the rest for ever."""
    if model.pipeline is None:
        return
    nodes, held = model.pipeline.nodes, pool.resources_per_node.get(model.envelope.gpu.resource, 0)
    if held > model.envelope.gpu.count:
        yield problem(
            "pipeline-takes-whole-nodes",
            "envelope",
            "gpu",
            "count",
            value=model.envelope.gpu.count,
            fact=f"a node of pool {pool.name} has {held} GPUs, and a stage takes {model.envelope.gpu.count}",
            consequence="Activations would go from node to node by TCP although GPUs of the same node are free",
            remedy=f"Use {held} GPUs, and fewer nodes or none",
        )
    if nodes > pool.size.max:
        yield problem(
            "replica-fits-into-a-zone",
            "pipeline",
            "nodes",
            value=nodes,
            fact=f"a replica takes {nodes} nodes of one zone, and pool {pool.name} has at most {pool.size.max} in each",
            consequence="No replica would ever be complete, while the nodes that came are paid for",
            remedy=f"Raise size.max of the pool to {nodes}, or use fewer nodes with larger GPUs",
        )
