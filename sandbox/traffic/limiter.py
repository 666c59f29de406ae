"""The platform's limiter as processes: Envoy's rate limit service with its counts in Valkey, by the objects that the platform renders.

It runs where a language model is served, for elsewhere no tokens are counted; without it the gateway's proxy lets pass what its own buckets
do. The trap: the service reads its configuration as the kubelet mounts a ConfigMap, behind a link to a hidden folder.
"""

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components.platform import limiter
from sandbox.cluster.api import LoopbackEndpoint
from sandbox.cluster.processes import Process, Supervisor
from sandbox.cluster.toolchain import ensure_toolchain
from sandbox.layout import Layout
from sandbox.progress import Progress
from sandbox.traffic.programs import Programs

NAME, COUNTS = "limiter", "limiter-counts"
_GRPC, _DEBUGGING = "limiter-grpc", "limiter-debugging"


def rendered(role: str) -> Mapping[str, Any]:
    """One of the objects of the platform's limiter."""
    return next(each.body for each in limiter.manifests() if each.role == role)


def container(role: str) -> Mapping[str, Any]:
    return rendered(role)["spec"]["template"]["spec"]["containers"][0]


def counts_command(valkey: Path, port: int) -> tuple[str, ...]:
    """Valkey's command line but for its program and port, which here are others."""
    return (str(valkey), *container("counts")["command"][1:], "--bind", "127.0.0.1", "--port", str(port))


def environment(folder: Path, *, grpc: int, health: int, debugging: int, counts: int) -> dict[str, str]:
    """The service's, with its files below `folder` and these ports on this machine."""
    given = {each["name"]: each["value"] for each in container("limiter")["env"]}
    root = folder / Path(given["RUNTIME_ROOT"]).relative_to("/")
    here = {"GRPC_PORT": str(grpc), "PORT": str(health), "DEBUG_PORT": str(debugging), "REDIS_URL": f"127.0.0.1:{counts}"}
    return {**given, **here, **dict.fromkeys(("HOST", "GRPC_HOST", "DEBUG_HOST"), "127.0.0.1"), "RUNTIME_ROOT": str(root)}


def configure(folder: Path) -> None:
    """Write the service's configuration below `folder` as the kubelet mounts it."""
    (mount,) = container("limiter")["volumeMounts"]
    place = folder / Path(mount["mountPath"]).relative_to("/")
    (place / "..now").mkdir(parents=True, exist_ok=True)
    for name, target in {"..data": "..now", **{each: f"..data/{each}" for each in rendered("configuration")["data"]}}.items():
        if not (place / name).is_symlink():
            (place / name).symlink_to(target)
    for name, text in rendered("configuration")["data"].items():
        (place / "..now" / name).write_text(text)


def start(layout: Layout, progress: Progress, supervisor: Supervisor, found: Programs, folder: Path) -> None:
    """Have it run, building it where nobody has yet."""
    program = ensure_toolchain(layout, progress, ("ratelimit",)).binary("ratelimit")
    counts, ports = supervisor.port(COUNTS), {name: supervisor.port(name) for name in (_GRPC, NAME, _DEBUGGING)}
    configure(folder)
    supervisor.ensure(
        Process(name=COUNTS, argv=counts_command(found.valkey_server(), counts), ready=lambda: _unheard(counts), ports=(counts,)), progress
    )
    path = container("limiter")["readinessProbe"]["httpGet"]["path"]
    supervisor.ensure(
        Process(
            name=NAME,
            argv=(str(program),),
            environment=environment(folder, grpc=ports[_GRPC], health=ports[NAME], debugging=ports[_DEBUGGING], counts=counts),
            ready=lambda: LoopbackEndpoint(port=ports[NAME]).unready(path),
            ports=tuple(ports.values()),
        ),
        progress,
    )


def port(supervisor: Supervisor) -> int | None:
    """Where it is asked; None where it does not run."""
    return supervisor.port(_GRPC) if supervisor.runs(NAME) else None


def stop(supervisor: Supervisor, progress: Progress) -> None:
    for name in (NAME, COUNTS):
        supervisor.stop(name, progress)


def _unheard(counts: int) -> str | None:
    with socket.socket() as found:
        return "waiting for it to listen" if found.connect_ex(("127.0.0.1", counts)) else None
