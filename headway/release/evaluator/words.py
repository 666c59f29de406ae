"""What a look found, and how a version stands, in plain words. Pure."""

from headway.contract.evaluation import ALL
from headway.release.evaluation.lifelong import FALSE_ALARM
from headway.release.evaluation.standing import VersionStanding
from headway.release.evaluator.evaluator import EvaluationLook, LookResult
from headway.release.messages import sentence


def said(result: LookResult) -> str:
    """One line."""
    standing = result.standing
    stands = f" {counted(standing)}" if standing else ""
    match result.look:
        case EvaluationLook.UNDER_WAY:
            return f"a release is under way, and its gate judges; {result.release} was not asked."
        case EvaluationLook.WAITING:
            return f"{result.release} is asked again in {result.wait:.0f} s.{stands}"
        case EvaluationLook.ASKED:
            return f"{result.release} was asked.{stands}"
        case EvaluationLook.LOST | EvaluationLook.DUE | EvaluationLook.BACK | EvaluationLook.STAYED:
            return f"{_HEADS[result.look].format(result.release)} {reason(standing)}".strip()


_HEADS = {
    EvaluationLook.LOST: "{} answers worse than accepted, and a person decides: release another version (`headway release start`).",
    EvaluationLook.DUE: "{} answers worse than accepted; `headway evaluate` takes it back, run by somebody who may release.",
    EvaluationLook.BACK: "{} answered worse than accepted and was taken back.",
    EvaluationLook.STAYED: "{} answers worse than accepted, and the way back did not succeed: `headway release report` says why.",
}


def reason(standing: VersionStanding | None) -> str:
    """Why a loss is what it is; empty where none was found."""
    return sentence(standing.answer.reason) if standing and standing.answer else ""


def counted(standing: VersionStanding) -> str:
    """`12 of 1,240 answers were wrong, 3 % may be; evidence against it 0.4 of 100.`"""
    whole = standing.streams[ALL]
    if not whole.asked:
        return "It has answered no labelled request yet."
    evidence = f"evidence against it {standing.value:.3g} of {1 / FALSE_ALARM:.0f}"
    return f"{whole.wrong:,} of {whole.asked:,} labelled answers were wrong, {whole.accepted * 100:.3g} % may be; {evidence}."
