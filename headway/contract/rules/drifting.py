"""Whether samples keep what is watched for drift, for long enough."""

from collections.abc import Iterator

from headway.contract.model_parts import ModelParts
from headway.contract.sampling import kept_days
from headway.contract.units import Duration
from headway.problem import Problem, problem


def watched_numbers_are_kept(model: ModelParts) -> Iterator[Problem]:
    if model.drift is None:
        return
    kept = [tuple(field.split(".")) for field in model.data.log_fields] if model.data.sampled else []
    for number, watched in enumerate(model.drift.numbers):
        if not any(watched.way[: len(field)] == field for field in kept):
            yield problem(
                "watched-number-is-kept",
                "drift",
                "numbers",
                number,
                "at",
                value=watched.at,
                fact=f"samples of requests do not keep {'.'.join(watched.way)}",
                consequence=f"Number {watched.name} would never be seen, and no drift of it found",
                remedy=f"Add {'.'.join(watched.way[:2])} to data.log_fields, with a data.sample above 0 %",
            )
    days = Duration.parse(f"{kept_days(model.data.retention)}d")
    if days.seconds < model.drift.reference.seconds + Duration.parse("1d").seconds and kept:
        yield problem(
            "samples-outlive-the-reference",
            "data",
            "retention",
            value=model.data.retention,
            fact=f"samples are kept for {days}, and the reference for drift takes {model.drift.reference}",
            consequence="Its first samples could be gone before it is complete",
            remedy="Keep samples a day longer than drift.reference, or shorten that",
        )
