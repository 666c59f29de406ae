"""Answers to copies, beside those that users got for the same requests: which of them differ. Pure.

Envoy throws answers to copies away; what is compared are samples that the replicas' own proxies keep of both
(`headway.contract.sampling`), joined by the request's id. They are compared as the contract's golden requests compare
theirs, with the user's answer as the expected one. A difference is no error. A better model answers some requests
otherwise; how many may differ is for its contract to say.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from headway.contract.health import Cosine, Exact, Golden, Near, Top
from headway.contract.sampling import Sample, flat_numbers, part_at

OK = 200
_EXAMPLES = 3


@dataclass(frozen=True, kw_only=True)
class MirroredComparison:
    """What came of comparing. `examples`: how answers differed, by request id."""

    pairs: int
    mismatches: int
    examples: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """As evidence of a tick."""
        return {"pairs": self.pairs, "mismatches": self.mismatches, "examples": list(self.examples)}


def paired(samples: Iterable[Sample], stable: Iterable[str], canary: str, how: Golden) -> MirroredComparison:
    """Compare what the workloads `stable` answered to users with what `canary` answered to copies of the same requests.

    A request counts once, and only where the user's answer can be compared: it succeeded, and has what `how` points at.
    A copy that failed is an error, which other counters have; one that succeeded without a comparable answer differs.
    """
    users, copies = dict[str, Sample](), dict[str, Sample]()
    of_users = frozenset(stable)
    for sample in samples:
        if sample.mirrored and sample.workload == canary:
            copies.setdefault(sample.request_id, sample)
        elif not sample.mirrored and sample.workload in of_users:
            users.setdefault(sample.request_id, sample)
    compared, different = 0, list[str]()
    for name in sorted(users.keys() & copies.keys()):
        user, copy = users[name], copies[name]
        if user.status != OK or copy.status != OK:
            continue
        try:
            expected = part_at(user.response, how.answer)
            why = difference(expected, copy.response, how)
        except LookupError:
            continue
        compared += 1
        if why:
            different.append(f"{name}: {why}")
    return MirroredComparison(pairs=compared, mismatches=len(different), examples=tuple(different[:_EXAMPLES]))


def difference(expected: Any, copy: Mapping[str, Any] | None, how: Golden) -> str:
    """Why the copy's answer is another than `expected`, in words; empty where it is not. Raises LookupError where
    `expected` cannot be compared."""
    try:
        found = part_at(copy, how.answer)
    except LookupError:
        return f"the copy's answer has nothing at {how.answer}"
    if isinstance(how.expect, Exact):
        return "" if found == expected and isinstance(found, bool) is isinstance(expected, bool) else "the values differ"
    wanted, got = flat_numbers(expected), flat_numbers(found)
    if not wanted or not all(map(math.isfinite, wanted)):
        raise LookupError(how.answer)
    if got is None or len(got) != len(wanted):
        return f"the user's answer holds {len(wanted)} numbers, the copy's {'what is none' if got is None else len(got)}"
    if not all(map(math.isfinite, got)):
        return "the copy's answer holds a number that is none"
    match how.expect:
        case Near(relative=relative, absolute=absolute):
            far = [abs(a - b) for a, b in zip(got, wanted, strict=True) if abs(a - b) > max(absolute, relative * abs(b))]
            return f"{len(far)} of {len(wanted)} numbers differ, by up to {max(far):.6g}" if far else ""
        case Top():
            mine, theirs = got.index(max(got)), wanted.index(max(wanted))
            return "" if mine == theirs else f"the largest number stands at {mine}, the user's at {theirs}"
        case Cosine(at_least=least):
            lengths = math.hypot(*got) * math.hypot(*wanted)
            similarity = sum(a * b for a, b in zip(got, wanted, strict=True)) / lengths if lengths else 0.0
            return "" if similarity >= least else f"their cosine similarity is {similarity:.6f}"
        case _:
            raise LookupError(how.answer)
