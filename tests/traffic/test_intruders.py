"""Who tries to get past the gateway's rules, through a real Envoy: one gateway before models of two tenants, and the proxies of their replicas.

An intruder has a token of one tenant or none, and says what it likes: hosts, paths, tokens and headers that filters might read otherwise
than Envoy does. The servers behind are stand-ins that keep what reached them.
"""

import base64
import hmac
import json
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from hashlib import sha256
from http.client import HTTPResponse
from time import sleep, time
from typing import Any

import pytest

from components.model_service.manifests import ServicePlan
from components.platform import mesh
from components.tenant.manifests import TenantPlan
from headway.contract.runtime import Engine
from headway.contract.served_paths import OPEN
from headway.contract.tenant import Issuer
from sandbox.traffic.mesh import envoy_configuration, listeners
from sandbox.traffic.mesh.tokens import TokenIssuers
from sandbox.traffic.pod_addresses import loopback
from tests.components.contracts import MODELS, POOLS, SURROUNDINGS, changed, tenant
from tests.components.contracts import service as sample
from tests.loopback import Handler, served
from tests.traffic import proxied
from tests.traffic.static_configuration import static

OWN, OTHERS = "assist", "vision"
"""The intruder's tenant, and whose models it wants."""
SERVED = {OWN: ("chat", "10.191.9.1"), OTHERS: ("defects", "10.191.9.2")}
HOST, OTHERS_HOST = (f"{SERVED[each][0]}.{each}.{SURROUNDINGS.hosts[0]}" for each in (OWN, OTHERS))
ISSUERS: Mapping[str, Issuer] = {name: tenant(name).issuers[0] for name in SERVED}
REFUSED = {400, 401, 403, 404}
SHOP = ("shop",)
"""An audience of the other tenant's second issuer, which the intruder's tenant takes of the other's first."""
SECOND = Issuer(issuer="https://second.example.com", audiences=SHOP, jwks_uri="https://second.example.com/keys")
MORE: Mapping[str, Issuer] = {OTHERS: SECOND, OWN: ISSUERS[OTHERS].model_copy(update={"audiences": SHOP})}


class Server(Handler):
    """Keeps what it is asked. A path that ends in `slow` takes its time, one that ends in `broken` fails."""

    protocol_version = "HTTP/1.1"
    asked: list[tuple[str, dict[str, str]]]

    def do_POST(self) -> None:
        self.body()
        self.asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
        if self.path.endswith("slow"):
            sleep(0.3)
        self.reply(500 if self.path.endswith("broken") else 200)

    def do_GET(self) -> None:
        self.do_POST()


@dataclass(frozen=True, kw_only=True)
class Gateway:
    port: int
    issuers: TokenIssuers
    intruders: TokenIssuers
    """Keys that nobody trusts."""
    servers: Mapping[str, type[Server]] = field(default_factory=dict[str, type[Server]])

    def token(self, of: str, **claims: Any) -> str:
        issuer = ISSUERS[of]
        return self.issuers.token(issuer.issuer, issuer.audiences, "somebody", now=time(), seconds=600, claims=claims)

    def say(self, text: str, *, host: str | None = HOST, token: str | None = None, target: str = "/v1/models", method: str = "POST") -> int:
        """The answer's status to a request with these headers, written as they are; no answer at all counts as a refusal (400)."""
        lines = [f"{method} {target} HTTP/1.1", *([] if host is None else [f"Host: {host}"])]
        if method != "GET":
            lines.append("Content-Length: 0")
        if "Connection:" not in text:
            lines.append("Connection: close")
        if token is not None:
            lines.append(f"Authorization: Bearer {token}")
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            connection.sendall("\r\n".join([*lines, *text.splitlines(), "", ""]).encode("latin-1"))
            answer = HTTPResponse(connection)
            try:
                answer.begin()
            except ConnectionError:
                return 400
            answer.read()
            return answer.status

    def say_raw(self, first: str, rest: str) -> int:
        """The answer's status to `first`, the caller's host and token, and `rest` as it is written; none counts as a refusal (400)."""
        said = f"{first}\r\nHost: {HOST}\r\nAuthorization: Bearer {self.token(OWN)}\r\n{rest}"
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            connection.sendall(said.encode("latin-1"))
            connection.shutdown(socket.SHUT_WR)
            answer = HTTPResponse(connection)
            try:
                answer.begin()
            except ConnectionError:
                return 400
            return answer.status

    def reached(self, tenant: str) -> int:
        return len(self.servers[tenant].asked)

    def told(self, tenant: str) -> Mapping[str, str]:
        """Headers of the last request that reached the tenant's server."""
        return self.servers[tenant].asked[-1][1]


def services() -> Iterator[ServicePlan]:
    for name, (model, _) in SERVED.items():
        contract = MODELS[model].model_dump(mode="json", exclude_none=True)
        patient = changed(contract, batch=None, envelope__largest_request__timeout="60s", health__drain="60s")
        yield ServicePlan.of(name, patient, sample(model).pool, SURROUNDINGS)


def compiled(folder: Any, port: int, issuers: TokenIssuers) -> envoy_configuration.EnvoyConfiguration:
    made = list(services())
    tenants = {name: tenant(name).model_copy(update={"issuers": (ISSUERS[name], MORE[name])}) for name in SERVED}
    plans = [TenantPlan(tenant=tenants[each.tenant], models=(each.model,), pools=POOLS, surroundings=SURROUNDINGS) for each in made]
    rules = mesh.manifests(hosts=SURROUNDINGS.hosts, certificate=None, region="us-west-2")
    manifests = [*rules, *(one for each in (*plans, *made) for one in each.manifests())]
    snapshot = proxied.snapshot(manifests, *(body for each in made for body in proxied.replicas(each, [SERVED[each.tenant][1]])))
    assert envoy_configuration.judge(snapshot) == {}
    ports = listeners.ListenerPorts(gateway={80: port}, mesh={}, log="/dev/null")
    known = {each.issuer for each in (*ISSUERS.values(), *MORE.values())}
    return envoy_configuration.compile_(snapshot, ports, str(folder), {each: issuers.keys(each) for each in sorted(known)})


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder, port = tmp_path_factory.mktemp("intruders"), proxied.free_port()
    issuers = TokenIssuers(folder / "issuers")
    servers: dict[str, type[Server]] = {name: type(name, (Server,), {"asked": []}) for name in SERVED}
    with ExitStack() as stack:
        for name, (_, ip) in SERVED.items():
            stack.enter_context(served(servers[name], 8000, loopback(ip)))
        stack.enter_context(proxied.envoy(folder, static(compiled(folder, port, issuers)), port))
        yield Gateway(port=port, issuers=issuers, intruders=TokenIssuers(folder / "intruders"), servers=servers)


# hosts -----------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", [HOST, HOST.upper(), f"{HOST}:80", f"{HOST}:443", f"{HOST}:18080"])
def test_a_host_may_be_written_as_clients_write_it(gateway: Gateway, host: str) -> None:
    assert gateway.say("", host=host, token=gateway.token(OWN)) == 200


@pytest.mark.parametrize("intruder", ["nobody", "a stranger"])
@pytest.mark.parametrize(
    "written",
    [
        "{}",
        "{}:80",
        "{}:8443",
        "{}:99999999999",
        "{}:",
        "{}:x",
        "{}:1-shadow",
        "{}-shadow",
        "{}.",
        "{}.:80",
        "user@{}",
        "{}#",
        "{}?",
        "{}/",
        "%20{}",
        "x.{}",
    ],
)
def test_no_spelling_of_a_host_leads_past_its_tenants_rules(gateway: Gateway, intruder: str, written: str) -> None:
    token, before = gateway.token(OWN) if intruder == "a stranger" else None, gateway.reached(OTHERS)
    for host in (OTHERS_HOST, OTHERS_HOST.upper()):
        assert gateway.say("", host=written.format(host), token=token, target="/v2") in REFUSED
    assert gateway.reached(OTHERS) == before


@pytest.mark.parametrize("written", ["{}:", "{}:x", "{}:1-shadow", "{}-shadow"])
def test_a_tenants_own_caller_cannot_disguise_its_host_from_the_proxies(gateway: Gateway, written: str) -> None:
    """A host that ends as a copy's would keep the request out of what its release is judged by."""
    before = gateway.reached(OWN)
    assert gateway.say("", host=written.format(HOST), token=gateway.token(OWN)) in REFUSED
    assert gateway.reached(OWN) == before


@pytest.mark.parametrize(
    ("host", "target", "more"),
    [
        (HOST, f"http://{OTHERS_HOST}/v2", ""),
        (HOST, f"http://{OTHERS_HOST}:99/v2", ""),
        (HOST, "/v2", f"Host: {OTHERS_HOST}"),
        (OTHERS_HOST, "/v2", f"Host: {HOST}"),
        (None, "/v2", ""),
        (HOST, f"{OTHERS_HOST}:80", ""),
    ],
)
def test_two_hosts_in_one_request_are_none(gateway: Gateway, host: str | None, target: str, more: str) -> None:
    before = gateway.reached(OTHERS)
    assert gateway.say(more, host=host, target=target, token=gateway.token(OWN)) in REFUSED
    assert gateway.reached(OTHERS) == before


@pytest.mark.parametrize("header", ["X-Forwarded-Host", "X-Host", "X-Original-Host", "X-Envoy-Original-Host", "Forwarded: host"])
def test_a_host_in_another_header_leads_nowhere_else(gateway: Gateway, header: str) -> None:
    before = gateway.reached(OTHERS)
    joint = "=" if "host" in header else ": "
    assert gateway.say(f"{header}{joint}{OTHERS_HOST}", token=gateway.token(OWN)) == 200
    assert gateway.reached(OTHERS) == before


def test_by_http_2_the_host_is_the_one_that_was_judged(gateway: Gateway) -> None:
    before, address = gateway.reached(OTHERS), f"127.0.0.1:{gateway.port}"
    asked = ["curl", "-sS", "--max-time", "60", "--http2-prior-knowledge", "-o", "/dev/null", "-w", "%{http_code} %{http_version}"]
    for host, url in ((OTHERS_HOST, HOST), (HOST, OTHERS_HOST)):
        said = [*asked, "--connect-to", f"::{address}", "-H", f"Host: {host}", "-H", f"Authorization: Bearer {gateway.token(OWN)}"]
        found = subprocess.run([*said, f"http://{url}:99/v2"], capture_output=True, text=True, timeout=90, check=True)
        assert found.stdout in ({"403 2", "400 2"} if host == OTHERS_HOST else {"200 2", "400 2", "403 2"})
    assert gateway.reached(OTHERS) == before


# tokens ----------------------------------------------------------------------------------------------------------------------------------


def part(content: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()


def claims(of: str) -> dict[str, Any]:
    issuer = ISSUERS[of]
    return {"iss": issuer.issuer, "aud": list(issuer.audiences), "sub": "admin", "iat": int(time()), "exp": int(time()) + 600}


def unsigned(gateway: Gateway, algorithm: str) -> str:
    return f"{part({'alg': algorithm, 'typ': 'JWT'})}.{part(claims(OTHERS))}."


def signed_with_the_public_key(gateway: Gateway) -> str:
    keys = gateway.issuers.keys(ISSUERS[OTHERS].issuer)
    (key,) = json.loads(keys)["keys"]
    text = f"{part({'alg': 'HS256', 'typ': 'JWT', 'kid': key['kid']})}.{part(claims(OTHERS))}"
    return f"{text}.{base64.urlsafe_b64encode(hmac.new(keys.encode(), text.encode(), sha256).digest()).rstrip(b'=').decode()}"


def signed_by_another_issuer(gateway: Gateway) -> str:
    """The issuer's name and key's name, the intruder's own key."""
    own = gateway.intruders
    issuer = ISSUERS[OTHERS]
    return own.token(issuer.issuer, issuer.audiences, "admin", now=time(), seconds=600, claims={})


def with_claims_of_another(gateway: Gateway) -> str:
    head, _, signature = gateway.token(OWN).split(".")
    return f"{head}.{part(claims(OTHERS))}.{signature}"


def bringing_its_own_key(gateway: Gateway) -> str:
    own = gateway.intruders
    issuer = ISSUERS[OTHERS]
    (key,) = json.loads(own.keys(issuer.issuer))["keys"]
    _, body, signature = own.token(issuer.issuer, issuer.audiences, "admin", now=time(), seconds=600, claims={}).split(".")
    return f"{part({'alg': 'ES256', 'typ': 'JWT', 'jwk': key, 'jku': 'http://127.0.0.1/keys'})}.{body}.{signature}"


def for_an_audience_beside(gateway: Gateway) -> str:
    """Of the right issuer, for somebody else; and the intruder's own issuer vouches for the audience."""
    return gateway.issuers.token(ISSUERS[OWN].issuer, ISSUERS[OTHERS].audiences, "admin", now=time(), seconds=600, claims={})


def for_an_audience_of_the_others_second_issuer(gateway: Gateway) -> str:
    """The intruder's tenant takes it, and its issuer and its audience are each one of the other's."""
    return gateway.issuers.token(ISSUERS[OTHERS].issuer, SHOP, "admin", now=time(), seconds=600, claims={})


FORGED: tuple[Callable[[Gateway], str], ...] = (
    lambda gateway: unsigned(gateway, "none"),
    lambda gateway: unsigned(gateway, "None"),
    lambda gateway: unsigned(gateway, "ES256"),
    signed_with_the_public_key,
    signed_by_another_issuer,
    with_claims_of_another,
    bringing_its_own_key,
    for_an_audience_beside,
    for_an_audience_of_the_others_second_issuer,
    lambda gateway: "",
    lambda gateway: "..",
)


@pytest.mark.parametrize("forged", FORGED)
@pytest.mark.parametrize("where", ["header", "query", "both"])
def test_no_forged_token_opens_a_host(gateway: Gateway, forged: Callable[[Gateway], str], where: str) -> None:
    token, before = forged(gateway), gateway.reached(OTHERS)
    target = "/v2" if where == "header" else f"/v2?access_token={token}"
    header = {"header": token, "query": None, "both": gateway.token(OWN)}[where]
    assert gateway.say("", host=OTHERS_HOST, token=header, target=target) in REFUSED
    assert gateway.reached(OTHERS) == before


def test_every_issuer_opens_the_hosts_of_its_audiences(gateway: Gateway) -> None:
    assert gateway.say("", token=for_an_audience_of_the_others_second_issuer(gateway)) == 200
    second = gateway.issuers.token(SECOND.issuer, SHOP, "somebody", now=time(), seconds=600, claims={})
    assert gateway.say("", host=OTHERS_HOST, token=second, target="/v2") == 200


def test_a_token_of_nobody_opens_no_host(gateway: Gateway) -> None:
    issuer, before = ISSUERS[OWN], gateway.reached(OWN)
    token = gateway.issuers.token(issuer.issuer, issuer.audiences, "", now=time(), seconds=600, claims={})
    assert gateway.say("", token=token) == 403
    assert gateway.reached(OWN) == before


# headers ---------------------------------------------------------------------------------------------------------------------------------


def test_what_only_the_platform_may_say_of_a_request_no_client_says(gateway: Gateway) -> None:
    forged = [
        *mesh.OWN_HEADERS,
        "X-EXPERIMENT",
        "x-model-unreached",
        "x-envoy-retriable-header-names",
        "x-envoy-original-path",
        "x-envoy-internal",
    ]
    said = "\n".join(f"{name}: forged" for name in forged)
    assert gateway.say(said, token=gateway.token(OWN, priority="low")) == 200
    told = gateway.told(OWN)
    assert (told["x-user-id"], told["x-request-priority"]) == ("somebody", "low")
    assert not {"x-degrade", "x-experiment"} & set(told)
    assert [name for name, value in told.items() if "forged" in value and name.startswith("x-envoy-")] == []
    assert "authorization" not in told, "a model has no use for a caller's token"


def test_no_client_says_it_in_a_spelling_that_a_server_takes_for_the_same(gateway: Gateway) -> None:
    """CGI and WSGI make one variable of `x-user-id` and `x_user_id` (RFC 3875, section 4.1.18; PEP 3333)."""
    said = "\n".join(f"{spelling}: forged" for name in mesh.OWN_HEADERS for spelling in (name.replace("-", "_"), name.replace("-", "_", 1)))
    assert gateway.say(said, token=gateway.token(OWN)) == 200
    assert [name for name, value in gateway.told(OWN).items() if "forged" in value] == []


def test_a_request_without_a_body_has_its_class_like_any_other(gateway: Gateway) -> None:
    assert gateway.say("x-request-class: forged", method="GET", token=gateway.token(OWN)) == 200
    assert gateway.told(OWN)["x-request-class"] == "short"


def test_a_caller_without_a_priority_does_not_give_itself_one(gateway: Gateway) -> None:
    assert gateway.say("x-request-priority: high\nX-Request-Priority: high", token=gateway.token(OWN)) == 200
    assert "x-request-priority" not in gateway.told(OWN)


def test_no_client_sets_the_proxys_timeouts_and_retries(gateway: Gateway) -> None:
    assert gateway.say("x-envoy-upstream-rq-timeout-ms: 1", target="/v1/models?slow", token=gateway.token(OWN)) == 200
    before = gateway.reached(OWN)
    again = "x-envoy-retry-on: 5xx\nx-envoy-max-retries: 9\nx-envoy-retriable-status-codes: 500"
    assert gateway.say(again, target="/v1/models?broken", token=gateway.token(OWN)) == 500
    assert gateway.reached(OWN) == before + 1


@pytest.mark.parametrize(
    "more",
    ["content-encoding: deflate", "Content-Encoding: gzip, gzip", "content-encoding: gzip\ncontent-encoding: br", "grpc-encoding: gzip"],
)
def test_no_body_is_packed_in_a_way_that_no_limit_sees(gateway: Gateway, more: str) -> None:
    before = gateway.reached(OWN)
    assert gateway.say(more, token=gateway.token(OWN)) == 415
    assert gateway.reached(OWN) == before
    assert gateway.say(more.partition(":")[0] + ": identity", token=gateway.token(OWN)) == 200


@pytest.mark.parametrize(
    "more", ["Transfer-Encoding: chunked", "Content-Length: 5", "Transfer-Encoding: xchunked", "Transfer-Encoding: identity, chunked"]
)
def test_a_body_whose_end_is_written_twice_is_refused(gateway: Gateway, more: str) -> None:
    before = gateway.reached(OWN)
    assert gateway.say(more, token=gateway.token(OWN)) in {*REFUSED, 501}
    assert gateway.reached(OWN) == before


ASKS, CHUNKS = "POST /v1/models HTTP/1.1", "Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("first", "rest"),
    [
        (ASKS, "Transfer-Encoding : chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n"),
        (ASKS, "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n"),
        (ASKS, f"{CHUNKS}3\nabc\r\n0\r\n\r\n"),
        (ASKS, f"{CHUNKS}-3\r\nabc\r\n0\r\n\r\n"),
        (ASKS, f"{CHUNKS}0x3\r\nabc\r\n0\r\n\r\n"),
        (ASKS, f"{CHUNKS}fffffffffffffffff\r\nabc\r\n0\r\n\r\n"),
        (ASKS, "Content-Length: +3\r\n\r\nabc"),
        (ASKS, "Content-Length: -1\r\n\r\nabc"),
        (ASKS, "Content-Length: 3, 3\r\n\r\nabc"),
        (ASKS, "X-A: a\0b\r\nContent-Length: 0\r\n\r\n"),
        ("POST /v1/models HTTP/1.0", "Content-Length: 0\r\n\r\n"),
        ("POST /v1/models HTTP/2.0", "Content-Length: 0\r\n\r\n"),
        (f"CONNECT {HOST}:80 HTTP/1.1", "\r\n"),
        ("TRACE /v1/models HTTP/1.1", "\r\n"),
        ("post /v1/models HTTP/1.1", "Content-Length: 0\r\n\r\n"),
        ("OPTIONS * HTTP/1.1", "\r\n"),
    ],
)
def test_what_two_servers_would_read_in_two_ways_reaches_none(gateway: Gateway, first: str, rest: str) -> None:
    before = gateway.reached(OWN)
    assert gateway.say_raw(first, rest) in {*REFUSED, 426, 501}
    assert gateway.reached(OWN) == before


@pytest.mark.parametrize(("claim", "status"), [("sub", 403), ("priority", 503)])
def test_a_claim_with_a_line_break_writes_no_header(gateway: Gateway, claim: str, status: int) -> None:
    issuer, before = ISSUERS[OWN], gateway.reached(OWN)
    words = {"sub": "a", "priority": "low", claim: "a\r\nx-degrade: chat"}
    subject = words.pop("sub")
    token = gateway.issuers.token(issuer.issuer, issuer.audiences, subject, now=time(), seconds=600, claims=words)
    assert gateway.say("", token=token) == status
    assert gateway.reached(OWN) == before


def test_nobody_turns_a_request_into_a_connection_that_no_limit_counts(gateway: Gateway) -> None:
    before = gateway.reached(OWN)
    upgrade = "Connection: Upgrade\nUpgrade: {}\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="
    for protocol in ("websocket", "WebSocket", "spdy/3.1"):
        assert gateway.say(upgrade.format(protocol), method="GET", target="/v1/realtime", token=gateway.token(OWN)) in REFUSED
    assert gateway.reached(OWN) == before


# paths -----------------------------------------------------------------------------------------------------------------------------------

ADMINISTRATION = {OWN: "/v1/load_lora_adapter", OTHERS: "/v2/repository/index"}


@pytest.mark.parametrize("tenant", [OWN, OTHERS])
@pytest.mark.parametrize(
    "spelling",
    [
        lambda path: path,
        lambda path: path + "?a=b",
        lambda path: path + "#x",
        lambda path: "/" + path,
        lambda path: path.replace("/", "//"),
        lambda path: "/." + path,
        lambda path: "/a/.." + path,
        lambda path: "/a/%2e%2e" + path,
        lambda path: path.replace("o", "%6f"),
        lambda path: path.replace("o", "%6F"),
        lambda path: "/" + path[1:].replace("/", "%2F"),
        lambda path: "/" + path[1:].replace("/", "%2f"),
        lambda path: "/a%2F.." + path,
        lambda path: "/" + path[1:].replace("/", "\\"),
        lambda path: "/" + path[1:].replace("/", "%5C"),
    ],
)
def test_no_spelling_of_a_path_reaches_a_servers_administration(gateway: Gateway, tenant: str, spelling: Callable[[str], str]) -> None:
    host = {OWN: HOST, OTHERS: OTHERS_HOST}[tenant]
    before = gateway.reached(tenant)
    assert gateway.say("", host=host, target=spelling(ADMINISTRATION[tenant]), token=gateway.token(tenant)) in {*REFUSED, 307}
    assert gateway.reached(tenant) == before


@pytest.mark.parametrize(
    "path",
    [
        # vLLM 0.33's routers, with its development mode and every feature on.
        *("/abort_requests", "/collective_rpc", "/fault_tolerance/apply", "/finish_weight_update", "/init_weight_transfer_engine"),
        *("/pause", "/release_kv_cache_memory", "/reset_encoder_cache", "/reset_mm_cache", "/reset_prefix_cache", "/resume"),
        *("/scale_elastic_ep", "/shutdown_weight_transfer_engine", "/sleep", "/start_draft_weight_update", "/start_profile"),
        *("/start_weight_update", "/stop_profile", "/update_weight_version", "/update_weights", "/v1/load_lora_adapter"),
        *("/v1/unload_lora_adapter", "/wake_up", "/weight_checker", "/inference/v1/abort_requests"),
        # They generate or score, and say nowhere how many tokens, or what no golden request has tried.
        *("/inference/v1/generate", "/generative_scoring", "/invocations", "/v1/chat/completions/batch", "/v1/score", "/pooling"),
        # Of everybody's requests, and of the server.
        *("/metrics", "/load", "/server_info", "/kv_event_sources", "/is_sleeping", "/weight_info", "/tokenizer_info", "/version"),
        *("/openapi.json", "/docs", "/v1/responses/resp_0", "/v1/responses/resp_0/cancel"),
        # What another version may have.
        "/v1/anything_else",
    ],
)
def test_no_caller_steers_a_language_server_or_reads_its_figures(gateway: Gateway, path: str) -> None:
    before = gateway.reached(OWN)
    for method in ("POST", "GET"):
        assert gateway.say("", target=path, token=gateway.token(OWN), method=method) == 403
    assert gateway.reached(OWN) == before


@pytest.mark.parametrize(
    "path",
    [
        *("/v2/repository/index", "/v2/repository/models/a/load", "/v2/repository/models/a/unload", "/v2/repository/a/index"),
        *("/v2/systemsharedmemory/status", "/v2/systemsharedmemory/region/a/register", "/v2/systemsharedmemory/unregister"),
        *("/v2/cudasharedmemory/status", "/v2/cudasharedmemory/region/a/register", "/v2/cudasharedmemory/unregister"),
        *("/v2/trace/setting", "/v2/models/a/trace/setting", "/v2/models/a/versions/1/trace/setting", "/v2/logging"),
        *("/metrics", "/v2/models/a/versions", "/v2/models/a/unload", "/v2/models/a/infer/more", "/v2x", "/v3/anything_else"),
        *(f"/inference.GRPCInferenceService/{name}" for name in ("ModelStreamInfer", "RepositoryModelLoad", "RepositoryIndex")),
        *(f"/inference.GRPCInferenceService/{name}" for name in ("TraceSetting", "LogSettings", "AnythingElse")),
        *(f"/inference.GRPCInferenceService/{name}SharedMemoryRegister" for name in ("System", "Cuda")),
    ],
)
def test_no_caller_steers_triton(gateway: Gateway, path: str) -> None:
    before = gateway.reached(OTHERS)
    for method in ("POST", "GET"):
        assert gateway.say("", host=OTHERS_HOST, target=path, token=gateway.token(OTHERS), method=method) == 403
    assert gateway.reached(OTHERS) == before


@pytest.mark.parametrize("tenant", [OWN, OTHERS])
def test_what_asks_a_model_reaches_it(gateway: Gateway, tenant: str) -> None:
    host, engine = {OWN: (HOST, Engine.VLLM), OTHERS: (OTHERS_HOST, Engine.TRITON)}[tenant]
    for path in OPEN[engine]:
        assert gateway.say("", host=host, target=path.replace("{*}", "1") + "?a=b", token=gateway.token(tenant)) == 200, path
