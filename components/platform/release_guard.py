"""The dead man's switch of releases, in the cluster: `headway release guard` over every tenant, where the environment
names an image. Pure.

Two replicas that both act: what they do can be done twice, so neither waits for the other. What it may do everywhere
is to patch routes and to say that it lives; a right to create cannot be bound to a name, so any Lease may be
created, and only its own be changed.
"""

from typing import Any

from components import rbac
from components.manifests import Manifest
from components.platform import loops
from components.platform.namespaces import RELEASE_GUARD
from headway.wire import RELEASE_GUARD_LEASE

NAME = "release-guard"
LOOKED = f"{loops.SCRATCH}/looked"
SILENT_SECONDS = 60
"""Without an answer of the API server for so long, the process is started anew."""
_RULES = (
    *rbac.rules(
        ("", ("namespaces",), ("list",)),
        ("networking.istio.io", ("virtualservices",), ("list", "patch")),
        ("coordination.k8s.io", ("leases",), ("create",)),
    ),
    *rbac.rules(("coordination.k8s.io", ("leases",), ("patch",)), names=[RELEASE_GUARD_LEASE]),
)
_ALIVE = "import os, sys, time; sys.exit(time.time() - os.path.getmtime(sys.argv[1]) > float(sys.argv[2]))"


def manifests(image: str) -> tuple[Manifest, ...]:
    """Identity, rights and the process itself, of `image`: an image of headway by digest."""
    return (
        *loops.identity(NAME, _RULES),
        Manifest(
            role="guard",
            after=("account", "binding"),
            body=loops.deployment(NAME, RELEASE_GUARD, _container(image), grace_seconds=10),
        ),
        Manifest(role="budget", body=loops.budget(NAME, RELEASE_GUARD)),
    )


def _container(image: str) -> dict[str, Any]:
    alive = {"exec": {"command": ["python", "-c", _ALIVE, LOOKED, str(SILENT_SECONDS)]}, "periodSeconds": 20, "timeoutSeconds": 10}
    return {
        "image": image,
        "args": ["release", "guard", "--in-cluster", "--looked", LOOKED],
        "resources": {"requests": {"cpu": "25m", "memory": "96Mi"}, "limits": {"cpu": "250m", "memory": "192Mi"}},
        "livenessProbe": {**alive, "initialDelaySeconds": SILENT_SECONDS, "failureThreshold": 3},
        "readinessProbe": {**alive, "failureThreshold": 1},
    }
