"""A gateway's proxy with the platform's filters and two tenants' limits, before a model server that answers as OpenAI's API does."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from http.client import HTTPConnection, HTTPResponse
from time import sleep
from typing import Any

import pytest

from components.platform import gateway_filters
from components.platform.limiter import CLUSTER
from components.tenant import limits
from headway.contract.units import Rate
from sandbox.traffic.mesh import clusters, patches
from sandbox.traffic.mesh.envoy import measuring
from tests.components.contracts import MODELS, SURROUNDINGS, tenant
from tests.loopback import Handler

TENANT, OTHER = tenant("assist"), tenant("vision")
HOST, SECOND = (f"{model}.{TENANT.name}.{SURROUNDINGS.hosts[0]}" for model in ("chat", "chat-mig"))
OTHERS_HOST = f"defects.{OTHER.name}.{SURROUNDINGS.hosts[0]}"
UNKNOWN = f"shadow.{TENANT.name}.{SURROUNDINGS.hosts[0]}"
"""A route leads from here to the tenant's servers, and no contract is behind it."""


PROMPT = 900
"""Tokens of every prompt, as the model says; a caller who leaves in time hears no number."""
WORDS = ("prompt_tokens", "completion_tokens")
"""The API's own for the tokens of a request and of its answer; vLLM writes a total between them."""


class Model(Handler):
    """Answers with as many tokens as it is asked for, in one piece or event by event; says the usage unless told not to.

    `counted` is the API's words for them; what is asked as `tools` is said back before anything else; what `fails` says so in the middle, as vLLM
    does. Of several `choices` each event says the usage of one, as vLLM does where it is told to say the usage always.
    """

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.body())
        usage = self._usage(asked, asked["tokens"]) if asked.get("usage", True) else {}
        with suppress(OSError):
            if asked.get("stream"):
                echo = [{"tools": asked["tools"]}] if "tools" in asked else []
                failed = [{"error": {"message": "EngineCore encountered an issue", "code": 500}}] * bool(asked.get("fails"))
                events = echo + list(self._pieces(asked)) + failed + [{"choices": [], **usage}] * bool(usage and not failed)
                self._stream(events, asked.get("pause", 0))
            else:
                self.reply(200, {"choices": [{"text": asked.get("text", "")}], **usage}, content_type="application/json")

    def _usage(self, asked: Mapping[str, Any], tokens: int) -> dict[str, Any]:
        prompt, answer = asked.get("counted", WORDS)
        return {"usage": {prompt: PROMPT, "total_tokens": PROMPT + tokens, answer: tokens}}

    def _pieces(self, asked: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        for number in range(asked["tokens"]):
            if "choices" in asked:
                choice = number % asked["choices"]
                yield {"choices": [{"index": choice, "text": "a"}], **self._usage(asked, number // asked["choices"] + 1)}
            else:
                yield {"choices": [{"delta": {"content": "a"}}]}

    def _stream(self, events: list[Any], pause: float) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for text in [*(f"data: {json.dumps(event)}\n\n".encode() for event in events), b"data: [DONE]\n\n", b""]:
            sleep(pause if b"choices" in text else 0)
            self.wfile.write(b"%x\r\n%s\r\n" % (len(text), text))
            self.wfile.flush()


@dataclass(frozen=True, kw_only=True)
class LimitedGateway:
    """A proxy with the tenant's filters."""

    port: int

    def ask(self, host: str = HOST, *, encoding: str = "identity", **asked: Any) -> tuple[HTTPResponse, bytes]:
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=30)) as connection:
            headers = {"host": host, "content-encoding": encoding}
            connection.request("POST", "/v1/completions", json.dumps({"tokens": 0, **asked}), headers)
            answer = connection.getresponse()
            return answer, answer.read()


def filters(requests: str, tokens: str, proxies: int, *, answer: float) -> list[Mapping[str, Any]]:
    """The gateway's filters and what it knows of two tenants: of TENANT these rates over all its proxies, of OTHER no quota of tokens.

    A busy machine may take longer to answer than a proxy waits, and then nothing is asked: here it waits `answer` seconds.
    """
    quota = TENANT.quota.model_copy(update={"requests": Rate.parse(requests), "tokens": Rate.parse(tokens)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gateway_filters, "ANSWER_SECONDS", answer)
        chain = gateway_filters.manifest(port=80).body
    around, granted = replace(SURROUNDINGS, gateway_replicas=proxies), TENANT.model_copy(update={"quota": quota})
    return [
        chain,
        limits.rate_limit(granted, (MODELS["chat"], MODELS["chat-mig"]), around, "limits"),
        limits.rate_limit(OTHER, (MODELS["defects"],), around, "others-limits"),
    ]


def configuration(
    port: int, filters: Sequence[Mapping[str, Any]], model: tuple[str, int], limiter: int, admin: int | None = None
) -> dict[str, Any]:
    router = {"name": patches.ROUTER, "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}
    routes = [{"match": {"prefix": "/"}, "route": {"cluster": "model", "timeout": "0s"}}]
    hosts = [{"name": each, "domains": [each], "routes": routes} for each in (HOST, SECOND, OTHERS_HOST, UNKNOWN)]
    table = {"virtual_hosts": patches.patched_hosts(hosts, filters)}
    manager = {"stat_prefix": "gateway", "http_filters": [router], "route_config": table}
    typed = {
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        **patches.patched(manager, patches.GATEWAY, 80, filters),
    }
    listener = {
        "name": "gateway",
        "address": clusters.address("127.0.0.1", port),
        "filter_chains": [{"filters": [{"name": patches.MANAGER, "typed_config": typed}]}],
    }
    reached = [
        clusters.inbound("model", model, {}, grpc=False),
        clusters.inbound(CLUSTER, ("127.0.0.1", limiter), {}, grpc=True),
    ]
    static = {"static_resources": {"listeners": [listener], "clusters": reached}}
    return static if admin is None else {**static, **measuring(), "admin": {"address": clusters.address("127.0.0.1", admin)}}
