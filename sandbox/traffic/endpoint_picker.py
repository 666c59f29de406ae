"""The platform's endpoint picker as a process: the program that the cluster's pod runs, with the addresses that replicas' proxies have here.

python -m sandbox.traffic.endpoint_picker SERVE_PORT SHOWN_PORT KUBECONFIG
"""

import asyncio
import sys
from collections.abc import Mapping
from functools import partial
from ipaddress import ip_address

from headway.endpoint_picker.cluster import PickerCluster
from headway.endpoint_picker.process import run
from headway.endpoint_picker.rounds import asked_page
from headway.endpoint_picker.tracking import EngineFacts
from headway.wire import ENDPOINT_PICKER_COMMAND, RELAY_PORT
from sandbox.cluster.api import LoopbackEndpoint
from sandbox.cluster.processes import Process, Supervisor
from sandbox.layout import Layout
from sandbox.progress import Progress
from sandbox.traffic.mesh.snapshot import INBOUND_OFFSET
from sandbox.traffic.pod_addresses import is_served, loopback

NAME, SHOWN = ENDPOINT_PICKER_COMMAND, f"{ENDPOINT_PICKER_COMMAND}-shown"


def proxies(found: Mapping[str, EngineFacts]) -> dict[str, EngineFacts]:
    """The same engines at the addresses that Envoy knows them by; simulated ones have none."""
    places = {tuple(address.rsplit(":", 1)): facts for address, facts in found.items()}
    return {
        f"{loopback(ip)}:{int(port) + INBOUND_OFFSET}": facts
        for (ip, port), facts in places.items()
        if ip_address(ip.strip("[]")).version == 4 and is_served(ip)
    }


def start(layout: Layout, progress: Progress, supervisor: Supervisor) -> None:
    """Have it run."""
    asked, shown = supervisor.port(NAME), supervisor.port(SHOWN)
    python = layout.project / ".venv" / "bin" / "python"
    supervisor.ensure(
        Process(
            name=NAME,
            argv=(str(python), "-m", "sandbox.traffic.endpoint_picker", str(asked), str(shown), str(layout.kubeconfig)),
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


def _main(serve: str, show: str, kubeconfig: str) -> None:
    cluster = PickerCluster(kubeconfig)

    def say(line: str) -> None:
        print(line, flush=True)  # noqa: T201

    place, own = ("127.0.0.1", int(serve)), ("127.0.0.1", int(show))
    page = partial(asked_page, port=RELAY_PORT)
    asyncio.run(run(lambda: proxies(cluster.engines()), page, serve=place, show=own, say=say))


if __name__ == "__main__":
    _main(*sys.argv[1:])
