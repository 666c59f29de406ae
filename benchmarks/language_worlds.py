"""A simulated service of a language model, and what confounds a comparison of two of its versions. Nothing here knows how the gate judges.

Every request is drawn: tokens of its prompt by class, tokens of its answer, time to the first token, time for each further token. A request
that takes longer than its caller waits fails, and is sent once more in the next minute, to whichever version it then meets. Parameters are
those of no measured service; each stands below.
"""

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from components.model_service.objectives import INTER_TOKEN_EDGES_S, TTFT_EDGES_S
from components.platform.replica_measures import FIRST_EDGES_MS, NEXT_EDGES_US
from headway.release.worlds.scenarios import CANARY
from headway.release.worlds.world import ARMS, FINE_EDGES, Floats

HISTORY_MINUTES = 15
LATENCY, FIRST, EACH, FINE_FIRST, FINE_EACH = "latency", "ttft", "time_per_token", "first_token", "next_token"
EDGES: Mapping[str, tuple[float, ...]] = {
    LATENCY: FINE_EDGES,
    FIRST: TTFT_EDGES_S,
    EACH: INTER_TOKEN_EDGES_S,
    FINE_FIRST: tuple(edge / 1_000 for edge in FIRST_EDGES_MS),
    FINE_EACH: tuple(edge / 1_000_000 for edge in NEXT_EDGES_US),
}
"""By histogram: milliseconds of the whole answer at the proxy, by class; seconds at the server, of all requests together; the same at the
proxy, by class, as it measures them of streams."""


@dataclass(frozen=True, kw_only=True)
class LanguageWorld:
    """Medians; spreads are standard deviations of logarithms."""

    prompts: tuple[float, float] = (60.0, 1500.0)
    """Tokens, by class: short and long."""
    long_share: float = 0.3
    cached: float = 0.5
    """Share of prompts' tokens that a warm prefix cache has."""
    answer: float = 150.0
    """Tokens."""
    answer_spread: float = 0.7
    first: float = 0.04
    """Seconds to the first token beside the prompt's own."""
    prefill: float = 0.00015
    """Seconds for a token of a prompt."""
    first_spread: float = 0.35
    each: float = 0.028
    """Seconds for a token of an answer."""
    each_spread: float = 0.15
    common_noise: float = 0.05
    """Of the level of all arms, which changes slowly."""
    arm_noise: float = 0.03
    """Of an arm's own level, anew each minute."""
    error_rate: float = 0.001
    patience: float = 120.0
    """Seconds that a caller waits."""


@dataclass
class LanguageMinute:
    """What a scenario may change in one minute, by arm: factors, one a rollout."""

    minute: int
    weight: Floats
    first: dict[str, Floats]
    each: dict[str, Floats]
    answer: dict[str, Floats]
    cold: dict[str, Floats]
    """How much more of its prompts an arm must compute than one with a warm cache."""
    patience: float


Change = Callable[[LanguageMinute], None]


@dataclass(frozen=True)
class LanguageScenario:
    """`kind`: healthy (any rollback is false) or bad (a promotion is a miss)."""

    name: str
    kind: str
    change: Change


@dataclass(frozen=True)
class LanguageShown:
    """One minute: by arm and histogram (rollouts, classes, buckets), and by arm (rollouts, classes)."""

    buckets: Mapping[str, Mapping[str, Floats]]
    errors: Mapping[str, Floats]
    tokens: Mapping[str, Floats]
    """Of answers, by arm: (rollouts)."""
    computed: Mapping[str, Floats]
    """Share of prompts' tokens that the cache had not, by arm: (rollouts); not-a-number where there were none."""


@dataclass
class LanguageService:
    """Many rollouts of one scenario, all random numbers from one generator."""

    world: LanguageWorld
    scenario: LanguageScenario
    rate: float
    """Users' requests a second, all arms together."""
    rollouts: int
    seed: int
    _again: Floats = field(init=False)
    """Requests that are sent once more in the next minute."""

    def __post_init__(self) -> None:
        name = f"{self.scenario.name}/{self.rate}"
        self._rng = np.random.default_rng([self.seed, zlib.crc32(name.encode())])
        self._common = self.world.common_noise * self._rng.standard_normal(self.rollouts)
        self._again = np.zeros((self.rollouts, 2))

    def history(self) -> tuple[dict[str, Floats], Floats]:
        """Buckets by histogram, and errors, of the stable version over the minutes before the rollout, healthy."""
        nothing = np.zeros(self.rollouts)
        minutes = [self._shown(self._healthy(-1, nothing), nothing, nothing, nothing) for _ in range(HISTORY_MINUTES)]
        buckets = {name: np.sum([each.buckets["stable"][name] for each in minutes], axis=0) for name in EDGES}
        return buckets, np.sum([each.errors["stable"] for each in minutes], axis=0)

    def minute(self, number: int, weight: Floats, baseline: Floats, mirror: Floats) -> LanguageShown:
        """The next minute, for which these weights were set."""
        minute = self._healthy(number, weight)
        self.scenario.change(minute)
        return self._shown(minute, weight, baseline, mirror)

    def _healthy(self, number: int, weight: Floats) -> LanguageMinute:
        noise = self.world.common_noise * self._rng.standard_normal(self.rollouts)
        self._common = 0.9 * self._common + np.sqrt(1 - 0.81) * noise

        def levels() -> dict[str, Floats]:
            own = {arm: self.world.arm_noise * self._rng.standard_normal(self.rollouts) for arm in ARMS}
            return {arm: np.exp(self._common + each) for arm, each in own.items()}

        ones = {arm: np.ones(self.rollouts) for arm in ARMS}
        return LanguageMinute(number, weight, levels(), levels(), dict(ones), dict(ones), self.world.patience)

    def _shown(self, minute: LanguageMinute, weight: Floats, baseline: Floats, mirror: Floats) -> LanguageShown:
        shares = {"stable": 1 - weight - baseline, "baseline": baseline, "canary": weight, "mirrored": mirror * (1 - weight - baseline)}
        again, self._again = self._again, np.zeros((self.rollouts, 2))
        buckets: dict[str, dict[str, Floats]] = {}
        errors, tokens = dict[str, Floats](), dict[str, Floats]()
        for arm, share in shares.items():
            buckets[arm] = {name: np.zeros((self.rollouts, 2, len(edges) + 1)) for name, edges in EDGES.items()}
            errors[arm], tokens[arm] = np.zeros((self.rollouts, 2)), np.zeros(self.rollouts)
            for kind, part in enumerate((1 - self.world.long_share, self.world.long_share)):
                requests = self._rng.poisson(np.maximum((self.rate * 60 * part + again[:, kind]) * share, 0.0))
                self._answer(minute, arm, kind, requests, buckets[arm], errors[arm], tokens[arm])
        return LanguageShown(buckets, errors, tokens, {arm: self._computed(minute, arm, buckets[arm]) for arm in shares})

    def _computed(self, minute: LanguageMinute, arm: str, buckets: Mapping[str, Floats]) -> Floats:
        """Prompts differ by as much as their mean, so the share varies with their number."""
        requests = buckets[FINE_FIRST].sum(axis=(1, 2))
        noise = self._rng.standard_normal(self.rollouts) / np.sqrt(np.maximum(requests, 1.0))
        return np.where(requests > 0, np.clip((1 - self.world.cached) * minute.cold[arm] * (1 + noise), 0.0, 1.0), np.nan)

    def _answer(
        self,
        minute: LanguageMinute,
        arm: str,
        kind: int,
        requests: NDArray[np.int64],
        into: Mapping[str, Floats],
        errors: Floats,
        tokens: Floats,
    ) -> None:
        world, rng, total = self.world, self._rng, int(requests.sum())
        if not total:
            return
        which = np.repeat(np.arange(self.rollouts), requests)
        usual = world.first + world.prefill * world.prompts[kind]
        first = usual * minute.first[arm][which] * np.exp(world.first_spread * rng.standard_normal(total))
        length = np.maximum(1.0, world.answer * minute.answer[arm][which] * np.exp(world.answer_spread * rng.standard_normal(total)))
        each = world.each * minute.each[arm][which] * np.exp(world.each_spread * rng.standard_normal(total))
        seconds = first + each * (length - 1)
        late = seconds > minute.patience
        into[LATENCY][:, kind] += _counted(which, np.minimum(seconds, minute.patience) * 1000, EDGES[LATENCY], self.rollouts)
        # A server does not know classes: its times are shown as if of the first. One that is aborted counts nowhere there, and at the proxy
        # with the tokens that it had.
        into[FIRST][:, 0] += _counted(which, first, EDGES[FIRST], self.rollouts)
        into[EACH][:, 0] += _counted(which[~late], each[~late], EDGES[EACH], self.rollouts)
        into[FINE_FIRST][:, kind] += _counted(which, np.minimum(first, minute.patience), EDGES[FINE_FIRST], self.rollouts)
        into[FINE_EACH][:, kind] += _counted(which[length >= 2], each[length >= 2], EDGES[FINE_EACH], self.rollouts)
        failed = late | (rng.random(total) < world.error_rate)
        errors[:, kind] += np.bincount(which[failed], minlength=self.rollouts)
        tokens += np.bincount(which, weights=length, minlength=self.rollouts)
        if arm != "mirrored":  # nobody waits for the answer to a copy
            self._again[:, kind] += np.bincount(which[late], minlength=self.rollouts)


def _counted(which: NDArray[np.int64], values: Floats, edges: tuple[float, ...], rollouts: int) -> Floats:
    """Values by rollout and bucket."""
    width = len(edges) + 1
    places = which * width + np.searchsorted(edges, values)
    return np.bincount(places, minlength=rollouts * width).reshape(rollouts, width).astype(np.float64)


def _longer(factor: float) -> Change:
    def change(minute: LanguageMinute) -> None:
        for arm in CANARY:
            minute.answer[arm] = minute.answer[arm] * factor

    return change


def _slower(first: float = 1.0, each: float = 1.0, answer: float = 1.0) -> Change:
    def change(minute: LanguageMinute) -> None:
        for arm in CANARY:
            minute.first[arm], minute.each[arm] = minute.first[arm] * first, minute.each[arm] * each
            minute.answer[arm] = minute.answer[arm] * answer

    return change


def _cold(arms: tuple[str, ...]) -> Change:
    """Half of what a prompt costs is saved by the cache of a warm replica; a new one has it after a quarter of an hour."""

    def change(minute: LanguageMinute) -> None:
        for arm in arms:
            minute.cold[arm] = minute.cold[arm] * (1 + np.exp(-minute.minute / 15))
            minute.first[arm] = minute.first[arm] * minute.cold[arm]

    return change


def _interfering(minute: LanguageMinute) -> None:
    """Four replicas of the stable version, one of each small arm: who shares a batch with more requests gets tokens later."""
    small = np.clip(4 * minute.weight, 0.0, 1.0)
    for arm in ("canary", "baseline"):
        minute.each[arm] = minute.each[arm] * (1 + 0.4 * small)
    minute.each["stable"] = minute.each["stable"] * (1 + 0.4 * (1 - minute.weight))
    minute.each["mirrored"] = minute.each["mirrored"] * 1.4


def _impatient(minute: LanguageMinute) -> None:
    minute.patience = 20.0


def _nothing(minute: LanguageMinute) -> None:
    del minute


SCENARIOS = (
    LanguageScenario("identical versions", "healthy", _nothing),
    LanguageScenario("answers longer by a quarter", "healthy", _longer(1.25)),
    LanguageScenario("answers twice as long", "healthy", _longer(2.0)),
    LanguageScenario("answers half as long", "healthy", _longer(0.5)),
    LanguageScenario("prefix cache cold in both new arms", "healthy", _cold((*CANARY, "baseline"))),
    LanguageScenario("prefix cache cold in the new version alone", "healthy", _cold(CANARY)),
    LanguageScenario("batch interference", "healthy", _interfering),
    LanguageScenario("long requests time out and are sent again", "healthy", _impatient),
    LanguageScenario("prefill +50 %", "bad", _slower(first=1.5)),
    LanguageScenario("prefill +100 %", "bad", _slower(first=2.0)),
    LanguageScenario("decode +20 %", "bad", _slower(each=1.2)),
    LanguageScenario("decode +50 %", "bad", _slower(each=1.5)),
    LanguageScenario("decode +50 %, answers shorter by a third", "bad", _slower(each=1.5, answer=0.67)),
)
