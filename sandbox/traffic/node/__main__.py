"""`python -m sandbox.traffic.node CONFIGURATION`: the node agent as a process. The configuration is a JSON file of
`settings`."""

import asyncio
import json
import sys
from pathlib import Path

from sandbox.traffic.kube import Kube
from sandbox.traffic.node.agent import NodeAgent
from sandbox.traffic.node.metrics import serve
from sandbox.traffic.node.pod import ConfigMapReader, NodeSettings
from sandbox.traffic.programs import programs


def main(path: Path) -> None:
    settings = json.loads(path.read_text())
    found, state = programs(Path(settings["project"])), Path(settings["state"])
    for name in ("pods", "records"):
        (state / name).mkdir(parents=True, exist_ok=True, mode=0o700)

    def node(config_maps: ConfigMapReader) -> NodeSettings:
        return NodeSettings(
            programs=found,
            backends=found.backend_folder(state / "backends"),
            pods=state / "pods",
            logs=Path(settings["logs"]),
            records=state / "records",
            environment=settings["environment"],
            config_maps=config_maps,
            first_backoff_seconds=settings["first_backoff_seconds"],
        )

    agent = NodeAgent(Kube(Path(settings["kubeconfig"])), node)
    with serve(agent, settings["port"]):
        asyncio.run(agent.run())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
