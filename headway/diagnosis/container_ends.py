"""How a model server's container ended: by the kernel, by its probe, while it loaded its model, with a process of it, or otherwise. Pure.

What a container printed last stands in its status, because its policy falls back to the log (`FallbackToLogsOnError`: 2 KiB, of a failure
only; kubernetes, `pkg/kubelet/container/runtime.go`). The times of conditions change with their value alone
(`pkg/kubelet/status/status_manager.go`, `updateLastTransitionTime`), so a pod that has been unready since before a run began was not ready in
it. Texts: Triton's core says "failed to load all models" (`src/model_repository_manager/model_repository_manager.cc`), vLLM "Engine core
initialization failed" (`vllm/v1/engine/utils.py`); of a dead process tell `components/model_service/scripts/fate.py` and vLLM's
`EngineDeadError`. vLLM then shuts down by itself (`terminate_if_errored`, `vllm/entrypoints/launcher.py`), as if it had been told to.
"""

import re
from collections.abc import Sequence

from headway.contract.runtime import Engine
from headway.diagnosis.facts import StateKind
from headway.diagnosis.objects import Body, changed_at, event_seconds, line_of, seconds, was_never_ready
from headway.service_status.pending import condition, out_of_memory
from headway.wire import RUNTIME, SERVER_CONTAINER

_PROBED = re.compile("failed (liveness|startup) probe, will be restarted")
"""`pkg/kubelet/kuberuntime/kuberuntime_manager.go`."""
_UNSTARTED = ("StartError", "ContainerCannotRun")
"""Reasons of a container whose process could not be started (containerd; dockershim)."""
_UNLOADED = (
    re.compile(r"failed to load '[^']*' version \d+: .+"),
    re.compile(r"\w*(?:Error|Exception): (?!Engine core initialization failed).+"),
    re.compile(r"failed to load all models"),
    re.compile(r"Engine core initialization failed"),
)
"""Lines of a server that cannot load its model, the most telling first. Nobody has asked it anything before."""
_DEAD = re.compile(
    r"model process .+ has ended, and the server with it|EngineDeadError|Engine core proc .+ died unexpectedly|EngineCore encountered an issue"
)
_BY_HAND = (137, 143)
"""Exit codes of whoever got SIGKILL or SIGTERM."""


def how_it_ended(pod: Body, container: Body, events: Sequence[Body]) -> tuple[StateKind, str]:
    """Of a container whose last run has ended. `events`: those about the pod."""
    last = container["lastState"]["terminated"]
    times = container.get("restartCount", 0)
    what = f"container {container.get('name', '?')} was started again {times} times, the last time after"
    if out_of_memory(container):
        return StateKind.MEMORY_KILLED, f"{what} the kernel ended it for its memory"
    serves = container.get("name") == SERVER_CONTAINER
    began, ended = seconds(last.get("startedAt")) or 0.0, seconds(last.get("finishedAt")) or 0.0
    probed = [e for e in events if _PROBED.search(e.get("message", "")) and began <= (event_seconds(e) or 0.0) <= ended + 1]
    if probed:
        if serves and was_never_ready(pod):
            return StateKind.LOAD_FAILED, f"{what} its startup probe had not passed in its time; it has never been ready"
        return StateKind.PROBE_KILLED, f"{what} its probe failed"
    code, reason, said = last.get("exitCode"), last.get("reason", "no reason"), str(last.get("message", ""))
    end = f"{what} it ended with {reason}, exit code {'?' if code is None else code}"
    if not serves:
        return StateKind.ENDED, end
    if dead := _DEAD.search(said):
        return StateKind.PROCESS_DIED, f"{what} a process of it had died: {line_of(said, dead)}"
    if reason in _UNSTARTED:
        return StateKind.LOAD_FAILED, f"{end}: it cannot be started"
    ready_since = changed_at(pod, "Ready")
    unready = ready_since is not None and not condition(pod, "Ready") and ready_since < began
    if unready and code and code not in _BY_HAND:
        line = next((f": {line_of(said, found)}" for each in _UNLOADED if (found := _newest(each, said))), "")
        return StateKind.LOAD_FAILED, f"{end}, and had not become ready{line}"
    if code == 0 and pod["metadata"].get("labels", {}).get(RUNTIME) == Engine.VLLM:
        return StateKind.PROCESS_DIED, f"{what} it had shut down by itself, which vLLM does when its engine's process has died"
    return StateKind.ENDED, end


def _newest(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    return max(pattern.finditer(text), key=lambda each: each.start(), default=None)
