"""`headway sandbox`: the platform in miniature on this machine."""

import os
import shlex
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.catalogue import for_example
from headway.problem import Exit, UserError
from sandbox.cli import dashboards, traffic
from sandbox.cli.place import DemoOption, ProjectOption, demonstration, layout_of, terminal

if TYPE_CHECKING:
    from rich.console import Console

    from headway.cli.progress import ConsoleProgress
    from sandbox.layout import Layout
    from sandbox.session import Session
    from sandbox.status import ClusterView

app = typer.Typer(
    short_help="the platform in miniature",
    help="The platform in miniature on this machine. It needs no cloud, no cluster and no pulumi.",
    no_args_is_help=True,
)
app.command(epilog=for_example("headway sandbox logs vision", "headway sandbox logs vision/defects -n 100"))(traffic.logs)
app.command(epilog=for_example("headway sandbox token vision"))(traffic.token)
app.command(
    "dashboards", epilog=for_example("headway sandbox dashboards", "headway sandbox dashboards request --tenant vision --minutes 60")
)(dashboards.draw)
GPUS_WITHIN_SECONDS = 60
"""How long `up` waits for every node to offer its GPUs. Whole ones are there from the first moment; those that MIG cuts
come seconds later, and then the loop of node health has to admit their node."""
ExtrasOption = Annotated[
    str,
    typer.Option(
        "--with",
        metavar="NAMES",
        help="More servers to start, separated by commas: autoscaling, cluster-autoscaler, monitoring, traffic. The first use of those that are "
        "programs builds them, which takes minutes.",
    ),
]


@app.command(epilog=for_example("headway sandbox up", "headway sandbox up --with monitoring"))
def up(project: ProjectOption = None, extras: ExtrasOption = "") -> None:
    """Bring the platform up: check the contracts, preview every layer with its policy pack, start the servers,
    deploy, and show what runs."""
    from time import monotonic

    from headway.cli.progress import ConsoleProgress, elapsed
    from sandbox.cli import show
    from sandbox.cluster.processes import Supervisor
    from sandbox.extras import chosen, fallen, live
    from sandbox.session import Session

    began, layout, console = monotonic(), layout_of(project), terminal()
    show.say_whose(console, layout.project)
    servers = Supervisor(layout)
    more = chosen([*extras.split(","), *fallen(servers.list())])
    _check_contracts(layout, console)
    with ConsoleProgress(console) as progress:
        session = Session(layout, progress)
        with _interruptible(session, progress):
            report = session.up(lambda r: progress.say(show.layer(r)), lambda r: progress.say(show.layer(r)), more)
    if not report.complete:
        show.stopped(console, report)
        raise typer.Exit(Exit.BUSY if any(r.last.busy for r in report.layers) else Exit.REFUSED)
    session.adopting(lambda: _adopt(layout))
    view = _settled(layout)
    console.print()
    show.view(console, view, live(servers.list()))
    console.print()
    offered = _offered(layout, console)
    console.print()
    usual = layout.state == layout.project / ".headway"
    show.summary(console, report, elapsed(monotonic() - began), ready=view.ready and offered, usual=usual)
    if not (view.ready and offered):
        raise typer.Exit(Exit.REFUSED)


def _offered(layout: "Layout", console: "Console") -> bool:
    """Read back what the GPU layer promised; as `headway nodes check` does anywhere."""
    import time

    from headway.cli.nodes import lines
    from headway.node_health.cluster import NodeCluster
    from headway.node_health.replacement import refused
    from headway.node_health.watch import read_back

    seen = read_back(NodeCluster(str(layout.kubeconfig), refused), GPUS_WITHIN_SECONDS, time.monotonic, time.sleep)
    for line in lines(seen):
        console.print(line, markup=False, style="dim" if not seen.lacks else "red")
    return not seen.lacks


@app.command(epilog=for_example("headway sandbox status"))
def status(project: ProjectOption = None) -> None:
    """Show what runs now, as the live cluster tells it: processes, nodes, accelerators, services."""
    from sandbox.cli import show
    from sandbox.cluster.processes import Supervisor
    from sandbox.extras import live
    from sandbox.status import read

    layout, console = layout_of(project), terminal()
    processes = Supervisor(layout).list()
    if not any(p.running for p in processes):
        raise UserError("The sandbox is not running.", "There is no live cluster to ask.", "Start it with `make up`.")
    show.processes(console, processes)
    console.print()
    show.view(console, read(str(layout.kubeconfig)), live(processes))


@app.command(epilog=for_example("headway sandbox down"))
def down(project: ProjectOption = None) -> None:
    """Stop every process of the sandbox. Its state is kept, and `make up` continues from there."""
    from headway.cli.progress import ConsoleProgress
    from sandbox import session

    layout, console = layout_of(project), terminal()
    with ConsoleProgress(console) as progress:
        stopped = session.down(layout, progress)
    console.print(f"Stopped {', '.join(stopped)}." if stopped else "Nothing was running.")


@app.command(epilog=for_example("headway sandbox reset --yes"))
def reset(
    project: ProjectOption = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Stop every process and delete the sandbox's state. The programs that were built stay in the cache."""
    from headway.cli.progress import ConsoleProgress
    from sandbox import session

    layout, console = layout_of(project), terminal()
    if not yes and not typer.confirm(f"Forget the whole state in {layout.state}?"):
        console.print("Nothing was deleted.")
        raise typer.Exit(Exit.OK)
    with ConsoleProgress(console) as progress:
        session.reset(layout, progress)
    console.print("The state of the sandbox is deleted. `make up` creates a new sandbox.")


@app.command(epilog=for_example("headway sandbox build monitoring"))
def build(
    names: Annotated[list[str], typer.Argument(metavar="SET...", help="Sets of programs, as sandbox/cluster/toolsets.py names them.")],
    project: ProjectOption = None,
) -> None:
    """Build programs of the sandbox and its tests ahead of their first use: minutes of CPU each, once on a machine."""
    from headway.cli.progress import ConsoleProgress
    from sandbox.cluster.toolchain import ensure_toolchain
    from sandbox.cluster.toolsets import SETS

    unknown = sorted(set(names) - SETS.keys())
    if unknown:
        raise UserError(
            f"There is no set called {', '.join(unknown)}.", "Nothing was built.", f"Choose from {', '.join(sorted(SETS))}.", Exit.USAGE
        )
    with ConsoleProgress(terminal()) as progress:
        ensure_toolchain(layout_of(project), progress, names)


@app.command(epilog=for_example('eval "$(headway sandbox env)"', 'eval "$(headway sandbox env --demo)"'))
def env(
    project: ProjectOption = None,
    demo: DemoOption = False,
) -> None:
    """Print the environment variables that point `headway`, `pulumi` and Kubernetes clients at the sandbox; use it with `eval`."""
    from sandbox.session import prepare

    layout = demonstration(layout_of(project)) if demo else layout_of(project)
    prepare(layout)
    for name, value in sorted(layout.shell_environment().items()):
        typer.echo(f"export {name}={shlex.quote(value)}")
    programs = f"{shlex.quote(str(layout.bin))}:{shlex.quote(str(layout.project / '.venv' / 'bin'))}"
    typer.echo(f'export PATH={programs}:"$PATH"')


def _adopt(layout: "Layout") -> None:
    """What serves now is each service's first release; from here on `headway release` brings the next."""
    from headway.release.service_place import adopt_deployed
    from sandbox.plan import ENVIRONMENT

    adopt_deployed(layout.project, ENVIRONMENT)


def _check_contracts(layout: "Layout", console: "Console") -> None:
    from headway.cli import contracts
    from sandbox.plan import ENVIRONMENT

    console.print("[bold]Contracts[/bold]")
    if not contracts.accepted(layout.project / "tenants", ENVIRONMENT):
        raise typer.Exit(Exit.REFUSED)


def _settled(layout: "Layout", patience: float = 60.0) -> "ClusterView":
    """The live picture, once every pod is ready or has had its time."""
    from time import monotonic, sleep

    from sandbox.status import read

    deadline = monotonic() + patience
    while True:
        view = read(str(layout.kubeconfig))
        if view.ready or monotonic() > deadline:
            return view
        sleep(0.5)


class _interruptible:  # noqa: N801 - reads as a statement
    """Ctrl-C once: no new steps, those in flight end, state is kept. Twice: this process ends at once."""

    def __init__(self, session: "Session", progress: "ConsoleProgress") -> None:
        self._session, self._progress, self._count = session, progress, 0
        self._previous: Callable[[int, FrameType | None], object] | int | None = None

    def __enter__(self) -> None:
        self._previous = signal.signal(signal.SIGINT, self._interrupt)

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._previous)
        if self._count:
            raise UserError(
                "You interrupted the command.", "What was done so far is kept.", "Run the command again to go on.", Exit.INTERRUPTED
            )

    def _interrupt(self, _number: int, _frame: FrameType | None) -> None:
        self._count += 1
        if self._count > 1:
            os._exit(Exit.INTERRUPTED)
        self._progress.step("interrupt", "Stopping after the steps in flight; Ctrl-C again stops at once")
        threading.Thread(target=self._session.cancel, daemon=True).start()
