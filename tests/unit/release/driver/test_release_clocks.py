"""A runner whose clock is wrong judges nothing; and the dead man's switch does not depend on any runner's clock."""

from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.cli.release_guard import look
from headway.contract.reading.loader import load_tenant
from headway.environment.clock import ClockOffset
from headway.environment.kubernetes import KubernetesApi
from headway.environment.port import OutOfReachError
from headway.problem import Exit, UserError
from headway.release.driver import driver as driving
from headway.release.driver.clocks import wrong
from headway.release.driver.event_kinds import EventKind, ReleaseOutcome
from headway.release.driver.live_service import LiveService
from headway.release.evidence.prometheus import PrometheusEndpoint
from headway.release.evidence.reader import PrometheusEvidence
from tests.loopback import Handler, served
from tests.unit.release_kill import Shelf
from tests.unit.release_world import Scene

SERVER = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


@given(off=st.floats(-1e6, 1e6), way=st.floats(0, 30), back=st.floats(0, 30), part=st.floats(0, 0.999))
def test_a_clock_offset_is_never_overstated_nor_understated_beyond_its_error(off: float, way: float, back: float, part: float) -> None:
    """A question that takes `way` there and `back`, to a server that tells whole seconds and is `part` of one further."""
    asked = 1e9
    told = asked + way + part - off
    found = ClockOffset.read(asked + part, asked + part + way + back, float(int(told)) if told >= 0 else told, resolution=1.0).certain
    assert abs(found) <= abs(off) + 1e-3
    assert found * off >= 0
    assert abs(off) - abs(found) <= way + back + 1.0 + 1e-3


@pytest.mark.parametrize(
    ("ahead", "said"), [(5.0, ""), (-5.0, ""), (6.0, "6 s ahead of the API server"), (-3600.0, "3600 s behind the API server")]
)
def test_a_clock_that_is_off_by_more_than_samples_are_waited_for_is_wrong(ahead: float, said: str) -> None:
    assert wrong(ClockOffset(ahead, 0.0), "the API server") == said


@contextmanager
def servers(ahead: float, patched: list[dict[str, Any]]) -> Generator[tuple[KubernetesApi, str]]:
    """An API server and a Prometheus at `SERVER`, met by a machine that is `ahead`."""

    class Server(Handler):
        def date_time_string(self, timestamp: float | None = None) -> str:
            return format_datetime(SERVER, usegmt=True)

        def do_GET(self) -> None:
            self.reply(200, {})

        def do_PATCH(self) -> None:
            import json

            patched.append(json.loads(self.body()))
            self.reply(200, {})

        def do_POST(self) -> None:
            self.body()
            now = SERVER.timestamp()
            self.reply(
                200, {"status": "success", "data": {"resultType": "vector", "result": [{"metric": {}, "value": [now, f"{now:.3f}"]}]}}
            )

    with served(Server) as url:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": url}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        yield KubernetesApi(config, lambda: SERVER.timestamp() + 0.5 + ahead), url


@pytest.mark.parametrize("ahead", [-600.0, 0.0, 600.0])
def test_the_servers_are_asked_what_time_it_is(ahead: float) -> None:
    with servers(ahead, []) as (api, url):
        assert api.clock_offset().ahead == pytest.approx(ahead)
        assert abs(api.now() - SERVER) <= timedelta(seconds=1)
        assert PrometheusEvidence([PrometheusEndpoint(url=url)]).time() == SERVER.timestamp()


def test_a_prometheus_that_does_not_answer_says_no_time() -> None:
    assert PrometheusEvidence([PrometheusEndpoint(url="http://127.0.0.1:9")]).time() is None


@pytest.mark.parametrize("ahead", [-86400.0, 0.0, 86400.0])
def test_until_when_a_release_is_watched_is_said_in_the_clusters_time(ahead: float) -> None:
    patched: list[dict[str, Any]] = []
    with servers(ahead, patched) as (api, _):
        LiveService(api, "vision", "defects").vouch(SERVER + timedelta(seconds=ahead) + timedelta(minutes=10), "rsafe", "7")
    (notes,) = [body["metadata"]["annotations"] for body in patched]
    until = datetime.fromisoformat(notes["platform.io/watched-until"])
    assert abs(until - (SERVER + timedelta(minutes=10))) <= timedelta(seconds=1)


@pytest.fixture
def scene() -> Scene:
    (found,) = load_tenant(Path(__file__).parents[4] / "tenants" / "vision").contracts
    return Scene.of(Shelf(), next(model for model in found.models if model.name == "defects"), mirror=None, weights=["10%"])


def test_a_runner_with_a_wrong_clock_does_not_take_a_release_for_abandoned(scene: Scene) -> None:
    scene.begin()
    scene.world.apart = "7200 s ahead of the API server"
    scene.world.clock += timedelta(hours=2)
    with pytest.raises(UserError, match="The clock of this machine is 7200 s ahead of the API server") as refused:
        scene.driver("one").run()
    assert refused.value.exit is Exit.REFUSED
    assert scene.kinds().count(EventKind.ASKED) == 0
    scene.world.apart = ""
    scene.world.clock -= timedelta(hours=2)
    assert scene.driver("two").run().outcome is ReleaseOutcome.PROMOTED, "the lease was given back"


def test_a_clock_that_goes_wrong_is_noticed_within_ten_ticks(scene: Scene) -> None:
    scene.begin()

    def told(_event: Any, service: Any) -> None:
        if service.running and service.running.ticks == 3:
            scene.world.apart = "42 s behind Prometheus"

    with pytest.raises(UserError, match="42 s behind Prometheus"):
        scene.driver("one", told=told).run()
    assert scene.kinds().count(EventKind.OBSERVED) == driving.TICKS_BETWEEN_CLOCKS


def test_an_api_server_that_is_away_says_nothing_about_the_time(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.begin()
    away = [3]

    def apart() -> str:
        if away[0]:
            away[0] -= 1
            raise OutOfReachError("connection refused")
        return ""

    monkeypatch.setattr(scene.world, "clocks_apart", apart)
    assert scene.driver().run().outcome is ReleaseOutcome.PROMOTED


class Routes:
    """An API server at `SERVER`, with one route that gives something to a release which is watched until `until`."""

    def __init__(self, until: datetime) -> None:
        self.until, self.asked = until, list[tuple[str, str]]()

    def now(self) -> datetime:
        return SERVER

    def each(self, _: str, **how: Any) -> list[dict[str, Any]]:
        notes = {"platform.io/watched-until": self.until.isoformat(), "platform.io/safe-release": "r1"}
        arms = [
            {"destination": {"host": f"defects-{key}"}, "weight": weight, "headers": {"response": {"set": {"x-model-release": key}}}}
            for key, weight in (("r1", 90), ("r2", 10))
        ]
        head = {"name": "defects", "namespace": "vision", "annotations": notes}
        return [{"metadata": head, "spec": {"hosts": [], "http": [{"name": "weights", "route": arms}]}}]

    def request(self, method: str, path: str, *_: Any) -> dict[str, Any]:
        self.asked.append((method, path.rpartition("/")[2]))
        return {}


@pytest.mark.parametrize(("until", "taken"), [(timedelta(minutes=10), False), (timedelta(seconds=-1), True)])
def test_the_dead_mans_switch_reads_the_clock_of_the_cluster(until: timedelta, taken: bool) -> None:
    api: Any = Routes(SERVER + until)
    assert look(api, "vision", lambda _: None)
    assert (("PATCH", "defects") in api.asked) is taken
