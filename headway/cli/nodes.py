"""`headway nodes`: the GPU nodes of the live cluster, and what is done when one is broken."""

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.cli.completion import environment_names
from headway.cli.listening_place import listening_place
from headway.cli.loop_process import told_to_end
from headway.cli.output import Output, OutputOption
from headway.problem import Exit, UserError, on_one_line, printable

if TYPE_CHECKING:
    from headway.node_health.cluster import Done, NodeCluster
    from headway.node_health.facts import GpuNode, Quarantine
    from headway.node_health.watch import ReadBack

app = typer.Typer(help="GPU nodes: health, driver, quarantine, and what runs there.", invoke_without_command=True)


KubeconfigOption = Annotated[
    str | None, typer.Option("--kubeconfig", help="The cluster; $KUBECONFIG otherwise, else the pod's own.", show_default=False)
]
ClusterOption = Annotated[
    str | None,
    typer.Option(
        "--environment",
        "-e",
        metavar="ENVIRONMENT",
        autocompletion=environment_names,
        help="The cluster of an environment, not a kubeconfig's.",
        show_default=False,
    ),
]
NodeArgument = Annotated[str, typer.Argument(metavar="NODE", help="The node's name, as `headway nodes` shows it.")]


def _cluster(kubeconfig: str | None, environment: str | None = None, *, replaces: bool = False) -> "NodeCluster":
    """Of the environment that is named, else of the kubeconfig. HEADWAY_ENVIRONMENT does not choose: who exports it may mean another
    KUBECONFIG."""
    from headway.node_health.cluster import NodeCluster
    from headway.node_health.replacement import AutoScaling, refused

    if environment:
        from headway.environment.checkout import described, find
        from headway.environment.selection import environment as selected

        if kubeconfig:
            raise UserError("--environment and --kubeconfig name two clusters.", "Nothing was done.", "Leave one of them out.", Exit.USAGE)
        described(find(), environment)
        return NodeCluster(selected(environment, find()).kubernetes, refused)
    return NodeCluster(kubeconfig or os.environ.get("KUBECONFIG"), AutoScaling() if replaces else refused)


@app.callback()
def nodes(
    context: typer.Context, kubeconfig: KubeconfigOption = None, environment: ClusterOption = None, output: OutputOption = Output.TEXT
) -> None:
    """List GPU nodes by pool: health, driver, quarantine with its reason or what node health watches, and what runs there.
    Read from the live cluster."""
    if context.invoked_subcommand is not None:
        if kubeconfig or environment:
            raise UserError(
                f"A cluster is named before {context.invoked_subcommand}.",
                "It would be ignored; nothing was done.",
                f"Name it behind: `headway nodes {context.invoked_subcommand} ... -e NAME`.",
                Exit.USAGE,
            )
    else:
        cluster = _cluster(kubeconfig, environment)
        gpu_nodes, said = cluster.nodes(), _notices(cluster)
        if output is Output.JSON:
            typer.echo(json.dumps([{**_record(node), "notice": said.get(node.name)} for node in gpu_nodes], indent=2))
        else:
            _table(gpu_nodes, said)


def _notices(cluster: "NodeCluster") -> "Mapping[str, str]":
    """Nothing, and a word on standard error, for who may not list events."""
    try:
        return cluster.notices(datetime.now(UTC))
    except (UserError, LookupError, TypeError, ValueError) as failure:
        fact = failure.fact if isinstance(failure, UserError) else f"{type(failure).__name__}: {failure}"
        typer.echo(printable(f"what node health says of nodes cannot be read: {fact}"), err=True)
        return {}


@app.command()
def quarantine(
    node: NodeArgument,
    reason: Annotated[str, typer.Option("--reason", "-r", help="Why; whoever looks at the node later reads this.")],
    kubeconfig: KubeconfigOption = None,
    environment: ClusterOption = None,
) -> None:
    """Set a node apart: nothing new lands there, what runs is drained by `headway nodes watch`, and it stays so
    until it is released."""
    from headway.node_health.decision import by_hand

    cluster = _cluster(kubeconfig, environment)
    gpu_node = _named(cluster, node)
    if gpu_node.quarantine is not None:
        raise UserError(
            f"{node} is in quarantine already: {gpu_node.quarantine.reason} (by {gpu_node.quarantine.by}).",
            "Nothing was changed.",
            f"Release it first: `headway nodes release {node}`.",
            Exit.REFUSED,
        )
    _act(cluster, [by_hand(gpu_node, reason, _who(), time.time())])
    typer.echo(f"{node} is in quarantine: {reason}")


@app.command()
def release(
    node: NodeArgument,
    untested: Annotated[bool, typer.Option("--untested", help="Back into service at once, without a diagnostic.")] = False,
    kubeconfig: KubeconfigOption = None,
    environment: ClusterOption = None,
) -> None:
    """Let a node back into service: after a passing diagnostic, which `headway nodes watch` runs, or at once with
    --untested."""
    from headway.node_health.decision import Readmit, released

    cluster = _cluster(kubeconfig, environment)
    gpu_node = _named(cluster, node)
    if gpu_node.sliced and not untested:
        raise UserError(
            f"The GPUs of {node} are cut by MIG, and DCGM's diagnostic tests whole GPUs only.",
            "No test could let it back into service.",
            "Use --untested if you know that it is sound, or let it be replaced.",
            Exit.REFUSED,
        )
    action = released(gpu_node, time.time(), untested=untested)
    if action is None:
        raise UserError(f"{node} is not in quarantine.", "Nothing was changed.", "See `headway nodes`.", Exit.REFUSED)
    _act(cluster, [action])
    typer.echo(f"{node} is back in service" if isinstance(action, Readmit) else f"{node} returns once its diagnostic has passed")


@app.command()
def watch(
    once: Annotated[bool, typer.Option("--once", help="One round, then end; exit code 1 if something could not be done.")] = False,
    replaces: Annotated[
        bool, typer.Option("--replace", help="End the instance of a node that repair did not save; needs AWS credentials.")
    ] = False,
    interval: Annotated[float, typer.Option(min=1, max=30, help="Seconds between rounds.")] = 15,
    serve: Annotated[
        str, typer.Option("--serve", metavar="ADDRESS:PORT", help="Answer /healthz and /metrics there.", show_default=False)
    ] = "",
    prometheus: Annotated[
        str,
        typer.Option(
            "--prometheus", metavar="URL", help="Compare replicas by its series, and quarantine nodes that are slow.", show_default=False
        ),
    ] = "",
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Quarantine nodes that report a fatal GPU fault, drain them within disruption budgets, and re-admit them after
    a passing diagnostic."""
    from headway.diagnosis.sibling_watch import SiblingWatch, asking
    from headway.listening import showing
    from headway.node_health import watch as loop
    from headway.node_health.decision import NodeHealthPolicy
    from headway.node_health.leader_election import Turn
    from headway.node_health.serving import SILENT_ROUNDS, Pulse

    cluster = _cluster(kubeconfig, replaces=replaces)
    slowness = SiblingWatch(ask=asking(prometheus)) if prometheus else loop.nobody_slow
    turn = Turn(cluster, _loop(), time.monotonic)
    if once:
        if not turn.taken():
            raise UserError(
                "Another loop of node health has its turn in this cluster.",
                "Nothing was done: what two do at once could take more of a pool than the brake allows.",
                "Leave it to that loop, or stop it first; `kubectl -n node-health get lease node-health` names it.",
                Exit.BUSY,
            )
        done = loop.once(cluster, NodeHealthPolicy(), time.time(), turn.lasts, slowness)
        turn.give_up()
        for one in done:
            _say(one)
        raise typer.Exit(Exit.REFUSED if any(one.refused for one in done) else Exit.OK)
    stop = told_to_end()
    pulse = Pulse(time.monotonic, SILENT_ROUNDS * max(interval, loop.INTERVAL_SECONDS))
    with showing(pulse, *listening_place(serve)) if serve else nullcontext():
        loop.watch(cluster, NodeHealthPolicy(), time.time, stop, _say, turn, pulse, interval, slowness)


def _loop() -> str:
    """What the Lease calls this loop: in a pod, the pod and its start."""
    import socket

    return f"{socket.gethostname()}-{os.getpid()}-{time.time_ns()}"


@app.command()
def check(
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait for everything to be offered.")] = 0,
    kubeconfig: KubeconfigOption = None,
    environment: ClusterOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Read back after an update: the operator is ready, and every node offers the GPUs and runs the driver that its
    pool states."""
    from headway.node_health.watch import read_back

    seen = read_back(_cluster(kubeconfig, environment), wait, time.monotonic, time.sleep)
    if output is Output.JSON:
        told = {
            "nodes": seen.nodes,
            "pools": seen.pools,
            "operatorRecordedOnly": seen.operator.recorded,
            "quarantined": dict(seen.quarantined),
        }
        typer.echo(json.dumps({**told, "lacks": [{"where": problem.subject, **problem.record()} for problem in seen.lacks]}, indent=2))
    else:
        for line in lines(seen):
            typer.echo(printable(line))
    raise typer.Exit(Exit.REFUSED if seen.lacks else Exit.OK)


def lines(seen: "ReadBack") -> list[str]:
    """A read-back as people read it."""
    said = [str(problem) for problem in seen.lacks]
    if not said:
        well = seen.nodes - len(seen.quarantined)
        said.append(f"Read back: {well} GPU nodes of {seen.pools} pools offer what they should.")
    said += [f"In quarantine, so nothing new is placed there: {name} ({why})." for name, why in seen.quarantined]
    if seen.operator.recorded:
        said.append("The chart of the GPU Operator is only recorded in this cluster, and no operator runs: its own state was not observed.")
    return said


def _named(cluster: "NodeCluster", name: str) -> "GpuNode":
    gpu_nodes = cluster.nodes()
    for node in gpu_nodes:
        if node.name == name:
            return node
    raise UserError(
        f"No GPU node is called {name}.",
        "Nothing was changed.",
        f"Name one of {', '.join(each.name for each in gpu_nodes)}."
        if gpu_nodes
        else "The cluster has no GPU nodes; `headway nodes` lists them.",
        Exit.REFUSED,
    )


def _act(cluster: "NodeCluster", actions: "Sequence[Any]") -> None:
    from headway.node_health.cluster import NodeHealthSettings

    typer.echo(f"writing to the cluster at {cluster.address}", err=True)
    for done in cluster.perform(actions, NodeHealthSettings(diagnostic_image="", expected=())):
        if done.refused:
            raise UserError(done.refused, "Nothing was changed.", "Run the command again; someone else changed the node.", Exit.REFUSED)


def _who() -> str:
    import getpass

    return f"person:{getpass.getuser()}"


def _record(node: "GpuNode") -> dict[str, Any]:
    from headway.node_health.decision import NodeHealthPolicy, fault

    return {
        "node": node.name,
        "pool": node.pool,
        "health": _health(node),
        "fault": fault(node, NodeHealthPolicy()),
        "driver": node.driver,
        "offered": dict(node.offered),
        "installed": dict(node.installed),
        "quarantine": json.loads(node.quarantine.text()) if node.quarantine else None,
        "runs": [
            {"tenant": p.tenant, "model": p.model, "release": p.release, "pod": f"{p.namespace}/{p.name}", "gpus": p.gpus}
            for p in node.pods
            if p.gpus or p.model
        ],
    }


def _stage(node: "GpuNode", quarantine: "Quarantine") -> str:
    """How far a node in quarantine is, and what it waits for."""
    from headway.node_health.decision import LATE, clearable
    from headway.node_health.facts import QuarantineState

    if quarantine.state is not QuarantineState.WAITING:
        return quarantine.state.value
    hopeless = quarantine.reason != LATE and (node.sliced or not clearable(quarantine.reason))
    return f"waiting for {'a person' if quarantine.held else 'replacement' if hopeless else 'repair'}"


def _health(node: "GpuNode") -> str:
    from headway.node_health.decision import NodeHealthPolicy, fault

    uncut = f"MIG {node.mig_state or 'not begun'}" if node.uncut else ""
    if node.quarantine is not None:
        return ", ".join(filter(None, (_stage(node, node.quarantine), uncut)))
    if reason := fault(node, NodeHealthPolicy()):
        return reason
    if not node.ready:
        return "not ready"
    if uncut:
        return uncut
    if not node.whole:
        return "GPUs missing"
    return "cordoned" if node.cordoned else "sound"


def _table(gpu_nodes: "Sequence[GpuNode]", said: "Mapping[str, str]") -> None:
    from rich.console import Console
    from rich.markup import escape

    from headway.cli.listing import print_listing

    console = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
    rows: list[tuple[str, ...]] = []
    for node in gpu_nodes:
        health = on_one_line(_health(node))
        runs = ", ".join(sorted({f"{p.tenant}/{p.model}" for p in node.pods if p.model}))
        why = said.get(node.name, "")
        if node.quarantine:
            since = datetime.fromtimestamp(node.quarantine.since, UTC)
            why = f"{node.quarantine.reason} (by {node.quarantine.by}, since {since:%Y-%m-%d %H:%M}Z)"
        gpus = ", ".join(f"{node.offered.get(name, 0)}/{count} {name}" for name, count in sorted(node.installed.items()))
        shown = f"[green]{health}[/green]" if health == "sound" else f"[red]{escape(health)}[/red]"
        rows.append((node.name, node.pool, shown, node.driver or "-", gpus, runs or "-", escape(on_one_line(why)) or "-"))
    columns = ("node", "pool", "health", "driver", "offered", "runs", "quarantine or notice")
    print_listing(console, columns, rows, sentences=("health", "offered", "runs", "quarantine or notice"))


def _say(event: "Done | UserError") -> None:
    """One JSON object a line: what a log store can search."""
    if isinstance(event, UserError):
        record: dict[str, Any] = {"level": "error", "fact": event.fact, "remedy": event.remedy}
    else:
        action = event.action
        record = {"level": "warning" if event.refused else "info", "action": type(action).__name__.lower(), "node": action.node.name}
        for field in ("pod", "topic", "text", "trial", "quarantine"):
            value = getattr(action, field, None)
            if value is not None:
                record[field] = (
                    f"{value.namespace}/{value.name}" if field == "pod" else json.loads(value.text()) if field == "quarantine" else value
                )
        if event.refused:
            record["refused"] = event.refused
    typer.echo(json.dumps(record, sort_keys=True))
