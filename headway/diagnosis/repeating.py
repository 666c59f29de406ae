"""Whether requests rose because callers repeat what failed, which makes them a consequence and no cause. Pure.

Two things tell. Clients that say so count what they repeat (`REPEATS` of components/platform/gateway_measures.py). Of those that do not, the
order: a failure comes before what repeats it, and each repetition follows a failure, so no more is answered well than before. Where both
began within the resolution of the series, nobody can tell a storm of repetitions from more users who are turned away.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from headway.diagnosis.asking import Answer
from headway.diagnosis.facts import Facts
from headway.diagnosis.figures import shown
from headway.diagnosis.measure import FigureUnit
from headway.diagnosis.observed import Observed
from headway.diagnosis.onset import onset

_FAILED = ("errors", "left", "limited")
"""What a caller repeats: 5xx, an answer that it did not wait for, and 429; no request is two of them."""
_ROSE = 1.2
_TOLD = 0.05
"""Of requests: as many repeat another one at the least."""
_WELL = 1.1
"""What is answered well rises by more only where more is wanted."""
_STEPS = 2
"""Of the series: what is found to begin closer together may have begun the other way round."""


def beginnings(observed: Observed) -> Mapping[str, float]:
    """When requests, and each kind of failure, began to rise, in Unix seconds; of those that did."""
    found = {name: onset(observed.of(name)) for name in ("requests", *_FAILED)}
    return {name: each.time for name, each in found.items() if each is not None}


@dataclass(frozen=True)
class CallersRepeat:
    """More requests than before, because callers ask again for what failed."""

    def __call__(self, facts: Facts, /) -> Answer:
        requests, failed = facts.of("requests"), [found for name in _FAILED if (found := facts.of(name)) is not None]
        if requests is None or not failed:
            return Answer(holds=None, said="requests, or what of them failed: not measured")
        if not requests.rose(_ROSE):
            return Answer(holds=False, said="there are no more requests than before")
        told = facts.of("repeated")
        if told is not None and told.low > 0 and told.since >= _TOLD:
            return Answer(holds=True, said=f"callers say of {shown(told.since, FigureUnit.SHARE)} of their requests that they ask again")
        before = requests.before * (1 - sum(each.before for each in failed))
        since = requests.since * (1 - sum(each.since for each in failed))
        well = f"answered well {shown(before, FigureUnit.PER_SECOND)} before, {shown(since, FigureUnit.PER_SECOND)} since"
        return self._by_order(facts, well) if since <= _WELL * before else Answer(holds=False, said=well)

    def _by_order(self, facts: Facts, well: str) -> Answer:
        asked = facts.began.get("requests")
        failing = min((facts.began[name] for name in _FAILED if name in facts.began), default=None)
        if asked is None or failing is None:
            return Answer(holds=False, said=f"{well}; nothing failed before requests rose")
        ahead = asked - failing
        if abs(ahead) < _STEPS * facts.step:
            return Answer(
                holds=None, said=f"{well}; failures and requests rose within {_STEPS * facts.step:.0f} s, nobody can tell which first"
            )
        return Answer(holds=ahead > 0, said=f"{well}; requests rose {abs(ahead):.0f} s {'after' if ahead > 0 else 'before'} failures did")
