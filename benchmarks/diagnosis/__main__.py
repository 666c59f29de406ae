"""`make bench-diagnose`: how often `headway diagnose` names the cause, beside two who do not know the graph.

`python -m benchmarks.diagnosis [--aside] [--seeds N] [--misses]`. Without --aside only the cases that may be read. A minute or two.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.diagnosis.incidents import AnyIncident, cases, set_aside
from headway.diagnosis.facts import ChangeKind
from headway.diagnosis.hypotheses import HYPOTHESES
from headway.diagnosis.observed import Observed, facts
from headway.diagnosis.reasoning import Diagnosis, DiagnosisVerdict, diagnoses

_LAYERS = {each.name: each.layer.value for each in HYPOTHESES}
_BLAMED = frozenset({"new-version", "written-by-hand", "quota-lowered", "cordoned-by-hand", "tainted-by-hand"})
_SUGGESTS: Mapping[str, str] = {
    "requests": "more-requests",
    "request_size": "larger-requests",
    "queue": "model-slower",
    "compute": "model-slower",
    "compute_by_pod": "one-replica-slow",
    "batch_size": "batch-larger",
    "input": "cpu-quota-used-up",
    "throttled": "cpu-quota-used-up",
    "errors": "model-fails",
    "failures": "model-fails",
    "unreached": "server-killed",
    "limited": "over-the-rate",
    "unproven": "invalid-tokens",
    "forbidden": "callers-not-allowed",
    "malformed": "malformed-requests",
    "limiter": "limiter-slow",
    "overflow": "replicas-full",
    "pool_overflow": "pool-full",
    "repeated": "callers-repeat",
    "neighbours": "noisy-neighbour",
    "gateway_throttled": "gateway-throttled",
    "gateway_closed": "gateway-full",
    "mesh_authority_left": "mesh-authority-over",
    "hot": "gpu-hot",
    "power_capped": "gpu-power-capped",
    "clock": "gpu-clock-low",
    "replays": "gpu-link-errors",
}
"""What somebody would say who follows the series that moved most."""


@dataclass(frozen=True)
class Tried:
    """One case as three answered it: causes by each."""

    case: AnyIncident
    truths: tuple[str, ...]
    said: tuple[Diagnosis, ...]
    newest: tuple[str, ...]
    largest: tuple[str, ...]

    @property
    def causes(self) -> tuple[str, ...]:
        return tuple(each.cause or each.verdict.value for each in self.said if each.verdict is not DiagnosisVerdict.NOTHING)


def newest_change(seen: Observed) -> tuple[str, ...]:
    """Whoever blames the newest change: a release, or a write by hand."""
    if not seen.changes:
        return ()
    newest = max(seen.changes, key=lambda each: each.time)
    return ("new-version",) if newest.kind is ChangeKind.RELEASE else ("written-by-hand",)


def largest_deviation(seen: Observed, onset: float) -> tuple[str, ...]:
    """Whoever is told when it began, and blames the series that moved by most of its standard errors."""
    known = facts(seen, onset)
    moved: dict[str, float] = {}
    for name, found in known.compared.items():
        moved[name] = abs(found.change) / max((found.high - found.low) / 4, 1e-12)
    for name, labels in known.apart.items():
        moved[name] = max(abs(each.change) / max((each.high - each.low) / 4, 1e-12) for each in labels.values())
    ranked = sorted((name for name in moved if name in _SUGGESTS), key=lambda name: -moved[name])
    return (_SUGGESTS[ranked[0]],) if ranked and moved[ranked[0]] > 6 else ()


def tried(seeds: int, *, aside: bool) -> list[Tried]:
    """Every case of the half that was asked for, with each seed."""
    found: list[Tried] = []
    for case, truths in cases():
        if set_aside(case) is not aside:
            continue
        for seed in range(seeds):
            seen = case.played(seed)
            found.append(Tried(case, truths, diagnoses(seen), newest_change(seen), largest_deviation(seen, case.onset)))
    return found


def table(found: Sequence[Tried]) -> list[str]:
    """The figures that docs/benchmarks.md publishes."""
    hurt = [each for each in found if each.truths and each.truths != ("?",)]
    calm = [each for each in found if not each.truths]
    unseen = [each for each in found if each.truths == ("?",)]
    innocent = [each for each in hurt if "innocent" in each.case.name]
    lines = [f"{len(found)} cases: {len(hurt)} with a fault, {len(innocent)} of them beside an innocent change; {len(calm)} with none"]
    for who, causes in (
        ("headway diagnose", [each.causes for each in hurt]),
        ("the newest change did it", [each.newest for each in hurt]),
        ("the largest deviation did it", [each.largest for each in hurt]),
    ):
        exact = sum(set(said) == set(each.truths) for said, each in zip(causes, hurt, strict=True))
        named = sum(set(each.truths) <= set(said) for said, each in zip(causes, hurt, strict=True))
        layers = sum(
            {_LAYERS.get(name) for name in each.truths} <= {_LAYERS.get(name) for name in said}
            for said, each in zip(causes, hurt, strict=True)
        )
        spared = sum(not set(said) & (_BLAMED - set(each.truths)) for said, each in zip(causes, hurt, strict=True) if each in innocent)
        lines.append(
            f"{who:<30}{exact / len(hurt):>8.1%} exact{named / len(hurt):>8.1%} named{layers / len(hurt):>8.1%} layer"
            f"{spared / max(len(innocent), 1):>8.1%} innocent spared"
        )
    lines.append(f"nothing is wrong, and said to be: {sum(not each.causes for each in calm)} of {len(calm)}")
    lines.append(f"nobody measures, and said to be unseen: {sum(each.causes == ('blind',) for each in unseen)} of {len(unseen)}")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.diagnosis", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--aside", action="store_true", help="the half that is set aside")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--misses", action="store_true", help="say what was named in each case that was missed; of the read half alone")
    words = parser.parse_args()
    found = tried(words.seeds, aside=words.aside)
    print("\n".join(table(found)))
    missed = Counter((", ".join(each.truths) or "nothing", ", ".join(each.causes) or "nothing") for each in found if _missed(each))
    for (truth, said), count in sorted(missed.items(), key=lambda each: -each[1]):
        print(f"  {count:>3}  {truth}  was called  {said}")
    if words.misses and not words.aside:
        for each in found:
            if _missed(each):
                print(f"{each.case.name}: {[[link.name for link in said.links] for said in each.said]}")
    return 0


def _missed(this: Tried) -> bool:
    return set(this.causes) != (set(this.truths) if this.truths != ("?",) else {"blind"})


if __name__ == "__main__":
    sys.exit(main())
