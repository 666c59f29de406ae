"""The rollout policy: how a new version gets traffic, how much evidence each step needs, and what difference is tolerated.

`headway.release` plans and judges by it. The trap: tolerances are the null hypothesis of a test, not thresholds on a dashboard; a
healthy release passes well inside them and a step takes as long as its evidence takes.
"""

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from enum import StrEnum, unique
from typing import Annotated

from pydantic import Field

from headway.contract.part import Flag, Name, Number, Part, between
from headway.contract.units import Bytes, Duration, Rate, Share
from headway.problem import Problem, problem

_MINUTES = Duration.parse
_LONGEST_UNWATCHED = Duration.parse("2h")
LONGEST_UNWATCHED = timedelta(seconds=float(_LONGEST_UNWATCHED.seconds))
"""What no contract exceeds, and so no promise of a release's driver."""
LONGEST_BAKES = 3
"""Times that the bake may take in place of one, where proof is missing at its end."""


@unique
class Strategy(StrEnum):
    """The shape of the plan. All go through dark start, warmup, synthetic and golden requests, and keep the old release warm.

    canary: mirror, then rising weights. blue_green: mirror, then all at once. rolling: replica by replica, where there is no room for
    both. ab: a long-lived split by user, ended by a person.
    """

    CANARY = "canary"
    BLUE_GREEN = "blue_green"
    ROLLING = "rolling"
    AB = "ab"


@unique
class Surge(StrEnum):
    """Where the new version's first GPUs come from. `auto` takes the first possible of the others, in this order."""

    AUTO = "auto"
    SURGE = "surge"
    BORROW = "borrow"
    NO_SURGE = "no_surge"


@unique
class OnInconclusive(StrEnum):
    """What happens when a step's time is over and the evidence says neither good nor bad."""

    HOLD = "hold"
    ROLLBACK = "rollback"
    ADVANCE = "advance"


class Mirror(Part):
    """Copies of live requests go to the new version, whose answers nobody sees. The model must have no side effects."""

    share: Annotated[Share, between(Share.parse("1%"), Share.parse("100%"))]
    """Share of requests that is copied."""
    timeout: Annotated[Duration, between(_MINUTES("5m"), _MINUTES("24h"))] = _MINUTES("45m")
    """Longest time to gather evidence from copies."""
    differ: Annotated[Share, between(Share.parse("0.1%"), Share.parse("50%"))] | None = None
    """How many answers to copies may differ from those that users got, of requests that `data.sample` keeps; as the first golden request
    that compares values does (exact, near, top, cosine). Left out, they are not compared."""


class Tolerances(Part):
    """How different the new version may be. A better, slower model needs a contract that says so here."""

    latency: Annotated[Share, between(Share.parse("1%"), Share.parse("500%"))] = Share.parse("10%")
    """Slow-down of the latency tail that is accepted."""
    latency_unacceptable: Annotated[Share, between(Share.parse("2%"), Share.parse("1000%"))] = Share.parse("25%")
    """Slow-down that each step must rule out before traffic grows."""
    error_ratio: Annotated[Number, Field(ge=1, le=10)] = 1.5
    """Errors relative to the stable version that are accepted."""
    error_floor: Annotated[Share, between(Share.parse("0.001%"), Share.parse("10%"))] = Share.parse("0.2%")
    """Error rate below which ratios do not matter."""
    error_unacceptable: Annotated[Share, between(Share.parse("0.01%"), Share.parse("50%"))] = Share.parse("0.5%")
    """Error rate that the last step must rule out."""
    mismatch: Annotated[Share, between(Share.parse("0%"), Share.parse("50%"))] = Share.parse("0.5%")
    """Share of golden answers that may differ from the expected ones."""
    memory: Annotated[Share, between(Share.parse("50%"), Share.parse("99%"))] = Share.parse("95%")
    """Share of the envelope's GPU memory that may be in use."""
    cost: Annotated[Share, between(Share.parse("0%"), Share.parse("1000%"))] = Share.parse("25%")
    """Rise of the cost of an inference that is accepted."""

    def violations(self) -> Iterator[Problem]:
        for accepted, refused in (("latency", "latency_unacceptable"), ("error_floor", "error_unacceptable")):
            low, high = getattr(self, accepted), getattr(self, refused)
            if low >= high:
                yield problem(
                    "tolerances-in-order",
                    refused,
                    value=high,
                    fact=f"{refused} ({high}) is not above {accepted} ({low})",
                    consequence="No evidence could separate an accepted version from an unacceptable one, and no step would ever end",
                    remedy=f"Keep a distance between them: for instance {accepted} {low} and {refused} {Share(int(low) * 2)}",
                )


class Trade(Part):
    """How much slower a better model may be: the rule that decides between accuracy and latency, written before the release."""

    gain: Annotated[Share, between(Share.parse("0.1%"), Share.parse("100%"))]
    """Rise of the share of correct golden and labelled answers, in points, from which on the wider tolerance holds."""
    latency: Annotated[Share, between(Share.parse("1%"), Share.parse("500%"))]
    """Slow-down of the latency tail that is then accepted, instead of `tolerances.latency`."""


class RequestClass(Part):
    """A kind of request that is compared only with its own kind, so that a change of mix does not look like a change of speed."""

    name: Name
    """Its name; the platform writes it into a label, never the client."""
    body_up_to: Annotated[Bytes, between(Bytes(1), Bytes(256 * 2**20))] | None = None
    """Requests with a body up to this size that no smaller class takes; left out in the last class, which takes the rest."""


class Split(Part):
    """A long-lived division of users between two versions."""

    share: Annotated[Share, between(Share.parse("1%"), Share.parse("99%"))]
    """Share of users that the new version gets, in whole percent; its share of requests may differ, because some users send more."""
    duration: Annotated[Duration, between(Duration.parse("1h"), Duration.parse("90d"))]
    """How long evidence is gathered; then a person decides."""
    user_claim: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.:/-]{0,63}$", examples=["sub"])]
    """Claim of the caller's token that identifies a user, a text or a whole number at its top level; the same user always gets the same
    version. A caller without it is in no experiment."""
    experiment: Name
    """Salt of the assignment, so that two experiments do not pick the same users; recorded with every assignment."""

    def violations(self) -> Iterator[Problem]:
        whole = Share.WHOLE // 100
        if int(self.share) % whole:
            near = Share(max(whole, round(int(self.share) / whole) * whole))
            yield problem(
                "split-in-whole-percent",
                "share",
                value=self.share,
                fact=f"{self.share} of users is not a whole percentage",
                consequence="The ledger, the gate and the report would show another share than the gateway uses",
                remedy=f"Write {near}",
            )


class Rollout(Part):
    """How a new version gets traffic."""

    strategy: Strategy
    """The shape of the plan."""
    weights: Annotated[tuple[Annotated[Share, between(Share.parse("1%"), Share.parse("99%"))], ...], Field(max_length=12)] = (
        Share.parse("1%"),
        Share.parse("5%"),
        Share.parse("10%"),
        Share.parse("25%"),
        Share.parse("50%"),
    )
    """Canary: shares of traffic on the way to 100 %, ascending."""
    mirror: Mirror | None = None
    """Copy live requests to the new version before any user sees it. Left out, users are the first to try it."""
    baseline_arm: Flag = True
    """Canary: also run the stable version in an arm of the canary's size and age, to compare like with like; it costs GPUs."""
    classes: Annotated[tuple[RequestClass, ...], Field(max_length=8)] = ()
    """Kinds of requests to compare separately; if empty, all are compared together, which shows less."""
    step_at_least: Annotated[Duration, between(_MINUTES("1m"), Duration.parse("24h"))] = _MINUTES("5m")
    """Shortest time at a weight, whatever the evidence."""
    step_at_most: Annotated[Duration, between(_MINUTES("5m"), Duration.parse("7d"))] = _MINUTES("30m")
    """Longest time at a weight; then `on_inconclusive`."""
    bake: Annotated[Duration, between(_MINUTES("5m"), Duration.parse("7d"))] = _MINUTES("1h")
    """Time after full traffic during which the old release stays warm, and until which slow leaks must show. Up to three times as long where
    a regression is not ruled out by then."""
    held_back: Annotated[Share, between(Share(0), Share.parse("20%"))] = Share.parse("5%")
    """Share of requests that the old release keeps while the new one bakes, for comparison; rounded to whole percent. 0%: nobody is held
    back, and a bake that looks bad can only wait for a person."""
    at_most: Annotated[Duration, between(_MINUTES("30m"), Duration.parse("30d"))] = Duration.parse("1d")
    """Longest time from start to full traffic, holds included; then traffic goes back, and the release is `out of time`. Not for `ab`, which a person ends."""
    on_inconclusive: OnInconclusive = OnInconclusive.HOLD
    """What happens when a step's time is over without a verdict."""
    blind_at_most: Annotated[Duration, between(_MINUTES("1m"), Duration.parse("24h"))] = _MINUTES("15m")
    """Longest time without data; then traffic goes back to the last weight with evidence."""
    unwatched_at_most: Annotated[Duration, between(_MINUTES("1m"), _LONGEST_UNWATCHED)] = _MINUTES("10m")
    """Longest time that an unproven version keeps traffic after its driver has gone silent; then the release guard acts."""
    false_rollback: Annotated[Share, between(Share.parse("0.01%"), Share.parse("5%"))] = Share.parse("1%")
    """Probability, over a whole rollout, that a healthy version is rolled back; split over all signals."""
    tolerances: Tolerances = Tolerances()
    """How different the new version may be."""
    trade: Trade | None = None
    """How much slower a better model may be. If left out, better answers do not excuse slower ones."""
    usual_requests: Annotated[Rate, between(Rate(1), Rate.parse("1000000/s"))] | None = None
    """Requests that the service usually gets. With it `headway check` says whether so few can prove a version; a release measures its own."""
    surge: Surge = Surge.AUTO
    """Where the new version's GPUs come from; `surge` is refused where the pool has none to spare."""
    split: Split | None = None
    """A/B only: the division of users."""

    def violations(self) -> Iterator[Problem]:
        yield from self._weight_problems()
        yield from self._strategy_problems()
        yield from self._time_problems()
        yield from self._class_problems()

    def _weight_problems(self) -> Iterator[Problem]:
        if list(self.weights) != sorted(set(self.weights)):
            yield problem(
                "weights-ascend",
                "weights",
                value=[str(w) for w in self.weights],
                fact="weights do not ascend",
                consequence="A plan has no steps back and no repeated steps; going back is a rollback",
                remedy=f"Write {', '.join(map(str, sorted(set(self.weights))))}",
            )
        if self.strategy is Strategy.CANARY and not self.weights:
            yield problem(
                "canary-has-weights",
                "weights",
                fact="strategy canary needs weights",
                consequence="The new version would go from nothing to all traffic in one step",
                remedy="List weights, or choose strategy: blue_green",
            )
        if self.strategy is not Strategy.CANARY and self.departs("weights"):
            yield problem(
                "weights-are-used",
                "weights",
                fact=f"strategy {self.strategy} has no weights",
                consequence="They would be ignored",
                remedy="Leave them out, or choose strategy: canary",
            )

    def _strategy_problems(self) -> Iterator[Problem]:
        if (self.split is not None) != (self.strategy is Strategy.AB):
            yield problem(
                "split-belongs-to-ab",
                "split",
                fact="strategy ab needs a split" if self.split is None else f"strategy {self.strategy} has no split of users",
                consequence="Nobody would know which users get which version" if self.split is None else "It would be ignored",
                remedy="Add split" if self.split is None else "Leave it out, or choose strategy: ab",
            )
        if self.strategy is Strategy.AB and self.departs("at_most"):
            yield problem(
                "experiment-is-ended-by-a-person",
                "at_most",
                value=self.at_most,
                fact="strategy ab has no limit of time until full traffic",
                consequence="The value would be ignored: users stay divided until a person promotes or rolls back",
                remedy="Leave it out; split.duration says how long evidence is gathered",
            )
        if self.strategy is Strategy.ROLLING and self.mirror is not None:
            yield problem(
                "rolling-has-no-arms",
                "mirror",
                fact="a rolling update has no separate arm for the new version",
                consequence="Copies of requests would have no destination",
                remedy="Leave mirror out, or choose strategy: canary",
            )

    def _time_problems(self) -> Iterator[Problem]:
        if self.step_at_least > self.step_at_most:
            yield problem(
                "step-times-in-order",
                "step_at_most",
                value=self.step_at_most,
                fact=f"a step lasts at least {self.step_at_least} and at most {self.step_at_most}",
                consequence="No step could ever end",
                remedy=f"Use at least {self.step_at_least}",
            )
        if self.at_most < self.step_at_most:
            yield problem(
                "rollout-outlasts-a-step",
                "at_most",
                value=self.at_most,
                fact=f"the whole rollout may take {self.at_most}, and a single step {self.step_at_most}",
                consequence="It could be rolled back in its first step, healthy or not",
                remedy=f"Use more than {self.step_at_most}, if possible that much for each step",
            )
        if self.trade and self.trade.latency <= self.tolerances.latency:
            yield problem(
                "trade-widens-the-tolerance",
                "trade",
                "latency",
                value=self.trade.latency,
                fact=f"a better model may be {self.trade.latency} slower, and any other model {self.tolerances.latency}",
                consequence="The trade would never have an effect",
                remedy=f"Use more than {self.tolerances.latency}, or leave trade out",
            )

    def _class_problems(self) -> Iterator[Problem]:
        for name, times in Counter(c.name for c in self.classes).items():
            if times > 1:
                yield problem(
                    "class-named-once",
                    "classes",
                    value=name,
                    fact=f"request class {name} is named {times} times",
                    consequence="Two kinds of requests would be counted as one",
                    remedy="Give each its own name",
                )
        bounds = [c.body_up_to for c in self.classes]
        inner = [b for b in bounds[:-1] if b is not None]
        if bounds and (bounds[-1] is not None or len(inner) != len(bounds) - 1 or inner != sorted(set(inner))):
            yield problem(
                "classes-cover-all-sizes",
                "classes",
                fact="sizes of the request classes do not ascend to a last one without a limit",
                consequence="Some requests would belong to no class, or to two",
                remedy="Order classes by body_up_to and leave it out in the last one only",
            )
