"""What the servers of a language model say of tokens, by arm and tick: how long prompts and answers are, how many ended at their limit, and
what a token takes. Pure.

The gate takes none of it in. It is kept with the release, so that its report can tell a version whose answers are longer from a slower or a
dearer one. Servers know neither users' requests from copies nor golden requests from others: where an arm has users and copies in one tick,
each has its share by number of requests.
"""

from collections.abc import Mapping

from headway.release.evidence import queries
from headway.release.evidence.counted import Counted, Risen
from headway.release.evidence.reading import ArmNames

ENGINE = "vllm:"
"""How the names of vLLM's series begin."""
_ENDED, _AT_LIMIT = "vllm:request_success_total", ("finished_reason", "length")
_COUNTERS: Mapping[str, str] = {
    "vllm:request_prompt_tokens_sum": "prompt",
    "vllm:request_generation_tokens_sum": "answer",
    "vllm:request_generation_tokens_count": "answers",
    "vllm:time_to_first_token_seconds_sum": "first_seconds",
    "vllm:time_to_first_token_seconds_count": "firsts",
    "vllm:request_time_per_output_token_seconds_sum": "each_seconds",
    "vllm:request_time_per_output_token_seconds_count": "eaches",
    "vllm:prefix_cache_hits_total": "cached",
    "vllm:prefix_cache_queries_total": "looked_up",
}
_REFUSED = "4"

SHAPE: Mapping[str, str] = {
    "prompt": "tokens of prompts",
    "answer": "tokens of answers",
    "answers": "answers that ended",
    "truncated": "of these, at their limit of tokens",
    "first_seconds": "time to the first token, summed over requests",
    "firsts": "requests that this is of",
    "each_seconds": "time for each further token, mean of an answer, summed over answers",
    "eaches": "answers that this is of",
    "cached": "tokens of prompts that the prefix cache had",
    "looked_up": "tokens of prompts that were looked for in it",
    "refused": "requests that were answered 4xx, as the replicas' proxies counted them",
}
"""Keys of one arm, each a number."""


def selector(namespace: str, arms: tuple[str, ...]) -> str:
    """All series of it in one question."""
    return queries.of_pods("", namespace, arms, f"__name__=~{queries.one_of((*_COUNTERS, _ENDED))}")


def of_tick(arms: ArmNames, risen: Risen, requests: Risen, counted: Counted, place: int) -> dict[str, dict[str, float]]:
    """By part (stable, baseline, canary, mirrored) that answered in the tick, as `SHAPE` says; empty where no server says anything.
    `requests` are the mesh's."""
    parts = {"stable": arms.stable, "baseline": arms.baseline, "canary": arms.canary, "mirrored": arms.canary}
    found: dict[str, dict[str, float]] = {}
    for part, name in parts.items():
        if name is None or part not in counted.by_part:
            continue
        total, mine = counted.total(name, place), float(counted.by_part[part].requests[:, place].sum())
        sums = _sums(name, risen, place)
        if sums and mine > 0 and total > 0:
            of_part = {key: value * mine / total for key, value in sums.items()}
            found[part] = {**dict.fromkeys(SHAPE, 0.0), **of_part, "refused": _refused(part, name, requests, place)}
    return found


def _sums(arm: str, risen: Risen, place: int) -> dict[str, float]:
    pods, sums = queries.compiled_pods_of(arm), dict[str, float]()
    for labels, values in risen:
        key = _key(labels)
        if key and pods.fullmatch(labels.get(queries.POD, "")):
            sums[key] = sums.get(key, 0.0) + float(values[place])
    return sums


def _key(labels: Mapping[str, str]) -> str | None:
    name = labels.get("__name__", "")
    if name == _ENDED:
        return "truncated" if labels.get(_AT_LIMIT[0]) == _AT_LIMIT[1] else None
    return _COUNTERS.get(name)


def _refused(part: str, arm: str, requests: Risen, place: int) -> float:
    copies = part == "mirrored"
    return float(
        sum(
            values[place]
            for labels, values in requests
            if labels.get(queries.WORKLOAD) == arm
            and (labels.get(queries.MIRRORED) == "true") is copies
            and labels.get(queries.CODE, "").startswith(_REFUSED)
        )
    )
