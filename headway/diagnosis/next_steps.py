"""What to run after a diagnosis, with its names filled in. Pure."""

from collections.abc import Iterator

from headway.diagnosis.reasoning import Diagnosis


def next_steps(this: Diagnosis, environment: str) -> Iterator[str]:
    """Commands, the first one first."""
    values = {
        "chain": this.chain,
        "tenant": this.tenant,
        "contract": f"tenants/{this.chain}.yaml",
        "environment": environment,
        "where": next((each.where for each in reversed(this.links) if each.where), ""),
        "node": next((each.node for each in reversed(this.links) if each.node), ""),
        "symptom": this.links[0].says if this.links else "",
    }
    for each in this.commands:
        yield each.format(**values)
