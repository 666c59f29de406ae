"""`headway endpoint-picker`: says which engine of a service's pools answers each prompt; one for each service that is a pool of engines."""

from typing import Annotated

import typer

from headway.cli.listening_place import listening_place
from headway.cli.loop_process import kubeconfig, reaching, say


def endpoint_picker(
    name: Annotated[str, typer.Argument(help="The picker's Service, which InferencePools name")],
    namespace: Annotated[str, typer.Option(help="Where its pools and their pods are")],
    serve: Annotated[str, typer.Option(metavar="ADDRESS:PORT", help="Where gateways ask")] = "127.0.0.1:0",
    metrics: Annotated[str, typer.Option(metavar="ADDRESS:PORT", help="Metrics and health")] = "127.0.0.1:0",
    page_port: Annotated[int, typer.Option(min=0, max=65535, help="Where engines show their metrics, if not where they answer")] = 0,
    grace: Annotated[float, typer.Option(min=0, help="Seconds that answers in progress may last once it is told to end")] = 60,
    unready: Annotated[float, typer.Option(min=0, help="Seconds in which it still takes requests then")] = 5,
    in_cluster: Annotated[bool, typer.Option("--in-cluster", help="As the pod's own service account, not by KUBECONFIG")] = False,
) -> None:
    """Tell gateways which engine of a pool answers each prompt, by Envoy's external processing.

    Runs until it is stopped. It reads the InferencePools that name it, their pods, and the metrics pages of these.
    """
    import asyncio
    import signal
    from functools import partial

    from headway.endpoint_picker.cluster import PickerCluster
    from headway.endpoint_picker.process import run
    from headway.endpoint_picker.rounds import asked_page

    with reaching():
        cluster = PickerCluster(kubeconfig(in_cluster=in_cluster), namespace, name)

    async def until_stopped() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        places = {"serve": listening_place(serve), "show": listening_place(metrics)}
        await run(cluster.engines, partial(asked_page, port=page_port), **places, grace=grace, unready=unready, say=say, stop=stop)

    asyncio.run(until_stopped())
