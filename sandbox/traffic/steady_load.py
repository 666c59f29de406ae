"""Steady load on every served model: golden requests as an application of its tenant sends them, open loop, from a
thread."""

import asyncio
import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from components.model_service.vllm import COMPLETIONS
from headway.wire import RELEASE_HEADER
from sandbox.cluster.processes import Supervisor
from sandbox.layout import Layout
from sandbox.traffic import profile, servers
from sandbox.traffic.load import LoadClient, LoadRequest, LoadTally, run
from sandbox.traffic.mesh.tokens import TokenIssuers
from sandbox.traffic.profile import LANGUAGE, ModelArtifacts, ServedModel
from sandbox.traffic.token_stream import StreamClient, StreamTally

RATES: Mapping[str, float] = {"classifier": 60.0, "encoder": 8.0, "sorter": 4.0}
"""Requests a second of each model's steady load: golden requests in turn, one caller; of the language model as streams."""
TOKEN_SECONDS = 24 * 3600.0
_LOAD_SECONDS = 24 * 3600.0
_END_SECONDS = 20.0


@dataclass
class SteadyLoad:
    """Steady load on every served model, from a thread of its own."""

    layout: Layout
    artifacts: ModelArtifacts
    rates: Mapping[str, float] = field(default_factory=lambda: RATES)
    token_seconds: float = TOKEN_SECONDS
    only: Mapping[str, str] = field(default_factory=dict[str, str])
    """Of a model, the one golden request that its users send."""
    tallies: Mapping[str, LoadTally] = field(init=False)
    _stopped: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __post_init__(self) -> None:
        self.tallies = {each.model: (StreamTally if each == LANGUAGE else LoadTally)(RELEASE_HEADER) for each in self.artifacts.served}

    def start(self) -> None:
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(timeout=_END_SECONDS)

    async def _run(self) -> None:
        port = servers.addresses(Supervisor(self.layout)).gateway
        tasks = [
            asyncio.create_task(
                run(
                    StreamClient(port) if each == LANGUAGE else LoadClient(port),
                    requests(self.layout, self.artifacts, each, self.token_seconds, self.only.get(each.model, "")),
                    self.rates[each.model],
                    _LOAD_SECONDS,
                    seed,
                    self.tallies[each.model],
                )
            )
            for seed, each in enumerate(self.artifacts.served)
        ]
        while not self._stopped.is_set():
            await asyncio.sleep(0.2)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def requests(layout: Layout, artifacts: ModelArtifacts, served: ServedModel, token_seconds: float, only: str = "") -> list[LoadRequest]:
    """Golden requests of a model as an application of its tenant sends them; `only` names one of them."""
    tenant = yaml.safe_load((profile.CONTRACTS / served.tenant / "tenant.yaml").read_text())
    (issuer,) = tenant["issuers"]
    issuers = TokenIssuers(servers.folder(layout) / "issuers")
    token = issuers.token(issuer["issuer"], issuer["audiences"], "demonstration", now=time.time(), seconds=token_seconds, claims={})
    gateway = yaml.safe_load((layout.project / "stacks" / "Pulumi.sandbox-platform.yaml").read_text())["config"]["headway:gateway"]
    host = f"{served.model}.{served.tenant}.{gateway['hosts'][0]}"
    headers = {"host": host, "content-type": "application/json", "authorization": f"Bearer {token}"}
    path, more = f"/v2/models/{served.model}/versions/1/infer", dict[str, Any]()
    if served == LANGUAGE:
        path, more = COMPLETIONS, {"model": served.model, "stream": True}
    golden = [each for each in artifacts.golden(served.model) if only in ("", each["name"])]
    return [LoadRequest(path=path, body=json.dumps({**each["request"], **more}).encode(), headers=headers) for each in golden]
