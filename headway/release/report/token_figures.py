"""How a language model's versions answer, beside one another: the length of answers, what a token takes and costs, how many answers ended at
their limit. Pure, and judges nothing: an answer that is longer takes longer and costs more, though each of its tokens does not.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from headway.release.evidence.prefix_cache import alike
from headway.release.evidence.tokens import SHAPE
from headway.release.report.units import share_in_words, time_in_words

_FEW = 20
"""Answers below which nothing is said of them."""
_NOTABLE = 0.1
"""By how much the length of answers must differ to be said in a sentence."""


@dataclass(frozen=True, kw_only=True)
class TokenSums:
    """What one arm's servers said in some ticks; `busy` GPU seconds where all of these ticks know them."""

    sums: Mapping[str, float] = field(default_factory=dict[str, float])
    requests: float = 0.0
    busy: float | None = None

    def plus(self, tokens: Mapping[str, Any] | None, arm: Mapping[str, Any] | None) -> "TokenSums":
        """With one more tick: what the arm's servers said, and what the mesh counted of it."""
        if not tokens or not arm:
            return self
        busy, before = arm.get("busy"), self.busy if self.sums else 0.0
        return TokenSums(
            sums={key: self.sums.get(key, 0.0) + float(tokens.get(key) or 0.0) for key in SHAPE},
            requests=self.requests + float(sum(arm["requests"])),
            busy=None if busy is None or before is None else before + float(busy),
        )

    def ratio(self, part: str, whole: str) -> float | None:
        """None where nothing was counted."""
        return self.sums[part] / self.sums[whole] if self.sums.get(whole) else None

    @property
    def answer(self) -> float | None:
        """Mean tokens of an answer."""
        return self.ratio("answer", "answers") if self.sums.get("answers", 0.0) >= _FEW else None

    @property
    def refused(self) -> float | None:
        return self.sums["refused"] / self.requests if self.sums and self.requests else None

    @property
    def cost(self) -> float | None:
        """GPU seconds for a thousand tokens of answers."""
        return None if self.busy is None or not self.sums.get("answer") else 1000 * self.busy / self.sums["answer"]

    @property
    def figures(self) -> Iterator[tuple[str, float | None, str]]:
        """What is shown of it: what, how much, in which unit."""
        yield "tokens of an answer", self.answer, ""
        yield "tokens of a prompt", self.ratio("prompt", "answers"), ""
        yield "answers that ended at their limit", self.ratio("truncated", "answers"), "share"
        yield "requests refused", self.refused, "share"
        yield "time to the first token, mean", self.ratio("first_seconds", "firsts"), "seconds"
        yield "time for each further token, mean", self.ratio("each_seconds", "eaches"), "seconds"
        yield "of prompts from the prefix cache", self.ratio("cached", "looked_up"), "share"
        yield "GPU time for 1,000 tokens", self.cost, "seconds"


def rows(new: TokenSums, stable: TokenSums) -> Iterator[tuple[str, str, str]]:
    """What is known of the new version, with its name and the stable version's figure beside it; nothing for few answers."""
    if new.answer is None:
        return
    for (name, ours, unit), (_, theirs, _) in zip(new.figures, stable.figures, strict=True):
        if ours is not None:
            yield name, shown(ours, unit), "" if theirs is None else shown(theirs, unit)


def remark(new: TokenSums, stable: TokenSums) -> str:
    """What sets the versions apart beside their speed: the length of answers, and what this does to a whole answer's time and cost; and how
    warm their prefix caches are. Empty where nothing does."""
    return " ".join(filter(None, (_of_length(new, stable), _of_caches(new, stable))))


def _of_caches(new: TokenSums, stable: TokenSums) -> str:
    ours, theirs = new.ratio("cached", "looked_up"), stable.ratio("cached", "looked_up")
    if ours is None or theirs is None or alike(1 - ours, 1 - theirs):
        return ""
    return (
        f"The new version's prefix cache had {shown(ours, 'share')} of the prompts' tokens and the stable version's {shown(theirs, 'share')}; "
        "in minutes in which they are so far apart first tokens are not compared."
    )


def _of_length(new: TokenSums, stable: TokenSums) -> str:
    ours, theirs = new.answer, stable.answer
    if not ours or not theirs or abs(ours / theirs - 1) < _NOTABLE:
        return ""
    longer = ours > theirs
    each, usual = new.ratio("each_seconds", "eaches"), stable.ratio("each_seconds", "eaches")
    same = f", while each further token takes {shown(each, 'seconds')} ({shown(usual, 'seconds')})" if each and usual else ""
    cost, before = new.cost, stable.cost
    dearer = (
        f" An answer takes {shown(cost * ours / 1000, 'seconds')} of GPU time ({shown(before * theirs / 1000, 'seconds')}), 1,000 tokens "
        f"{shown(cost, 'seconds')} ({shown(before, 'seconds')})."
        if cost is not None and before is not None
        else ""
    )
    return (
        f"Answers of the new version are {abs(ours / theirs - 1):.0%} {'longer' if longer else 'shorter'}, {ours:.3g} tokens and not "
        f"{theirs:.3g}; so whole answers take {'longer' if longer else 'less long'} by this alone{same}.{dearer}"
    )


def shown(value: float, unit: str) -> str:
    """A figure in words."""
    if unit == "share":
        return share_in_words(value)
    if unit == "seconds":
        return time_in_words(value)
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"
