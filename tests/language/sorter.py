"""The sorter as an application and an operator see it: asked through the gateway, read at its pod."""

import json
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from types import MappingProxyType
from typing import Any

from headway.wire import RELAY_PORT
from sandbox.cluster.processes import Supervisor
from sandbox.traffic import endpoint_picker, servers
from sandbox.traffic.kube import Object
from sandbox.traffic.mesh.tokens import TokenIssuers
from sandbox.traffic.pod_addresses import ADDRESS
from sandbox.traffic.profile import LANGUAGE
from sandbox.traffic.servers import TrafficAddresses
from tests.cluster.conftest import eventually
from tests.traffic.bed import HOST, Bed, tenant
from tests.traffic.serving import is_ready, total

PATIENCE = 120.0
COMPLETIONS, CHAT, RESPONSES = "/v1/completions", "/v1/chat/completions", "/v1/responses"


def question(words: str, note: str = "") -> str:
    return f"{note}sort: {words} ="


def in_order(words: str) -> str:
    return " ".join(sorted(words.split()))


@dataclass
class Sorter:
    """The bed while its one language model serves."""

    bed: Bed
    addresses: TrafficAddresses

    @classmethod
    def start(cls, bed: Bed) -> "Sorter":
        bed.deploy(bed.service(LANGUAGE))
        options = servers.TrafficOptions(served=(LANGUAGE,), first_backoff_seconds=0.5)
        return cls(bed, servers.start(bed.layout, bed.progress, options))

    def await_ready(self, within: float) -> None:
        eventually(lambda: bool(self.pods) and all(is_ready(each) for each in self.pods), within=within)
        eventually(lambda: self.ask(COMPLETIONS, prompt=question("nut bolt"), max_tokens=4)[0] == 200, within=PATIENCE)

    # -- as an application

    def headers(self, **claims: str) -> Mapping[str, str]:
        """Of a caller whose token says this too."""
        (issuer,) = tenant(LANGUAGE.tenant).issuers
        issuers = TokenIssuers(servers.folder(self.bed.layout) / "issuers")
        token = issuers.token(issuer.issuer, list(issuer.audiences), "tester", now=time.time(), seconds=3600, claims=claims)
        host = f"{LANGUAGE.model}.{LANGUAGE.tenant}.{HOST}"
        return {"host": host, "content-type": "application/json", "authorization": f"Bearer {token}"}

    @contextmanager
    def asking(self, path: str, claims: Mapping[str, str] = MappingProxyType({}), **body: Any) -> Iterator[HTTPResponse]:
        with closing(HTTPConnection("127.0.0.1", self.addresses.gateway, timeout=PATIENCE)) as connection:
            asked = {"model": LANGUAGE.model, "temperature": 0, **body}
            connection.request("POST", path, json.dumps(asked), dict(self.headers(**claims)))
            with connection.getresponse() as answer:  # which holds the socket open until it is closed itself
                yield answer

    def ask(self, path: str, **body: Any) -> tuple[int, Any]:
        """Status and answer; a text where it is no JSON."""
        with self.asking(path, **body) as answer:
            said = answer.read().decode()
            try:
                return answer.status, json.loads(said)
            except ValueError:
                return answer.status, said

    def events(self, path: str, **body: Any) -> list[tuple[float, Any]]:
        """What a stream says, each with the seconds since it was asked."""
        began = time.monotonic()
        with self.asking(path, stream=True, **body) as answer:
            assert answer.status == 200, answer.read()
            lines = (line.decode().strip() for line in answer)
            said = [(time.monotonic() - began, line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
        return [(seconds, json.loads(text)) for seconds, text in said if text != "[DONE]"]

    # -- as an operator

    @property
    def pods(self) -> list[Object]:
        return self.bed.pods(LANGUAGE.tenant)

    @property
    def address(self) -> str:
        """Where the pod's processes listen."""
        (pod,) = self.pods
        return pod["metadata"]["annotations"][ADDRESS]

    def log(self, container: str) -> str:
        (pod,) = self.pods
        return (self.bed.layout.logs / "pods" / LANGUAGE.tenant / pod["metadata"]["name"] / f"{container}.log").read_text()

    def page(self) -> str:
        """The engine's metrics, as the scraper gets them: from the sidecar, on its own port."""
        with urllib.request.urlopen(f"http://{self.address}:{RELAY_PORT}/metrics", timeout=30) as answer:
            return answer.read().decode()

    def total(self, name: str, **labels: str) -> float:
        return total(self.page(), name, labels)

    def at_picker(self, name: str, **labels: str) -> float:
        """What the endpoint picker shows of itself."""
        port = Supervisor(self.bed.layout).port(endpoint_picker.SHOWN)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
            return total(answer.read().decode(), f"headway_endpoint_picker_{name}", labels)

    def at_gateway(self, name: str, **labels: str) -> float:
        """What the gateway's proxy has measured, as the scraper gets it."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.addresses.mesh_metrics}/metrics", timeout=30) as answer:
            return total(answer.read().decode(), name, labels)
