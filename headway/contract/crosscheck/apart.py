"""What arithmetic and the pools say of prefill and decode apart, and that no environment serves them yet."""

from collections.abc import Iterator, Sequence

from headway.contract.arithmetic.apart import NodeTraffic, apart
from headway.contract.arithmetic.surge import pool_for
from headway.contract.model import Model
from headway.contract.pool import Pool
from headway.contract.roles import prefill_of
from headway.contract.slo import LatencyObjective, SloSignal
from headway.problem import Problem, problem


def not_deployed(model: Model) -> Iterator[Problem]:
    """ADR 27."""
    if model.prefill:
        yield problem(
            "prefill-is-judged-only",
            "prefill",
            fact="prompts are read by replicas of their own, and nothing is rendered for that yet",
            consequence="No router would ask prefill before decode, and a release would exchange one role without the other",
            remedy="Leave prefill out before you deploy; `headway check --explain` has its sums",
        )
    if model.pipeline:
        yield problem(
            "pipeline-is-judged-only",
            "pipeline",
            fact="a replica spans nodes, and nothing is rendered for that yet",
            consequence="No controller would start and end its pods together, and the scheduler could place some and wait for ever for the rest",
            remedy="Leave pipeline out before you deploy; `headway check --explain` has its sums",
        )


def prefill_keeps_up(model: Model) -> Iterator[Problem]:
    """Prompts beyond what is read wait for ever, whatever decode has free."""
    found, role = apart(model), model.prefill
    if found and role and found.replicas > role.max_replicas:
        yield problem(
            "prefill-keeps-up",
            "prefill",
            "max_replicas",
            value=role.max_replicas,
            fact=f"decode takes {found.prompts} at its maximum, and {found.replicas} replicas read so many prompts",
            consequence="At a load peak prompts would queue before prefill while decode replicas stand idle",
            remedy=f"Use {found.replicas}, or lower scaling.max_replicas",
        )


def worth_it(model: Model) -> Iterator[Problem]:
    """What is paid for in vain, or costs more than was promised."""
    found, role = apart(model), model.prefill
    if not found or not role:
        return
    if role.min_replicas > found.replicas:
        yield problem(
            "prefill-has-work",
            "prefill",
            "min_replicas",
            value=role.min_replicas,
            fact=f"{found.replicas} replicas read all prompts that decode takes at its maximum",
            consequence="The others would never have anything to do",
            remedy=f"Use {found.replicas}",
        )
    for number, slo in enumerate(model.slo):
        if isinstance(slo, LatencyObjective) and slo.signal is SloSignal.TTFT and found.mean > slo.threshold:
            yield problem(
                "first-token-after-the-transfer",
                "slo",
                number,
                "threshold",
                value=slo.threshold,
                fact=f"the KV cache of a mean prompt takes {found.mean.brief} from GPU to GPU by one flow each",
                consequence="The first token comes after it, so the objective could only hold by several flows, which nobody has measured",
                remedy="Leave prefill out, use kv_cache: fp8, or promise less",
            )


def network(model: Model, pools: Sequence[Pool]) -> Iterator[Problem]:
    """A full node of either role against its network; silent where a role has no pool."""
    prefill = prefill_of(model)
    found_pools = [pool_for(role, pools) for role in (model, prefill) if role]
    found = apart(model, *found_pools) if None not in found_pools else None
    if found:
        yield from _too_much(found.sent, "sent by prefill", "prefill", "gpu")
        yield from _too_much(found.read, "read by decode", "envelope", "gpu")


def _too_much(node: NodeTraffic, what: str, *path: str) -> Iterator[Problem]:
    if not node.fits:
        yield problem(
            "kv-caches-have-a-network",
            *path,
            value=node.instance.name,
            fact=f"{node.bytes.brief} of KV caches would be {what} ({node.how})",
            consequence="Transfers would wait for one another, and first tokens with them",
            remedy="Use instances with more network for each GPU, kv_cache: fp8, or leave prefill out",
        )
