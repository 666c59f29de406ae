"""What a pod's specification asks of this node, read and judged before anything is started. Pure.

The agent runs what the model services' pods need: config maps and scratch volumes, init containers, sidecars that are
Python scripts, one server, probes by command. All else is refused by name, in one message, because a pod that half runs would look like a fault of
the platform.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headway.wire import GPU_MEMORY
from sandbox.traffic.node import cpu_vllm
from sandbox.traffic.node.backoff import ProbeSpec
from sandbox.traffic.node.cpu import NotServedError, split

_SUFFIXES = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "k": 10**3, "M": 10**6, "G": 10**9}
SIDECAR = ("python3", "-I")
"""How the command of a sidecar begins."""
_PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


@dataclass(frozen=True, kw_only=True)
class ContainerSpec:
    """One container: command, environment, mounts (path to volume), probes by kind, and the memory at which a kernel
    would kill it."""

    name: str
    image: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    mounts: Mapping[str, str]
    probes: Mapping[str, ProbeSpec]
    memory_bytes: int | None
    pre_stop_seconds: float
    sidecar: bool = False
    """An init container that stays until the server has ended."""


@dataclass(frozen=True, kw_only=True)
class PodSpec:
    """One pod: `volumes` are names to the config map that fills them, or None for an empty folder."""

    namespace: str
    name: str
    uid: str
    labels: Mapping[str, str]
    inits: tuple[ContainerSpec, ...]
    server: ContainerSpec
    volumes: Mapping[str, str | None]
    grace_seconds: float
    gpu_memory_bytes: int = 0

    @property
    def key(self) -> str:
        """Names folders and files of this pod; unlike its name it is never used again."""
        return f"{self.namespace}_{self.name}_{self.uid[:8]}"


def read(pod: Mapping[str, Any]) -> PodSpec:
    """The pod as this node runs it. NotServedError that names everything which it does not."""
    spec, metadata = pod["spec"], pod["metadata"]
    refused = tuple(_refused(spec))
    if refused:
        raise NotServedError("; ".join(refused))
    return PodSpec(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        labels=metadata.get("labels") or {},
        inits=tuple(_container(each) for each in spec.get("initContainers") or ()),
        server=_container(spec["containers"][0]),
        volumes={each["name"]: (each.get("configMap") or {}).get("name") for each in spec.get("volumes") or ()},
        grace_seconds=float(spec.get("terminationGracePeriodSeconds", 30)),
        gpu_memory_bytes=_bytes((metadata.get("annotations") or {}).get(GPU_MEMORY)) or 0,
    )


def _refused(spec: Mapping[str, Any]) -> Iterator[str]:
    containers: Sequence[Mapping[str, Any]] = spec["containers"]
    if len(containers) != 1:
        yield f"{len(containers)} containers: one is run"
    elif cpu_vllm.serves(command := containers[0].get("command") or ()):
        yield from cpu_vllm.refused(command)
    else:
        try:
            split(containers[0].get("command") or ())
        except NotServedError as error:
            yield str(error)
    for volume in spec.get("volumes") or ():
        kinds = sorted(set(volume) - {"name"})
        if kinds not in (["configMap"], ["emptyDir"]):
            yield f"volume {volume['name']} is of kind {', '.join(kinds)}: configMap and emptyDir are provided"
    for each in spec.get("initContainers") or ():
        if each.get("restartPolicy") == "Always" and tuple(each.get("command") or ())[:2] != SIDECAR:
            yield f"init container {each['name']} is a sidecar: only scripts by {' '.join(SIDECAR)} are run"
    for each in (e for e in spec.get("initContainers") or () if e.get("restartPolicy") == "Always"):
        for unknown in sorted({*_PROBES, "lifecycle"} & set(each)):
            yield f"{unknown} of sidecar {each['name']}: not done"
    for each in containers:
        for kind in _PROBES:
            if kind in each and "exec" not in each[kind]:
                yield f"{kind} of {each['name']} is not by command"
        hooks = each.get("lifecycle") or {}
        if "postStart" in hooks or ("preStop" in hooks and "sleep" not in hooks["preStop"]):
            yield f"lifecycle hooks of {each['name']}: only preStop.sleep is done"


def _container(given: Mapping[str, Any]) -> ContainerSpec:
    return ContainerSpec(
        name=given["name"],
        image=given["image"],
        command=(*(given.get("command") or ()), *(given.get("args") or ())),
        environment={each["name"]: each.get("value", "") for each in given.get("env") or ()},
        mounts={each["mountPath"]: each["name"] for each in given.get("volumeMounts") or ()},
        probes={kind: _probe(given[kind]) for kind in _PROBES if kind in given},
        memory_bytes=_bytes((given.get("resources") or {}).get("limits", {}).get("memory")),
        pre_stop_seconds=float(((given.get("lifecycle") or {}).get("preStop") or {}).get("sleep", {}).get("seconds", 0)),
        sidecar=given.get("restartPolicy") == "Always",
    )


def _probe(given: Mapping[str, Any]) -> ProbeSpec:
    return ProbeSpec(
        command=tuple(given["exec"]["command"]),
        period_seconds=float(given.get("periodSeconds", 10)),
        timeout_seconds=float(given.get("timeoutSeconds", 1)),
        failures=int(given.get("failureThreshold", 3)),
        delay_seconds=float(given.get("initialDelaySeconds", 0)),
    )


def _bytes(quantity: str | None) -> int | None:
    """A quantity of memory in bytes: `2Gi`, `500M`, `1024`."""
    if quantity is None:
        return None
    for suffix, factor in _SUFFIXES.items():
        if quantity.endswith(suffix):
            return int(float(quantity.removesuffix(suffix)) * factor)
    return int(quantity)
