"""`headway endpoint-picker`: says which engine answers each prompt; one for all services that ask for it."""

from typing import Annotated

import typer

from headway.cli.listening_place import listening_place
from headway.cli.loop_process import kubeconfig, reaching, say


def endpoint_picker(
    serve: Annotated[str, typer.Option(metavar="ADDRESS:PORT", help="Where gateways ask.")] = "127.0.0.1:0",
    metrics: Annotated[str, typer.Option(metavar="ADDRESS:PORT", help="Metrics and health.")] = "127.0.0.1:0",
    page_port: Annotated[int, typer.Option(min=0, max=65535, help="Where engines show their metrics, if not where they answer.")] = 0,
    in_cluster: Annotated[bool, typer.Option("--in-cluster", help="As the pod's own service account, not by KUBECONFIG.")] = False,
) -> None:
    """Tell gateways which engine answers each prompt, by Envoy's external processing.

    Runs until it is stopped. It reads the EndpointSlices of services with `routing: endpoint_picker`, and their engines' metrics pages.
    """
    import asyncio
    from functools import partial

    from headway.endpoint_picker.cluster import PickerCluster
    from headway.endpoint_picker.process import run
    from headway.endpoint_picker.rounds import asked_page

    with reaching():
        cluster = PickerCluster(kubeconfig(in_cluster=in_cluster))
    page = partial(asked_page, port=page_port)
    asyncio.run(run(cluster.engines, page, serve=listening_place(serve), show=listening_place(metrics), say=say))
