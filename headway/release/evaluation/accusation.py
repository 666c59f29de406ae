"""Whether a release was proven to answer worse when it was last asked, and what that says to whoever would release it again. Pure.

Evidence against a version is not lost with its traffic: what it answered then, it would answer now. Labels can have been wrong, so a
person may overrule it; and a version that serves is acquitted by another set or share, by which its evidence begins anew.
"""

from headway.problem import Exit, UserError
from headway.release.evaluation.standing import EvaluationHistory


def accusation(history: EvaluationHistory, release: str) -> str | None:
    """Why `release` is accused, by the set and the shares that it was last asked with; None where it is not."""
    newest = history.newest(release)
    return newest.answer.reason if newest and newest.answer else None


def refusal(chain: str, release: str, why: str) -> UserError:
    """For a release of a version that is accused because of `why`."""
    return UserError(
        f"Release {release} of {chain} is proven to answer worse than accepted ({why}).",
        "Users would get these answers again; nothing was started.",
        "Release another version; or use --overrule, and say in --reason why these labels do not count.",
        Exit.REFUSED,
    )
