"""What the bed's stand-in for a kubelet says of the containers that run."""

from dataclasses import replace

from sandbox.traffic.node.container_metrics import ContainerUsage, usage_samples

SERVER = ContainerUsage(
    namespace="quality",
    pod="classifier-r1-a",
    uid="u",
    container="server",
    image="triton",
    restarts=0,
    memory_bytes=300,
    cpu_seconds=1.5,
    former_cpu_seconds=0.0,
)


def test_a_dashboards_sum_of_a_pods_containers_is_the_pods_memory() -> None:
    found = [each for each in usage_samples([("n", SERVER)]) if each[0] == "container_memory_working_set_bytes"]
    assert [(labels["pod"], value) for _, labels, value in found if labels["container"]] == [("classifier-r1-a", 300.0)]
    assert [(labels["id"], value) for _, labels, value in found if not labels["container"]] == [("/kubepods/podu", 300.0)]


def test_a_restart_begins_a_container_anew_and_goes_on_for_its_pod() -> None:
    again = replace(SERVER, restarts=1, cpu_seconds=0.1, former_cpu_seconds=1.5)
    told = [each for each in usage_samples([("n", SERVER), ("n", again)]) if each[0] == "container_cpu_usage_seconds_total"]
    assert [(labels["id"], value) for _, labels, value in told] == [
        ("/kubepods/podu/server-0", 1.5),
        ("/kubepods/podu", 1.5),
        ("/kubepods/podu/server-1", 0.1),
        ("/kubepods/podu", 1.6),
    ]
