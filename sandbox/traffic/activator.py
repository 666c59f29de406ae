"""The platform's activator as a process: the very command that the cluster's pods run, which reads the sandbox's API server."""

from sandbox.cluster.api import LoopbackEndpoint
from sandbox.cluster.processes import Process, Supervisor
from sandbox.layout import Layout
from sandbox.progress import Progress

NAME, SHOWN = "activator", "activator-shown"


def start(layout: Layout, progress: Progress, supervisor: Supervisor) -> None:
    """Have it run."""
    asked, shown = supervisor.port(NAME), supervisor.port(SHOWN)
    python = layout.project / ".venv" / "bin" / "python"
    places = ("--serve", f"127.0.0.1:{asked}", "--show", f"127.0.0.1:{shown}")
    supervisor.ensure(
        Process(
            name=NAME,
            argv=(str(python), "-m", "headway.cli.main", "loops", "activate", *places, "--kubeconfig", str(layout.kubeconfig)),
            ready=lambda: LoopbackEndpoint(port=shown).unready("/healthz"),
            ports=(asked, shown),
        ),
        progress,
    )


def port(supervisor: Supervisor) -> int | None:
    """Where the gateway's proxy asks it; None where it does not run."""
    return supervisor.port(NAME) if supervisor.runs(NAME) else None


def stop(supervisor: Supervisor, progress: Progress) -> None:
    supervisor.stop(NAME, progress)
