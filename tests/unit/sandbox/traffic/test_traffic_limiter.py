"""The limiter's processes are what the platform renders, but for where they listen; none is started here."""

from dataclasses import replace
from pathlib import Path

from components.platform import limiter as platform
from sandbox.traffic import limiter
from tests.mesh_samples import PORTS, cluster, compiled, two_arms


def test_the_service_gets_the_platforms_settings_and_ports_of_this_machine(tmp_path: Path) -> None:
    given = {each["name"]: each["value"] for each in limiter.container("limiter")["env"]}
    found = limiter.environment(tmp_path, grpc=1, health=2, debugging=3, counts=4)
    changed = {name: value for name, value in found.items() if given.get(name) != value}
    assert changed == {
        "GRPC_PORT": "1",
        "PORT": "2",
        "DEBUG_PORT": "3",
        "REDIS_URL": "127.0.0.1:4",
        "RUNTIME_ROOT": f"{tmp_path}/data",
        "GRPC_HOST": "127.0.0.1",
        "HOST": "127.0.0.1",
        "DEBUG_HOST": "127.0.0.1",
    }
    assert set(given) <= set(found)


def test_its_configuration_lies_behind_a_link_as_the_kubelet_mounts_it(tmp_path: Path) -> None:
    for _ in range(2):
        limiter.configure(tmp_path)
    (file,) = (tmp_path / "data" / "ratelimit" / "config").glob("[!.]*")
    assert file.is_symlink()
    assert file.read_text() == limiter.rendered("configuration")["data"][file.name]


def test_counts_listen_on_this_machine_alone_and_are_bounded_as_the_platforms() -> None:
    command = limiter.counts_command(Path("/valkey-server"), 6)
    assert command[0] == "/valkey-server"
    assert command[-4:] == ("--bind", "127.0.0.1", "--port", "6")
    assert platform.COUNTS_MEMORY in command


def test_the_gateway_asks_the_limiter_by_istiods_name_only_where_it_runs() -> None:
    objects = cluster(two_arms(10))
    found = compiled(objects, ports=replace(PORTS, limiter=5)).clusters[platform.CLUSTER]
    (place,) = found["load_assignment"]["endpoints"][0]["lb_endpoints"]
    assert place["endpoint"]["address"]["socket_address"] == {"address": "127.0.0.1", "port_value": 5}
    assert platform.CLUSTER not in compiled(objects).clusters
