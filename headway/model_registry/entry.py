"""What a registry says of one version of a model, and the breaches between that and a contract. Pure.

Releases never ask a registry: a contract names every file with its digest, so that nothing that a registry forgets can stop a replica from
starting. The trap: a version without the digest tag proves nothing, and is refused rather than believed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from headway.contract.artifact import RELATIVE, Artifact
from headway.problem import Problem, problem

DIGEST_TAG = "headway.artifact.sha256"
"""Where a registry keeps the digest of an artifact's file list, as `headway artifact` prints it: a version tag of MLflow, a customer
metadata property of SageMaker."""


@dataclass(frozen=True)
class Registered:
    """One version. `digest` is None where nobody has tagged it; `refusal` says why the registry itself would not have it used, if so."""

    uri: str
    digest: str | None
    refusal: str | None = None


class ModelRegistry(Protocol):
    """Finds versions. One implementation a system; tests pass a double."""

    def find(self, model: str, version: str) -> Registered | None:
        """The version; None when there is no such one. Raises UserError when the registry cannot be asked."""
        ...


def disagreements(artifact: Artifact, registry: ModelRegistry) -> Iterator[Problem]:
    """Every way in which the registry contradicts `artifact`, by the path from the contract's top."""
    entry = artifact.registry
    called = f"{entry.system.value}:{entry.model}:{entry.version}"
    found = registry.find(entry.model, entry.version)
    if found is None:
        yield problem(
            "registry-has-the-version",
            "artifact",
            "registry",
            "version",
            value=entry.version,
            fact=f"the registry has no {called}",
            consequence="Nobody could say who approved what is served, or what it was trained on",
            remedy="Register the version, or name the one that this artifact is",
        )
        return
    if found.refusal:
        yield problem(
            "registry-approves-the-version",
            "artifact",
            "registry",
            "version",
            value=entry.version,
            fact=f"{called} is {found.refusal}",
            consequence="A version that its owners have not let go would reach users",
            remedy="Have it approved there, or use another version",
        )
    if not _same_place(found.uri, artifact.uri):
        yield problem(
            "registry-names-the-artifact",
            "artifact",
            "uri",
            value=artifact.uri,
            fact=f"{called} lies at {found.uri}",
            consequence="What is served would not be what was registered",
            remedy=f"Write {found.uri.rstrip('/')}/, or name the version that lies here",
        )
    if found.digest is None:
        yield problem(
            "registry-holds-the-digest",
            "artifact",
            "registry",
            value=called,
            fact=f"{called} has no {DIGEST_TAG}",
            consequence="The files could have changed since they were registered, and nobody would know",
            remedy=f"Tag the version with {DIGEST_TAG}={artifact.digest}, once it is sure that these are its files",
        )
    elif found.digest != artifact.digest:
        yield problem(
            "registry-digest-matches",
            "artifact",
            "files",
            fact=f"the files have the digest {artifact.digest}, {called} was registered with {found.digest}",
            consequence="What is served would not be what was registered",
            remedy="Describe the registered files (`headway artifact FOLDER`), or register these as a version of their own",
        )


def _same_place(registered: str, stated: str) -> bool:
    """Whether both name the same files; a stated path in each environment's bucket is that path in any bucket."""
    if not stated.startswith(RELATIVE):
        return registered.rstrip("/") == stated.rstrip("/")
    key = registered.removeprefix(RELATIVE) if registered.startswith(RELATIVE) else registered.removeprefix("s3://").partition("/")[2]
    return key.rstrip("/") == stated.removeprefix(RELATIVE).rstrip("/")
