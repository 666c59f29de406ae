"""An A/B release through a real Envoy: who meets which version, what the log says of it, and what no caller can do about it.

Users come with tokens of the sandbox's own issuer; the servers behind say which version they are and what they were told.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from http.client import HTTPConnection
from pathlib import Path
from time import monotonic, sleep, time
from typing import Any

import pytest

from components.model_service.manifests import ServicePlan
from components.model_service.release import Release
from components.model_service.routing import EXPERIMENT_HEADER
from components.model_service.workload import arm_name
from components.platform import gateway_scripts, mesh
from components.tenant.manifests import TenantPlan
from headway.contract.assignment import HASH, VECTORS, bucket, buckets_of
from headway.contract.units import Share
from headway.ledger.traffic_split import ArmRole, TrafficArm, TrafficSplit, UserSplit
from headway.release.driver.live_service import applied
from headway.wire import RELEASE_HEADER
from sandbox.traffic.mesh import envoy_configuration, listeners
from sandbox.traffic.mesh.tokens import TokenIssuers
from sandbox.traffic.pod_addresses import loopback
from tests.components.contracts import DEFECTS, POOLS, SURROUNDINGS, changed, service, tenant
from tests.loopback import Handler, served
from tests.traffic import proxied
from tests.traffic.static_configuration import static

CLAIM = "https://example.com/account"
EXPERIMENT, PERCENT = "tone", 20
ISSUER = tenant("vision").issuers[0]
USERS = [f"user-{number}@example.com" for number in range(200)]
SIGMAS = 4


def release(version: str) -> Release:
    policy = {"strategy": "ab", "split": {"share": "20%", "duration": "7d", "user_claim": CLAIM, "experiment": EXPERIMENT}}
    artifact = {**DEFECTS["artifact"], "version": version}
    # A busy machine may take longer to answer than the contract lets callers wait.
    patient = {"envelope__largest_request__timeout": "60s", "health__drain": "60s"}
    return Release(model=changed({**DEFECTS, "batch": None, "artifact": artifact, "rollout": policy}, **patient))


OLD, NEW = release("2026.11.0"), release("2026.12.0")
ADDRESSES = {OLD.id: "10.191.8.1", NEW.id: "10.191.8.2"}


class Server(Handler):
    """Answers at once with the headers that it was told."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.body()
        self.reply(200, {name.lower(): value for name, value in self.headers.items()})


@dataclass(frozen=True, kw_only=True)
class Answer:
    release: str
    told: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Gateway:
    """One proxy that carries an experiment; `mesh` is the door of callers inside, `arithmetic` answers buckets."""

    port: int
    mesh: int
    arithmetic: int
    log: Path
    issuers: TokenIssuers
    _open: dict[int, HTTPConnection] = field(default_factory=dict[int, HTTPConnection])
    _asked: list[int] = field(default_factory=list[int])

    def user(self, claim: Any, **headers: str) -> Answer:
        claims = {} if claim is None else {CLAIM: claim}
        token = self.issuers.token(ISSUER.issuer, ISSUER.audiences, "somebody", now=time(), seconds=600, claims=claims)
        host = f"defects.vision.{SURROUNDINGS.hosts[0]}"
        return self._ask(self.port, {"host": host, "authorization": f"Bearer {token}", **headers})

    def inside(self, **headers: str) -> Answer:
        return self._ask(self.mesh, {"host": "defects.vision.svc.cluster.local", **headers})

    def bucket(self, experiment: str, user: str) -> int:
        connection = self._connection(self.arithmetic)
        connection.request("GET", "/", None, {"x-of": experiment.encode().hex(), "x-user": user.encode().hex()})
        return int(connection.getresponse().read())

    def last_line(self) -> dict[str, Any]:
        """The log's line of the last request, once all have theirs; a proxy writes them a little later."""
        until = monotonic() + 60
        while True:
            text = self.log.read_text() if self.log.exists() else ""
            found = [line for line in map(json.loads, filter(None, text.splitlines())) if line["at"] == "source"]
            if len(found) == len(self._asked):
                return found[-1]
            assert monotonic() < until, f"{len(found)} of {len(self._asked)} lines"
            sleep(0.05)

    def _ask(self, port: int, headers: Mapping[str, str]) -> Answer:
        connection = self._connection(port)
        self._asked.append(port)
        connection.request("POST", "/v2/models/defects/infer", b"{}", dict(headers))
        found = connection.getresponse()
        body = found.read()
        assert found.status == 200, (found.status, body)
        return Answer(release=found.getheader(RELEASE_HEADER) or "", told=json.loads(body))

    def close(self) -> None:
        for connection in self._open.values():
            connection.close()

    def _connection(self, port: int) -> HTTPConnection:
        return self._open.setdefault(port, HTTPConnection("127.0.0.1", port, timeout=60))


def divided(percent: int) -> ServicePlan:
    """Both versions serve, and users are divided."""
    base = service("defects")
    arms = (TrafficArm(release=OLD.id), TrafficArm(release=NEW.id, role=ArmRole.CANARY, weight=Share.percent(0), replicas=1))
    split = UserSplit(experiment=EXPERIMENT, share=Share.percent(percent), user_claim=CLAIM, hash=HASH)
    traffic = TrafficSplit(arms=arms, user_split=split)
    return replace(base, model=OLD.model, releases={OLD.id: OLD, NEW.id: NEW}, traffic=traffic, batch_pool=None)


def replicas(made: ServicePlan) -> Iterator[dict[str, Any]]:
    """A ready replica of each version, as the API server would tell of it."""
    servers = {each.body["metadata"]["name"]: each.body for each in made.manifests() if each.body["kind"] == "Deployment"}
    for live in made.traffic.ordered:
        name = arm_name(made.model.name, live)
        template, ip = servers[name]["spec"]["template"], ADDRESSES[live.release]
        metadata = {"namespace": "vision", "labels": template["metadata"]["labels"]}
        yield {"kind": "Pod", "metadata": {**metadata, "name": f"{name}-0"}, "spec": template["spec"], "status": {"podIP": ip}}
        yield {
            "kind": "EndpointSlice",
            "metadata": {"namespace": "vision", "name": f"{name}-x", "labels": {"kubernetes.io/service-name": name}},
            "ports": [{"name": "http", "port": 8000}, {"name": "grpc", "port": 8001}],
            "endpoints": [{"addresses": [ip], "conditions": {"ready": True}}],
        }


def answering_buckets(port: int) -> dict[str, Any]:
    """A listener of the same proxy that answers with the bucket of what it is asked, by the filter's own text."""
    code = (
        gateway_scripts.BUCKET
        + """
local function plain(text) return (text:gsub("%x%x", function(pair) return string.char(tonumber(pair, 16)) end)) end
function envoy_on_request(handle)
  local headers = handle:headers()
  handle:respond({[":status"] = "200"}, tostring(bucket(plain(headers:get("x-of") or ""), plain(headers:get("x-user") or ""))))
end
"""
    )
    kinds = "type.googleapis.com/envoy.extensions.filters"
    lua = {"@type": f"{kinds}.http.lua.v3.Lua", "default_source_code": {"inline_string": code}}
    manager = {
        "@type": f"{kinds}.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "arithmetic",
        "route_config": {"virtual_hosts": []},
        "http_filters": [
            {"name": "lua", "typed_config": lua},
            {"name": "envoy.filters.http.router", "typed_config": {"@type": f"{kinds}.http.router.v3.Router"}},
        ],
    }
    return {
        "name": "arithmetic",
        "address": {"socket_address": {"address": "127.0.0.1", "port_value": port}},
        "filter_chains": [{"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}],
    }


@contextmanager
def gateway(folder: Path, percent: int, *, switched_off: bool = False) -> Iterator[Gateway]:
    """A proxy of its own; `switched_off`: its route is as a rollback leaves it, before anything else follows."""
    folder.mkdir()
    made = divided(percent)
    issuers, log = TokenIssuers(folder / "issuers"), folder / "access.log"
    port, inside, arithmetic = proxied.free_port(), proxied.free_port(), proxied.free_port()
    plan = TenantPlan(tenant=tenant("vision"), models=(made.model,), pools=POOLS, surroundings=SURROUNDINGS)
    platform = mesh.manifests(hosts=SURROUNDINGS.hosts, certificate=None, region="us-west-2")
    manifests = [*platform, *plan.manifests(), *made.manifests()]
    if switched_off:
        manifests = [
            replace(each, body=applied(each.body, TrafficSplit.only(OLD.id, "0"))) if each.role == "route" else each for each in manifests
        ]
    found = proxied.snapshot(manifests, *replicas(made))
    assert envoy_configuration.judge(found) == {}
    ports = listeners.ListenerPorts(gateway={80: port}, mesh={8000: inside}, log=str(log))
    compiled = static(envoy_configuration.compile_(found, ports, str(folder), {ISSUER.issuer: issuers.keys(ISSUER.issuer)}))
    for listener in compiled["static_resources"]["listeners"]:
        for sink in listener["filter_chains"][0]["filters"][-1]["typed_config"]["access_log"]:
            if "path" in sink["typed_config"]:  # another one counts, and writes nothing
                sink["typed_config"]["path"] = str(log)
    compiled["static_resources"]["listeners"].append(answering_buckets(arithmetic))
    with proxied.envoy(folder, compiled, port):
        found = Gateway(port=port, mesh=inside, arithmetic=arithmetic, log=log, issuers=issuers)
        yield found
        found.close()


@pytest.fixture(scope="module")
def servers() -> Iterator[None]:
    with ExitStack() as stack:
        for ip in ADDRESSES.values():
            stack.enter_context(served(Server, 8000, loopback(ip)))
        yield


@pytest.fixture(scope="module")
def proxy(servers: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with gateway(tmp_path_factory.mktemp("experiment") / "first", PERCENT) as found:
        yield found


@pytest.fixture(scope="module")
def met(proxy: Gateway) -> Mapping[str, str]:
    """The release that each user met."""
    return {user: proxy.user(user).release for user in USERS}


@pytest.fixture
def another(tmp_path: Path) -> Callable[..., AbstractContextManager[Gateway]]:
    """Another proxy, of a gateway that was restarted or scaled."""

    def made(percent: int, **more: bool) -> AbstractContextManager[Gateway]:
        return gateway(tmp_path / "another", percent, **more)

    return made


def expected(user: str, percent: int = PERCENT) -> str:
    return NEW.id if bucket(EXPERIMENT, user) < buckets_of(percent) else OLD.id


@pytest.mark.parametrize(("of", "user", "found"), VECTORS)
def test_the_proxy_computes_the_written_down_buckets(proxy: Gateway, of: str, user: str, found: int) -> None:
    assert proxy.bucket(of, user) == found


def test_every_user_meets_the_version_that_anyone_can_recompute(met: Mapping[str, str]) -> None:
    assert met == {user: expected(user) for user in USERS}


def test_the_new_version_gets_its_share_of_users(met: Mapping[str, str]) -> None:
    share, inside = PERCENT / 100, sum(found == NEW.id for found in met.values())
    assert abs(inside - share * len(USERS)) < SIGMAS * math.sqrt(len(USERS) * share * (1 - share))


def test_a_restarted_proxy_and_a_larger_share_take_the_new_version_from_nobody(
    met: Mapping[str, str], another: Callable[..., AbstractContextManager[Gateway]]
) -> None:
    again = USERS[:80]
    with another(PERCENT) as restarted:
        assert {user: restarted.user(user).release for user in again} == {user: met[user] for user in again}


def test_when_the_share_grows_users_only_join(met: Mapping[str, str], another: Callable[..., AbstractContextManager[Gateway]]) -> None:
    with another(60) as grown:
        now = {user: grown.user(user).release for user in USERS[:80]}
    assert {user for user in now if met[user] == NEW.id} < {user for user, found in now.items() if found == NEW.id}
    assert now == {user: expected(user, 60) for user in now}


def test_after_a_rollback_of_the_route_alone_everyone_has_the_stable_version(
    another: Callable[..., AbstractContextManager[Gateway]],
) -> None:
    with another(99, switched_off=True) as proxy:
        assert {proxy.user(user).release for user in USERS[:20]} == {OLD.id}


def test_a_client_cannot_choose_its_version(proxy: Gateway) -> None:
    outside = next(user for user in USERS if expected(user) == OLD.id)
    assert proxy.user(outside, **{EXPERIMENT_HEADER: EXPERIMENT}).release == OLD.id
    assert proxy.user(None, **{EXPERIMENT_HEADER: EXPERIMENT}).release == OLD.id


def test_a_caller_inside_the_mesh_is_in_no_experiment(proxy: Gateway) -> None:
    assert proxy.inside(**{EXPERIMENT_HEADER: EXPERIMENT}).release == OLD.id


@pytest.mark.parametrize("claim", [None, "", True, 1.5, ["alice"], {"id": "alice"}, 2**60])
def test_unidentified_users_get_the_stable_version_and_are_not_assigned(proxy: Gateway, claim: Any) -> None:
    assert proxy.user(claim).release == OLD.id
    line = proxy.last_line()
    assert (line["experiment"], line["arm"], line["bucket"]) == (None, None, None)


@pytest.mark.parametrize("number", [0, 7, 4815162342, 2**53 - 1])
def test_a_user_who_is_a_number_is_its_digits(proxy: Gateway, number: int) -> None:
    assert proxy.user(number).release == expected(str(number))


def test_the_log_holds_every_assignment_and_no_user(proxy: Gateway, met: Mapping[str, str]) -> None:
    user = USERS[3]
    proxy.user(user)
    line = proxy.last_line()
    arm = {OLD.id: "stable", NEW.id: "canary"}[met[user]]
    assert (line["experiment"], line["arm"], line["bucket"]) == (EXPERIMENT, arm, bucket(EXPERIMENT, user))
    assert met[user] in line["cluster"], "the release that answered"
    assert 'example.com"' not in proxy.log.read_text().replace(f'{SURROUNDINGS.hosts[0]}"', "")
    assert not any(user in proxy.log.read_text() for user in USERS)


def test_the_model_is_told_neither_the_experiment_nor_the_account(proxy: Gateway) -> None:
    inside = next(user for user in USERS if expected(user) == NEW.id)
    told = proxy.user(inside).told
    assert EXPERIMENT_HEADER not in told
    assert not any(inside in value for value in told.values())
