"""Keeps a loop that production runs in the cluster: the real command, as a process of this user."""

import sys
from collections.abc import Mapping, Sequence

from sandbox.cluster.api import LoopbackEndpoint
from sandbox.cluster.processes import Process, Supervisor
from sandbox.layout import Layout
from sandbox.progress import Progress


def keep(
    supervisor: Supervisor,
    layout: Layout,
    progress: Progress,
    name: str,
    words: Sequence[str],
    *,
    rooms: Sequence[str],
    environment: Mapping[str, str] | None = None,
) -> None:
    """Have `headway WORDS` run, which answers `/healthz` where `--serve` says; anew when the code in `rooms` of headway changes. UserError when
    it does not start."""
    port = supervisor.port(name)
    process = Process(
        name=name,
        argv=(sys.executable, "-m", "headway.cli.main", *words, "--serve", f"127.0.0.1:{port}"),
        environment={**(environment or {}), "PYTHONPATH": str(layout.project), "PYTHONDONTWRITEBYTECODE": "1"},
        ports=(port,),
        inputs=tuple(sorted(each for room in rooms for each in (layout.project / "headway" / room).rglob("*.py"))),
        ready=lambda: LoopbackEndpoint(port=port).unready("/healthz"),
    )
    supervisor.ensure(process, progress)
