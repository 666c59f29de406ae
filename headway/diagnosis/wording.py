"""How a diagnosis is put into words, wherever it is shown: what it comes to, and what to run after it, with its names filled in. Pure."""

from collections.abc import Iterator

from headway.diagnosis.hypothesis import CauseLayer, Symptom
from headway.diagnosis.reasoning import Diagnosis, DiagnosisVerdict
from headway.problem import printable

NOTHING = "nothing is wrong, as far as can be seen"
BLIND = "nobody can say whether something is wrong"


def cause_named(words: str, cause: str, layer: CauseLayer | None) -> str:
    """The line that tells people the cause."""
    return f"Cause: {words} ({cause}, layer {layer})"


def cause_words(this: Diagnosis) -> str:
    """Of a diagnosis with a cause: which, and where."""
    deepest = this.links[-1]
    return f"{deepest.says} ({deepest.where})" if deepest.where else deepest.says


def summary(this: Diagnosis) -> str:
    """One line: what hurts, and why."""
    match this.verdict:
        case DiagnosisVerdict.CAUSE:
            text = f"{this.chain}: {this.links[0].says}, because {cause_words(this)}"
        case DiagnosisVerdict.UNKNOWN:
            text = f"{this.chain}: {this.links[0].says}, and its cause is unknown"
        case DiagnosisVerdict.BLIND:
            text = f"{this.chain}: nobody can say what is wrong, for too little was seen"
        case DiagnosisVerdict.NOTHING:
            text = f"{this.chain}: {NOTHING}"
    return printable(text)


def why_unknown(this: Diagnosis) -> str:
    """Of a diagnosis without: why nobody knows it."""
    if this.onset is None and this.symptom is Symptom.BROKEN:
        seen = "it is over, and was not seen" if this.over else "it began before the first minute looked at"
        return f"{seen}. `--since 6h` looks further back"
    return "nothing that was looked at explains it further"


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
