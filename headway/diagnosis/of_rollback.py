"""What a rolled-back release leaves behind for its report: the service's diagnosis at the moment of the verdict, and both versions' pods side
by side, for a small share of traffic moves no figure of the whole service. Reads, and changes nothing.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

from headway.diagnosis.asking import version_of
from headway.diagnosis.comparison import compared
from headway.diagnosis.figures import interval, shown
from headway.diagnosis.gathering import SPAN_SECONDS, gather
from headway.diagnosis.incident import redacted
from headway.diagnosis.measures import MEASURES, Sight
from headway.diagnosis.observed import Observed
from headway.diagnosis.reasoning import diagnoses
from headway.diagnosis.record import of_one
from headway.release.driver.rollout_state import RolloutState
from headway.release.service_place import ServicePlace
from headway.timestamp import rfc3339


def of_rollback(here: ServicePlace, rollout: RolloutState) -> dict[str, Any]:
    """As the ledger keeps it, redacted: `at`, `diagnoses` as `record.DiagnosisRecord` has them, and `versions` as of `versions`."""
    verdict = rollout.failing.time if rollout.failing else rollout.last
    own = replace(here)  # with connections of its own, for it runs beside the driver
    observed = gather(own, at=datetime.fromisoformat(verdict).timestamp(), since=SPAN_SECONDS)
    found = [of_one(each, here.environment) for each in diagnoses(observed)]
    compares = list(versions(observed, new=rollout.release, stable=rollout.stable))
    return redacted({"at": rfc3339(observed.at), "diagnoses": found, "versions": compares})


def versions(observed: Observed, *, new: str, stable: str) -> Iterator[dict[str, Any]]:
    """Each measure of a pod, of the new version's pods and of the stable version's meanwhile; `differs` where 95 % of the interval say so."""
    for name, measure in MEASURES.items():
        if measure.sight is not Sight.POD:
            continue
        of_new = [sample for pod, samples in observed.series.get(name, {}).items() if version_of(pod) == new for sample in samples]
        since = min((moment for moment, _ in of_new), default=0.0)
        of_stable = [
            value
            for pod, samples in observed.series.get(name, {}).items()
            if version_of(pod) == stable
            for moment, value in samples
            if moment >= since
        ]
        found = compared(of_stable, [value for _, value in of_new])
        if found is not None:
            yield {
                "measure": name,
                "says": measure.says,
                "new": shown(found.since, measure.unit),
                "stable": shown(found.before, measure.unit),
                "difference": interval(found, measure.unit),
                "differs": found.low > 0 or found.high < 0,
            }
