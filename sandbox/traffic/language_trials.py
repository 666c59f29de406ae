"""Where releases of the language model are tried: a workspace whose one tenant has it.

Two or three engines of vLLM run at a time, 2 to 4 GiB each, and each takes minutes to start, most of them imports; so a release lasts a
quarter of an hour.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path

from headway.problem import UserError
from sandbox.cluster.processes import Supervisor
from sandbox.layout import Layout
from sandbox.progress import Progress
from sandbox.traffic import profile, workspace
from sandbox.traffic.kube import Kube
from sandbox.traffic.mesh import envoy
from sandbox.traffic.profile import LANGUAGE
from sandbox.traffic.programs import programs
from sandbox.traffic.release_trials import ReleaseTrials

HELD_SECONDS = 3600.0
READY_SECONDS = 1500.0
"""The contract's startup budget, and the sandbox's own way there."""
_LOOK_SECONDS = 2.0


class LanguageTrials(ReleaseTrials):
    """A workspace whose one tenant has the language model."""

    @classmethod
    def trained(cls, checkout: Path, layout: Layout, speed: float, progress: Progress) -> "LanguageTrials":
        """Train the models where nobody has yet, and write the contracts; nothing is started. UserError without vLLM's environment."""
        artifacts = profile.train(programs(checkout), checkout, layout.cache, progress)
        workspace.make(checkout, layout.project, artifacts)
        return cls(layout, artifacts, speed, served=LANGUAGE, held_seconds=HELD_SECONDS)

    def up(self) -> bool:
        """Pods are given a minute, which is for Triton: what counts is that the proxies run, and then that the engine is ready."""
        if not super().up() and not Supervisor(self.layout).runs(envoy.NAME):
            return False
        try:
            await_ready(self.layout)
        except UserError as error:
            sys.stderr.write(f"error: {error}\n")
            return False
        return True


def await_ready(layout: Layout, sleep: Callable[[float], None] = time.sleep, within: float = READY_SECONDS) -> None:
    """Wait until the service's pods are ready. UserError where they are not in time, or the node refuses them."""
    kube, deadline = Kube(layout.kubeconfig), time.monotonic() + within
    while time.monotonic() < deadline:
        pods = kube.get(f"/api/v1/namespaces/{LANGUAGE.tenant}/pods")["items"]
        refused = [each["status"]["message"] for each in pods if each["status"].get("reason") == "NotServed"]
        if refused:
            raise UserError(f"The node does not run the pod: {refused[0]}.", "Nothing serves.", "Put that right and run the command again.")
        conditions = [each["status"].get("conditions") or () for each in pods]
        if pods and all(any(c["type"] == "Ready" and c["status"] == "True" for c in each) for each in conditions):
            return
        sleep(_LOOK_SECONDS)
    raise UserError(
        f"vLLM was not ready after {within / 60:.0f} min.",
        "Nothing serves; it may still come, where the machine is busy.",
        f"Its log is below {layout.logs / 'pods' / LANGUAGE.tenant}; `make demo-down` ends what runs.",
    )
