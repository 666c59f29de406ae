"""Runs checks one after the other and keeps what each saw; whatever happens, what was made is removed.

One check that cannot go on hides nothing of the others: an answer that did not come is `unanswered`, and a refusal too,
for nobody learned whether the platform works.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from headway.environment.api_answer import ApiAnswer
from headway.environment.port import OutOfReachError
from headway.problem import ODD, UserError
from headway.timestamp import rfc3339
from headway.verify.catalogue import VerifyCheck
from headway.verify.outcome import Sighting, VerifyResult
from headway.verify.probe import SELECTOR
from headway.verify.site import Site

Told = Callable[[VerifyResult], None]


def run(site: Site, checks: Sequence[VerifyCheck], now: Callable[[], datetime], told: Told) -> tuple[VerifyResult, ...]:
    """The result of each check, told as soon as it is known."""
    results: list[VerifyResult] = []
    for check in checks:
        began, start = now(), site.clock()
        site.say(f"{check.name}: {check.says} (up to {check.minutes} min)")
        seen = _seen(site, check)
        results.append(
            VerifyResult(check=check.name, state=seen.state, sighting=seen, began=rfc3339(began), seconds=max(0.0, site.clock() - start))
        )
        told(results[-1])
    return tuple(results)


def _seen(site: Site, check: VerifyCheck) -> Sighting:
    try:
        return check.look(site)
    except OutOfReachError as failure:
        return Sighting(unanswered=(f"Nobody answered ({failure}).",))
    except UserError as refusal:
        return Sighting(unanswered=tuple(str(problem).replace("\n  ", " ") for problem in refusal.problems))
    except ODD as strange:
        return Sighting(unanswered=(f"An answer had another shape than its API says ({type(strange).__name__}: {strange}).",))


def left_before(site: Site) -> tuple[str, ...]:
    """Namespaces of runs that ended without removing theirs, or that still go on."""
    try:
        return tuple(body["metadata"]["name"] for body in site.items("/api/v1/namespaces", SELECTOR))
    except (OutOfReachError, UserError):
        return ()


def live_versions(site: Site) -> dict[str, Any]:
    """What the cluster says it runs: the API server's version, and each kubelet's, driver's and operating system's."""
    try:
        answer: ApiAnswer = site.api.answer("GET", "/version")
        nodes = site.items("/api/v1/nodes")
    except (OutOfReachError, UserError):
        return {}
    info = [body.get("status", {}).get("nodeInfo") or {} for body in nodes]
    drivers = {(body["metadata"].get("labels") or {}).get("nvidia.com/cuda.driver-version.full") for body in nodes}
    return {
        "apiServer": answer.document.get("gitVersion") if answer.ok else None,
        "kubelets": sorted({str(each.get("kubeletVersion")) for each in info}),
        "systems": sorted({str(each.get("osImage")) for each in info}),
        "drivers": sorted(filter(None, drivers)),
        "nodes": len(nodes),
    }
