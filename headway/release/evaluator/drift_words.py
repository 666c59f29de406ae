"""What a look at watched numbers found, in plain words. Pure."""

from headway.release.evaluation.lifelong import FALSE_ALARM
from headway.release.evaluation.watched import CUTS, FEWEST, DriftTold
from headway.release.evaluator.drift_watch import DriftLook, DriftResult
from headway.release.messages import sentence


def said(result: DriftResult) -> str:
    """One line."""
    standing = result.standing
    release, wait = standing.release, result.wait / 60
    match result.look:
        case DriftLook.UNDER_WAY:
            return f"a release is under way, and its gate judges; samples of {release} were not read."
        case DriftLook.LEARNING:
            return f"what is usual with {release} is known in {wait:,.0f} min."
        case DriftLook.FEW:
            name, values = result.fewest
            least = FEWEST * CUTS // (CUTS - 1) + 1
            return f"{values} samples have {name}, and {least} are needed; raise data.sample or drift.reference. Nothing is watched yet."
        case DriftLook.WAITING | DriftLook.COUNTED:
            seen = sum(each.seen for each in standing.numbers.values())
            return f"nothing drifted: {seen:,} numbers of {release}, evidence {standing.value:.3g} of {1 / FALSE_ALARM:.0f}."
        case DriftLook.DRIFTED:
            return f"{sentence(standing.found)} {_DECIDES}"


_DECIDES = "That is no proof against the version; a person decides: release another one, or `headway drift --anew` where this is usual now."


def told(standing: DriftTold) -> str:
    """How a version stands, after some time."""
    if standing.found:
        return f"{sentence(standing.found)} {_DECIDES}"
    if not standing.learned:
        return "What is usual is being learned."
    return f"Nothing drifted, by {standing.seen:,} numbers of users' requests and answers."
