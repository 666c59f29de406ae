"""`headway sandbox dashboards`: the cluster's dashboards as pages to look at, where no Grafana is."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.problem import Exit, UserError
from sandbox.cli.place import DemoOption, ProjectOption, demonstration, layout_of, terminal

if TYPE_CHECKING:
    from sandbox.dashboards.grafana import GrafanaDashboard
    from sandbox.layout import Layout


def draw(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...", help="Dashboards, such as `overview`, `request` or a model's own, `vision/defects`; all without."
        ),
    ] = None,
    minutes: Annotated[float, typer.Option("--minutes", "-m", min=1, max=2880, help="How far back they go.")] = 30,
    tenant: Annotated[str | None, typer.Option("--tenant", help="Only this tenant, where a dashboard shows several.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="The folder for the pages; `dashboards` in the sandbox's state without it.")
    ] = None,
    demo: DemoOption = False,
    project: ProjectOption = None,
) -> None:
    """Draw the cluster's dashboards from the sandbox's Prometheus, each as an HTML page. Needs `up --with monitoring`, or
    the demonstration."""
    import re
    import time
    from datetime import UTC, datetime

    from headway.cli.listing import print_listing
    from headway.private_folder import private_folder
    from sandbox.cluster.processes import Supervisor
    from sandbox.dashboards import answers, page
    from sandbox.dashboards.answers import TimeSpan
    from sandbox.dashboards.grafana import PREFIX

    if tenant and not re.fullmatch(r"[a-z0-9-]+", tenant):
        raise UserError(
            f"{tenant!r} is no tenant's name.", "Nothing was drawn.", "Names have small letters, digits and hyphens.", Exit.USAGE
        )
    here = layout_of(project)
    layout = demonstration(here) if demo else here
    wanted = _chosen(_deployed(layout), names or ())
    port, now = Supervisor(layout).port("prometheus"), time.time()
    span, zone = TimeSpan(start=now - minutes * 60, end=now), datetime.now().astimezone().tzinfo or UTC
    variables = {"tenant": tenant} if tenant else {}
    drawn = [(each, answers.ask(port, each, span, variables)) for each in wanted]
    folder = out or private_folder(layout.state / "dashboards")
    folder.mkdir(parents=True, exist_ok=True)
    rows: list[tuple[str, str, str]] = []
    for each, found in drawn:
        path = folder / f"{each.uid}.html"
        path.write_text(page.page(each, found, span, variables, zone), encoding="utf-8")
        shown = sum(bool(found[panel].series) for panel in each.panels)
        rows.append((each.uid.removeprefix(PREFIX), f"{shown} of {len(each.panels)}", str(path)))
    print_listing(terminal(), ("dashboard", "panels with series", "page"), rows)


def _deployed(layout: "Layout") -> list["GrafanaDashboard"]:
    """Those that Grafana's sidecar would find, by name."""
    from headway.environment.kubernetes import KubernetesApi
    from headway.environment.port import OutOfReachError
    from sandbox.dashboards import grafana

    try:
        maps = KubernetesApi(str(layout.kubeconfig)).items("/api/v1/configmaps?labelSelector=grafana_dashboard%3D1")
    except OutOfReachError as failure:
        raise UserError(
            f"The sandbox's API server does not answer ({failure}).",
            "It holds the dashboards; nothing was drawn.",
            "Start the sandbox with `make up`, or the demonstration with `make demo-traffic`.",
        ) from None
    found: list[GrafanaDashboard] = []
    for each in maps:
        for text in each.get("data", {}).values():
            try:
                found.append(grafana.read(text))
            except UserError as problem:  # somebody's own, which leaves the others as they are
                typer.echo(f"warning: not drawn from {each['metadata']['namespace']}/{each['metadata']['name']}: {problem.fact}", err=True)
    return sorted(found, key=lambda each: each.uid)


def _chosen(there: list["GrafanaDashboard"], names: "list[str] | tuple[()]") -> list["GrafanaDashboard"]:
    from sandbox.dashboards.grafana import PREFIX

    known = {each.uid.removeprefix(PREFIX): each for each in there}
    wanted = [_uid(name).removeprefix(PREFIX) for name in names]
    if unknown := sorted({name for name in wanted if name not in known}):
        raise UserError(
            f"There is no dashboard called {', '.join(unknown)}.",
            "Nothing was drawn.",
            f"There are {', '.join(known)}." if known else "Deploy the platform first: `make up`.",
            Exit.USAGE,
        )
    return [known[name] for name in wanted] if wanted else there


def _uid(name: str) -> str:
    from components.addons.grafana_pages import service_uid

    tenant, slash, model = name.partition("/")
    return service_uid(tenant, model) if slash else name
