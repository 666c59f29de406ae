"""What breaks under steady load and what users notice: nothing but requests in flight on what was killed, on the stable path."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox.cluster.control_plane import SandboxCluster
from sandbox.cluster.control_plane_programs import API_SERVER
from sandbox.progress import Silent
from sandbox.traffic import profile, servers
from sandbox.traffic.load import NO_ANSWER
from sandbox.traffic.mesh import envoy
from tests.cluster.conftest import eventually
from tests.traffic.replicas import ADMITTED, MODEL, SERVER, kill, one_replica, process, two_replicas
from tests.traffic.serving import CLASSIFIER, ENCODER, LATE, Serving, lost
from tests.traffic.slow import slow_bodies, slow_heads

pytestmark = pytest.mark.slow

RATE, SECONDS = 15.0, 25.0
"""So few that a machine which stands still for seconds does not fill a replica (64 at once, each for two seconds at most) by itself."""


def test_a_killed_server_or_model_process_costs_at_most_its_requests_in_flight(serving: Serving) -> None:
    """A server would notice its model process's death after a second or two, and answer 500 till it is ejected."""
    try:
        for program in (SERVER, MODEL):
            two_replicas(serving)
            victim = process(serving, serving.pods(CLASSIFIER)[0], program)
            results = serving.load(CLASSIFIER, RATE, SECONDS, lambda victim=victim: os.kill(victim, signal.SIGKILL))
            assert len(lost(results)) <= 3, (program, lost(results))
            assert 500 not in results.statuses, "what waits for a dead model process is answered 500 in the end"
    finally:
        one_replica(serving)


@pytest.mark.parametrize("name", [servers.MESH, API_SERVER])
def test_users_do_not_notice_that_a_control_plane_dies(serving: Serving, name: str) -> None:
    bed = serving.bed
    restart: dict[str, Callable[[], object]] = {
        servers.MESH: lambda: servers.start(bed.layout, Silent(), servers.TrafficOptions(first_backoff_seconds=0.5)),
        API_SERVER: lambda: SandboxCluster(bed.layout).start(Silent()),
    }

    def happens() -> None:
        kill(bed, name)
        restart[name]()

    results = serving.load(CLASSIFIER, RATE, SECONDS, happens)
    assert not lost(results)
    serving.await_answer(ENCODER)


def test_counters_go_on_where_they_were_when_the_mesh_comes_back(serving: Serving) -> None:
    bed = serving.bed
    serving.load(CLASSIFIER, RATE, 2)
    before = eventually(lambda: serving.total("istio_requests_total", reporter="source"))
    kill(bed, servers.MESH)
    servers.start(bed.layout, Silent(), servers.TrafficOptions(first_backoff_seconds=0.5))
    eventually(lambda: serving.total("istio_requests_total", reporter="source") >= before)


def test_a_killed_proxy_is_all_that_is_lost_and_comes_back_with_its_routes(serving: Serving) -> None:
    bed = serving.bed

    def happens() -> None:
        kill(bed, envoy.NAME)
        servers.start(bed.layout, Silent(), servers.TrafficOptions(first_backoff_seconds=0.5))

    results = serving.load(CLASSIFIER, RATE, SECONDS, happens)
    assert results.answers[-1].status == 200
    gone = [each.status for each in results.failed if each.status != LATE]
    assert gone, "a proxy that is gone answers nobody"
    assert set(gone) == {NO_ANSWER}, "what it lost was never answered wrongly"


@pytest.mark.parametrize("neighbours", [300.0])
def test_a_neighbour_at_ten_times_its_rate_is_refused_and_not_felt(serving: Serving, neighbours: float) -> None:
    import threading

    from tests.traffic.serving import Serving as Other

    noisy = Other(serving.bed, serving.addresses)
    other: list[int] = []

    def noise() -> None:
        other.extend(each.status for each in noisy.load(ENCODER, neighbours, 10).answers)

    thread = threading.Thread(target=noise)
    thread.start()
    results = serving.load(CLASSIFIER, RATE, 10)
    thread.join()
    assert not lost(results)
    assert other.count(429) > len(other) / 2, "most of what is beyond the rate is refused at the gateway"


def test_clients_with_endless_headers_cost_others_nothing_and_are_cut_off(serving: Serving) -> None:
    told: list[bytes] = []
    results = serving.load(CLASSIFIER, RATE, 12, lambda: told.extend(slow_heads(serving, 30)))
    assert not lost(results)
    assert len(told) == 30
    assert all(each == b"" or each.startswith(b"HTTP/1.1 408") for each in told), told[:3]


def test_clients_that_dribble_their_bodies_take_no_place_of_others(serving: Serving) -> None:
    more_than_a_replica_takes = ADMITTED + 16
    results = serving.load(CLASSIFIER, RATE, 8, lambda: slow_bodies(serving, more_than_a_replica_takes, 6.0))
    assert not lost(results)


def test_nothing_of_the_bed_is_left_in_shared_memory_but_what_still_serves(serving: Serving) -> None:
    owners = {f"headway-{each['metadata']['uid'][:13]}" for served in profile.SERVED for each in serving.pods(served)}
    mine = servers.folder(serving.bed.layout) / "node" / "pods"
    known = {f"headway-{path.name.rsplit('_', 1)[1]}" for path in mine.iterdir()}
    left = [path.name for path in Path("/dev/shm").glob("headway-*") if any(path.name.startswith(each) for each in known)]
    assert all(any(name.startswith(owner) for owner in owners) for name in left)
