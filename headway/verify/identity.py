"""Whether a tenant's pods read their own artifacts and nobody else's, asked with their own credentials. The judgements are
pure.

The credentials belong to a service account of the tenant's namespace, where a verification makes no pod; so a pod of the
tenant that runs is asked, in its serving container, as golden requests are.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headway.bounded_json import bounded_json
from headway.environment.port import Facility, OutOfReachError
from headway.problem import Problem
from headway.verify.outcome import Sighting, together
from headway.verify.probe import SCRIPT
from headway.verify.site import Site
from headway.wire import FETCH_SETTINGS, SCRIPTS_FOLDER

RULE = "identity"
SECONDS = 120.0


@dataclass(frozen=True, kw_only=True)
class TenantArtifact:
    """One object of a tenant's, which its models fetch."""

    tenant: str
    uri: str
    region: str


def look(site: Site) -> Sighting:
    """Ask a running pod of each tenant for one artifact of every tenant."""
    if reason := site.environment.cannot_show(Facility.IDENTITIES):
        return Sighting(not_shown=(f"No tenant's credentials were used: {reason}.",))
    names = [body["metadata"]["name"] for body in site.tenants()]
    artifacts = [found for name in names if (found := artifact(name, site.items(f"/api/v1/namespaces/{name}/configmaps")))]
    return together(_of(site, name, artifacts) for name in names)


def artifact(tenant: str, configmaps: Sequence[Mapping[str, Any]]) -> TenantArtifact | None:
    """The first object that a release of the tenant fetches; None where it has none."""
    for body in sorted(configmaps, key=lambda each: each["metadata"]["name"]):
        text = (body.get("data") or {}).get(FETCH_SETTINGS)
        settings: dict[str, Any] = bounded_json(text) if text else {}
        if settings.get("files"):
            return TenantArtifact(tenant=tenant, uri=settings["uri"] + settings["files"][0]["path"], region=settings["region"])
    return None


def container_of(pod: Mapping[str, Any]) -> str | None:
    """The container of a running pod that has the fetcher's script; None where there is none."""
    if (pod.get("status") or {}).get("phase") != "Running":
        return None
    for each in pod["spec"]["containers"]:
        if any(mount["mountPath"].rstrip("/") == SCRIPTS_FOLDER for mount in each.get("volumeMounts") or ()):
            return str(each["name"])
    return None


def judge(tenant: str, artifacts: Sequence[TenantArtifact], answers: Mapping[str, str]) -> Sighting:
    """What one tenant's pod was answered for an object of each tenant: `read`, or what S3 said."""
    problems, unanswered, refused = list[Problem](), list[str](), list[str]()
    own = ""
    for each in artifacts:
        said = answers.get(each.tenant, "no answer")
        if each.tenant == tenant:
            own = said
            if said != "read":
                problems.append(
                    _problem(
                        tenant,
                        f"A pod of {tenant} cannot read its own {each.uri} ({said})",
                        "A replica that starts on another node does not find its model",
                        "See that the service account has its Pod Identity association, or with IRSA the annotation that names its role, "
                        "and that the role trusts it, reads the prefix and uses the bucket's key",
                    )
                )
        elif said == "read":
            problems.append(
                _problem(
                    tenant,
                    f"A pod of {tenant} reads {each.uri}, which is {each.tenant}'s",
                    "One tenant's code can take another's models",
                    "Narrow the role of the tenant's service account to its own prefix; deploy the tenant layer again",
                )
            )
        elif said.startswith("403"):
            refused.append(each.tenant)
        else:
            unanswered.append(f"Whether a pod of {tenant} may read {each.tenant}'s artifacts is not known ({said}).")
    evidence = (
        *((f"A pod of {tenant} reads its own artifact.",) if own == "read" else ()),
        *((f"S3 refuses it those of {', '.join(refused)} (403).",) if refused else ()),
    )
    return Sighting(evidence=evidence, problems=tuple(problems), unanswered=tuple(unanswered))


def _of(site: Site, tenant: str, artifacts: Sequence[TenantArtifact]) -> Sighting:
    if not artifacts:
        return Sighting()
    places = [
        (body, container) for body in site.items(f"/api/v1/namespaces/{tenant}/pods") if (container := container_of(body)) is not None
    ]
    if not places:
        return Sighting(unanswered=(f"Tenant {tenant} has no running pod that could be asked.",))
    question = {"scripts": SCRIPTS_FOLDER, "objects": {each.tenant: {"uri": each.uri, "region": each.region} for each in artifacts}}
    pod, container = places[0]
    try:
        said = site.environment.execute(pod, container, ["-c", SCRIPT, "artifacts", json.dumps(question)], SECONDS)
        answers: dict[str, str] = bounded_json(said.strip().splitlines()[-1])
    except (OutOfReachError, ValueError, IndexError) as failure:
        return Sighting(unanswered=(f"Pod {pod['metadata']['name']} of {tenant} could not be asked ({failure}).",))
    return judge(tenant, artifacts, answers)


def _problem(tenant: str, fact: str, consequence: str, remedy: str) -> Problem:
    return Problem(rule=RULE, subject=f"tenant {tenant}", fact=fact, consequence=consequence, remedy=remedy)
