"""The block at the top of a runbook: the command that diagnoses what its alert tells of, and the sentences that the command may answer with.
Pure but for reading and writing the pages.

`python -m headway.diagnosis.runbook_block` writes every block anew. A page of whose alert a diagnosis says nothing has none.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from headway.diagnosis.hypotheses import HYPOTHESES
from headway.diagnosis.hypothesis import Hypothesis, Symptom
from headway.diagnosis.symptoms import SYMPTOMS
from headway.diagnosis.wording import cause_named

FOLDER = Path(__file__).parents[2] / "docs" / "runbooks"
SERVICE = "TENANT/MODEL"
WITHOUT_SERVICE = frozenset(
    {
        "callers-refused",
        "gpu-memory-broken",
        "gpu-node-without-gpus",
        "gpu-slow-and-silent",
        "gpu-telemetry-silent",
        "gpu-throttled",
        "gpu-xid",
        "limiter-away",
        "mig-layout-late",
        "node-disk-filling",
        "node-in-quarantine",
        "node-not-ready",
        "node-under-pressure",
        "nodes-not-added",
        "pods-evicted",
        "artifacts-not-on-nodes",
        "rules-failing",
        "tenant-rate-limited",
    }
)
"""Pages whose alert names a node, a tenant or a pool: which services it hurts is what the command then says."""
_SYMPTOMS: Mapping[str, tuple[Symptom, ...]] = {
    "artifacts-not-on-nodes": (Symptom.MISSING,),
    "gpu-node-without-gpus": (Symptom.MISSING,),
    "gpu-telemetry-silent": (Symptom.UNWATCHED,),
    "model-server-restarts": (Symptom.ENDING,),
    "model-server-silent": (Symptom.UNWATCHED,),
    "node-in-quarantine": (Symptom.SET_APART,),
    "node-not-ready": (Symptom.SET_APART, Symptom.MISSING),
    "pods-evicted": (Symptom.MISSING, Symptom.ENDING),
    "pods-unschedulable": (Symptom.MISSING,),
    "release-stuck": (Symptom.HELD,),
    "replicas-missing": (Symptom.MISSING,),
    "requests-unanswered": (Symptom.FAILING,),
    "rollout-stuck": (Symptom.MISSING,),
    "rules-failing": (Symptom.UNWATCHED,),
    "slo-burn-rate": (Symptom.FAILING, Symptom.SLOW, Symptom.BROKEN),
}
"""What a diagnosis says first of what the page's alert tells of, whichever cause it then finds."""
_BLOCK = re.compile(r"\n```diagnosis\n.*?\n```\n", re.DOTALL)
_BY_NAME = {each.name: each for each in HYPOTHESES}


def pages_of(this: Hypothesis, below: frozenset[str] = frozenset()) -> frozenset[str]:
    """Runbooks that a chain may lead to which ends here: its own, else those of what it explains (`reasoning.py` takes the deepest)."""
    if this.runbook:
        return frozenset({this.runbook})
    above = (_BY_NAME[name] for name in this.explains if name in _BY_NAME and name not in below)
    return frozenset[str]().union(*(pages_of(each, below | {this.name}) for each in above))


def block(page: str) -> str:
    """The block of a page (its name without `.md`); empty where a diagnosis has nothing to say."""
    said = [*_symptoms(page), *_causes(page)]
    if not said:
        return ""
    command = "headway diagnose -e ENV" if page in WITHOUT_SERVICE else f"headway diagnose {SERVICE} -e ENV"
    return "\n".join(["", "```diagnosis", command, *(f"  {each}" for each in said), "```", ""])


def renewed(page: str, text: str) -> str:
    """The page's text with its block as it is today, below its title."""
    title, _, rest = _BLOCK.sub("", text, count=1).partition("\n")
    return f"{title}\n{block(page)}{rest}"


def _symptoms(page: str) -> Iterator[str]:
    for each in _SYMPTOMS.get(page, ()):
        yield f"{SERVICE}: {SYMPTOMS[each].says}"


def _causes(page: str) -> Iterator[str]:
    for each in HYPOTHESES:
        if page in pages_of(each) and (each.root or each.runbook):
            yield cause_named(each.says, each.name, each.layer) if each.root else each.says


def write(folder: Path = FOLDER) -> None:
    """Every page of `folder` anew."""
    for file in sorted(folder.glob("*.md")):
        file.write_text(renewed(file.stem, file.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    write()
